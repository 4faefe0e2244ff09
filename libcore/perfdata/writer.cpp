// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "libcore/perfdata/format.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kEntryBytes = kFileAttrBytes + sizeof(FileSection);

// Calls pwrite(2) until all is written: it may be interrupted, and it writes only a part if the disk becomes full.
Result<void> write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return sys_error(count < 0 ? errno : EIO, "write {} of a perf.data file ({} bytes at {})", what, bytes.size(),
                       offset);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<std::vector<std::byte>> read_at(int fd, std::size_t bytes, std::uint64_t offset, std::string_view what) {
  std::vector<std::byte> out(bytes);
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t count = ::pread(fd, out.data() + have, bytes - have, static_cast<off_t>(offset + have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "read {} of a perf.data file ({} bytes at {})", what, bytes, offset);
    if (count == 0)
      return fail(std::errc::bad_message, "the file to go on with ends in {} ({} bytes at {})", what, bytes, offset);
    have += static_cast<std::size_t>(count);
  }
  return out;
}

// Readers need an id in each record, at the same place, to distinguish the records of several events.
Result<void> check_events(std::span<const FileEvent> events) {
  if (events.empty()) return fail(std::errc::invalid_argument, "a perf.data file needs at least one event");
  if (events.size() == 1) return {};
  for (const FileEvent& event : events) {
    if ((event.attr.sample_type & PERF_SAMPLE_IDENTIFIER) == 0 || event.attr.sample_id_all == 0)
      return fail(std::errc::invalid_argument,
                  "event '{}' has no PERF_SAMPLE_IDENTIFIER or no sample_id_all: perf cannot tell its records from "
                  "those of the {} other events of the file",
                  event.name, events.size() - 1);
  }
  return {};
}

bool has_format(const Features& features, std::uint64_t tracepoint) {
  if (!features.tracing_data || features.tracing_data->header_page.empty()) return false;
  const std::string line = fmt::format("\nID: {}\n", tracepoint);
  for (const TracingData::System& system : features.tracing_data->systems)
    for (const std::string& format : system.formats)
      if (format.find(line) != std::string::npos) return true;
  return false;
}

// If one tracepoint lacks its format text, readers refuse the whole file. So this is an error.
Result<void> check_formats(std::span<const FileEvent> events, const Features& features) {
  for (const FileEvent& event : events) {
    if (event.attr.type == PERF_TYPE_TRACEPOINT && !has_format(features, event.attr.config))
      return fail(std::errc::invalid_argument,
                  "the format text of tracepoint '{}' (id {}) is missing: perf would refuse the whole file; was its "
                  "module reloaded, or is tracefs not readable?",
                  event.name, event.attr.config);
  }
  return {};
}

}  // namespace

Result<FileWriter> FileWriter::create(int fd, std::vector<FileEvent> events) {
  if (auto checked = check_events(events); !checked) return propagate(checked.error());
  // With O_APPEND, pwrite(2) ignores its offset (BUGS): the header would follow the features.
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0) return sys_error(errno, "read the flags of the file to write");
  if ((flags & O_APPEND) != 0) return fail(std::errc::invalid_argument, "the file to write is open with O_APPEND");
  struct stat status {};
  if (::fstat(fd, &status) != 0) return sys_error(errno, "fstat of the file to write");
  // Readers would interpret old bytes after the last section as a part of it.
  if (status.st_size != 0)
    return fail(std::errc::invalid_argument, "the file to write is not empty, it has {} bytes", status.st_size);

  FileWriter writer(fd, std::move(events));
  const std::vector<std::byte> head = writer.lay_out();
  if (auto written = write_at(fd, head, 0, "the attributes"); !written) return propagate(written.error());
  return writer;
}

// The file up to its data; sets the offsets.
std::vector<std::byte> FileWriter::lay_out() {
  std::vector<std::byte> head(sizeof(FileHeader));  // zeros: no magic, so no reader accepts it as a perf.data file
  std::vector<std::byte> entries;
  for (const FileEvent& event : events_) {
    append_attr(entries, event.attr);
    append_value(entries, FileSection{head.size(), event.ids.size() * sizeof(std::uint64_t)});
    append_bytes(head, std::as_bytes(std::span(event.ids)));
  }
  attrs_offset_ = head.size();
  append_bytes(head, entries);
  data_offset_ = head.size();
  file_bytes_ = head.size();
  return head;
}

