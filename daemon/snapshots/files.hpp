// SPDX-License-Identifier: Apache-2.0
// The files of a snapshot: two, created by the broker (root owns them, so that perf opens them), and a number.
// Snapshot worker's thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/store/spare_files.hpp"
#include "libcore/snapshot/snapshot.hpp"
#include "libcore/store/catalogue.hpp"

namespace flight::daemon {

class SnapshotFiles {
 public:
  SnapshotFiles(RecorderThread& recorder, std::string folder, std::function<void(Error)> warn)
      : recorder_(recorder), catalogue_(std::move(folder)), warn_(std::move(warn)), spare_(catalogue_.folder()) {}

  // On an error nothing is left behind. `more`: as of make_data_folder(); 0: the data is a file.
  [[nodiscard]] Result<SnapshotOutput> make(std::size_t more = 0);
  // For the last snapshot: there is no broker any more.
  [[nodiscard]] Result<SnapshotOutput> take_spare();
  // Call it when no request waits. False: not finished, try again later.
  [[nodiscard]] bool fill_spare();
  // The files of a last snapshot are in a directory that has lost its name.
  void forget_spare() { spare_.forget(); }
  // The next fill_spare() also replaces the files of the last snapshot.
  void broker_is_new() { new_broker_ = true; }

  [[nodiscard]] const std::string& folder() const { return catalogue_.folder(); }

 private:
  [[nodiscard]] Result<PartialFile> ask(std::chrono::seconds wait, bool spare);
  // The data alone.
  [[nodiscard]] Result<SnapshotOutput> make_data(std::size_t more);
  [[nodiscard]] Result<std::uint64_t> next_seq();
  void warn_of_owner(int data);

  RecorderThread& recorder_;
  Catalogue catalogue_;  // only for the next number
  std::function<void(Error)> warn_;
  SpareFiles spare_;
  bool new_broker_ = false;
  std::string owner_warned_;
  bool unsynced_said_ = false;
  std::string damage_said_;
  std::string warned_;  // the last warning about unfinished work, to log it once
};

}  // namespace flight::daemon
