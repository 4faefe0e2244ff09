// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/kernel_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "libcore/sysinfo/mounts.hpp"

namespace flight {
namespace {

// Where in the mounts a path ends; 0: this kernel does not say it. nullopt: it is not permitted to know, as of a FUSE
// mount of another user. Asks no server: with AT_STATX_DONT_SYNC and no attribute but this, fs/fuse/dir.c,
// fuse_update_get_attr(), sends nothing.
std::optional<std::uint64_t> mount_id_at(const std::string& path) {
  constexpr int kQuietly = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  constexpr unsigned kMountId = 0x1000;  // STATX_MNT_ID: Linux 5.8
  struct statx status {};
  if (::statx(AT_FDCWD, path.c_str(), kQuietly, kMountId, &status) != 0) return std::nullopt;
  return (status.stx_mask & kMountId) != 0 ? status.stx_mnt_id : 0;
}

// The type of file system for which an access to the mount at `path` waits; empty: none.
std::string waits_at(const std::string& path, std::optional<std::uint64_t> id) {
  constexpr const char* kUnknown = "an unknown file system";
  constexpr std::size_t kMostBytes = 16U << 20U;
  const auto mounts = read_file("/proc/thread-self/mountinfo", kMostBytes);
  if (!mounts) return kUnknown;
  const auto mount = id ? mount_numbered(*mounts, std::to_string(*id)) : mount_of(*mounts, path);
  return mount ? waits_for(*mounts, *mount) : kUnknown;
}

// The same for each step of the way to `path`: a lookup in a folder of the server would hang, too.
std::string waits_on_the_way(const std::string& path) {
  std::optional<std::uint64_t> before;
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string step = path.substr(0, end);
    const auto id = mount_id_at(step);
    if (!id && errno != EACCES) return "";  // it does not exist: opening it says so
    const bool is_first = step.size() == path.find('/', 1);
    if (!is_first && (!id || id != before))
      if (std::string type = waits_at(step, id); !type.empty()) return type;
    if (end == std::string::npos) return "";
    before = id;
  }
}

}  // namespace

// systemd's RestrictSUIDSGID=yes, which flightd's unit has, forbids openat2(2), and with it RESOLVE_NO_XDEV.
Result<UniqueFd> open_kernel_file(const std::string& path) {
  if (path.starts_with("/proc/") || path.starts_with("/sys/"))
    if (const std::string type = waits_on_the_way(path); !type.empty())
      return fail(std::errc(EREMOTE),
                  "open {}: {} is mounted over it, whose server may never answer, and it is not the kernel's", path,
                  type);
  return open_file(path, O_RDONLY);
}

Result<std::string> read_kernel_file(const std::string& path, std::size_t max_bytes) {
  const auto file = open_kernel_file(path);
  if (!file) return propagate(file.error());
  auto text = read_all(file->get(), max_bytes);
  if (!text) return wrap(text.error(), "{}", path);
  return text;
}

}  // namespace flight
