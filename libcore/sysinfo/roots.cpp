// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/roots.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxMountsText = 4U << 20U;
constexpr unsigned kStatxMountId = 0x1000;  // STATX_MNT_ID: Linux 5.8

// On overlayfs and btrfs, stat(2) reports other device numbers than the kernel's records; mountinfo has those of the
// records.
bool mount_has_device(const Root& root, std::uint64_t mount, const FileIdentity& file) {
  const std::string_view mounts = mounts_of(root);
  const std::string id = fmt::format("{} ", mount);
  const std::size_t found = mounts.starts_with(id) ? 0 : mounts.find("\n" + id);
  if (found == std::string_view::npos) return false;
  const std::size_t parent = mounts.find(' ', found + 1);
  const std::size_t device = mounts.find(' ', parent + 1);
  const std::string wanted = fmt::format(" {}:{} ", file.major, file.minor);
  return device != std::string_view::npos && mounts.compare(device, wanted.size(), wanted) == 0;
}

constexpr int kMaxLinks = 40;  // as the kernel's
constexpr std::size_t kMaxSteps = 4096, kMaxDepth = 128;

std::string link_of(const std::string& path) {
  std::string text(4096, '\0');
  const ssize_t bytes = ::readlink(path.c_str(), text.data(), text.size());
  text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return text;
}

// Resolves a path in text, one step after the other, so that each step's mount is known before it is taken: a lookup in
// a folder of a hung server never ends, and O_PATH or RESOLVE_NO_XDEV do not help where a link leads there.
class Walk {
 public:
  Walk(const Root& root, const Root& host)
      : root_(root), host_(host), mounts_(mounts_of(root_)), host_mounts_(mounts_of(host_)) {}

  UniqueFd to(const std::string& path) {
    if (!begin() || !push(path)) return {};
    while (!left_.empty()) {
      const std::string step = std::move(left_.back());
      left_.pop_back();
      if (step == "..") {
        leave();
      } else if (!enter(step)) {
        return {};
      }
    }
    return std::move(places_.back());
  }

 private:
  static bool refuse(int error) {
    errno = error;
    return false;
  }

  // The mount of a root that is no mount point is not among those that its processes see: a chroot.
  bool root_waits() const {
    if (const auto mount = mount_of(mounts_, "/")) return !waits_for(host_mounts_, *mount).empty();
    const std::string host = "/proc/" + host_.process + "/ns/mnt", here = "/proc/" + root_.process + "/ns/mnt";
    const std::string link = link_of(root_.path), space = link_of(here);
    if (space.empty() || space != link_of(host)) return true;
    const auto mount = mount_of(host_mounts_, link);
    return !mount || !waits_for(host_mounts_, *mount).empty();
  }

  // Most steps are on the same mount.
  bool waits(const Mount& mount) {
    if (known_id_ != mount.id) {
      known_id_ = mount.id;
      known_waits_ = !waits_for(host_mounts_, mount).empty();
    }
    return known_waits_;
  }

