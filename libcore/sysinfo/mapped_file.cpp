// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/mapped_file.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "libcore/base/files.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"
#include "libcore/sysinfo/map_query.hpp"
#include "libcore/sysinfo/roots.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxMapsLines = 65536;  // for a process whose maps are read as text

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

UniqueFd open_maps(std::uint32_t pid) {
  return UniqueFd(::open(fmt::format("/proc/{}/maps", pid).c_str(), O_RDONLY | O_CLOEXEC));
}

struct Range {
  std::uint64_t start = 0, end = 0;
};

bool is_file(const MappedAt& at, std::uint32_t major, std::uint32_t minor, std::uint64_t inode) {
  return at.file.major == major && at.file.minor == minor && at.file.inode == inode;
}

// Without PROCMAP_QUERY: the line of /proc/PID/maps that covers the address.
std::optional<Range> range_by_text(const MappedAt& at) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(fmt::format("/proc/{}/maps", at.pid).c_str(), "re"));
  if (!file) return std::nullopt;
  std::array<char, kMaxPathBytes * 4 + 128> line;  // NOLINT: a newline in a path takes four bytes
  for (std::size_t i = 0; i < kMaxMapsLines && std::fgets(line.data(), line.size(), file.get()) != nullptr; ++i) {
    unsigned long long start = 0, end = 0, inode = 0;
    unsigned int major = 0, minor = 0;
    // NOLINTNEXTLINE(cert-err34-c): the kernel's own text
    if (std::sscanf(line.data(), "%llx-%llx %*s %*x %x:%x %llu", &start, &end, &major, &minor, &inode) != 5) continue;
    if (start > at.address) return std::nullopt;
    if (end <= at.address) continue;
    if (!is_file(at, major, minor, inode)) return std::nullopt;
    return Range{start, end};
  }
  return std::nullopt;
}

// The mapping that covers the address, if it (still) maps this file.
std::optional<Range> range_now(int maps, const MappedAt& at) {
  MapQuery query;
  query.address = at.address;
  if (::ioctl(maps, kMapQuery, &query) != 0) return errno == ENOTTY ? range_by_text(at) : std::nullopt;
  if (!is_file(at, query.major, query.minor, query.inode)) return std::nullopt;
  return Range{query.start, query.end};
}

Failure another_file(const MappedAt& at) {
  return fail(std::errc(ESTALE), "{} of process {} is not the mapped file, or not any more", at.name, at.pid);
}

