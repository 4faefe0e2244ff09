// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/files.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "libcore/base/bytes.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight {
namespace {

constexpr int kAllSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

// Files of /proc have no size, and some give 4 KiB at a time, so `text` does not grow for each read. Nor does it grow
// by much at once: resize() clears the new bytes, which makes them resident.
Result<std::string> read_from(int fd, std::size_t max_bytes, const std::string& name, std::size_t usual_bytes = 0) {
  constexpr std::size_t kFirst = 16U << 10U, kLeast = 4U << 10U, kMost = 256U << 10U;
  std::string text;
  text.reserve(usual_bytes);
  for (std::size_t have = 0;;) {
    if (have > max_bytes) return fail(std::errc::file_too_large, "{} has more than {} bytes", name, max_bytes);
    if (text.size() - have < kLeast)
      text.resize(std::min(text.size() + std::clamp(text.size(), kFirst, kMost), max_bytes + kFirst));
    const ssize_t count = ::pread(fd, text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "read {}", name);
    have += static_cast<std::size_t>(count);
    if (count > 0) continue;
    text.resize(have);
    return text;
  }
}

Result<void> check_seals(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return sys_error(errno, "read the seals of a memfd");
  if ((seals & kAllSeals) != kAllSeals)
    return fail(std::errc::bad_message, "a memfd that is sent over the broker protocol is not sealed (seals {:#x})",
                seals);
  return {};
}

}  // namespace

Result<UniqueFd> open_file(const std::string& path, int flags, unsigned mode) {
  UniqueFd fd = with_spare([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
  if (!fd) return sys_error(errno, "open {}", path);
  return fd;
}

Result<UniqueFd> open_regular_at(int folder, const std::string& name, const std::string& path) {
  UniqueFd file =
      with_spare([&] { return ::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
  if (!file) return sys_error(errno, "open {}", path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return sys_error(errno, "fstat {}", path);
  if (!S_ISREG(status.st_mode)) return fail(std::errc::invalid_argument, "{} is not a regular file", path);
  return file;
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes, std::size_t usual_bytes) {
  auto fd = open_file(path, O_RDONLY);
  if (!fd) return propagate(fd.error());
  return read_from(fd->get(), max_bytes, path, usual_bytes);
}

Result<std::string> read_regular_file(const std::string& path, std::size_t max_bytes) {
  auto fd = open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd) return propagate(fd.error());
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return sys_error(errno, "stat {}", path);
  if (S_ISDIR(status.st_mode)) return sys_error(EISDIR, "read {}", path);
  if (!S_ISREG(status.st_mode)) return fail(std::errc::invalid_argument, "{} is not a regular file", path);
  return read_from(fd->get(), max_bytes, path);
}

Result<std::string> read_line(const std::string& path) {
  auto text = read_file(path);
  if (text && !text->empty() && text->back() == '\n') text->pop_back();
  return text;
}

Result<std::string> read_all(int fd, std::size_t max_bytes) { return read_from(fd, max_bytes, "the file"); }

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "write of {} bytes", bytes.size());
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> write_all(int fd, std::string_view text) { return write_all(fd, bytes_of(text)); }

Result<void> write_patiently(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count >= 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
    const int why = count >= 0 ? EINTR : errno;
    if (why == EINTR) continue;
    pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
    if (why != EAGAIN || (::poll(&ready, 1, -1) < 0 && errno != EINTR))
      return sys_error(why, "write of {} bytes", bytes.size());
  }
  return {};
}

Result<UniqueFd> open_memfd(const char* name) {
  UniqueFd fd = with_spare([&] { return ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); });
  if (!fd) return sys_error(errno, "memfd_create {}", name);
  return fd;
}

Result<void> seal_memfd(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, kAllSeals) != 0) return sys_error(errno, "seal a memfd");
  return {};
}

Result<UniqueFd> sealed_memfd(const char* name, std::span<const std::byte> bytes) {
  auto fd = open_memfd(name);
  if (!fd) return fd;
  if (auto written = write_all(fd->get(), bytes); !written) return wrap(written.error(), "memfd {}", name);
  if (auto sealed = seal_memfd(fd->get()); !sealed) return wrap(sealed.error(), "memfd {}", name);
  return fd;
}

Result<std::string> read_sealed_memfd(int fd, std::size_t max_bytes) {
  if (auto sealed = check_seals(fd); !sealed) return propagate(sealed.error());
  return read_all(fd, max_bytes);
}

Result<Mapping> map_sealed_memfd(int fd, std::size_t max_bytes) {
  if (auto sealed = check_seals(fd); !sealed) return propagate(sealed.error());
  struct stat status {};
  if (::fstat(fd, &status) != 0) return sys_error(errno, "stat a memfd");
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > max_bytes)
    return fail(std::errc::file_too_large, "a memfd has more than the {} bytes it may have", max_bytes);
  return Mapping::open_sealed(fd, static_cast<std::size_t>(bytes));
}

}  // namespace flight
