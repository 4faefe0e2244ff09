// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/proc_maps.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <deque>
#include <iterator>
#include <utility>

#include "libcore/base/unique_fd.hpp"
#include "libcore/sysinfo/map_query.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxProcPathBytes = 4096;

using namespace map_query;

// A process can make the text of its maps arbitrarily long.
constexpr std::size_t kMaxMapsText = 16U << 20U;
constexpr std::size_t kPieceBytes = 64U << 10U;
constexpr std::size_t kBytesOfLine = 73;  // of this text, before the path

std::string perf_name(std::string_view name) {
  // The kernel's names in MMAP2 records for memory without a file.
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

// Parses "7f1c2a000000-7f1c2a021000 r-xp 00001000 fe:00 12345      /usr/lib/libc.so.6"; false: not executable, or
// another form.
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
  if (line == "[vsyscall]") return false;  // the kernel's, not a mapping of the process; PROCMAP_QUERY omits it as well
  mapping.name = perf_name(line);
  return true;
}

}  // namespace

std::string executable_of(const std::string& task) {
  std::array<char, kMaxProcPathBytes> path;  // NOLINT: 4 KiB that the kernel fills
  const ssize_t bytes = ::readlink((task + "/exe").c_str(), path.data(), path.size());
  if (bytes <= 0 || path[0] != '/') return {};
  return {path.data(), static_cast<std::size_t>(bytes)};
}

// The mappings of one process, as they are read: ascending by address. The program is one of the first, and its
// libraries are the last ones. Between them can be thousands of a JIT's, or of a server's files.
class MapsReader::Kept {
 public:
  void add(ProcessMapping mapping);
  void note_missing() { first_.cut = true; }
  [[nodiscard]] bool empty() const { return first_.all.empty(); }
  [[nodiscard]] ProcessMappings take();

 private:
  static constexpr std::size_t kLast = kMaxMappingsPerProcess / 4, kFirst = kMaxMappingsPerProcess - kLast;
  static constexpr std::size_t kLastBytes = kMaxMappingBytesPerProcess / 4,
                               kFirstBytes = kMaxMappingBytesPerProcess - kLastBytes;
  static std::size_t bytes_of(const ProcessMapping& mapping) { return sizeof mapping + mapping.name.size(); }

  ProcessMappings first_;
  bool is_full_ = false;  // first_
  std::deque<ProcessMapping> last_files_;
  std::size_t last_bytes_ = 0;
};

void MapsReader::Kept::add(ProcessMapping mapping) {
  const std::size_t bytes = bytes_of(mapping);
  is_full_ = is_full_ || first_.all.size() >= kFirst || first_.bytes + bytes > kFirstBytes;
  if (!is_full_) {
    first_.bytes += bytes;
    first_.all.push_back(std::move(mapping));
    return;
  }
  if (mapping.inode == 0 && mapping.name == "//anon") return note_missing();
  last_bytes_ += bytes;
  last_files_.push_back(std::move(mapping));
  while (last_files_.size() > kLast || last_bytes_ > kLastBytes) {
    last_bytes_ -= bytes_of(last_files_.front());
    last_files_.pop_front();
    note_missing();
  }
}

ProcessMappings MapsReader::Kept::take() {
  first_.bytes += last_bytes_;
  first_.all.insert(first_.all.end(), std::make_move_iterator(last_files_.begin()),
                    std::make_move_iterator(last_files_.end()));
  return std::move(first_);
}

ProcessMappings MapsReader::read(const std::string& task) {
  const UniqueFd maps(::open((task + "/maps").c_str(), O_RDONLY | O_CLOEXEC));
  if (!maps) {
    ProcessMappings out;
    // Exited, or not allowed. Otherwise there is no descriptor or memory left, and the process has mappings that were
    // not read.
    out.cut = errno != ENOENT && errno != ESRCH && errno != EACCES && errno != EPERM;
    return out;
  }
  Kept kept;
  if (!may_query_ || !read_by_query(maps.get(), kept)) read_by_text(maps.get(), kept);
  ProcessMappings out = kept.take();
  mark_program(task, out);
  return out;
}

// The kernel shows the same path for a mapping and for the link. A program can have moved its code to memory without a
// file: then there is no such mapping.
void MapsReader::mark_program(const std::string& task, ProcessMappings& out) {
  const std::string program = executable_of(task);
  if (program.empty()) return;
  const auto first = std::find_if(out.all.begin(), out.all.end(),
                                  [&](const ProcessMapping& mapping) { return mapping.name == program; });
  if (first != out.all.end()) first->is_program = true;
}

// Sets `next` to the end of the executable mapping at or after the address.
bool MapsReader::skip_nameless(int maps_fd, std::uint64_t& next) {
  MapQuery query;
  query.wanted = kThisOrNext | kExecutable;
  query.address = next;
  int done = -1;
  do done = ::ioctl(maps_fd, kMapQuery, &query);
  while (done != 0 && errno == EINTR);
  if (done != 0 || query.end <= next) return false;
  next = query.end;
  return true;
}

// False: this kernel has no PROCMAP_QUERY. It does not request build-ids: the kernel would read the file meanwhile,
// with the memory map of the process locked.
bool MapsReader::read_by_query(int maps_fd, Kept& out) {
  std::array<char, kMaxProcPathBytes> name;  // NOLINT: 4 KiB that the kernel fills
  std::uint64_t next = 0;
  for (std::size_t all = 0;;) {
    if (all > kMaxMapsText) {
      out.note_missing();
      return true;
    }
    MapQuery query;
    query.wanted = kThisOrNext | kExecutable;
    query.address = next;
    query.name_bytes = name.size();
    query.name_at = reinterpret_cast<std::uintptr_t>(name.data());
    if (::ioctl(maps_fd, kMapQuery, &query) != 0) {
      if (errno == EINTR) continue;
      if (errno == ENOTTY && out.empty()) return may_query_ = false;
      if (errno == ENOENT || errno == ESRCH)
        return true;  // that was the last one; or the process exited, or is a kernel thread
      out.note_missing();
      // A path of more than PATH_MAX: only this mapping is omitted.
      if (errno != ENAMETOOLONG || !skip_nameless(maps_fd, next)) return true;
      continue;
    }
    next = query.end;
    all += kBytesOfLine + query.name_bytes;
    ProcessMapping mapping;
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
    // The size counts the terminating NUL.
    mapping.name = perf_name({name.data(), query.name_bytes == 0 ? 0 : query.name_bytes - 1});
    out.add(std::move(mapping));
  }
}

// Reads piece by piece: most lines are not needed, and there may be very many.
void MapsReader::read_by_text(int maps_fd, Kept& out) {
  std::string text;
  for (std::size_t all = 0;;) {
    const std::size_t kept = text.size();
    text.resize(kept + kPieceBytes);
    const ssize_t count = ::read(maps_fd, text.data() + kept, kPieceBytes);
    if (count < 0 && errno == EINTR) {
      text.resize(kept);
      continue;
    }
    if (count <= 0) {
      text.resize(kept);
      break;
    }
    text.resize(kept + static_cast<std::size_t>(count));
    all += static_cast<std::size_t>(count);
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
      ProcessMapping mapping;
      if (parse_line(std::string_view(text).substr(begin, end - begin), mapping)) out.add(std::move(mapping));
      begin = end + 1;
    }
    text.erase(0, begin);
    if (all > kMaxMapsText) return out.note_missing();
  }
  ProcessMapping last;  // a test's file may end without a newline
  if (parse_line(text, last)) out.add(std::move(last));
}

}  // namespace flight
