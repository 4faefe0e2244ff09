// SPDX-License-Identifier: Apache-2.0
// The broker's reply to `build_ids`: the build-id of each file, as the broker read it.
//
//   | BuildIdsHeader 32 | device 8 | … | served | … | entry | entry | …
//   served: | device 8 | bytes of the type 8 | type | to 8 bytes |
//   entry: | BuildIdEntry 72 | recorded name | host path | to 8 bytes |
//
// A file without a build-id has an entry of size 0. A file that could not be read has none. A file whose content
// changed has an entry for each content that was read. Entries of inode 0 come last, and older readers ignore the first
// two kinds: with to_ns 0, the file that waits and whose inode is in `generation`, with is_next in is_two; with both of
// them 0, left_out_ns in from_ns; and the last one, if files were forgotten, has forgotten_ns in to_ns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/file_identity.hpp"
#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::size_t kMaxKnownFiles = 16384;                  // the least recently mapped are forgotten first
inline constexpr std::size_t kMaxKnownReadings = 2 * kMaxKnownFiles;  // of all these files; and of those that wait
inline constexpr std::size_t kMaxUnansweredDevices = 64, kMaxServedDisks = 64;
inline constexpr std::size_t kMaxFileSystemBytes = 64;  // of a file system's name
inline constexpr std::size_t kMaxBuildIdsBytes = 64U << 20U;
inline constexpr std::size_t kMaxStoredBuildIdBytes = 20;

struct KnownFile {
  FileIdentity file;
  std::vector<std::uint8_t> build_id = {};  // empty: the file has none
  // For a process with another root: the path that the kernel recorded, and the file's path from the host's root. Both
  // are empty if the name needs no change.
  std::string recorded_name = {}, host_path = {};
  // Holds for a file that was mapped between these two.
  EventTime from_ns = 0, to_ns = UINT64_MAX;
  bool is_two = false;  // two files have these numbers in the records: neither has a build-id
};

// A disk whose files are not opened, because its file system waits for a server.
struct ServedDisk {
  DeviceNumber disk;
  std::string type;  // for example fuse.sshfs
  friend bool operator==(const ServedDisk&, const ServedDisk&) = default;
};

// A file that is read later: the broker has used up the CPU time that it may use for the user whose process mapped it,
// or others come first.
struct WaitingFile {
  FileIdentity file;      // without a generation
  EventTime from_ns = 0;  // what was mapped then, or later, is not known
  bool is_next = false;   // its user may have it read: only its turn has not come
  friend bool operator==(const WaitingFile&, const WaitingFile&) = default;
};

struct KnownFiles {
  std::vector<KnownFile> files;
  std::uint64_t missed_bytes = 0;    // bytes of sideband that were missed: mappings in them are unknown
  std::uint64_t hung_processes = 0;  // processes whose files could not be read although their disks answer
  // 0: none. A file that is not among them may have been one of more than kMaxKnownFiles, if it was mapped until then.
  EventTime forgotten_ns = 0;
  std::vector<DeviceNumber> unanswered;  // disks that had not answered yet: some of their files are missing
  std::vector<ServedDisk> served;        // none of their files is read
  std::vector<WaitingFile> waiting = {};
  // 0: none. What was mapped until then can be missing, because there was no space or CPU time to note it. It never
  // goes back, so that a file that was gone before it could be read, for whatever reason, can be counted as one of
  // these.
  EventTime left_out_ns = 0;
};

[[nodiscard]] std::vector<std::byte> encode(const KnownFiles& known);
[[nodiscard]] Result<KnownFiles> parse_build_ids(std::span<const std::byte> bytes);

}  // namespace flight
