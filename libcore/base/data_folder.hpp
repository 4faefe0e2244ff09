// SPDX-License-Identifier: Apache-2.0
// perf's data directory: a recording in several files.
//
//   STEM.perf.data/   data   data.0   data.1   …
//
// `data` is a perf.data file, the others have bare records. perf reads every regular file whose name begins with
// "data.", so nothing else may have such a name. Links are not followed: the directory is opened once, and its files
// relative to it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

inline constexpr std::string_view kMainDataFile = "data";
inline constexpr std::size_t kMaxDataFiles = 4096;  // of one directory; flightd's have at most kMaxWorkers + 1

// data.NUMBER
[[nodiscard]] std::string bare_data_file(std::size_t number);
// `data` or data.N, as these are written.
[[nodiscard]] bool is_data_file(std::string_view name);

struct DataFolderFile {
  std::string name;
  std::uint64_t bytes = 0, disk_bytes = 0;  // its size and its disk usage
  std::uint64_t links = 1;
};

class DataFolder {
 public:
  // `name` in the directory `parent`, or a path with AT_FDCWD. ENOENT; ENOTDIR, ELOOP: it is no directory. EBADMSG: it
  // has no `data`, or more than kMaxDataFiles files. `path`: for messages.
  [[nodiscard]] static Result<DataFolder> open_at(int parent, const std::string& name, const std::string& path);
  // The same of one that may lack `data`: it is being made or removed.
  [[nodiscard]] static Result<DataFolder> open_any(int parent, const std::string& name, const std::string& path);

  // `data`, then data.0, data.1 …, in the order of their numbers; some may be missing.
  [[nodiscard]] const std::vector<DataFolderFile>& files() const { return files_; }
  [[nodiscard]] std::uint64_t bytes() const;
  // Something else in it; empty: nothing.
  [[nodiscard]] const std::string& other() const { return other_; }
  // Opens one of files(), for reading.
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& name) const;
  [[nodiscard]] int fd() const { return folder_.get(); }

 private:
  DataFolder(UniqueFd folder, std::string path) : folder_(std::move(folder)), path_(std::move(path)) {}
  UniqueFd folder_;
  std::string path_;
  std::vector<DataFolderFile> files_;
  std::string other_;
};

}  // namespace flight