  bool begin() {
    if (root_waits()) return refuse(EREMOTE);
    places_.emplace_back(::open(root_.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return places_.back() ? true : refuse(errno);
  }

  // `left_` is the rest of the path, backwards.
  bool push(std::string_view path) {
    std::vector<std::string> steps;
    while (!path.empty()) {
      const std::string_view step = path.substr(0, path.find('/'));
      path.remove_prefix(std::min(path.size(), step.size() + 1));
      if (!step.empty() && step != ".") steps.emplace_back(step);
    }
    if (left_.size() + steps.size() > kMaxSteps) return refuse(ENAMETOOLONG);
    left_.insert(left_.end(), std::make_move_iterator(steps.rbegin()), std::make_move_iterator(steps.rend()));
    return true;
  }

  void leave() {
    if (places_.size() == 1) return;
    places_.pop_back();
    at_.resize(at_.rfind('/'));
  }

  bool enter(const std::string& step) {
    if (places_.size() > kMaxDepth) return refuse(ENAMETOOLONG);
    std::string next = at_ + "/" + step;
    const auto mount = mount_of(mounts_, next);
    if (mount && waits(*mount)) return refuse(EREMOTE);
    const bool is_point = mount && mount->point == next;
    open_how how{};
    how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_NO_MAGICLINKS | (is_point ? 0U : RESOLVE_NO_XDEV);
    UniqueFd place(static_cast<int>(::syscall(SYS_openat2, places_.back().get(), step.c_str(), &how, sizeof how)));
    if (!place) return refuse(errno == EXDEV ? EREMOTE : errno);
    struct statx status {};
    constexpr int kQuietly = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
    if (::statx(place.get(), "", kQuietly, STATX_TYPE | kStatxMountId, &status) != 0) return refuse(errno);
    if (is_point && (status.stx_mask & kStatxMountId) != 0 && std::to_string(status.stx_mnt_id) != mount->id)
      return refuse(EREMOTE);  // another one came meanwhile
    if (S_ISLNK(status.stx_mode)) return follow(place.get(), mount && mount->type == "proc");
    places_.push_back(std::move(place));
    at_ = std::move(next);
    return true;
  }

  bool follow(int link, bool is_magic) {
    if (is_magic || ++links_ > kMaxLinks) return refuse(ELOOP);
    std::string text(4096, '\0');
    const ssize_t bytes = ::readlinkat(link, "", text.data(), text.size());
    if (bytes <= 0) return refuse(bytes == 0 ? ENOENT : errno);
    text.resize(static_cast<std::size_t>(bytes));
    if (text.front() == '/') {
      places_.resize(1);
      at_.clear();
    }
    return push(text);
  }

  Root root_, host_;
  std::string_view mounts_, host_mounts_;
  std::string_view known_id_;  // of a mount in mounts_
  bool known_waits_ = false;
  std::vector<UniqueFd> places_;  // of the root, and of each step
  std::vector<std::string> left_;
  std::string at_;  // without links; empty: the root
  int links_ = 0;
};

}  // namespace

Root host_root() {
  constexpr const char* kFirst = "/proc/1/root";
  return ::access(kFirst, X_OK) == 0 ? Root{kFirst, "1"} : Root{"/", "self"};
}
Root root_of(std::uint32_t pid) { return {fmt::format("/proc/{}/root", pid), std::to_string(pid)}; }

std::optional<Outside> outside_of(std::uint32_t pid) {
  constexpr int kMaxAncestors = 16;
  const std::string chroot = link_of(root_of(pid).path), space = link_of(fmt::format("/proc/{}/ns/mnt", pid));
  if (!chroot.starts_with('/') || space.empty()) return std::nullopt;
  ProcessStat stat;
  for (int i = 0; i < kMaxAncestors && read_stat(pid, stat) == Presence::there && stat.parent != 0; ++i) {
    pid = stat.parent;
    if (link_of(fmt::format("/proc/{}/ns/mnt", pid)) != space) return std::nullopt;
    Root root = root_of(pid);
    std::string path = link_of(root.path);
    if (path == "/") path.clear();
    if (chroot.starts_with(path + "/") && mount_of(mounts_of(root), "/"))
      return Outside{.root = std::move(root), .chroot = chroot.substr(path.size())};
  }
  return std::nullopt;
}

std::string_view mounts_of(const Root& root) {
  if (!*root.mounts)
    *root.mounts = read_file(fmt::format("/proc/{}/mountinfo", root.process), kMaxMountsText).value_or("");
  return **root.mounts;
}

UniqueFd find_below(const Root& root, const std::string& path, const Root& host) { return Walk(root, host).to(path); }

bool is_the_file(int place, const Root& root, const FileIdentity& file) {
  struct statx status {};
  if (::statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | kStatxMountId, &status) != 0 ||
      status.stx_ino != file.inode)
    return false;
  if (status.stx_dev_major == file.major && status.stx_dev_minor == file.minor) return true;
  return (status.stx_mask & kStatxMountId) != 0 && mount_has_device(root, status.stx_mnt_id, file);
}

}  // namespace flight
