// SPDX-License-Identifier: Apache-2.0
// The bytes of a file: in memory (the vDSO, a test), or read by pread(2). A file is never mapped, because its owner
// could truncate it, and reading the mapping would then raise SIGBUS. Its one rule: a read is within the file, and
// bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::size_t kMaxFileReadBytes = 32U << 20U;  // .eh_frame: libLLVM has 5 MB, node 2.8

class FileBytes {
 public:
  // Borrows them.
  explicit FileBytes(std::span<const std::byte> bytes) : memory_(bytes), size_(bytes.size()) {}
  // Borrows the descriptor of a regular file.
  [[nodiscard]] static Result<FileBytes> open(int fd);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  // ENODATA: not within the file; EFBIG: more than kMaxFileReadBytes.
  [[nodiscard]] Result<std::vector<std::byte>> read(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  FileBytes(int fd, std::uint64_t size) : fd_(fd), size_(size) {}

  std::span<const std::byte> memory_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace flight
