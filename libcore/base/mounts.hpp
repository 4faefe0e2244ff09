// SPDX-License-Identifier: Apache-2.0
// The text of proc_pid_mountinfo(5): "36 35 98:0 /root /mountpoint options… - TYPE source options". Which mount a path
// is on, and whether an access to it can wait for another program or machine. Reads nothing itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flight {

struct Mount {
  // "36", "98:0", "ext4", "/dev/sda1", of the file system: views of the mounts' text.
  std::string_view id, device, type, source, options;
  std::string point;
};
// The mount that contains `path`.
[[nodiscard]] std::optional<Mount> mount_of(std::string_view mounts, std::string_view path);
// One of the device, as "98:0".
[[nodiscard]] std::optional<Mount> mount_with(std::string_view mounts, std::string_view device);
// The one with this id, as "36".
[[nodiscard]] std::optional<Mount> mount_numbered(std::string_view mounts, std::string_view id);
// A file system with a server, or with locks of other machines: if these are gone, a thread that waits for them cannot
// be ended, not even by SIGKILL. autofs waits for automount(8).
[[nodiscard]] bool is_served(std::string_view type);
// The type of the file system that an access to the mount can wait for; empty: none. An overlay or ecryptfs is as its
// layers, by their paths among the host's mounts; a layer without an absolute path counts as one that waits.
[[nodiscard]] std::string waits_for(std::string_view host_mounts, const Mount& mount);

}  // namespace flight
