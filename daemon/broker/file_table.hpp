// SPDX-License-Identifier: Apache-2.0
// The build-id of each file: the reply to `build_ids`. Bounded; the least recently mapped entries are removed first.
// If the build-id of a file changed under the same identity (it was overwritten in place, or its inode was reused on a
// file system without generations), the file has none from then on: a wrong build-id is worse than none. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "libcore/broker/build_ids.hpp"
#include "libcore/sysinfo/mapped_file.hpp"

namespace flight::broker {

class FileTable {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // A known file is not read again before this time; after a failed read the limit is kRetryAfter.
  static constexpr std::chrono::seconds kLookAgainAfter{10};
  static constexpr std::chrono::milliseconds kRetryAfter{500};

  explicit FileTable(std::size_t most = kMaxKnownFiles) : most_(most) {}

  // Reports that `name` was mapped. If it returns true, the caller must read the file and then call put() or
  // put_failed().
  [[nodiscard]] bool wants(const FileIdentity& file, std::string_view name, Time now);
  // The same for a file whose read failed: false where it is known or being read meanwhile, or was forgotten.
  [[nodiscard]] bool wants_again(const FileIdentity& file, Time now);
  void put(const FileIdentity& file, const std::string& name, MappedFileFacts facts);
  void put_failed(const FileIdentity& file);

  // Increases whenever known() changes.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] KnownFiles known() const;
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  enum class State { reading, known, ambiguous, failed };
  struct Entry {
    State state = State::reading;
    bool read_before = false;  // `facts` is from an earlier read
    Time looked;
    std::string name;  // the name by which it was read
    MappedFileFacts facts;
    std::list<FileIdentity>::iterator place;
  };
  // Whether known() contains the entry. It contains an unreadable file if the file's name would be misleading.
  [[nodiscard]] static bool is_listed(const Entry& entry);

  std::size_t most_;
  std::uint64_t version_ = 1;
  std::list<FileIdentity> by_use_;  // newest first
  std::unordered_map<FileIdentity, Entry, FileIdentityHash> files_;
};

}  // namespace flight::broker
