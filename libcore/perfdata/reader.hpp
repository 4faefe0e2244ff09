// SPDX-License-Identifier: Apache-2.0
// Reads a perf.data file of flightd: for tests, and to repair a snapshot without its sidecar; not for reports, which
// are perf's job. The file is input from outside: every offset and size is checked, and hostile bytes cause an error.
// It is read by pread(2), never mapped: a bad sector or a truncated file then causes an error, not SIGBUS.
// A data directory (libcore/base/data_folder.hpp) is read as one file that has the records of all its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/perfdata/writer.hpp"

namespace flight {

struct FileSection;

// The file, or its bytes in memory.
class PerfDataBytes {
 public:
  PerfDataBytes() = default;
  PerfDataBytes(UniqueFd file, std::uint64_t size) : file_(std::move(file)), size_(size) {}
  explicit PerfDataBytes(std::span<const std::byte> bytes) : bytes_(bytes), size_(bytes.size()) {}

  [[nodiscard]] std::uint64_t size() const { return size_; }
  // All bytes of a section, at most `most`. EBADMSG: it is outside of the file, or the file became shorter.
  [[nodiscard]] Result<std::vector<std::byte>> read(const FileSection& section, std::uint64_t most,
                                                    std::string_view what) const;

 private:
  UniqueFd file_;
  std::span<const std::byte> bytes_;
  std::uint64_t size_ = 0;
};

class FileReader {
 public:
  // Expands one zstd frame (the payload of a COMPRESSED record) to at most `max_bytes`.
  using Expand = std::function<Result<std::vector<std::byte>>(std::span<const std::byte> frame, std::size_t max_bytes)>;
  using Visit = std::function<Result<void>(std::span<const std::byte> record)>;

  // A file or a data directory.
  [[nodiscard]] static Result<FileReader> open(const std::string& path);
  // The files of a data directory: `data`, and data.0, data.1 …
  [[nodiscard]] static Result<FileReader> open_files(UniqueFd data, std::vector<UniqueFd> more,
                                                     const std::string& path);
  // `bytes` must outlive the reader (fuzzers).
  [[nodiscard]] static Result<FileReader> parse(std::span<const std::byte> bytes);

  // The size of all files together.
  [[nodiscard]] std::uint64_t file_bytes() const;
  // Names come from EVENT_DESC.
  [[nodiscard]] const std::vector<FileEvent>& events() const { return events_; }
  // Raw feature contents by bit.
  [[nodiscard]] const std::map<unsigned, std::vector<std::byte>>& features() const { return features_; }
  // A feature that is a single string (HOSTNAME, VERSION …); empty if it is missing.
  [[nodiscard]] std::string string_feature(unsigned bit) const;

  // Visits every record in the file's order, COMPRESSED ones expanded (they must then be whole records); ends with the
  // first error, its own or the visitor's.
  [[nodiscard]] Result<void> for_each_record(const Visit& visit, const Expand& expand) const;
  // The same with COMPRESSED records as they are.
  [[nodiscard]] Result<void> for_each_stored_record(const Visit& visit) const;

 private:
  FileReader() = default;
  [[nodiscard]] static Result<FileReader> open_folder(const std::string& path);
  [[nodiscard]] static Result<FileReader> parse(PerfDataBytes bytes);
  PerfDataBytes bytes_;
  std::vector<PerfDataBytes> more_;  // bare records: the other files of a data directory
  std::uint64_t data_offset_ = 0, data_bytes_ = 0;
  std::vector<FileEvent> events_;
  std::map<unsigned, std::vector<std::byte>> features_;
  std::uint32_t mmap_bytes_ = 0;  // from the COMPRESSED feature
};

}  // namespace flight
