// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/unit_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace flight {
namespace {

// A unit's name has at least one character before its suffix.
bool has_suffix(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name.ends_with(suffix);
}

bool is_unit(std::string_view name) { return has_suffix(name, ".service") || has_suffix(name, ".scope"); }

std::string_view plain(std::string_view name) {
  if (name.starts_with('_')) name.remove_prefix(1);
  return name;
}

// "user@1000.service" -> "1000"; empty: not the manager of a user.
std::string_view user_of(std::string_view name) {
  constexpr std::string_view kBegin = "user@", kEnd = ".service";
  if (!name.starts_with(kBegin) || !has_suffix(name, kEnd)) return {};
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  const bool digits = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? name : std::string_view();
}

constexpr std::size_t kIdDigits = 64, kShownDigits = 12;  // as in `docker ps`

// The prefix of the id in a scope's name, and the runtime's display name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kRuntimes{
    {{"cri-containerd", "containerd"}, {"crio", "cri-o"}, {"libpod", "podman"}, {"docker", "docker"}}};

bool is_id(std::string_view text) {
  return text.size() == kIdDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string_view runtime_of(std::string_view prefix) {
  for (const auto& [known, name] : kRuntimes)
    if (prefix == known) return name;
  return prefix.starts_with("kubepods") || prefix.starts_with("pod") || prefix.empty() ? "container" : prefix;
}

// A path component that is a container: "docker-ID.scope", "ID" below "docker", "lxc.payload.NAME".
bool is_container(std::string_view name, std::string_view parent, CgroupName& out) {
  constexpr std::string_view kScope = ".scope", kLxc = "lxc.payload.";
  if (name.starts_with(kLxc) && name.size() > kLxc.size()) {
    out.container = name.substr(kLxc.size());
    out.label = "lxc " + out.container;
    return true;
  }
  if (name.ends_with(kScope)) name.remove_suffix(kScope.size());
  const std::size_t dash = name.rfind('-');
  const std::string_view id = dash == std::string_view::npos ? name : name.substr(dash + 1);
  if (!is_id(id)) return false;
  out.container = id;
  out.label = std::string(runtime_of(dash == std::string_view::npos ? parent : name.substr(0, dash))) + " " +
              std::string(id.substr(0, kShownDigits));
  return true;
}

}  // namespace

CgroupName name_of_cgroup(std::string_view cgroup) {
  CgroupName out;
  out.unit = unit_of(cgroup);
  std::string outer, inner;  // labels of the outermost and innermost unit or container
  std::string_view user;     // if all is below the manager of a user
  std::size_t end = 0, outer_end = 0, slice_end = cgroup.size();
  bool first = true;
  std::string_view parent;
  for (std::size_t at = 0; at < cgroup.size();) {
    const std::size_t slash = std::min(cgroup.find('/', at), cgroup.size());
    const std::string_view name = cgroup.substr(at, slash - at);
    at = slash + 1;
    CgroupName part;
    if (is_container(name, parent, part)) {
      out.container = std::move(part.container);
    } else if (is_unit(plain(name))) {
      part.label = plain(name);
    } else if (has_suffix(plain(name), ".slice")) {
      slice_end = slash;
    }
    if (!name.empty()) parent = name;
    if (part.label.empty()) continue;
    if (std::exchange(first, false)) user = user_of(name);
    if (outer.empty() && (user.empty() || end > 0)) outer = part.label, outer_end = slash;
    inner = std::move(part.label);
    end = slash;
  }
  if (inner.empty()) {
    out.label = !out.unit.empty() ? out.unit : cgroup == "/" ? "" : std::string(cgroup);
    out.path = out.unit.empty() ? cgroup : cgroup.substr(0, slice_end);
    return out;
  }
  out.path = cgroup.substr(0, end);
  out.label = std::move(inner);
  if (outer.empty()) return out;  // the manager of a user
  if (outer_end != end) out.label += " in " + outer;
  if (!user.empty()) out.label += fmt::format(" of user {}", user);
  return out;
}

std::string unit_of(std::string_view cgroup) {
  std::string_view slice;
  while (!cgroup.empty()) {
    const std::size_t slash = cgroup.rfind('/');
    const std::string_view name = plain(slash == std::string_view::npos ? cgroup : cgroup.substr(slash + 1));
    cgroup = slash == std::string_view::npos ? std::string_view() : cgroup.substr(0, slash);
    if (is_unit(name)) return std::string(name);
    if (slice.empty() && has_suffix(name, ".slice")) slice = name;
  }
  return std::string(slice);
}

}  // namespace flight
