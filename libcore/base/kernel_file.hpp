// SPDX-License-Identifier: Apache-2.0
// Reads files of /proc and /sys over which a container's manager may have mounted others: lxcfs shows a container its
// own /proc/stat, /proc/loadavg, /proc/meminfo and list of CPUs, by a FUSE server. If that hangs, whoever opens or
// reads such a file hangs, and neither the thread nor its process can be ended by a signal. Nor is it the kernel's
// file: its CPUs have other numbers. So a file is not opened if it waits for a server (mounts.hpp): EREMOTE. Nothing is
// asked of the server to find that out, and never more than one descriptor is needed at a time. Any thread.
//
// Three limits. The check and the open are two steps: a file system that is mounted over the file between them is not
// noticed, and its server can keep the caller waiting for ever. Linux before 5.8 does not report the mount of a file
// (STATX_MNT_ID): a server's file is opened there, except if the kernel refuses statx(2) on it to this user. flightd is
// supported on 5.10 and newer, so this concerns only those who try an older kernel. And /proc itself is taken for the
// kernel's, as nothing else says what is mounted: that it answers is tried at the start (proc_check.hpp).
#pragma once

#include <cstddef>
#include <string>

#include "libcore/base/directory.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

// The type of file system for which a look at `path` would wait, if a server's is mounted anywhere on the way from
// `base`, which is a folder above it that does not wait; empty: none. Links are followed.
[[nodiscard]] std::string waits_below(const std::string& base, std::string path);
// EREMOTE, with the reason, if a look at this file or folder of /proc or /sys would wait. As below, other paths pass.
[[nodiscard]] Result<void> check_kernel_path(const std::string& path);
// For reading; the limits are above. A path that is not below /proc or /sys, as in a test's tree, is opened as it is.
[[nodiscard]] Result<UniqueFd> open_kernel_file(const std::string& path);
// The entries of a folder. Of these, too, one can be a server's.
[[nodiscard]] Result<Directory> open_kernel_folder(const std::string& path);
// read_file() and read_line() of it.
[[nodiscard]] Result<std::string> read_kernel_file(const std::string& path, std::size_t max_bytes = kMaxSmallFileBytes);
[[nodiscard]] Result<std::string> read_kernel_line(const std::string& path);

}  // namespace flight
