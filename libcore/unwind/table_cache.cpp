// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/table_cache.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string_view>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

constexpr std::string_view kTableSuffix = ".table";
constexpr const char* kUnfinished = ".unfinished";
constexpr std::int64_t kSecondInNs = 1'000'000'000;

std::int64_t in_ns(const timespec& time) { return static_cast<std::int64_t>(time.tv_sec) * kSecondInNs + time.tv_nsec; }

std::string table_file_of(const TableSource& source) {
  return fmt::format("{:x}-{:x}-{:x}{}", source.device, source.inode, source.generation, kTableSuffix);
}

// nullopt: not one, or cut.
std::optional<TableFileHeader> header_of(int fd) {
  TableFileHeader header;
  struct stat status {};
  if (::pread(fd, &header, sizeof header, 0) != ssize_t{sizeof header} || ::fstat(fd, &status) != 0)
    return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (header.magic != TableFileHeader().magic || header.table_bytes > kMaxTableBytes ||
      header.table_bytes != bytes - sizeof header)
    return std::nullopt;
  return header;
}

// When it was used last is its modification time. Without it the order is that of the files' making.
void note_use(int fd, std::int64_t used_ns) {
  const timespec used{.tv_sec = used_ns / kSecondInNs, .tv_nsec = used_ns % kSecondInNs};
  const timespec both[2] = {used, used};
  static_cast<void>(::futimens(fd, both));
}

}  // namespace

Result<TableSource> TableSource::of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return sys_error(errno, "look at the file of an unwind table");
  if (!S_ISREG(status.st_mode)) return fail(std::errc::invalid_argument, "unwind table: not a regular file");
  int generation = 0;
  const bool has_generation = ::ioctl(fd, FS_IOC_GETVERSION, &generation) == 0;
  return TableSource{.device = status.st_dev,
                     .inode = status.st_ino,
                     .generation = has_generation ? static_cast<std::uint32_t>(generation) : 0U,
                     .bytes = static_cast<std::uint64_t>(status.st_size),
                     .modified_ns = in_ns(status.st_mtim),
                     .changed_ns = in_ns(status.st_ctim)};
}

Result<TableCache> TableCache::open(const std::string& folder, std::uint64_t most_bytes) {
  auto directory = Directory::open(folder);
  if (!directory) return wrap(directory.error(), "cache of unwind tables");
  TableCache out(folder, std::move(*directory), most_bytes);
  if (auto loaded = out.load(); !loaded) return wrap(loaded.error(), "cache of unwind tables");
  return out;
}

Result<void> TableCache::load() {
  ::unlinkat(folder_.fd(), kUnfinished, 0);
  auto listed = folder_.each([this](const Directory::Entry& entry) {
    const std::string name(entry.name);
    struct stat status {};
    if (entry.name.ends_with(kTableSuffix) &&
        ::fstatat(folder_.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode))
      add(name, {.bytes = static_cast<std::uint64_t>(status.st_size), .used_ns = in_ns(status.st_mtim)});
    return true;
  });
  if (listed) make_space(0);
  return listed;
}

void TableCache::add(const std::string& name, Entry entry) {
  if (const auto old = entries_.find(name); old != entries_.end()) bytes_ -= old->second.bytes;
  entries_[name] = entry;
  bytes_ += entry.bytes;
  last_use_ns_ = std::max(last_use_ns_, entry.used_ns);
}

void TableCache::remove(const std::string& name) {
  const auto known = entries_.find(name);
  if (known == entries_.end()) return;
  ::unlinkat(folder_.fd(), name.c_str(), 0);
  bytes_ -= known->second.bytes;
  entries_.erase(known);
}

// For one more file of so many bytes.
void TableCache::make_space(std::uint64_t bytes) {
  while (!entries_.empty() && (entries_.size() >= kMostFiles || bytes_ + bytes > most_bytes_)) {
    const auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a.second.used_ns < b.second.used_ns;
    });
    remove(std::string(oldest->first));
  }
}

// The wall clock, but each use is later than the one before.
std::int64_t TableCache::next_use() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  last_use_ns_ = std::max(last_use_ns_ + 1, in_ns(now));
  return last_use_ns_;
}

UniqueFd TableCache::find(const TableSource& source) {
  const std::string name = table_file_of(source);
  const auto known = entries_.find(name);
  if (known == entries_.end()) return {};
  auto file = open_regular_at(folder_.fd(), name, path_ + "/" + name);
  const auto header = file ? header_of(file->get()) : std::nullopt;
  if (!header || header->source != source) {
    remove(name);
    return {};
  }
  known->second.used_ns = next_use();
  note_use(file->get(), known->second.used_ns);
  return std::move(*file);
}

Result<void> TableCache::put(const TableSource& source, std::span<const std::byte> table) {
  const std::string name = table_file_of(source);
  const std::uint64_t bytes = sizeof(TableFileHeader) + table.size();
  if (table.size() > kMaxTableBytes || bytes > most_bytes_)
    return fail(std::errc::file_too_large, "{}/{}: an unwind table of {} bytes is too large", path_, name,
                table.size());
  remove(name);
  make_space(bytes);
  TableFileHeader header;
  header.source = source;
  header.table_bytes = table.size();
  const std::int64_t used_ns = next_use();
  if (auto written = write(name, header, table, used_ns); !written) {
    ::unlinkat(folder_.fd(), kUnfinished, 0);
    return wrap(written.error(), "write {}/{}", path_, name);
  }
  add(name, {.bytes = bytes, .used_ns = used_ns});
  return {};
}

Result<void> TableCache::write(const std::string& name, const TableFileHeader& header, std::span<const std::byte> table,
                               std::int64_t used_ns) const {
  const UniqueFd file(::openat(folder_.fd(), kUnfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return sys_error(errno, "make {}", kUnfinished);
  auto written = write_all(file.get(), std::as_bytes(std::span(&header, 1)));
  if (written) written = write_all(file.get(), table);
  if (!written) return written;
  if (::fdatasync(file.get()) != 0) return sys_error(errno, "sync {}", kUnfinished);
  note_use(file.get(), used_ns);
  if (::renameat(folder_.fd(), kUnfinished, folder_.fd(), name.c_str()) != 0)
    return sys_error(errno, "rename {}", kUnfinished);
  return {};
}

Result<CachedTable> CachedTable::open(int fd) {
  const auto header = header_of(fd);
  if (!header) return fail(std::errc::bad_message, "not a file of the cache of unwind tables");
  const auto bytes = static_cast<std::size_t>(header->table_bytes);
  auto memory = Mapping::open(fd, sizeof(TableFileHeader) + bytes, PROT_READ);
  if (!memory) return wrap(memory.error(), "an unwind table");
  const auto table = UnwindTable::parse(memory->bytes().subspan(sizeof(TableFileHeader), bytes));
  if (!table) return fail(std::errc::bad_message, "a file of the cache of unwind tables: {}", table.error().what);
  return CachedTable(std::move(*memory), *table);
}

}  // namespace flight
