// SPDX-License-Identifier: Apache-2.0
// The move-only owner of a memory mapping: of a file descriptor (a perf ring, a memfd) or anonymous.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "libcore/base/result.hpp"

namespace flight {

class Mapping {
 public:
  // mmap(2) of `bytes` of `fd` from offset 0, MAP_SHARED. prot: PROT_*. EPERM of a perf ring means that
  // locked memory ran out (perf_event_open(2)).
  [[nodiscard]] static Result<Mapping> open(int fd, std::size_t bytes, int prot);
  // MAP_PRIVATE and PROT_READ of a whole file that no process can shorten; an empty file is not mapped. (Before Linux
  // 6.7 a memfd that is sealed against writing cannot be mapped MAP_SHARED.)
  [[nodiscard]] static Result<Mapping> open_sealed(int fd, std::size_t bytes);
  // Anonymous private memory, zeroed, read-write.
  [[nodiscard]] static Result<Mapping> create(std::size_t bytes);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(address_); }
  [[nodiscard]] std::size_t size() const { return bytes_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), bytes_}; }
  explicit operator bool() const { return address_ != nullptr; }

  // mlock(2) of the whole mapping. ENOMEM or EPERM: RLIMIT_MEMLOCK is too small.
  [[nodiscard]] Result<void> lock() const;
  // A core dump of this process does not contain it (madvise(2), MADV_DONTDUMP). The kernel leaves out perf rings.
  void leave_out_of_core() const;
  // For anonymous memory: gives its pages back to the kernel and keeps the addresses. Its content is then zero.
  void discard() const;

 private:
  Mapping(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace flight