// Opens for reading if it is a regular file; opening must have no effect on a device or a FIFO. `place`: O_PATH.
UniqueFd reopen_regular(int place) {
  struct statx status {};
  if (::statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0 || !S_ISREG(status.stx_mode))
    return {};
  return UniqueFd(::open(fmt::format("/proc/self/fd/{}", place).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// 0: the file system does not report it.
std::uint64_t generation_of(int fd) {
  unsigned int generation = 0;  // the ioctl's argument is declared long, but the kernel writes 32 bits
  return ::ioctl(fd, FS_IOC_GETVERSION, &generation) == 0 ? generation : 0;
}

// If the file system has generations: whether the inode was not reused.
bool same_generation(int fd, const FileIdentity& file) {
  const std::uint64_t generation = file.generation == 0 ? 0 : generation_of(fd);
  return generation == 0 || generation == (file.generation & 0xffffffffU);
}

std::string link_text(const std::string& path) {
  std::string text(kMaxPathBytes, '\0');
  const ssize_t bytes = ::readlink(path.c_str(), text.data(), text.size());
  text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return text;
}

// The roots for one mapping: the mounts of each are read once.
struct Roots {
  explicit Roots(const MappedAt& at) : process(root_of(at.pid)) {}
  Root process, host = host_root();
};

// The kernel's own mount of memfds and shared memory, which no process sees.
bool is_memory(const FileIdentity& file) {
  static const auto kDevice = [] {
    struct stat status {};
    const UniqueFd memfd(::memfd_create("flightd-device", MFD_CLOEXEC));
    return memfd && ::fstat(memfd.get(), &status) == 0 ? status.st_dev : 0;
  }();
  return kDevice != 0 && file.major == major(kDevice) && file.minor == minor(kDevice);
}

bool has_ended(const Root& process) {
  char byte = 0;
  return ::readlink(process.path.c_str(), &byte, 1) < 0;
}

// To open a file of an overlay, the kernel may look at each layer: one that does not answer is enough, also where the
// file and its device number are of another layer.
std::string overlay_waits(std::string_view mounts, const std::string& path, const Roots& roots) {
  const auto mount = mount_of(mounts, path);
  return mount && mount->type == "overlay" ? waits_for(mounts_of(roots.host), *mount) : std::string();
}

// The type of a file system that waits for a server; empty: the file may be opened. A mount that is seen neither from
// the process's root, nor from outside of its chroot, nor from the host's root may be such a one that was detached.
std::string server_of(const MappedAt& at, const Roots& roots) {
  if (is_memory(at.file)) return {};
  const std::string_view mounts = mounts_of(roots.process), host_mounts = mounts_of(roots.host);
  const std::string device = fmt::format("{}:{}", at.file.major, at.file.minor);
  const bool in_chroot = !mount_of(mounts, "/");  // perhaps it has no mount at all, or the process has ended
  const auto outside = in_chroot ? outside_of(at.pid) : std::nullopt;
  auto mount = mount_with(mounts, device);
  if (!mount && outside) mount = mount_with(mounts_of(outside->root), device);
  if (!mount) mount = mount_with(host_mounts, device);
  if (!mount && in_chroot && !outside)
    return has_ended(roots.process) ? "a mount of a process that has ended" : "a mount outside of a chroot";
  if (!mount) return "a mount that is gone";
  std::string type = waits_for(host_mounts, *mount);
  if (type.empty()) type = overlay_waits(mounts, at.name, roots);
  if (type.empty() && outside) type = overlay_waits(mounts_of(outside->root), outside->chroot + at.name, roots);
  return type;
}

// A process in another root can give its file the name of any file of the host, and to read one of /proc or tracefs can
// have an effect: so only files of a disk or of a known file system are opened.
bool can_have_programs(int place) {
  // linux/magic.h; ZFS and bcachefs have theirs in their own sources.
  constexpr std::array<std::uint32_t, 9> kWithoutDisk{
      0x9123683e,              // Btrfs: of several disks
      0x2fc12fc1, 0xca451a4e,  // ZFS, bcachefs
      0x24051905,              // UBIFS
      0xe0f5e1e2,              // EROFS: of a file
      0x01021994, 0x858458f6,  // tmpfs, ramfs
      0x794c7630, 0xf15f,      // overlay, eCryptfs
  };
  struct statx status {};
  if (::statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) != 0) return false;
  if (status.stx_dev_major != 0) return true;
  struct statfs info {};
  if (::statfs(fmt::format("/proc/self/fd/{}", place).c_str(), &info) != 0) return false;
  const auto type = static_cast<std::uint32_t>(info.f_type);
  return std::find(kWithoutDisk.begin(), kWithoutDisk.end(), type) != kWithoutDisk.end();
}

// `place`: O_PATH, of find_below().
bool is_same_build(int place, const std::vector<std::uint8_t>& build_id) {
  if (build_id.empty() || !can_have_programs(place)) return false;
  const UniqueFd file = reopen_regular(place);
  return file && build_id_of_elf(file.get()) == build_id;
}

// The rule of docs/symbols.md: the name inside, if the host has the file or the same build there, otherwise the path
// from the host's root. The kernel's record has the process' own view, a scan the reader's.
std::string path_on_host(const MappedAt& at, const Root& host, int place, const std::vector<std::uint8_t>& build_id) {
  const std::string root = link_text(fmt::format("/proc/{}/root", at.pid));
  if (root.empty() || root == "/") return {};
  std::string path = link_text(fmt::format("/proc/self/fd/{}", place));
  if (!path.starts_with('/') || path.ends_with(kDeleted)) return {};
  const bool is_readers = path == at.name;
  const std::string inside = is_readers && path.starts_with(root + "/") ? path.substr(root.size()) : at.name;
  const UniqueFd named = find_below(host, inside, host);
  if (named && (is_the_file(named.get(), host, at.file) || is_same_build(named.get(), build_id)))
    return inside == at.name ? std::string() : inside;
  if (is_readers) return {};
  // A container's file has no path here.
  const UniqueFd reached = find_below(host, path, host);
  struct statx one {
  }, other{};
  const auto look = [](int fd, struct statx& out) {
    return ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &out) == 0;
  };
  if (!reached || !look(reached.get(), one) || !look(place, other) || one.stx_ino != other.stx_ino ||
      one.stx_dev_major != other.stx_dev_major || one.stx_dev_minor != other.stx_dev_minor)
    return {};
  return path;
}

WallTime wall_of(const statx_timestamp& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The mark for a file that may not have this content any more. A write can be followed by utimensat(2), as `cp -p` and
// `rsync -t` do; then only ctime shows it. Unlink, rename, link and chmod change ctime as well.
std::string_view mark_of_content(int place, const FileStamp& content) {
  struct statx status {};
  constexpr unsigned kWanted = STATX_SIZE | STATX_MTIME | STATX_CTIME;
  if (::statx(place, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kWanted, &status) != 0) return {};
  if (status.stx_size != content.bytes || wall_of(status.stx_mtime) != content.modified) return kNotTheHosts;
  return wall_of(status.stx_ctime) != content.changed ? kNotVerified : std::string_view();
}

// kNotTheHosts if `name` on the host certainly does not lead to the file, or not to `content`: the file is in a
// container, or was deleted, replaced or overwritten. kNotVerified if it may have been overwritten. Otherwise empty.
std::string_view mark_of(const MappedAt& at, const Root& host, const std::optional<FileStamp>& content = {}) {
  const auto marked_if = [](bool is_not) { return is_not ? kNotTheHosts : std::string_view(); };
  // The kernel itself reports that such a file was deleted.
  if (at.name.ends_with(kDeleted)) return {};
  const auto mount = mount_of(mounts_of(host), at.name);
  if (!mount) return {};
  if (is_served(mount->type)) return marked_if(mount->device != fmt::format("{}:{}", at.file.major, at.file.minor));
  const UniqueFd place = find_below(host, at.name, host);
  if (!place) return marked_if(errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
  if (!is_the_file(place.get(), host, at.file)) return kNotTheHosts;
  const std::string_view mark = content ? mark_of_content(place.get(), *content) : std::string_view();
  if (mark == kNotTheHosts || at.file.generation == 0) return mark;
  const UniqueFd file = reopen_regular(place.get());
  return file && !same_generation(file.get(), at.file) ? kNotTheHosts : mark;
}

// Sets `stamp`, `looked` and the like. `fd` may be O_PATH.
bool look_at(int fd, MappedFileFacts& out) {
  struct statx status {};
  out.looked = ClockPair::now();
  constexpr unsigned kWanted = STATX_INO | STATX_SIZE | STATX_MTIME | STATX_CTIME | STATX_NLINK;
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kWanted, &status) != 0) return false;
  out.stamp = {.device = makedev(status.stx_dev_major, status.stx_dev_minor),
               .inode = status.stx_ino,
               .bytes = status.stx_size,
               .modified = wall_of(status.stx_mtime),
               .changed = wall_of(status.stx_ctime)};
  out.stamp_proves = out.stamp.changed + std::chrono::nanoseconds(kFileTimeTickNs) < out.looked.wall;
  out.unlinked = status.stx_nlink == 0;
  return true;
}

Result<MappedFileFacts> read_content(const MappedAt& at, const Root& host, int file, int place) {
  constexpr int kTries = 2;
  for (int i = 0; i < kTries; ++i) {
    MappedFileFacts out, after;
    if (!look_at(file, out)) return sys_error(errno, "stat {} of process {}", at.name, at.pid);
    out.generation = generation_of(file);
    out.build_id = build_id_of_elf(file);
    if (!look_at(file, after) || out.stamp != after.stamp) continue;
    out.host_path = path_on_host(at, host, place, out.build_id);
    if (!out.build_id.empty() || !out.host_path.empty()) return out;
    if (const std::string_view mark = mark_of(at, host); !mark.empty()) out.host_path = at.name + std::string(mark);
    return out;
  }
  return fail(std::errc::resource_unavailable_try_again, "{} of process {} is being written", at.name, at.pid);
}

// `place`: O_PATH, of the file with the numbers of the record.
Result<MappedFileFacts> facts_of(const MappedAt& at, const Root& host, int place) {
  MappedFileFacts now;
  if (at.known && look_at(place, now) && now.stamp == *at.known) {
    now.unchanged = true;
    return now;
  }
  const UniqueFd file = reopen_regular(place);
  if (!file || !same_generation(file.get(), at.file)) return another_file(at);
  return read_content(at, host, file.get(), place);
}

// Opening the link takes the lock of the mappings, as reading the maps does on kernels before 6.17.
Result<MappedFileFacts> through_map_files(const MappedAt& at, const Root& host, const std::function<void()>& answered) {
  const UniqueFd maps = open_maps(at.pid);
  const auto range = maps ? range_now(maps.get(), at) : std::nullopt;
  UniqueFd place;
  int error_number = 0;
  bool is_still_there = false;
  if (range) {
    place.reset(::open(fmt::format("/proc/{}/map_files/{:x}-{:x}", at.pid, range->start, range->end).c_str(),
                       O_PATH | O_CLOEXEC));
    error_number = errno;
    // Between the two queries only the process itself, on purpose, can have mapped and unmapped a file there. It could
    // also simply contain another program's build-id.
    is_still_there = place && range_now(maps.get(), at);
  }
  answered();  // nothing behind this takes the lock
  if (range && !place) return sys_error(error_number, "open {} of process {} through map_files", at.name, at.pid);
  if (!is_still_there) return another_file(at);
  return facts_of(at, host, place.get());
}

Result<MappedFileFacts> through_path(const MappedAt& at, const Roots& roots) {
  for (const Root& root : {roots.process, roots.host}) {
    const UniqueFd place = find_below(root, at.name, roots.host);
    if (!place || !is_the_file(place.get(), root, at.file)) continue;
    auto facts = facts_of(at, roots.host, place.get());
    if (facts || facts.error().code == std::errc::resource_unavailable_try_again) return facts;
  }
  return another_file(at);
}

}  // namespace

