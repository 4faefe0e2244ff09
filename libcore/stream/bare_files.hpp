// SPDX-License-Identifier: Apache-2.0
// The files data.0, data.1 … of a part that is a directory: records without a header, of each worker in a file of its
// own. Bytes wait in memory until they are written together. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class BareFiles {
 public:
  // Empty files, readable and writable; none: the part is one file.
  explicit BareFiles(std::vector<UniqueFd> files);

  [[nodiscard]] bool empty() const { return files_.empty(); }
  // The records that wait to be written into the file of a worker. The caller appends whole records.
  [[nodiscard]] std::vector<std::byte>& waiting(std::size_t worker) { return files_[worker % files_.size()].waiting; }
  // All that waits. After an error, what was written is cut off by cut().
  [[nodiscard]] Result<void> write_out();
  void drop_waiting();
  // The length of each file, by its number.
  [[nodiscard]] std::vector<std::uint64_t> lengths() const;
  [[nodiscard]] std::uint64_t bytes() const;
  // To these lengths, at most the files'; 0 where there is none.
  [[nodiscard]] Result<void> cut(const std::vector<std::uint64_t>& lengths);
  // With `sync_one` for each file. False: a file system cannot sync.
  [[nodiscard]] Result<bool> sync(const std::function<Result<bool>(int file)>& sync_one) const;

 private:
  struct File {
    UniqueFd fd;
    std::uint64_t bytes = 0;  // that are written
    std::vector<std::byte> waiting;
  };
  std::vector<File> files_;
};

}  // namespace flight
