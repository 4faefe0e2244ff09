// SPDX-License-Identifier: Apache-2.0
// The systemd unit or container of a process, from the path of its cgroup alone: systemd names a unit's cgroup after
// the unit, and puts an underscore before a name that could be a file of the kernel (systemd.resource-control(5),
// https://systemd.io/CGROUP_DELEGATION). Container runtimes name a cgroup after the container's id, 64 hexadecimal
// digits.
#pragma once

#include <string>
#include <string_view>

namespace flight {

// "/system.slice/burn.service/payload" -> "burn.service". The innermost service or scope (or mount, socket or swap), so
// that a user's own service is shown instead of user@1000.service; otherwise the innermost slice; empty if there is
// none.
[[nodiscard]] std::string unit_of(std::string_view cgroup);

struct CgroupName {
  std::string unit;       // the label; empty: it is neither a unit's nor a container's
  std::string container;  // the innermost one's whole id, or an LXC container's name; empty: none
  // For display: "burn.service", "docker-3f2a91c7d8e0"; otherwise the path, which begins with "/". Empty for the root
  // cgroup and an unknown cgroup. The owner of a delegated cgroup chooses the names below it, so the units and
  // containers above come first: "user@1000/burn.service", "docker-3f2a91c7d8e0/nginx.service", in a machine of
  // systemd-machined "web/nginx.service", below another unit "x.service/burn.service". A slice is shown if no unit
  // or container is below it: "user@1000/app.slice".
  std::string label;
  // The cgroup up to the innermost unit, container or slice: "/system.slice/x.service/worker" ->
  // "/system.slice/x.service". Two cgroups belong to the same unit if and only if these are equal; equal labels do not
  // show that.
  std::string path;
};
[[nodiscard]] CgroupName name_of_cgroup(std::string_view cgroup);

}  // namespace flight
