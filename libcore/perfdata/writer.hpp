// SPDX-License-Identifier: Apache-2.0
// Writes one perf.data file (file mode, PERFILE2). Layout, in the file's order:
//
//   | header 104 | ids of all attrs | attrs | data: records … | feature table | feature contents |
//
// The header is written last, with the exact size of the data: a truncated file never opens as a complete one. The
// caller renames it. Source: tools/perf/Documentation/perf.data-file-format.txt.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/perfdata/features.hpp"

namespace flight {

struct FileEvent {
  perf_event_attr attr{};
  std::string name;
  std::vector<std::uint64_t> ids;
};

class FileWriter {
 public:
  // `fd`: an empty, writable, seekable file that the caller owns. Writes ids and attrs (attr.size is stored as 128).
  [[nodiscard]] static Result<FileWriter> create(int fd, std::vector<FileEvent> events);

  // Goes on with a file whose writer ended before finish(). Everything behind the attributes counts as data: cut()
  // first. `fd`: readable, too. EBADMSG: the file is shorter than its attributes, or they are not those of `events`.
  [[nodiscard]] static Result<FileWriter> resume(int fd, std::vector<FileEvent> events);

  // append() refuses records that would make the file larger (EFBIG); finish() does not. 0: no limit.
  void limit(std::uint64_t max_bytes) { max_bytes_ = max_bytes; }
  // Whole records, in the order for readers.
  [[nodiscard]] Result<void> append(std::span<const std::byte> records);
  // Leaves the first `data_bytes` of the data, at most those that are there; they must be whole records.
  [[nodiscard]] Result<void> cut(std::uint64_t data_bytes);
  // The error of finish(), if these features cannot be those of this file.
  [[nodiscard]] Result<void> check(const Features& features) const;
  // Writes feature table and contents, then the header. EVENT_DESC comes from the events. Afterwards only fsync
  // remains.
  [[nodiscard]] Result<void> finish(const Features& features);
  // The same with sections that are encoded already, by ascending bit, EVENT_DESC among them.
  [[nodiscard]] Result<void> finish_encoded(std::span<const EncodedFeature> sections);

  [[nodiscard]] std::uint64_t data_offset() const { return data_offset_; }
  [[nodiscard]] std::uint64_t data_bytes() const { return data_bytes_; }
  // The size of the whole file; final after finish().
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  FileWriter(int fd, std::vector<FileEvent> events) : fd_(fd), events_(std::move(events)) {}
  [[nodiscard]] std::vector<std::byte> lay_out();
  int fd_ = -1;
  std::vector<FileEvent> events_;
  std::uint64_t attrs_offset_ = 0;
  std::uint64_t data_offset_ = 0;
  std::uint64_t data_bytes_ = 0;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t max_bytes_ = 0;
};

}  // namespace flight