Result<FileWriter> FileWriter::resume(int fd, std::vector<FileEvent> events) {
  if (auto checked = check_events(events); !checked) return propagate(checked.error());
  struct stat status {};
  if (::fstat(fd, &status) != 0) return sys_error(errno, "fstat of the file to go on with");
  FileWriter writer(fd, std::move(events));
  const std::vector<std::byte> head = writer.lay_out();
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  if (file_bytes < head.size())
    return fail(std::errc::bad_message, "the file to go on with has {} bytes, its attributes alone need {}", file_bytes,
                head.size());
  const auto found = read_at(fd, head.size() - sizeof(FileHeader), sizeof(FileHeader), "the attributes");
  if (!found) return propagate(found.error());
  // The header itself may be written already.
  if (!std::equal(found->begin(), found->end(), head.begin() + sizeof(FileHeader)))
    return fail(std::errc::bad_message, "the file to go on with has other events: it is not the one that was begun");
  writer.file_bytes_ = file_bytes;
  writer.data_bytes_ = file_bytes - writer.data_offset_;
  return writer;
}

Result<void> FileWriter::cut(std::uint64_t data_bytes) {
  if (data_bytes > data_bytes_)
    return fail(std::errc::invalid_argument, "the file has {} bytes of records, which are less than {}", data_bytes_,
                data_bytes);
  const std::uint64_t file_bytes = data_offset_ + data_bytes;
  if (::ftruncate(fd_, static_cast<off_t>(file_bytes)) != 0)
    return sys_error(errno, "cut a perf.data file to {} bytes", file_bytes);
  data_bytes_ = data_bytes;
  file_bytes_ = file_bytes;
  return {};
}

Result<void> FileWriter::check(const Features& features) const { return check_formats(events_, features); }

Result<void> FileWriter::append(std::span<const std::byte> records) {
  if (max_bytes_ != 0 && file_bytes_ + records.size() > max_bytes_)
    return fail(std::errc::file_too_large, "the file would have more than {} bytes", max_bytes_);
  if (auto written = write_at(fd_, records, data_offset_ + data_bytes_, "records"); !written) return written;
  data_bytes_ += records.size();
  file_bytes_ += records.size();
  return {};
}

Result<void> FileWriter::finish(const Features& features) {
  if (auto checked = check(features); !checked) return checked;
  return finish_encoded(encode_features(features, events_));
}

Result<void> FileWriter::finish_encoded(std::span<const EncodedFeature> sections) {
  // Readers interpret a file without data as a crashed recording.
  if (data_bytes_ == 0) return fail(std::errc::invalid_argument, "a perf.data file without any record is not readable");
  FileHeader header{.magic = kFileMagic,
                    .size = sizeof(FileHeader),
                    .attr_size = kEntryBytes,
                    .attrs = {attrs_offset_, kEntryBytes * events_.size()},
                    .data = {data_offset_, data_bytes_},
                    .event_types = {},
                    .features = {}};
  const std::uint64_t table_offset = data_offset_ + data_bytes_;
  std::vector<std::byte> table, contents;
  for (const EncodedFeature& section : sections) {
    header.features.at(section.bit / 64) |= std::uint64_t{1} << (section.bit % 64);
    append_value(table, FileSection{table_offset + sections.size() * sizeof(FileSection) + contents.size(),
                                    section.bytes.size()});
    append_bytes(contents, section.bytes);
  }
  append_bytes(table, contents);
  if (auto written = write_at(fd_, table, table_offset, "the features"); !written) return written;
  if (auto written = write_at(fd_, std::as_bytes(std::span(&header, 1)), 0, "the header"); !written) return written;
  file_bytes_ = table_offset + table.size();
  return {};
}

}  // namespace flight
