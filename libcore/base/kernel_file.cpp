// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/kernel_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <optional>
#include <string_view>

#include "libcore/base/mounts.hpp"

namespace flight {
namespace {

constexpr std::size_t kMostMountsBytes = 16U << 20U;

// The last component of a path; a symbolic link is not followed.
struct PathEnd {
  std::uint64_t mount_id = 0;  // 0: this kernel does not say it
  bool is_link = false;
};

// nullopt: errno; EACCES: it is not permitted to know, as of a FUSE mount of another user. Asks no server: with
// AT_STATX_DONT_SYNC, fs/fuse/dir.c, fuse_update_get_attr(), sends nothing.
std::optional<PathEnd> end_of(const std::string& path) {
  constexpr int kQuietly = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  constexpr unsigned kMountId = 0x1000;  // STATX_MNT_ID: Linux 5.8
  struct statx status {};
  if (::statx(AT_FDCWD, path.c_str(), kQuietly, STATX_TYPE | kMountId, &status) != 0) return std::nullopt;
  return PathEnd{.mount_id = (status.stx_mask & kMountId) != 0 ? status.stx_mnt_id : 0,
                 .is_link = S_ISLNK(status.stx_mode)};
}

// The type of file system for which an access to the mount at `path` waits; empty: none.
std::string waits_at(const std::string& path, const std::optional<PathEnd>& end) {
  constexpr const char* kUnknown = "an unknown file system";
  const auto mounts = read_file("/proc/thread-self/mountinfo", kMostMountsBytes);
  if (!mounts) return kUnknown;
  const auto mount = end ? mount_numbered(*mounts, std::to_string(end->mount_id)) : mount_of(*mounts, path);
  return mount ? waits_for(*mounts, *mount) : kUnknown;
}

// The same of the mount at /sys. It is judged once: a machine with many mounts has a long list of them. Only it,
// because nobody unmounts it, and the id of another mount could be used again.
std::string sysfs_waits() {
  static std::atomic<std::uint64_t> judged{0};
  const std::string path = "/sys";
  const auto end = end_of(path);
  if (!end && errno != EACCES) return "";
  const std::uint64_t id = end ? end->mount_id : 0;
  if (id != 0 && id == judged) return "";
  const auto mounts = read_file("/proc/thread-self/mountinfo", kMostMountsBytes);
  if (!mounts) return "";
  const auto mount = id != 0 ? mount_numbered(*mounts, std::to_string(id)) : mount_of(*mounts, path);
  if (!mount || mount->point != path) return "";
  std::string type = waits_for(*mounts, *mount);
  if (type.empty()) judged = id;
  return type;
}

std::string target_of(const std::string& link) {
  std::string text(PATH_MAX, '\0');
  const ssize_t bytes = ::readlink(link.c_str(), text.data(), text.size());
  text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return text;
}

}  // namespace

// Step by step: a lookup in a folder of the server would hang, too.
std::string waits_below(const std::string& base, std::string path) {
  constexpr int kMostLinks = 40;  // as the kernel's
  std::optional<PathEnd> before = end_of(base);
  int links = 0;
  for (std::size_t end = base == "/" ? 0 : base.size(); end < path.size();) {
    const std::size_t begin = end;
    end = path.find('/', begin + 1);
    const std::string step = path.substr(0, end);
    const auto now = end_of(step);
    if (!now && errno != EACCES) return "";  // it does not exist: opening it says so
    const bool same_mount = now && before && now->mount_id == before->mount_id;
    if (!same_mount)
      if (std::string type = waits_at(step, now); !type.empty()) return type;
    if (!now || !now->is_link) {
      before = now;
      continue;
    }
    const std::string target = target_of(step), rest = end == std::string::npos ? "" : path.substr(end);
    if (target.empty() || ++links > kMostLinks) return "";
    const bool is_absolute = target.front() == '/';
    path = (is_absolute ? "" : path.substr(0, begin + 1)) + target + rest;
    end = is_absolute ? 0 : begin;
    if (is_absolute) before = end_of("/");
  }
  return "";
}

// systemd's RestrictSUIDSGID=yes, which flightd's unit has, forbids openat2(2), and with it RESOLVE_NO_XDEV.
Result<void> check_kernel_path(const std::string& path) {
  for (const char* base : {"/proc", "/sys"}) {
    if (!path.starts_with(std::string(base) + "/")) continue;
    std::string type = base == std::string_view("/sys") ? sysfs_waits() : "";
    if (type.empty()) type = waits_below(base, path);
    if (!type.empty())
      return fail(std::errc(EREMOTE),
                  "open {}: {} is mounted over it, whose server may never answer, and it is not the kernel's", path,
                  type);
  }
  return {};
}

Result<UniqueFd> open_kernel_file(const std::string& path) {
  if (const auto checked = check_kernel_path(path); !checked) return propagate(checked.error());
  return open_file(path, O_RDONLY);
}

Result<Directory> open_kernel_folder(const std::string& path) {
  if (const auto checked = check_kernel_path(path); !checked) return propagate(checked.error());
  return Directory::open(path);
}

Result<std::string> read_kernel_file(const std::string& path, std::size_t max_bytes) {
  const auto file = open_kernel_file(path);
  if (!file) return propagate(file.error());
  auto text = read_all(file->get(), max_bytes);
  if (!text) return wrap(text.error(), "{}", path);
  return text;
}

Result<std::string> read_kernel_line(const std::string& path) {
  auto text = read_kernel_file(path);
  if (text && !text->empty() && text->back() == '\n') text->pop_back();
  return text;
}

}  // namespace flight
