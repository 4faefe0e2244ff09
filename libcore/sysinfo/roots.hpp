// SPDX-License-Identifier: Apache-2.0
// Finds a file below the root of a process or of the host, and checks that it is the one in a record. The kernel's
// records and stat(2) do not always agree on a file's device: overlayfs over several file systems and btrfs report
// others in stat(2). mountinfo has the records' ones.
//
// find_below() and is_the_file() use the file system and can block; the rest reads only /proc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/file_identity.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

// A root directory and the mounts below it. `process`: as in /proc/PROCESS.
struct Root {
  std::string path, process;
};
// The host's root, if it is visible: flightd's own may be that of a unit without /home and /tmp.
[[nodiscard]] Root host_root();
[[nodiscard]] Root root_of(std::uint32_t pid);

// Opens `path` below `root` as O_PATH; no link may lead out of `root`. Invalid if not found: errno.
[[nodiscard]] UniqueFd find_below(const Root& root, const std::string& path);
// `place`: the result of find_below() below the same root.
[[nodiscard]] bool is_the_file(int place, const Root& root, const FileIdentity& file);

// proc_pid_mountinfo(5): "36 35 98:0 /root /mountpoint options… - TYPE source options". Empty if it cannot be read.
[[nodiscard]] std::string mounts_of(const Root& root);
struct Mount {
  std::string_view device, type;  // "98:0", "ext4"; views of the mounts' text
};
// The mount that contains `path`.
[[nodiscard]] std::optional<Mount> mount_of(std::string_view mounts, std::string_view path);
// A file system with a server: if the server is gone, a thread that waits for it cannot be ended, not even by SIGKILL.
[[nodiscard]] bool is_served(std::string_view type);

}  // namespace flight
