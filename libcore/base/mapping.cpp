// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/mapping.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace flight {

Result<Mapping> Mapping::open(int fd, std::size_t bytes, int prot) {
  void* address = ::mmap(nullptr, bytes, prot, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return sys_error(errno, "mmap of {} bytes", bytes);
  return Mapping(address, bytes);
}

Result<Mapping> Mapping::open_sealed(int fd, std::size_t bytes) {
  if (bytes == 0) return Mapping();
  void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (address == MAP_FAILED) return sys_error(errno, "mmap of {} bytes", bytes);
  return Mapping(address, bytes);
}

Result<Mapping> Mapping::create(std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return sys_error(errno, "mmap of {} bytes of memory", bytes);
  return Mapping(address, bytes);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (address_ != nullptr) ::munmap(address_, bytes_);
    address_ = std::exchange(other.address_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  if (address_ != nullptr) ::munmap(address_, bytes_);
}

void Mapping::leave_out_of_core() const {
  if (address_ != nullptr) ::madvise(address_, bytes_, MADV_DONTDUMP);
}

void Mapping::discard() const {
  if (address_ == nullptr) return;
  constexpr int kDontNeedLocked =
      24;  // MADV_DONTNEED_LOCKED, since Linux 5.18; the headers of Debian 12's libc lack it
  if (::madvise(address_, bytes_, kDontNeedLocked) == 0) return;
  ::munlock(address_, bytes_);
  ::madvise(address_, bytes_, MADV_DONTNEED);
}

Result<void> Mapping::lock() const {
  if (::mlock(address_, bytes_) != 0) return sys_error(errno, "mlock of {} bytes", bytes_);
  return {};
}

}  // namespace flight
