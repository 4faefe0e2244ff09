// SPDX-License-Identifier: Apache-2.0
// Identifies a mapped file, as in MMAP2 records and /proc/PID/maps. With overlayfs and btrfs, stat(2) reports other
// device numbers.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace flight {

struct DeviceNumber {
  std::uint32_t major = 0, minor = 0;
  friend auto operator<=>(const DeviceNumber&, const DeviceNumber&) = default;  // NOLINT: clang-tidy 14 sees a 0
};

struct FileIdentity {
  std::uint32_t major = 0, minor = 0;
  std::uint64_t inode = 0;
  std::uint64_t generation = 0;  // 0: unknown
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Without the generation, which not every record has.
inline FileIdentity numbers_of(const FileIdentity& file) {
  return {.major = file.major, .minor = file.minor, .inode = file.inode, .generation = 0};
}

struct FileIdentityHash {
  std::size_t operator()(const FileIdentity& file) const {
    const std::uint64_t device = (std::uint64_t{file.major} << 32U) | file.minor;
    return (file.inode * 0x9e3779b97f4a7c15ULL) ^ (device * 0xc2b2ae3d27d4eb4fULL) ^ file.generation;
  }
};

}  // namespace flight
