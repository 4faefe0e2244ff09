// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/proc_maps.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "libcore/base/files.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxBuildIdBytes = 64;
constexpr std::size_t kMaxCachedFiles = 65536;

// The kernel's argument of PROCMAP_QUERY (proc_pid_maps(5); include/uapi/linux/fs.h since 6.11, which is newer than
// the headers we build with): first what is asked, then what is answered, sizes both ways.
struct MapQuery {
  std::uint64_t size = sizeof(MapQuery);
  std::uint64_t wanted = 0;
  std::uint64_t address = 0;
  std::uint64_t start = 0, end = 0, flags = 0, page_size = 0, offset = 0, inode = 0;
  std::uint32_t major = 0, minor = 0;
  std::uint32_t name_bytes = 0, build_id_bytes = 0;
  std::uint64_t name_at = 0, build_id_at = 0;
};
static_assert(sizeof(MapQuery) == 104);
constexpr unsigned long kMapQuery = _IOWR(0x11, 17, MapQuery);
constexpr std::uint64_t kReadable = 0x1, kWritable = 0x2, kExecutable = 0x4, kShared = 0x8, kThisOrNext = 0x10;

constexpr std::string_view kDeleted = " (deleted)";

std::string perf_name(std::string_view name) {
  // The names the kernel itself puts into MMAP2 records for memory without a file.
  if (name.empty() || name.starts_with("[anon") || name.starts_with("/anon_hugepage")) return "//anon";
  return std::string(name);
}

template <typename T>
bool take_number(std::string_view& line, T& value, int base, char end) {
  const auto [at, error] = std::from_chars(line.data(), line.data() + line.size(), value, base);
  const auto used = static_cast<std::size_t>(at - line.data());
  if (error != std::errc{} || used == line.size() || line[used] != end) return false;
  line.remove_prefix(used + 1);
  return true;
}

// "7f1c2a000000-7f1c2a021000 r-xp 00001000 fe:00 12345      /usr/lib/libc.so.6"; false: not executable, or no such
// line.
bool parse_line(std::string_view line, ProcessMapping& mapping) {
  std::uint64_t end = 0;
  if (!take_number(line, mapping.address, 16, '-') || !take_number(line, end, 16, ' ')) return false;
  if (end <= mapping.address || line.size() < 5 || line[2] != 'x' || line[4] != ' ') return false;
  mapping.bytes = end - mapping.address;
  mapping.protection = PROT_EXEC;
  if (line[0] == 'r') mapping.protection |= PROT_READ;
  if (line[1] == 'w') mapping.protection |= PROT_WRITE;
  mapping.flags = line[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
  line.remove_prefix(5);
  if (!take_number(line, mapping.page_offset, 16, ' ') || !take_number(line, mapping.major, 16, ':') ||
      !take_number(line, mapping.minor, 16, ' '))
    return false;
  const auto [at, error] = std::from_chars(line.data(), line.data() + line.size(), mapping.inode);
  if (error != std::errc{}) return false;
  line.remove_prefix(static_cast<std::size_t>(at - line.data()));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (line == "[vsyscall]") return false;  // the kernel's, no mapping of the process; PROCMAP_QUERY omits it as well
  mapping.name = perf_name(line);
  return true;
}

// A newline in a path is written as \012, a backslash as itself (proc_pid_maps(5)).
std::string unescape_path(std::string_view path) {
  std::string plain;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool newline = path.substr(i, 4) == "\\012";
    plain += newline ? '\n' : path[i];
    if (newline) i += 3;
  }
  return plain;
}

