// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/lock_holder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/directory.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/kernel_file.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxLocksBytes = 4U << 20U;  // of /proc/locks
constexpr std::size_t kMaxFdinfoBytes = 64U << 10U;
constexpr std::size_t kMaxMountsBytes = 16U << 20U;
constexpr std::size_t kMaxLooks = 100'000;  // limit of descriptors to read: a start must not take minutes

// A file as the lines of locks have it: "00:1a:9131", the device in hexadecimal.
using FileNumber = std::string;

// The line's field that begins with `key`, without it; empty if there is none.
std::string_view field(std::string_view text, std::string_view key) {
  const std::size_t begin = text.find(key);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = text.substr(begin + key.size());
  const std::size_t from = std::min(rest.find_first_not_of(" \t"), rest.size());
  return rest.substr(from, rest.find('\n', from) - from);
}

std::optional<std::string> fdinfo(std::string_view pid, std::string_view number) {
  auto text = read_file(fmt::format("/proc/{}/fdinfo/{}", pid, number), kMaxFdinfoBytes);
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

// The kernel's numbers: overlayfs and btrfs show other ones in stat(2). The mount's device is in mountinfo, the inode
// in fdinfo (Linux 5.14).
std::optional<FileNumber> number_of(int fd) {
  struct stat file {};
  const auto own = fdinfo("self", fmt::format("{}", fd));
  const auto mounts = read_file("/proc/self/mountinfo", kMaxMountsBytes);
  if (!own || !mounts || ::fstat(fd, &file) != 0) return std::nullopt;
  const std::string_view mount = field(*own, "mnt_id:"), inode = field(*own, "\nino:");
  // "36 35 98:0 /root /mountpoint ...": the id, the parent's id, the device in decimal.
  const std::string lines = "\n" + *mounts;
  std::string_view line = field(lines, fmt::format("\n{} ", mount));
  line.remove_prefix(std::min(line.find(' ') + 1, line.size()));
  unsigned major = 0, minor = 0;
  if (mount.empty() || std::sscanf(std::string(line.substr(0, line.find(' '))).c_str(), "%u:%u", &major, &minor) != 2)
    return std::nullopt;
  return fmt::format("{:02x}:{:02x}:{}", major, minor,
                     inode.empty() ? fmt::format("{}", file.st_ino) : std::string(inode));
}

// The process in a line such as "3: FLOCK  ADVISORY  WRITE 812 00:1a:9131 0 EOF" if the line is about that file.
std::optional<pid_t> flock_of(std::string_view line, const FileNumber& file) {
  if (line.find(" FLOCK ") == std::string_view::npos || line.find("->") != std::string_view::npos) return std::nullopt;
  const std::size_t at = line.find(fmt::format(" {} ", file));
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view before = line.substr(0, at);
  before.remove_prefix(before.rfind(' ') + 1);
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(before.data(), before.data() + before.size(), pid);
  if (error != std::errc{} || end != before.data() + before.size()) return std::nullopt;
  return pid;
}

std::vector<pid_t> lockers(std::string_view text, const FileNumber& file) {
  std::vector<pid_t> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto pid = flock_of(text.substr(0, end), file)) out.push_back(*pid);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Whether a descriptor of the process has the lock; `looks` counts down. The descriptors themselves are not looked at:
// stat(2) of a file on a mount that hangs would not return.
bool holds(std::string_view pid, const FileNumber& file, std::size_t& looks) {
  if (looks == 0) return false;
  auto descriptors = Directory::open(fmt::format("/proc/{}/fdinfo", pid));
  if (!descriptors) return false;
  bool found = false;
  // An error means that the process has exited meanwhile.
  static_cast<void>(descriptors->each([&](const Directory::Entry& entry) {
    const auto text = fdinfo(pid, entry.name);
    found = text && !lockers(*text, file).empty();
    return !found && --looks > 0;
  }));
  return found;
}

}  // namespace

std::optional<LockHolder> lock_holder(int fd) {
  const auto file = number_of(fd);
  if (!file) return std::nullopt;
  std::size_t looks = kMaxLooks;
  const auto found = [](std::string_view pid) {
    LockHolder out;
    std::from_chars(pid.data(), pid.data() + pid.size(), out.pid);
    out.comm = read_line(fmt::format("/proc/{}/comm", pid)).value_or("?");
    return out;
  };
  const auto locks = read_kernel_file("/proc/locks", kMaxLocksBytes);
  for (const pid_t pid : locks ? lockers(*locks, *file) : std::vector<pid_t>{})
    if (const std::string text = fmt::format("{}", pid); holds(text, *file, looks)) return found(text);
  // The process that took the lock has exited, and another one inherited the descriptor.
  auto processes = Directory::open("/proc");
  if (!processes) return std::nullopt;
  std::optional<LockHolder> out;
  static_cast<void>(processes->each([&](const Directory::Entry& entry) {
    const bool process = entry.name.find_first_not_of("0123456789") == std::string_view::npos;
    if (process && holds(entry.name, *file, looks)) out = found(entry.name);
    return !out && looks > 0;
  }));
  return out;
}

}  // namespace flight
