// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/files.hpp"
#include "libcore/perfdata/format.hpp"
#include "libcore/perfdata/user_records.hpp"

namespace flight {
namespace {

using ByteView = std::span<const std::byte>;

constexpr std::size_t kMaxEvents = 4096;                // a hundred times flightd's largest set
constexpr std::uint32_t kMaxExpandBytes = 128U << 20U;  // limit for one COMPRESSED record; flightd's have 256 KiB
constexpr std::uint64_t kWindowBytes = 1U << 20U;       // size of the data in memory; a record has at most 64 KiB
constexpr std::uint32_t kRecordAuxtrace = 71;           // its data follow it, and are not part of its size
// Limits for all sections of a kind together, also if they overlap. flightd's have some KiB each, build-ids some MiB.
constexpr std::uint64_t kMaxAttrsBytes = 16U << 20U;
constexpr std::uint64_t kMaxIdsBytes = 64U << 20U;
constexpr std::uint64_t kMaxFeatureBytes = 64U << 20U;

// Takes fields from the front of `rest`. If it is too short, returns false and takes nothing.
struct Cursor {
  ByteView rest;

  bool skip(std::uint64_t count) {
    if (count > rest.size()) return false;
    rest = rest.subspan(static_cast<std::size_t>(count));
    return true;
  }
  template <typename T>
  bool take(T& value) {
    if (rest.size() < sizeof value) return false;
    std::memcpy(&value, rest.data(), sizeof value);
    rest = rest.subspan(sizeof value);
    return true;
  }
  bool take_string(std::string& text) {
    Cursor ahead = *this;
    std::uint32_t length = 0;
    if (!ahead.take(length) || length > ahead.rest.size()) return false;
    text.assign(reinterpret_cast<const char*>(ahead.rest.data()), length);
    text.resize(std::min(text.find('\0'), text.size()));
    rest = ahead.rest.subspan(length);
    return true;
  }
};

Result<FileHeader> read_header(const PerfDataBytes& file) {
  if (file.size() < sizeof(FileHeader))
    return fail(std::errc::bad_message, "not a perf.data file: it has {} bytes, less than the header's {}", file.size(),
                sizeof(FileHeader));
  const auto bytes = file.read({.offset = 0, .size = sizeof(FileHeader)}, sizeof(FileHeader), "the header");
  if (!bytes) return propagate(bytes.error());
  FileHeader header;
  std::memcpy(&header, bytes->data(), sizeof header);
  if (header.magic == 0)
    return fail(std::errc::bad_message,
                "incomplete perf.data file: its header was never written because the writer was stopped");
  if (header.magic == __builtin_bswap64(kFileMagic))
    return fail(std::errc::not_supported, "a perf.data file with the other byte order");
  if (header.magic != kFileMagic)
    return fail(std::errc::bad_message, "not a perf.data file: the magic number is wrong");
  if (header.size != sizeof(FileHeader))
    return fail(std::errc::not_supported, "a perf.data header of {} bytes (supported: {}): a pipe's or an old one",
                header.size, sizeof(FileHeader));
  if (header.attrs.offset < sizeof(FileHeader) || header.data.offset < sizeof(FileHeader))
    return fail(std::errc::bad_message, "the attributes or the data of a perf.data file lie in its header");
  return header;
}

// Reads attr (attr.size bytes) and the section of the ids. `ids_left` limits the memory for sections that overlap.
Result<FileEvent> read_event(const PerfDataBytes& file, ByteView entry, std::uint64_t& ids_left) {
  FileEvent event;
  const std::size_t attr_bytes = entry.size() - sizeof(FileSection);
  std::memcpy(&event.attr, entry.data(), std::min(attr_bytes, sizeof event.attr));
  const std::size_t said = event.attr.size == 0 ? PERF_ATTR_SIZE_VER0 : event.attr.size;
  if (said != attr_bytes)
    return fail(std::errc::bad_message, "an attribute has a size of {} bytes, but the header {}", said, attr_bytes);
  FileSection section;
  std::memcpy(&section, entry.data() + attr_bytes, sizeof section);
  const auto ids = file.read(section, ids_left, "the ids of an event");
  if (!ids) return propagate(ids.error());
  if (ids->size() % sizeof(std::uint64_t) != 0)
    return fail(std::errc::bad_message, "an event has {} bytes of ids: not a multiple of an id", ids->size());
  ids_left -= ids->size();
  event.ids.resize(ids->size() / sizeof(std::uint64_t));
  if (!ids->empty()) std::memcpy(event.ids.data(), ids->data(), ids->size());
  return event;
}

Result<std::vector<FileEvent>> read_events(const PerfDataBytes& file, const FileHeader& header) {
  const auto entries = file.read(header.attrs, kMaxAttrsBytes, "the attributes");
  if (!entries) return propagate(entries.error());
  const std::uint64_t entry_bytes = header.attr_size;
  if (entry_bytes < PERF_ATTR_SIZE_VER0 + sizeof(FileSection) || entries->empty() ||
      entries->size() % entry_bytes != 0 || entries->size() / entry_bytes > kMaxEvents)
    return fail(std::errc::bad_message, "{} bytes of attributes of {} bytes each are invalid (at most {})",
                entries->size(), entry_bytes, kMaxEvents);
  std::vector<FileEvent> events;
  std::uint64_t ids_left = std::min<std::uint64_t>(file.size(), kMaxIdsBytes);
  for (ByteView rest = *entries; !rest.empty(); rest = rest.subspan(entry_bytes)) {
    auto event = read_event(file, rest.first(entry_bytes), ids_left);
    if (!event) return propagate(event.error());
    events.push_back(std::move(*event));
  }
  return events;
}

// The table follows the data: a FileSection for each bit that is set, in the order of the bits.
Result<std::map<unsigned, std::vector<std::byte>>> read_features(const PerfDataBytes& file, const FileHeader& header) {
  std::map<unsigned, std::vector<std::byte>> features;
  std::uint64_t at = header.data.offset + header.data.size;
  std::uint64_t bytes_left = std::min<std::uint64_t>(file.size(), kMaxFeatureBytes);
  for (unsigned bit = 0; bit < kFeatureBits; ++bit) {
    if ((header.features.at(bit / 64) >> (bit % 64) & 1) == 0) continue;
    FileSection section;
    const auto entry = file.read({.offset = at, .size = sizeof section}, sizeof section, "the feature table");
    if (!entry) return wrap(entry.error(), "the file ends in its feature table, before feature {}", bit);
    std::memcpy(&section, entry->data(), sizeof section);
    at += sizeof section;
    auto contents = file.read(section, bytes_left, fmt::format("the contents of feature {}", bit));
    if (!contents) return propagate(contents.error());
    bytes_left -= contents->size();
    features.emplace(bit, std::move(*contents));
  }
  return features;
}

// EVENT_DESC: u32 count, u32 attr bytes; then attr, u32 ids, string, u64 ids … of each event, by its index.
Result<void> read_names(ByteView contents, std::vector<FileEvent>& events) {
  Cursor cursor{contents};
  std::uint32_t count = 0, attr_bytes = 0;
  bool good = cursor.take(count) && cursor.take(attr_bytes) && count == events.size();
  for (std::size_t i = 0; good && i < events.size(); ++i) {
    std::uint32_t ids = 0;
    good = cursor.skip(attr_bytes) && cursor.take(ids) && cursor.take_string(events[i].name) &&
           cursor.skip(std::uint64_t{ids} * sizeof(std::uint64_t));
  }
  if (!good) return fail(std::errc::bad_message, "the event names do not fit the {} events of the file", events.size());
  return {};
}

Failure cut_record(std::uint64_t at, std::string_view where, std::size_t size, std::uint64_t left) {
  return fail(std::errc::bad_message, "the record at byte {} of the {} is truncated: its size is {}, {} bytes are left",
              at, where, size, left);
}

// The maximum size to which one COMPRESSED record may expand: the last u32 of the feature; 0 without the feature.
Result<std::uint32_t> read_mmap_bytes(const std::map<unsigned, std::vector<std::byte>>& features) {
  constexpr std::size_t kMmapOffset = 16;
  const auto found = features.find(kFeatureCompressed);
  if (found == features.end()) return 0;
  Cursor cursor{found->second};
  std::uint32_t mmap_bytes = 0;
  if (!cursor.skip(kMmapOffset) || !cursor.take(mmap_bytes) || mmap_bytes > kMaxExpandBytes)
    return fail(std::errc::bad_message,
                "the file's COMPRESSED feature is truncated, or declares {} bytes for one record", mmap_bytes);
  return mmap_bytes;
}

// Calls `each` for each whole record; an error if one is truncated or its size is invalid.
template <typename Each>
Result<void> walk(ByteView bytes, std::string_view where, const Each& each) {
  const std::size_t total = bytes.size();
  while (!bytes.empty()) {
    perf_event_header header{};
    if (!Cursor{bytes}.take(header) || header.size < sizeof header || header.size > bytes.size())
      return cut_record(total - bytes.size(), where, header.size, bytes.size());
    if (auto result = each(header.type, bytes.first(header.size)); !result) return result;
    bytes = bytes.subspan(header.size);
  }
  return {};
}

// The same for a section of the file, one window at a time.
template <typename Each>
Result<void> walk(const PerfDataBytes& file, const FileSection& section, std::string_view where, const Each& each) {
  std::uint64_t done = 0;
  while (done < section.size) {
    const std::uint64_t left = section.size - done;
    const auto window =
        file.read({.offset = section.offset + done, .size = std::min(left, kWindowBytes)}, kWindowBytes, where);
    if (!window) return propagate(window.error());
    ByteView bytes = *window;
    perf_event_header header{};
    while (Cursor{bytes}.take(header) && header.size >= sizeof header && header.size <= bytes.size()) {
      if (auto result = each(header.type, bytes.first(header.size)); !result) return result;
      bytes = bytes.subspan(header.size);
    }
    const std::uint64_t taken = window->size() - bytes.size();
    // A window contains each record completely, so a record that does not fit is truncated.
    const bool bad_size = bytes.size() >= sizeof header && header.size < sizeof header;
    if (bad_size || (!bytes.empty() && (taken == 0 || left <= kWindowBytes)))
      return cut_record(done + taken, where, bytes.size() < sizeof header ? 0 : header.size, left - taken);
    done += taken;
  }
  return {};
}

Result<PerfDataBytes> file_bytes_of(UniqueFd file, const std::string& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return sys_error(errno, "fstat {}", path);
  if (!S_ISREG(status.st_mode)) return fail(std::errc::invalid_argument, "{} is not a regular file", path);
  return PerfDataBytes(std::move(file), static_cast<std::uint64_t>(status.st_size));
}

}  // namespace

Result<std::vector<std::byte>> PerfDataBytes::read(const FileSection& section, std::uint64_t most,
                                                   std::string_view what) const {
  if (section.offset > size_ || section.size > size_ - section.offset)
    return fail(std::errc::bad_message, "{} ({} bytes at {}) lie outside of the file, which has {} bytes", what,
                section.size, section.offset, size_);
  if (section.size > most)
    return fail(std::errc::bad_message, "{} have {} bytes; the maximum is {}", what, section.size, most);
  std::vector<std::byte> out(static_cast<std::size_t>(section.size));
  if (!file_) {
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + section.offset, out.size());
    return out;
  }
  for (std::size_t have = 0; have < out.size();) {
    const ssize_t count = ::pread(file_.get(), out.data() + have, out.size() - have,
                                  static_cast<off_t>(section.offset) + static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "read {} at {}", what, section.offset + have);
    if (count == 0)
      return fail(std::errc::bad_message, "the file became shorter than {} bytes while it was read", size_);
    have += static_cast<std::size_t>(count);
  }
  return out;
}