// The file behind `path` as the process sees it, not followed out of its root, and only if it is a regular one.
UniqueFd open_regular(const std::string& process_root, const std::string& path, std::uint64_t inode) {
  const UniqueFd folder(::open(process_root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return {};
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const UniqueFd place(static_cast<int>(::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how)));
  struct stat status {};
  // Another inode: the file was replaced since it was mapped (an upgrade), its build-id would be a wrong one.
  if (!place || ::fstat(place.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_ino != inode) return {};
  return UniqueFd(
      ::open(fmt::format("/proc/self/fd/{}", place.get()).c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

std::vector<ProcessMapping> MapsReader::read(const std::string& task) {
  std::vector<ProcessMapping> mappings;
  const UniqueFd maps(::open((task + "/maps").c_str(), O_RDONLY | O_CLOEXEC));
  if (!maps) return mappings;
  if (may_query_ && read_by_query(maps.get(), mappings)) return mappings;
  read_by_text(maps.get(), task, mappings);
  return mappings;
}

// False: this kernel has no PROCMAP_QUERY.
bool MapsReader::read_by_query(int maps_fd, std::vector<ProcessMapping>& out) {
  std::array<char, kMaxPathBytes> name;                 // NOLINT: 4 KiB that the kernel fills
  std::array<std::uint8_t, kMaxBuildIdBytes> build_id;  // NOLINT
  std::uint64_t next = 0;
  while (out.size() < kMaxMappingsPerProcess) {
    MapQuery query;
    query.wanted = kThisOrNext | kExecutable;
    query.address = next;
    query.name_bytes = name.size();
    query.name_at = reinterpret_cast<std::uintptr_t>(name.data());
    query.build_id_bytes = build_id.size();
    query.build_id_at = reinterpret_cast<std::uintptr_t>(build_id.data());
    if (::ioctl(maps_fd, kMapQuery, &query) != 0) {
      if (errno == EINTR) continue;
      if (errno == ENOTTY && out.empty()) return may_query_ = false;
      return true;  // ENOENT: that was the last; ESRCH: exited, or a kernel thread
    }
    next = query.end;
    ProcessMapping& mapping = out.emplace_back();
    mapping.address = query.start;
    mapping.bytes = query.end - query.start;
    mapping.page_offset = query.offset;
    mapping.major = query.major;
    mapping.minor = query.minor;
    mapping.inode = query.inode;
    if ((query.flags & kReadable) != 0) mapping.protection |= PROT_READ;
    if ((query.flags & kWritable) != 0) mapping.protection |= PROT_WRITE;
    if ((query.flags & kExecutable) != 0) mapping.protection |= PROT_EXEC;
    mapping.flags = (query.flags & kShared) != 0 ? MAP_SHARED : MAP_PRIVATE;
    if (query.build_id_bytes != 0) mapping.build_id.assign(build_id.data(), build_id.data() + query.build_id_bytes);
    // The size counts the terminating NUL.
    mapping.name = perf_name({name.data(), query.name_bytes == 0 ? 0 : query.name_bytes - 1});
  }
  return true;
}

void MapsReader::read_by_text(int maps_fd, const std::string& task, std::vector<ProcessMapping>& out) {
  const auto text = read_all(maps_fd);
  if (!text) return;
  std::string_view rest = *text;
  while (!rest.empty() && out.size() < kMaxMappingsPerProcess) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    ProcessMapping mapping;
    const bool wanted = parse_line(rest.substr(0, end), mapping);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!wanted) continue;
    mapping.build_id = build_id_of(mapping, task);
    out.push_back(std::move(mapping));
  }
}

const std::vector<std::uint8_t>& MapsReader::build_id_of(const ProcessMapping& mapping, const std::string& task) {
  static const std::vector<std::uint8_t> kNone;
  if (mapping.inode == 0 || !mapping.name.starts_with('/') || mapping.name.ends_with(kDeleted)) return kNone;
  const FileKey key{(std::uint64_t{mapping.major} << 32U) | mapping.minor, mapping.inode};
  if (const auto known = build_ids_.find(key); known != build_ids_.end()) return known->second;
  if (build_ids_.size() >= kMaxCachedFiles) build_ids_.clear();
  std::vector<std::uint8_t> id;
  if (const UniqueFd file = open_regular(task + "/root", unescape_path(mapping.name), mapping.inode); file)
    id = build_id_of_elf(file.get());
  return build_ids_.emplace(key, std::move(id)).first->second;
}

}  // namespace flight
