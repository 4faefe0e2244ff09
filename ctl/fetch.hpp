// SPDX-License-Identifier: Apache-2.0
// Copies a snapshot's bytes from flightd (ReadSnapshot) to a file of the caller, a pipe or stdout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ctl/commands.hpp"
#include "ctl/connection.hpp"
#include "ctl/daemon_call.hpp"
#include "ctl/screen.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {

// Writes to `target`. A regular file appears complete or not at all; a pipe or a device is written to directly.
// Returns the path. Data that is a directory becomes a tar.
[[nodiscard]] Answer<std::string> fetch(const Common& common, const std::string& id, const OutputFile& target);

// Shows on stderr how much of a file has come.
class CopyProgress {
 public:
  // `what`: "copying"
  CopyProgress(std::string what, std::uint64_t all_bytes, bool wanted)
      : line_(wanted), what_(std::move(what)), all_bytes_(all_bytes) {}
  void add(std::uint64_t bytes);

 private:
  ProgressLine line_;
  std::string what_;
  std::uint64_t all_bytes_, done_bytes_ = 0;
  std::optional<std::uint64_t> percent_;  // shown
};

// One file of a snapshot, before the daemon sends it.
struct RemoteFile {
  Connection connection;
  std::string name;  // not checked
  std::uint64_t bytes = 0;
  std::unique_ptr<CopyProgress> progress;
};
[[nodiscard]] Answer<RemoteFile> open_remote(const Common& common, const std::string& id, SnapshotFile file);
// The snapshot's name; nullopt: flightd did not send one.
[[nodiscard]] std::optional<SnapshotName> name_of(const RemoteFile& file);
// Receives some of the bytes that are left, at least one.
[[nodiscard]] Result<std::size_t> read_next(RemoteFile& file, std::uint64_t left_bytes, std::span<char> buffer);
// Receives the whole file, piece by piece. Call it once.
using TakeBytes = std::function<Result<void>(std::span<const std::byte> bytes)>;
[[nodiscard]] Result<void> read_remote(RemoteFile& file, const TakeBytes& take);

// Opens `path` as fetch() does, lets `write` fill it, and keeps it.
[[nodiscard]] Result<void> write_target(const std::string& path, const std::function<Result<void>(int fd)>& write);
// Checks the target before the daemon is called. EISDIR; EEXIST: the file has content, and --force was not given.
[[nodiscard]] Result<void> check_place(const OutputFile& target);
// The snapshot's name in the current directory; EEXIST as check_place().
[[nodiscard]] Result<std::string> own_place(const std::string& name, const OutputFile& target);

// Why `target` is a usage error; empty if it is none.
[[nodiscard]] std::string check_target(const OutputFile& target);

}  // namespace flight::ctl
