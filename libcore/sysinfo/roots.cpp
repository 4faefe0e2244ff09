// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/roots.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxMountsText = 4U << 20U;
constexpr unsigned kStatxMountId = 0x1000;  // STATX_MNT_ID: Linux 5.8

// On overlayfs and btrfs, stat(2) reports other device numbers than the kernel's records; mountinfo has those of the
// records.
bool mount_has_device(const Root& root, std::uint64_t mount, const FileIdentity& file) {
  const std::string mounts = "\n" + mounts_of(root);
  const std::size_t found = mounts.find(fmt::format("\n{} ", mount));
  if (found == std::string::npos) return false;
  const std::size_t parent = mounts.find(' ', found);
  const std::size_t device = mounts.find(' ', parent + 1);
  const std::string wanted = fmt::format(" {}:{} ", file.major, file.minor);
  return device != std::string::npos && mounts.compare(device, wanted.size(), wanted) == 0;
}

// A mount point in the encoding of mountinfo: blanks, newlines and backslashes as \ooo.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 4, value, 8).ptr == text.data() + i + 4) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

Root host_root() {
  constexpr const char* kFirst = "/proc/1/root";
  return ::access(kFirst, X_OK) == 0 ? Root{kFirst, "1"} : Root{"/", "self"};
}
Root root_of(std::uint32_t pid) { return {fmt::format("/proc/{}/root", pid), std::to_string(pid)}; }

std::string mounts_of(const Root& root) {
  return read_file(fmt::format("/proc/{}/mountinfo", root.process), kMaxMountsText).value_or("");
}

UniqueFd find_below(const Root& root, const std::string& path) {
  const UniqueFd folder(::open(root.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return {};
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how)));
}

bool is_the_file(int place, const Root& root, const FileIdentity& file) {
  struct statx status {};
  if (::statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | kStatxMountId, &status) != 0 ||
      status.stx_ino != file.inode)
    return false;
  if (status.stx_dev_major == file.major && status.stx_dev_minor == file.minor) return true;
  return (status.stx_mask & kStatxMountId) != 0 && mount_has_device(root, status.stx_mnt_id, file);
}

std::optional<Mount> mount_of(std::string_view mounts, std::string_view path) {
  std::optional<Mount> out;
  std::size_t longest = 0;
  while (!mounts.empty()) {
    const std::string_view line = mounts.substr(0, mounts.find('\n'));
    mounts.remove_prefix(std::min(mounts.size(), line.size() + 1));
    std::array<std::string_view, 5> fields;
    std::string_view rest = line;
    for (std::string_view& field : fields) {
      field = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(rest.size(), field.size() + 1));
    }
    const std::string point = unescaped(fields[4]);
    const bool covers =
        point == "/" || (path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/'));
    const std::size_t dash = rest.find(" - ");
    // A later mount on the same point covers the earlier one.
    if (!covers || point.size() < longest || dash == std::string_view::npos) continue;
    longest = point.size();
    rest.remove_prefix(dash + 3);
    out = Mount{.device = fields[2], .type = rest.substr(0, rest.find(' '))};
  }
  return out;
}

bool is_served(std::string_view type) {
  constexpr std::array<std::string_view, 14> kServed = {"nfs",    "nfs4",     "cifs", "smb3",    "smbfs",
                                                        "9p",     "ceph",     "afs",  "coda",    "ncpfs",
                                                        "lustre", "orangefs", "gpfs", "virtiofs"};
  return type.starts_with("fuse") || std::find(kServed.begin(), kServed.end(), type) != kServed.end();
}

}  // namespace flight
