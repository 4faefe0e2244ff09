// SPDX-License-Identifier: Apache-2.0
// The file of a mapping of another process: its build-id, and its path on this machine.
//
// A path is only a hint: the file may have been replaced, deleted, or be in a container. So an opened file must be the
// one in the kernel's record, by device, inode and, if the file system has it, generation. The ways, in this order:
//
//   map_files   /proc/PID/map_files/START-END is the mapped file itself, also a deleted one. CAP_CHECKPOINT_RESTORE
//   path        through /proc/PID/root, or through the host's root once the process has ended
//
// A file on FUSE or a network is not read: a thread that waits for the server's answer cannot be ended, not even by
// SIGKILL, and its process with it. Nor is the kernel asked for its build-id (PROCMAP_QUERY): it would wait for the
// server in the same way. A file on a mount that is not found counts as one of these. Every call here can block: for as
// long as the process holds the lock of its mappings, and then for as long as a disk does not answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/file_identity.hpp"
#include "libcore/base/result.hpp"

namespace flight {

// The result of stat(2) for the opened file. A file whose stamp has not changed has the same content and is not read
// again. Two files with the same numbers in the records can differ in the device here (the subvolumes of btrfs).
struct FileStamp {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  WallTime modified{}, changed{};  // mtime and ctime
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
// The kernel takes mtime and ctime from a clock that ticks every 1 to 10 ms: a file can be written again within one.
inline constexpr EventTime kFileTimeTickNs = 20'000'000;

struct MappedAt {
  std::uint32_t pid = 0;
  std::uint64_t address = 0;
  FileIdentity file;
  std::string name;                     // as recorded
  EventTime seen_ns = 0;                // a record or a scan says so at this time
  std::optional<FileStamp> known = {};  // if the file has this one, its content is not read again
  // Only whether `name` leads from the host's root to this file, with the content of `known`: perf(1) takes a file
  // without a build-id by its name. The process is not asked, and may have ended. If only ctime is another one, that
  // may be a chmod, or a write after which mtime was set back: kNotVerified.
  bool by_name = false;
  // The number of a waiting file in the broker's queues. If a file is there twice, only the entry with the last number
  // is valid.
  std::uint64_t ticket = 0;
};

// Appended to a name for which the host has another file, or none: a reader of the snapshot must not use that one.
inline constexpr std::string_view kNotTheHosts = " (not the host's)";
// The same for a name that may lead to another file than the mapped one, or to another content.
inline constexpr std::string_view kNotVerified = " (not verified)";
// The kernel adds this to the path of a file that was deleted, see proc(5).
inline constexpr std::string_view kDeleted = " (deleted)";

struct MappedFileFacts {
  std::vector<std::uint8_t> build_id;  // empty: the file has none
  // If `name` does not lead to the file from the host's root: the path that does. Of a process in another root, the
  // name inside is preferred if the host has the same build there: perf finds it also when that root is gone. If there
  // is no path and no build-id either: `name` with kNotTheHosts or kNotVerified. Otherwise empty.
  std::string host_path;
  // False: the file cannot be reached or must not be opened, or `by_name` was set, and only host_path is known.
  bool was_read = true;
  std::string served_by = {};  // the file system that waits for a server, if the file was not opened because of it
  // The state of the opened file at the time `looked`. `unchanged`: its stamp is MappedAt::known, and the facts above
  // are not set.
  bool unchanged = false;
  FileStamp stamp = {};
  ClockPair looked = {};
  bool stamp_proves = false;     // false: it was written just before, so a later write can have the same times
  bool unlinked = false;         // it has no name any more
  std::uint64_t generation = 0;  // FS_IOC_GETVERSION; 0: the file system does not report it
};
// ESTALE: the file cannot be reached any more, or another file is in its place; and the name may still lead to it.
// EAGAIN: it is being written.
[[nodiscard]] Result<MappedFileFacts> read_mapped_file(const MappedAt& at);
// Calls `answered` once the mappings of the process were read: from then on, only a disk can block.
[[nodiscard]] Result<MappedFileFacts> read_mapped_file_in_steps(const MappedAt& at,
                                                                const std::function<void()>& answered);

// The ways, each alone; for tests. An empty build-id is an answer.
[[nodiscard]] Result<MappedFileFacts> read_by_map_files(const MappedAt& at);
[[nodiscard]] Result<MappedFileFacts> read_by_path(const MappedAt& at);

}  // namespace flight
