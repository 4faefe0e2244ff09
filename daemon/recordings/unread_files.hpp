// SPDX-License-Identifier: Apache-2.0
// The files of a part whose build-ids were not known when the records of their mappings were written: they had just
// been mapped, or the broker had not come to them. The records cannot change any more, but the file's list of build-ids
// is written last. perf finds an entry there by its path: so it gets one only for a path that stands for one content in
// this part. One thread at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/file_identity.hpp"
#include "libcore/broker/build_ids.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/known_files.hpp"

namespace flight::daemon {

class UnreadFiles {
 public:
  // The limit of each table below. It is that of the broker's own table of files.
  static constexpr std::size_t kMaxFiles = kMaxKnownFiles;

  // A mapping of the part, as its record is written.
  void note(const NamedMapping& mapping);
  [[nodiscard]] bool empty() const { return unread_.empty(); }
  // There are more than kMaxFiles without a build-id, and the others are not looked at again.
  [[nodiscard]] bool too_many() const { return too_many_; }

  struct Found {
    NamedFiles named;  // all files of the part that are remembered
    std::vector<TrackerExport::UserBuildId> build_ids;
  };
  // `known`: the broker's reply to a request made when the part ends.
  [[nodiscard]] Found look_again(const KnownFiles& known) const;

 private:
  // A file under one path. The content can change between two mappings, so the first and the last must have the same.
  struct Unread {
    FileIdentity file;
    std::string recorded_name, name;
    EventTime first_ns = 0, last_ns = 0;
  };
  // The file and the content that the records of one path name.
  struct Path {
    FileIdentity file;
    BuildId build_id;        // size 0: none is known
    bool is_shared = false;  // two files had this path, or one file had two contents
  };
  void note_path(const NamedMapping& mapping);
  [[nodiscard]] bool may_list(const Unread& one, const BuildId& id) const;

  std::vector<Unread> unread_;
  std::unordered_map<FileIdentity, std::vector<std::size_t>, FileIdentityHash> by_file_;  // in unread_
  std::unordered_set<FileIdentity, FileIdentityHash> known_;
  std::map<std::string, Path, std::less<>> paths_;
  bool too_many_ = false;
};

}  // namespace flight::daemon
