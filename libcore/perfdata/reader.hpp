// SPDX-License-Identifier: Apache-2.0
// Reads a perf.data file of ours back: for tests, for repairing a file without its sidecar, never for reports (that is
// perf's job). The file is input from outside: every offset and size is checked, hostile bytes end in an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/perfdata/writer.hpp"

namespace flight {

class FileReader {
 public:
  // Expands one zstd frame (the payload of a COMPRESSED record) to at most `max_bytes`.
  using Expand = std::function<Result<std::vector<std::byte>>(std::span<const std::byte> frame, std::size_t max_bytes)>;
  using Visit = std::function<Result<void>(std::span<const std::byte> record)>;

  [[nodiscard]] static Result<FileReader> open(const std::string& path);
  // `bytes` must outlive the reader (fuzzers).
  [[nodiscard]] static Result<FileReader> parse(std::span<const std::byte> bytes);

  [[nodiscard]] std::uint64_t file_bytes() const { return bytes_.size(); }
  // Names come from EVENT_DESC.
  [[nodiscard]] const std::vector<FileEvent>& events() const { return events_; }
  // Raw feature contents by bit.
  [[nodiscard]] const std::map<unsigned, std::span<const std::byte>>& features() const { return features_; }
  // A feature that is a single string (HOSTNAME, VERSION …), empty if it is not there.
  [[nodiscard]] std::string string_feature(unsigned bit) const;

  // Every record in the file's order, COMPRESSED ones expanded (they must then be whole records); ends with the
  // first error, its own or the visitor's.
  [[nodiscard]] Result<void> for_each_record(const Visit& visit, const Expand& expand) const;

 private:
  FileReader() = default;
  Mapping mapping_;
  std::span<const std::byte> bytes_, data_;
  std::vector<FileEvent> events_;
  std::map<unsigned, std::span<const std::byte>> features_;
  std::uint32_t mmap_bytes_ = 0;  // from the COMPRESSED feature
};

}  // namespace flight
