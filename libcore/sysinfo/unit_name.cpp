// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/unit_name.hpp"

namespace flight {
namespace {

// A unit's name has something before its suffix.
bool has_suffix(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix);
}

}  // namespace

std::string unit_of(std::string_view cgroup) {
  std::string_view slice;
  while (!cgroup.empty()) {
    const std::size_t slash = cgroup.rfind('/');
    std::string_view name = slash == std::string_view::npos ? cgroup : cgroup.substr(slash + 1);
    cgroup = slash == std::string_view::npos ? std::string_view() : cgroup.substr(0, slash);
    if (name.starts_with('_')) name.remove_prefix(1);
    if (has_suffix(name, ".service") || has_suffix(name, ".scope")) return std::string(name);
    if (slice.empty() && has_suffix(name, ".slice")) slice = name;
  }
  return std::string(slice);
}

}  // namespace flight