Result<FileReader> FileReader::open(const std::string& path) {
  auto fd = open_file(path, O_RDONLY | O_NONBLOCK);
  if (!fd) return propagate(fd.error());
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return sys_error(errno, "fstat {}", path);
  if (S_ISDIR(status.st_mode)) return open_folder(path);
  auto bytes = file_bytes_of(std::move(*fd), path);
  if (!bytes) return propagate(bytes.error());
  if (bytes->size() == 0) return fail(std::errc::bad_message, "{} is not a perf.data file: it is empty", path);
  auto reader = parse(std::move(*bytes));
  if (!reader) return wrap(reader.error(), "{}", path);
  return reader;
}

Result<FileReader> FileReader::open_folder(const std::string& path) {
  const auto folder = DataFolder::open_at(AT_FDCWD, path, path);
  if (!folder) return propagate(folder.error());
  UniqueFd data;
  std::vector<UniqueFd> more;
  for (const DataFolderFile& one : folder->files()) {
    auto file = folder->open_file(one.name);
    if (!file) return propagate(file.error());
    if (one.name == kMainDataFile)
      data = std::move(*file);
    else
      more.push_back(std::move(*file));
  }
  return open_files(std::move(data), std::move(more), path);
}

Result<FileReader> FileReader::open_files(UniqueFd data, std::vector<UniqueFd> more, const std::string& path) {
  auto bytes = file_bytes_of(std::move(data), path);
  if (!bytes) return propagate(bytes.error());
  auto reader = parse(std::move(*bytes));
  if (!reader) return wrap(reader.error(), "{}/{}", path, kMainDataFile);
  if (reader->features_.count(kFeatureDirFormat) == 0)
    return fail(std::errc::bad_message, "{}/{} does not say that it is that of a directory: perf would read only it",
                path, kMainDataFile);
  for (UniqueFd& one : more) {
    auto file = file_bytes_of(std::move(one), path);
    if (!file) return propagate(file.error());
    reader->more_.push_back(std::move(*file));
  }
  return reader;
}

