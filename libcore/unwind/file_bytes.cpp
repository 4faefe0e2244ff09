// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/file_bytes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace flight {

Result<FileBytes> FileBytes::open(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return sys_error(errno, "size of a program file");
  if (!S_ISREG(status.st_mode)) return fail(std::errc::invalid_argument, "a program file is not a regular file");
  return FileBytes(fd, static_cast<std::uint64_t>(status.st_size));
}

Result<std::vector<std::byte>> FileBytes::read(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > size_ || bytes > size_ - offset)
    return fail(std::errc::no_message_available, "{} bytes at {} are not within the file of {} bytes", bytes, offset,
                size_);
  if (bytes > kMaxFileReadBytes)
    return fail(std::errc::file_too_large, "{} bytes at {}: more than {} are not read", bytes, offset,
                kMaxFileReadBytes);
  const auto count = static_cast<std::size_t>(bytes);
  if (fd_ < 0) {
    const auto part = memory_.subspan(static_cast<std::size_t>(offset), count);
    return std::vector<std::byte>(part.begin(), part.end());
  }
  std::vector<std::byte> part(count);
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = ::pread(fd_, part.data() + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_error(errno, "read {} bytes at {}", bytes, offset);
    if (got == 0) return fail(std::errc::no_message_available, "the file was truncated below {} bytes", offset + bytes);
    done += static_cast<std::size_t>(got);
  }
  return part;
}

}  // namespace flight
