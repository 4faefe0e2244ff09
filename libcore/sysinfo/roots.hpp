// SPDX-License-Identifier: Apache-2.0
// Finds a file below the root of a process or of the host, and checks that it is the one in a record. The kernel's
// records and stat(2) do not always agree on a file's device: overlayfs over several file systems and btrfs report
// others in stat(2). mountinfo has the records' ones.
//
// find_below() and is_the_file() use the file system and can block as long as a disk does; the rest reads only /proc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/file_identity.hpp"
#include "libcore/base/mounts.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

// A root directory and the mounts below it. `process`: as in /proc/PROCESS. Mounts come and go, and they are read once
// for a root and its copies: so it is made anew for each file.
struct Root {
  std::string path, process;
  std::shared_ptr<std::optional<std::string>> mounts = std::make_shared<std::optional<std::string>>();
};
// The host's root, if it is visible: flightd's own may be that of a unit without /home and /tmp.
[[nodiscard]] Root host_root();
[[nodiscard]] Root root_of(std::uint32_t pid);

// A process in a chroot that is no mount point does not see the mount that its root is on, only those below it. One of
// its ancestors does: the same mount namespace has the same mounts.
struct Outside {
  Root root;           // of the ancestor
  std::string chroot;  // the path of the process's root below it
};
// nullopt: no ancestor of the namespace runs any more.
[[nodiscard]] std::optional<Outside> outside_of(std::uint32_t pid);

// Opens `path` below `root` as O_PATH; no link leads out of `root`. It goes step by step, and takes none onto a file
// system that waits (waits_for): not through a link, nor onto a mount that came meanwhile. Invalid if not found: errno;
// EREMOTE: it would have to wait.
[[nodiscard]] UniqueFd find_below(const Root& root, const std::string& path, const Root& host = host_root());
// `place`: the result of find_below() below the same root.
[[nodiscard]] bool is_the_file(int place, const Root& root, const FileIdentity& file);

// For mounts.hpp; empty if it cannot be read. Valid as long as the root is.
[[nodiscard]] std::string_view mounts_of(const Root& root);

}  // namespace flight