Result<MappedFileFacts> read_by_map_files(const MappedAt& at) {
  return through_map_files(at, host_root(), [] {});
}

Result<MappedFileFacts> read_by_path(const MappedAt& at) { return through_path(at, Roots(at)); }

Result<MappedFileFacts> read_mapped_file_in_steps(const MappedAt& at, const std::function<void()>& answered) {
  const Roots roots(at);
  const auto unread = [&](std::string served_by) {
    MappedFileFacts out{.build_id = {}, .host_path = {}, .was_read = false, .served_by = std::move(served_by)};
    const std::string_view mark = mark_of(at, roots.host, at.by_name ? at.known : std::nullopt);
    if (!mark.empty()) out.host_path = at.name + std::string(mark);
    return out;
  };
  if (at.by_name) {
    answered();
    return unread({});
  }
  if (std::string server = server_of(at, roots); !server.empty()) {
    answered();
    return unread(std::move(server));
  }
  Result<MappedFileFacts> facts = through_map_files(at, roots.host, answered);
  if (!facts) facts = through_path(at, roots);
  if (!facts)
    if (MappedFileFacts none = unread({}); !none.host_path.empty()) return none;
  return facts;
}

Result<MappedFileFacts> read_mapped_file(const MappedAt& at) {
  return read_mapped_file_in_steps(at, [] {});
}

}  // namespace flight
