// SPDX-License-Identifier: Apache-2.0
#include "ctl/copy_out.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "libcore/base/files.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kCopyBytes = 1U << 20U;
constexpr std::string_view kMagic = "PERFILE2";
constexpr mode_t kMode = 0640;

Result<UniqueFd> open_snapshot(const std::string& path) {
  // O_NONBLOCK: a FIFO put there must not hang us; it is refused below.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == EACCES)
    return fail(std::errc::permission_denied,
                "you may not read {}: only root and the members of flightd's group may; "
                "`sudo flightctl ...`, or join the group and log in anew",
                path);
  if (!fd) return sys_error(errno, "open the snapshot {}", path);
  struct stat found {};
  if (::fstat(fd.get(), &found) != 0) return sys_error(errno, "stat {}", path);
  std::array<char, kMagic.size()> head{};
  if (!S_ISREG(found.st_mode) || ::pread(fd.get(), head.data(), head.size(), 0) != static_cast<ssize_t>(head.size()) ||
      std::string_view(head.data(), head.size()) != kMagic)
    return fail(std::errc::bad_message, "{} is no perf.data file; it is not copied", path);
  return fd;
}

Result<void> copy_bytes(int from, int to, const std::string& target) {
  std::vector<std::byte> buffer(kCopyBytes);
  for (;;) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "reading the snapshot");
    if (count == 0) return {};
    if (auto written = write_all(to, std::span(buffer).first(static_cast<std::size_t>(count))); !written)
      return wrap(written.error(), "{}", target);
  }
}

// rename(2) would replace a symbolic link, not what it points to.
std::string resolved(const std::string& target) {
  std::array<char, PATH_MAX> path{};
  return ::realpath(target.c_str(), path.data()) == nullptr ? target : std::string(path.data());
}

Result<void> copy_to_new_file(int from, const std::string& target) {
  const std::string final_path = resolved(target);
  std::string temporary = final_path + ".XXXXXX";
  UniqueFd to(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!to) return sys_error(errno, "making a file beside {}", target);
  auto copied = copy_bytes(from, to.get(), target);
  if (copied && ::fchmod(to.get(), kMode) != 0) copied = sys_error(errno, "chmod of {}", temporary);
  if (copied && ::fsync(to.get()) != 0) copied = sys_error(errno, "fsync of {}", target);
  if (copied && ::rename(temporary.c_str(), final_path.c_str()) != 0) copied = sys_error(errno, "rename to {}", target);
  if (!copied) ::unlink(temporary.c_str());
  return copied;
}

}  // namespace

Result<void> copy_out(const std::string& path, const std::string& target) {
  auto from = open_snapshot(path);
  if (!from) return pass(from.error());
  if (target == "-") return copy_bytes(from->get(), STDOUT_FILENO, "stdout");
  struct stat found {};
  if (::stat(target.c_str(), &found) != 0 || S_ISREG(found.st_mode)) return copy_to_new_file(from->get(), target);
  if (S_ISDIR(found.st_mode)) return fail(std::errc::is_a_directory, "{} is a folder; name a file in it", target);
  auto to = open_file(target, O_WRONLY);
  if (!to) return pass(to.error());
  return copy_bytes(from->get(), to->get(), target);
}

}  // namespace flight::ctl