Result<FileReader> FileReader::parse(std::span<const std::byte> bytes) { return parse(PerfDataBytes(bytes)); }

Result<FileReader> FileReader::parse(PerfDataBytes bytes) {
  const auto header = read_header(bytes);
  if (!header) return propagate(header.error());
  FileReader reader;
  reader.data_offset_ = header->data.offset;
  reader.data_bytes_ = header->data.size;
  if (header->data.offset > bytes.size() || header->data.size > bytes.size() - header->data.offset)
    return fail(std::errc::bad_message, "the data ({} bytes at {}) lie outside of the file, which has {} bytes",
                header->data.size, header->data.offset, bytes.size());
  auto events = read_events(bytes, *header);
  if (!events) return propagate(events.error());
  reader.events_ = std::move(*events);
  auto features = read_features(bytes, *header);
  if (!features) return propagate(features.error());
  reader.features_ = std::move(*features);
  if (const auto names = reader.features_.find(kFeatureEventDescription); names != reader.features_.end())
    if (auto read = read_names(names->second, reader.events_); !read) return propagate(read.error());
  const auto mmap_bytes = read_mmap_bytes(reader.features_);
  if (!mmap_bytes) return propagate(mmap_bytes.error());
  reader.mmap_bytes_ = *mmap_bytes;
  reader.bytes_ = std::move(bytes);
  return reader;
}

