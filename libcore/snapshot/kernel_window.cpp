// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/kernel_window.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace flight {
namespace {

constexpr std::size_t kListed = 8;  // limit of module names in a warning

bool was_there(const KernelMap& map, EventTime begin_ns, EventTime end_ns) {
  return map.begin_ns <= end_ns && (map.end_ns == 0 || map.end_ns >= begin_ns);
}

// The same code at the same address: an unload and a load that change nothing.
bool same_code(const KernelMap& a, const KernelMap& b) {
  return a.address == b.address && a.name == b.name && !a.build_id.empty() && a.build_id == b.build_id;
}

std::uint64_t last_byte(const KernelMap& map) { return map.address + (map.bytes - 1); }

bool overlap(const KernelMap& a, const KernelMap& b) { return a.address <= last_byte(b) && b.address <= last_byte(a); }

// For each map, whether it overlaps another one. `maps` ascends by address.
std::vector<bool> shared_ranges(const std::vector<const KernelMap*>& maps) {
  std::vector<bool> shared(maps.size(), false);
  std::size_t furthest = 0;  // the map with the largest end so far: if an earlier one overlaps, so does this one
  for (std::size_t i = 1; i < maps.size(); ++i) {
    for (std::size_t j = furthest; j < i; ++j)
      if (overlap(*maps[j], *maps[i])) shared[i] = shared[j] = true;
    if (last_byte(*maps[i]) >= last_byte(*maps[furthest])) furthest = i;
  }
  return shared;
}

}  // namespace

std::string module_name(const KernelMap& map) {
  std::string_view name = map.name;
  name.remove_prefix(std::min(name.size(), name.find_last_of('/') + 1));
  name = name.substr(0, name.find(".ko"));
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

std::string listed(const std::set<std::string>& names) {
  std::string out;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (++count > kListed) break;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
  }
  if (names.size() > kListed) out += fmt::format(" and {} more", names.size() - kListed);
  return out;
}

KernelWindow kernel_window(const KernelNames& names, EventTime begin_ns, EventTime end_ns) {
  KernelWindow out;
  std::unordered_map<std::string, std::vector<const KernelMap*>> by_name;
  for (const KernelMap& map : names.maps) by_name[module_name(map)].push_back(&map);
  std::vector<const KernelMap*> found;
  for (auto& [name, lives] : by_name)
    for (auto life = lives.begin(); life != lives.end(); ++life) {
      if (!was_there(**life, begin_ns, end_ns)) continue;
      const auto again = [&](const KernelMap* other) {
        return was_there(*other, begin_ns, end_ns) && same_code(*other, **life);
      };
      if (std::none_of(lives.begin(), life, again)) found.push_back(*life);
    }
  std::sort(found.begin(), found.end(), [](const KernelMap* a, const KernelMap* b) {
    return std::tuple(a->address, a->name, a->begin_ns) < std::tuple(b->address, b->name, b->begin_ns);
  });
  const std::vector<bool> refused = shared_ranges(found);
  std::set<std::string> shared, moved;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const KernelMap& map = *found[i];
    const std::string name = module_name(map);
    // A loaded module has kallsyms' symbols of this name, even if it was loaded after the window.
    const auto takes_symbols = [&](const KernelMap* other) {
      return other != &map && !same_code(*other, map) &&
             (other->end_ns == 0 || (map.end_ns != 0 && was_there(*other, begin_ns, end_ns)));
    };
    const auto& lives = by_name[name];
    if (refused[i])
      shared.insert(name);
    else if (std::any_of(lives.begin(), lives.end(), takes_symbols))
      moved.insert(name);
    else
      out.maps.push_back(map);
  }
  if (!shared.empty())
    out.warnings.push_back(
        fmt::format("kernel modules used the same addresses one after the other: {}; these addresses have no names",
                    listed(shared)));
  if (!moved.empty())
    out.warnings.push_back(
        fmt::format("kernel modules were loaded more than once: {}; their code from before the last load has no names",
                    listed(moved)));
  if (names.looked_ns == 0 || begin_ns >= names.since_ns) return out;
  if (names.forgotten != 0)
    out.warnings.emplace_back(
        "more kernel modules were unloaded than flightd-broker remembers: in the window's oldest part their addresses "
        "may have the names of other modules");
  else
    out.notes.emplace_back(
        "flightd-broker was started within the window: if kernel modules were loaded and unloaded shortly before, "
        "their addresses may have the names of other modules");
  return out;
}

}  // namespace flight
