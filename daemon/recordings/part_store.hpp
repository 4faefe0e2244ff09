// SPDX-License-Identifier: Apache-2.0
// The files of a part of a recording: three, created by the broker (root owns them, so that perf opens them), and a
// number. Until the part is whole they have names that no reader takes for a snapshot's (libcore/store/names.hpp), and
// the next flightd finds in them what it needs to finish the part of one that was killed:
//
//   .flightd-part-SEQ.partial   .flightd-rec-SEQ.partial: the journal   .flightd-side-SEQ.partial: the sidecar so far
//
// The data may be a data directory (libcore/base/data_folder.hpp): flightd makes the directory, and the broker's files
// are renamed into it.
//
// One thread at a time; it may wait for the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/snapshots/data_folder_files.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/store/catalogue.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::daemon {

struct PartFiles {
  std::uint64_t seq = 0;
  UniqueFd data, journal, sidecar;  // empty
  std::vector<UniqueFd> more{};     // the same, of a directory: data.0, data.1 …
  UniqueFd folder{};  // the store as it was then: a file system may be mounted over it before the part ends
};

class PartStore {
 public:
  PartStore(RecorderThread& recorder, std::string folder) : recorder_(recorder), catalogue_(std::move(folder)) {}

  // On an error nothing is left behind. `more`: 0: the data is a file; else a directory with so many files beside
  // `data`.
  [[nodiscard]] Result<PartFiles> make(std::size_t more = 0);
  // Only a data directory (data_folder_files.hpp).
  [[nodiscard]] Result<DataFolderFiles> make_folder(const std::string& name, std::size_t more);
  // One empty file with a name of its own, which the next start removes: to finish the part of an earlier flightd,
  // whose files cannot be written any more.
  [[nodiscard]] Result<PartialFile> make_one();
  // Writes the sidecar's text as far as it is known when the part begins. Call it once.
  [[nodiscard]] static Result<void> describe(int sidecar, const Sidecar& begun);
  struct Ready {
    std::string data_name, sidecar_name;  // as they are called now
    UniqueFd sidecar;
    std::string place = {};  // the directory that they are in; empty: the store
  };
  // Provides a file for the final sidecar. It is another file than `sidecar`, which keeps its text in case flightd is
  // killed or the disk is full now. If the broker gives no other file, `sidecar` itself is used. `held`:
  // PartFiles::folder.
  [[nodiscard]] Ready ready(std::uint64_t seq, UniqueFd sidecar, const UniqueFd& held = {});
  // The path of the directory that `held` is: that of the store, or one in /proc if the store's name leads to another
  // directory now.
  [[nodiscard]] std::string place_of(const UniqueFd& held) const;
  // The data is whole and synced: writes the sidecar, gives both their names, and removes the other files of the part.
  // `make_room`: as in SnapshotOrder. On an error, what the part is made from is still there.
  struct Committed {
    bool can_sync = true;           // false: the file system cannot sync
    std::optional<Error> unsynced;  // the directory could not be synced: a power failure now may undo it
  };
  [[nodiscard]] Result<Committed> commit(Ready part, const SnapshotName& name, const Sidecar& contents,
                                         const std::function<bool(std::uint64_t needed_bytes)>& make_room = {});
  // Replaces the sidecar of a finished part. Durable.
  [[nodiscard]] Result<void> describe_again(const SnapshotName& name, const Sidecar& contents) const;
  // Gives complete data its final name; its sidecar has got its own already. Not durable yet.
  [[nodiscard]] Result<void> name_data(const SnapshotName& name) const;
  // Renames a sidecar that has its final name, but no data with one, back to that of the unfinished part.
  [[nodiscard]] Result<void> take_back_sidecar(const SnapshotName& name) const;
  // Removes all files of an unfinished part.
  void remove(std::uint64_t seq) const;

  [[nodiscard]] const std::string& folder() const { return catalogue_.folder(); }

 private:
  [[nodiscard]] Result<UniqueFd> ask_as(const std::string& name);
  [[nodiscard]] Result<void> make_data(PartFiles& out, std::size_t more);
  void unlink(const std::string& name) const;

  RecorderThread& recorder_;
  Catalogue catalogue_;  // only for the next number
};

}  // namespace flight::daemon