std::string FileReader::string_feature(unsigned bit) const {
  std::string text;
  const auto found = features_.find(bit);
  if (found == features_.end() || !Cursor{found->second}.take_string(text)) return {};
  return text;
}

std::uint64_t FileReader::file_bytes() const {
  std::uint64_t sum = bytes_.size();
  for (const PerfDataBytes& file : more_) sum += file.size();
  return sum;
}

Result<void> FileReader::for_each_stored_record(const Visit& visit) const {
  const auto each = [&](std::uint32_t type, ByteView record) -> Result<void> {
    if (type == kRecordAuxtrace)
      return fail(std::errc::not_supported, "a file with AUX data, which flightd never writes");
    return visit(record);
  };
  auto walked = walk(bytes_, {.offset = data_offset_, .size = data_bytes_}, "data", each);
  for (std::size_t i = 0; walked && i < more_.size(); ++i)
    walked = walk(more_[i], {.offset = 0, .size = more_[i].size()}, bare_data_file(i), each);
  return walked;
}

Result<void> FileReader::for_each_record(const Visit& visit, const Expand& expand) const {
  const auto visit_plain = [&](std::uint32_t type, ByteView record) -> Result<void> {
    if (type == kRecordCompressed)
      return fail(std::errc::bad_message, "a COMPRESSED record is inside a COMPRESSED record");
    return visit(record);
  };
  return for_each_stored_record([&](ByteView record) -> Result<void> {
    perf_event_header header{};
    std::memcpy(&header, record.data(), sizeof header);
    if (header.type != kRecordCompressed) return visit(record);
    if (mmap_bytes_ == 0) return fail(std::errc::bad_message, "a COMPRESSED record in a file without that feature");
    const auto records = expand(record.subspan(sizeof header), mmap_bytes_);
    if (!records) return wrap(records.error(), "a COMPRESSED record of {} bytes", record.size());
    if (records->empty()) return fail(std::errc::bad_message, "an empty COMPRESSED record");
    return walk(*records, "COMPRESSED record", visit_plain);
  });
}

}  // namespace flight
