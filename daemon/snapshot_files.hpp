// SPDX-License-Identifier: Apache-2.0
// Where a snapshot is written to: two files, which the broker makes (root owns them, so that perf opens them), and a
// number. The snapshot worker's thread only.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "daemon/recorder_thread.hpp"
#include "daemon/spare_files.hpp"
#include "libcore/snapshot/snapshot.hpp"
#include "libcore/store/catalogue.hpp"

namespace flight {

class SnapshotFiles {
 public:
  SnapshotFiles(RecorderThread& recorder, std::string folder, std::function<void(Error)> warn)
      : recorder_(recorder), catalogue_(std::move(folder)), warn_(std::move(warn)), spare_(catalogue_.folder()) {}

  // What an error leaves behind is removed.
  [[nodiscard]] Result<SnapshotOutput> make();
  // For the last snapshot: there is no broker to ask any more.
  [[nodiscard]] Result<SnapshotOutput> take_spare();
  // When nobody wants anything else; a disk that does not answer now is asked again after the next snapshot.
  void fill_spare();
  // The next fill_spare() also replaces what a last snapshot was written into.
  void broker_is_new() { new_broker_ = true; }

  [[nodiscard]] const std::string& folder() const { return catalogue_.folder(); }

 private:
  [[nodiscard]] Result<PartialFile> ask(std::chrono::seconds wait, bool spare);
  [[nodiscard]] Result<std::uint64_t> next_seq();

  RecorderThread& recorder_;
  Catalogue catalogue_;  // for the next number only
  std::function<void(Error)> warn_;
  SpareFiles spare_;
  bool new_broker_ = false;
};

}  // namespace flight
