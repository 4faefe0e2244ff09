// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/leftovers.hpp"

#include <unistd.h>

#include <cerrno>
#include <compare>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/partial_name.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {
namespace {

struct Leftover {
  std::string folder, name;
  friend auto operator<=>(const Leftover&, const Leftover&) = default;
};

// The unfinished files of all threads are in one directory.
struct Leftovers {
  std::mutex removing;  // held while the disk works; before `mutex`
  std::mutex mutex;     // guards the next one
  std::set<Leftover> known;
};

Leftovers& leftovers() {
  static Leftovers all;
  return all;
}

// Numbers of snapshots and parts are used once, too. The sidecar of a part is not included: its recovery reads it, and
// makes it again under the same name.
bool is_used_once(std::string_view name) {
  constexpr std::string_view kRemovedFolder = ".flight-flight-";  // name_of_removed() in folder.cpp
  if (is_partial_name(name) || parse_part_file(name) || name.starts_with(kRemovedFolder)) return true;
  const auto snapshot = parse_snapshot_name(name);
  return snapshot && name.ends_with(kSidecarSuffix) && snapshot->trigger != kRecordTrigger;
}

// A path in /proc leads to a directory only as long as this process holds it.
bool is_lasting(std::string_view folder) { return !folder.starts_with("/proc/"); }

std::optional<Error> why_not_removed(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name;
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return std::nullopt;
  Error why = sys_error(errno, "remove {}", path).value();
  const auto store = Folder::open(folder);
  if (!store) return why;
  const auto removed = store->unlink(name);  // it may be a data directory
  if (removed) return std::nullopt;
  return removed.error();
}

}  // namespace

void remember_leftover(const std::string& folder, const std::string& name) {
  if (!is_used_once(name) || !is_lasting(folder)) return;
  Leftovers& all = leftovers();
  const std::lock_guard lock(all.mutex);
  if (all.known.size() < kMaxLeftovers) all.known.insert(Leftover{.folder = folder, .name = name});
}

void remove_unfinished(const std::string& folder, const std::string& name) {
  if (why_not_removed(folder, name)) remember_leftover(folder, name);
}

std::optional<Error> remove_leftovers(const std::string& folder) {
  Leftovers& all = leftovers();
  const std::lock_guard removing(all.removing);
  std::vector<Leftover> those;
  {
    const std::lock_guard lock(all.mutex);
    for (const Leftover& one : all.known)
      if (one.folder == folder) those.push_back(one);
  }
  std::optional<Error> first;
  std::size_t left = 0;
  for (const Leftover& one : those) {
    auto why = why_not_removed(one.folder, one.name);
    if (why) {
      ++left;
      if (!first) first = std::move(why);
      continue;
    }
    const std::lock_guard lock(all.mutex);
    all.known.erase(one);
  }
  if (!first) return std::nullopt;
  return Error{.code = first->code,
               .what = fmt::format("flightd could not remove {} and tries again: {}{}",
                                   counted(left, "unfinished file"), first->what,
                                   first->errno_value() == EPERM
                                       ? "; `lsattr -d` of the directory shows whether an attribute (+a, +i) forbids it"
                                       : "")};
}

}  // namespace flight
