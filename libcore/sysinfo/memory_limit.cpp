// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/memory_limit.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/base/kernel_file.hpp"

namespace flight {
namespace {

// The hierarchy that limits memory, as this process sees it.
struct Hierarchy {
  std::string_view type;    // of its file system
  std::string_view option;  // of its file system; empty: any
  std::string_view cgroup;  // of this process
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool has(std::string_view list, std::string_view one) {
  for (const std::string_view part : split(list, ','))
    if (part == one) return true;
  return false;
}

// Lines of /proc/PID/cgroup: "4:memory:/path" of version 1, "0::/path" of version 2. A controller that belongs to a
// hierarchy of version 1 is not in version 2.
std::optional<Hierarchy> hierarchy_of_memory(std::string_view text) {
  std::optional<Hierarchy> unified;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1), cgroup = line.substr(second + 1);
    if (has(controllers, "memory")) return Hierarchy{"cgroup", "memory", cgroup};
    if (line.starts_with("0::")) unified = Hierarchy{"cgroup2", "", cgroup};
  }
  return unified;
}

std::string decoded(std::string_view text) {  // "\040"
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const std::string_view digits = text.substr(std::min(i + 1, text.size()), 3);
    if (text[i] == '\\' && digits.size() == 3 &&
        std::from_chars(digits.data(), digits.data() + 3, value, 8).ptr == digits.data() + 3) {
      out.push_back(static_cast<char>(value));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// `point`: the directory on which a hierarchy is mounted; `cgroup`: its cgroup that is the root there.
struct Place {
  std::string point, cgroup;
};

std::optional<Place> place_of(std::string_view mounts, const Hierarchy& hierarchy) {
  constexpr std::size_t kRoot = 3, kPoint = 4, kLeast = 5;
  for (const std::string_view line : split(mounts, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto before = split(line.substr(0, dash), ' '), after = split(line.substr(dash + 3), ' ');
    if (before.size() < kLeast || after.size() < 3 || after[0] != hierarchy.type) continue;
    if (!hierarchy.option.empty() && !has(after[2], hierarchy.option)) continue;
    Place place{decoded(before[kPoint]), decoded(before[kRoot])};
    if (place.cgroup == "/") place.cgroup.clear();
    const std::string_view cgroup = hierarchy.cgroup;
    const bool contains = cgroup.starts_with(place.cgroup) &&
                          (cgroup.size() == place.cgroup.size() || cgroup[place.cgroup.size()] == '/');
    if (contains) return place;
  }
  return std::nullopt;
}

struct Found {
  std::optional<MemoryLimit> least;
  std::string unread;
};

void look_at(const std::string& folder, const std::string& cgroup, const char* file, Found& found) {
  constexpr std::uint64_t kUnlimited = std::uint64_t{1} << 60U;  // version 1 has a number for it, version 2 "max"
  const auto text = read_kernel_line(folder + "/" + file);
  if (!text) {
    if (found.unread.empty() && text.error().errno_value() == EREMOTE) found.unread = text.error().what;
    return;
  }
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), bytes);
  if (error != std::errc() || end != text->data() + text->size() || bytes >= kUnlimited) return;
  if (!found.least || bytes < found.least->bytes) found.least = MemoryLimit{bytes, cgroup.empty() ? "/" : cgroup, file};
}

}  // namespace

std::optional<MemoryLimit> memory_limit(const std::string& root, std::string* unread) {
  const auto cgroups = read_file(root + "/proc/self/cgroup"), mounts = read_file(root + "/proc/self/mountinfo");
  if (!cgroups || !mounts) return std::nullopt;
  const auto hierarchy = hierarchy_of_memory(*cgroups);
  // Outside of the namespace's root ("/../other") nothing is visible.
  if (!hierarchy || hierarchy->cgroup.find("/..") != std::string_view::npos) return std::nullopt;
  const auto place = place_of(*mounts, *hierarchy);
  if (!place) return std::nullopt;
  Found out;
  const bool unified = hierarchy->type == "cgroup2";
  for (std::string cgroup(hierarchy->cgroup == "/" ? "" : hierarchy->cgroup);;) {
    const std::string folder = root + place->point + cgroup.substr(place->cgroup.size());
    if (unified) {
      look_at(folder, cgroup, "memory.max", out);
      look_at(folder, cgroup, "memory.high", out);
    } else {
      look_at(folder, cgroup, "memory.limit_in_bytes", out);
    }
    if (cgroup.size() <= place->cgroup.size()) break;
    cgroup.resize(cgroup.rfind('/'));
  }
  if (unread != nullptr) *unread = std::move(out.unread);
  return out.least;
}

}  // namespace flight
