// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/reader.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "libcore/base/files.hpp"
#include "libcore/perfdata/format.hpp"
#include "libcore/perfdata/user_records.hpp"

namespace flight {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kMaxEvents = 4096;                // flightd's largest set is a hundredth of it
constexpr std::uint32_t kMaxExpandBytes = 128U << 20U;  // of one COMPRESSED record; ours have 256 KiB
constexpr std::uint32_t kRecordAuxtrace = 71;           // its data follow it, outside of its size

// Takes fields from the front of `rest`; false, and nothing taken, where it is too short.
struct Cursor {
  Bytes rest;

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

Result<Bytes> section_of(Bytes file, const FileSection& section, std::string_view what) {
  if (section.offset > file.size() || section.size > file.size() - section.offset)
    return fail(std::errc::bad_message, "{} ({} bytes at {}) lie outside of the file, which has {} bytes", what,
                section.size, section.offset, file.size());
  return file.subspan(static_cast<std::size_t>(section.offset), static_cast<std::size_t>(section.size));
}

Result<FileHeader> read_header(Bytes file) {
  FileHeader header;
  if (!Cursor{file}.take(header))
    return fail(std::errc::bad_message, "no perf.data file: it has {} bytes, the header alone {}", file.size(),
                sizeof(FileHeader));
  if (header.magic == 0)
    return fail(std::errc::bad_message,
                "no whole perf.data file: its header was never written, the writer was stopped");
  if (header.magic == __builtin_bswap64(kFileMagic))
    return fail(std::errc::not_supported, "a perf.data file of a machine of the other byte order");
  if (header.magic != kFileMagic) return fail(std::errc::bad_message, "no perf.data file: it begins with other bytes");
  if (header.size != sizeof(FileHeader))
    return fail(std::errc::not_supported, "a perf.data header of {} bytes (only {} are known): a pipe's or an old one",
                header.size, sizeof(FileHeader));
  if (header.attrs.offset < sizeof(FileHeader) || header.data.offset < sizeof(FileHeader))
    return fail(std::errc::bad_message, "the attributes or the data of a perf.data file lie in its header");
  return header;
}

// attr (attr.size bytes), section of the ids. `ids_left` bounds what sections that overlap can make us take.
Result<FileEvent> read_event(Bytes file, Bytes entry, std::uint64_t& ids_left) {
  FileEvent event;
  const std::size_t attr_bytes = entry.size() - sizeof(FileSection);
  std::memcpy(&event.attr, entry.data(), std::min(attr_bytes, sizeof event.attr));
  const std::size_t said = event.attr.size == 0 ? PERF_ATTR_SIZE_VER0 : event.attr.size;
  if (said != attr_bytes)
    return fail(std::errc::bad_message, "an attribute says it has {} bytes where the header says {}", said, attr_bytes);
  FileSection section;
  std::memcpy(&section, entry.data() + attr_bytes, sizeof section);
  const auto ids = section_of(file, section, "the ids of an event");
  if (!ids) return pass(ids.error());
  if (ids->size() % sizeof(std::uint64_t) != 0 || ids->size() > ids_left)
    return fail(std::errc::bad_message, "an event has {} bytes of ids: no whole number of ids, or more than the file",
                ids->size());
  ids_left -= ids->size();
  event.ids.resize(ids->size() / sizeof(std::uint64_t));
  if (!ids->empty()) std::memcpy(event.ids.data(), ids->data(), ids->size());
  return event;
}

Result<std::vector<FileEvent>> read_events(Bytes file, const FileHeader& header) {
  const auto entries = section_of(file, header.attrs, "the attributes");
  if (!entries) return pass(entries.error());
  const std::uint64_t entry_bytes = header.attr_size;
  if (entry_bytes < PERF_ATTR_SIZE_VER0 + sizeof(FileSection) || entries->empty() ||
      entries->size() % entry_bytes != 0 || entries->size() / entry_bytes > kMaxEvents)
    return fail(std::errc::bad_message, "{} bytes of attributes of {} bytes each make no sense (at most {})",
                entries->size(), entry_bytes, kMaxEvents);
  std::vector<FileEvent> events;
  std::uint64_t ids_left = file.size();
  for (Bytes rest = *entries; !rest.empty(); rest = rest.subspan(entry_bytes)) {
    auto event = read_event(file, rest.first(entry_bytes), ids_left);
    if (!event) return pass(event.error());
    events.push_back(std::move(*event));
  }
  return events;
}

// The table follows the data: a FileSection for each bit that is set, in the order of the bits.
Result<std::map<unsigned, Bytes>> read_features(Bytes file, const FileHeader& header) {
  std::map<unsigned, Bytes> features;
  Cursor table{file.subspan(static_cast<std::size_t>(header.data.offset + header.data.size))};
  for (unsigned bit = 0; bit < kFeatureBits; ++bit) {
    if ((header.features.at(bit / 64) >> (bit % 64) & 1) == 0) continue;
    FileSection section;
    if (!table.take(section))
      return fail(std::errc::bad_message, "the file ends in its feature table, before feature {}", bit);
    const auto contents = section_of(file, section, fmt::format("the contents of feature {}", bit));
    if (!contents) return pass(contents.error());
    features.emplace(bit, *contents);
  }
  return features;
}

// EVENT_DESC: u32 count, u32 attr bytes; then attr, u32 ids, string, u64 ids … of each event, by its index.
Result<void> read_names(Bytes contents, std::vector<FileEvent>& events) {
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

// How far one COMPRESSED record may expand: the last u32 of the feature; 0 where it is not there.
Result<std::uint32_t> read_mmap_bytes(const std::map<unsigned, Bytes>& features) {
  constexpr std::size_t kMmapOffset = 16;
  const auto found = features.find(kFeatureCompressed);
  if (found == features.end()) return 0;
  Cursor cursor{found->second};
  std::uint32_t mmap_bytes = 0;
  if (!cursor.skip(kMmapOffset) || !cursor.take(mmap_bytes) || mmap_bytes > kMaxExpandBytes)
    return fail(std::errc::bad_message, "the file's COMPRESSED feature is cut, or asks for {} bytes for one record",
                mmap_bytes);
  return mmap_bytes;
}

// Calls `each` for each whole record; an error where one is cut or its size makes no sense.
template <typename Each>
Result<void> walk(Bytes bytes, std::string_view where, const Each& each) {
  const std::size_t total = bytes.size();
  while (!bytes.empty()) {
    perf_event_header header{};
    if (!Cursor{bytes}.take(header) || header.size < sizeof header || header.size > bytes.size())
      return fail(std::errc::bad_message, "the record at byte {} of the {} is cut: its size is {}, {} bytes are left",
                  total - bytes.size(), where, header.size, bytes.size());
    if (auto result = each(header.type, bytes.first(header.size)); !result) return result;
    bytes = bytes.subspan(header.size);
  }
  return {};
}

}  // namespace

Result<FileReader> FileReader::open(const std::string& path) {
  const auto fd = open_file(path, O_RDONLY);
  if (!fd) return pass(fd.error());
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return sys_error(errno, "fstat {}", path);
  if (!S_ISREG(status.st_mode)) return fail(std::errc::invalid_argument, "{} is no regular file", path);
  if (status.st_size == 0) return fail(std::errc::bad_message, "{} is no perf.data file: it is empty", path);
  auto mapping = Mapping::open(fd->get(), static_cast<std::size_t>(status.st_size), PROT_READ);
  if (!mapping) return wrap(mapping.error(), "{}", path);
  auto reader = parse(mapping->bytes());
  if (!reader) return wrap(reader.error(), "{}", path);
  reader->mapping_ = std::move(*mapping);  // its address stays
  return reader;
}

Result<FileReader> FileReader::parse(std::span<const std::byte> bytes) {
  const auto header = read_header(bytes);
  if (!header) return pass(header.error());
  FileReader reader;
  reader.bytes_ = bytes;
  const auto data = section_of(bytes, header->data, "the data");
  if (!data) return pass(data.error());
  reader.data_ = *data;
  auto events = read_events(bytes, *header);
  if (!events) return pass(events.error());
  reader.events_ = std::move(*events);
  auto features = read_features(bytes, *header);
  if (!features) return pass(features.error());
  reader.features_ = std::move(*features);
  if (const auto names = reader.features_.find(kFeatureEventDescription); names != reader.features_.end())
    if (auto read = read_names(names->second, reader.events_); !read) return pass(read.error());
  const auto mmap_bytes = read_mmap_bytes(reader.features_);
  if (!mmap_bytes) return pass(mmap_bytes.error());
  reader.mmap_bytes_ = *mmap_bytes;
  return reader;
}

std::string FileReader::string_feature(unsigned bit) const {
  std::string text;
  const auto found = features_.find(bit);
  if (found == features_.end() || !Cursor{found->second}.take_string(text)) return {};
  return text;
}

Result<void> FileReader::for_each_record(const Visit& visit, const Expand& expand) const {
  const auto visit_plain = [&](std::uint32_t type, Bytes record) -> Result<void> {
    if (type == kRecordCompressed)
      return fail(std::errc::bad_message, "a COMPRESSED record lies inside of a COMPRESSED record");
    return visit(record);
  };
  return walk(data_, "data", [&](std::uint32_t type, Bytes record) -> Result<void> {
    if (type == kRecordAuxtrace)
      return fail(std::errc::not_supported, "a file with AUX data, which flightd never writes");
    if (type != kRecordCompressed) return visit(record);
    if (mmap_bytes_ == 0) return fail(std::errc::bad_message, "a COMPRESSED record in a file without that feature");
    const auto records = expand(record.subspan(sizeof(perf_event_header)), mmap_bytes_);
    if (!records) return wrap(records.error(), "a COMPRESSED record of {} bytes", record.size());
    if (records->empty()) return fail(std::errc::bad_message, "a COMPRESSED record that expands to nothing");
    return walk(*records, "COMPRESSED record", visit_plain);
  });
}

}  // namespace flight
