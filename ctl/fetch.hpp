// SPDX-License-Identifier: Apache-2.0
// A snapshot's bytes, from the daemon (ReadSnapshot) to a file of the caller's own, a pipe or stdout.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "ctl/commands.hpp"
#include "ctl/connection.hpp"
#include "ctl/daemon_call.hpp"

namespace flight::ctl {

// To `target`. A regular file appears whole or not at all; a pipe or a device is written into. Where it went.
[[nodiscard]] Answer<std::string> fetch(const Common& common, const std::string& id, const OutputFile& target);

// One of a snapshot's files, as the daemon is about to send it.
struct RemoteFile {
  Connection connection;
  std::string name;  // not checked
  std::uint64_t bytes = 0;
};
[[nodiscard]] Answer<RemoteFile> open_remote(const Common& common, const std::string& id, SnapshotFile file);
// All of it, piece by piece; once.
using TakeBytes = std::function<Result<void>(std::span<const std::byte> bytes)>;
[[nodiscard]] Result<void> read_remote(RemoteFile& file, const TakeBytes& take);

// Opens `path` as fetch() does, has it written to, and keeps it.
[[nodiscard]] Result<void> write_target(const std::string& path, const std::function<Result<void>(int fd)>& write);
// Before anything is asked of the daemon. EISDIR; EEXIST: it has something in it, and nobody said --force.
[[nodiscard]] Result<void> check_place(const OutputFile& target);
// The name that the snapshot brings along, here; EEXIST as check_place().
[[nodiscard]] Result<std::string> own_place(const std::string& name, const OutputFile& target);

// Why `target` is wrong usage; empty: it is not.
[[nodiscard]] std::string check_target(const OutputFile& target);

}  // namespace flight::ctl
