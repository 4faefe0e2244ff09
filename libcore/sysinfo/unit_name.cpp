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

// The types of units that have processes (systemd.kill(5), systemd.scope(5)): the daemon of a FUSE file system is in
// the cgroup of its mount.
bool is_unit(std::string_view name) {
  constexpr std::array<std::string_view, 5> kSuffixes{".service", ".scope", ".mount", ".socket", ".swap"};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [name](std::string_view suffix) { return has_suffix(name, suffix); });
}

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

bool is_id(std::string_view text) {
  return text.size() == kIdDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// A path component that is a container: "docker-ID.scope", "ID" below "docker", "lxc.payload.NAME", "NAME" below "lxc"
// (LXC before 4.0, Proxmox VE), and "kubepods-podUID.slice:cri-containerd:ID", which is a runtime's that does not know
// the kubelet's way with cgroups.
bool is_container(std::string_view name, std::string_view parent, CgroupName& out) {
  constexpr std::string_view kScope = ".scope", kLxc = "lxc.payload.";
  if (name.starts_with(kLxc) && name.size() > kLxc.size()) {
    out.container = name.substr(kLxc.size());
    out.label = "lxc-" + out.container;
    return true;
  }
  const std::string_view whole = name;
  if (name.ends_with(kScope)) name.remove_suffix(kScope.size());
  if (const std::size_t colon = name.rfind(':'); colon != std::string_view::npos && is_id(name.substr(colon + 1))) {
    const std::size_t before = colon == 0 ? std::string_view::npos : name.rfind(':', colon - 1);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::string_view runtime = name.substr(begin, colon - begin);
    out.container = name.substr(colon + 1);
    out.label = fmt::format("{}-{}", runtime.empty() ? "container" : runtime, out.container.substr(0, kShownDigits));
    return true;
  }
  const std::size_t dash = name.rfind('-');
  const std::string_view id = dash == std::string_view::npos ? name : name.substr(dash + 1);
  if (!is_id(id)) {
    if (parent != "lxc" || name.empty() || is_unit(whole) || has_suffix(whole, ".slice")) return false;
    out.container = name;
    out.label = "lxc-" + out.container;
    return true;
  }
  std::string_view runtime = dash == std::string_view::npos ? parent : name.substr(0, dash);
  if (runtime.starts_with("pod")) runtime = "kubepods";  // a pod's cgroup, without systemd
  if (runtime.empty()) runtime = "container";
  out.container = id;
  out.label = fmt::format("{}-{}", runtime, id.substr(0, kShownDigits));
  return true;
}

std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  if (!text.starts_with(begin) || !text.ends_with(end) || text.size() <= begin.size() + end.size()) return {};
  return text.substr(begin.size(), text.size() - begin.size() - end.size());
}

// The name of a unit in the labels of units below it: "user@1000.service" becomes "user@1000". The unit of a machine of
// systemd-machined becomes the machine's name; in the name of its scope "\x2d" stands for "-".
std::string boundary_of(std::string_view unit) {
  if (!user_of(unit).empty()) return fmt::format("user@{}", user_of(unit));
  std::string_view machine = between(unit, "machine-", ".scope");
  if (machine.empty()) machine = between(unit, "systemd-nspawn@", ".service");
  std::string out(machine.empty() ? unit : machine);
  constexpr std::string_view kDash = "\\x2d";
  for (std::size_t at = out.find(kDash); at != std::string::npos; at = out.find(kDash))
    out.replace(at, kDash.size(), "-");
  return out;
}

}  // namespace

CgroupName name_of_cgroup(std::string_view cgroup) {
  CgroupName out;
  std::string boundaries, inner;
  std::size_t end = 0, slice_end = cgroup.size();
  std::string_view parent, slice;  // slice: the innermost, below the innermost unit or container
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
      slice = plain(name);
      slice_end = slash;
    }
    if (!name.empty()) parent = name;
    if (part.label.empty()) continue;
    if (!inner.empty()) boundaries += boundary_of(inner) + "/";
    inner = std::move(part.label);
    end = slash;
    slice = {};
  }
  if (!inner.empty() && !slice.empty()) {
    boundaries += boundary_of(inner) + "/";
    inner = slice;
    end = slice_end;
  }
  if (inner.empty()) {
    out.unit = unit_of(cgroup);  // a slice
    out.label = !out.unit.empty() ? out.unit : cgroup == "/" ? "" : std::string(cgroup);
    out.path = out.unit.empty() ? cgroup : cgroup.substr(0, slice_end);
    return out;
  }
  out.path = cgroup.substr(0, end);
  out.label = out.unit = boundaries + inner;
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
