// SPDX-License-Identifier: Apache-2.0
// Keeps what KeepFreeWatch has seen in STATE/keep-free.state. Without it, each restart of flightd would delete
// snapshots for keep_free once more where that frees nothing. Store thread only, because a disk may block.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace flight::daemon {

class KeepFreeState {
 public:
  static constexpr const char* kFile = "keep-free.state";

  // `state_dir`: STATE; must exist. Empty: nothing is kept.
  explicit KeepFreeState(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  [[nodiscard]] bool loaded() const { return loaded_ || state_dir_.empty(); }
  // Once. What an earlier flightd saved; empty: nothing, or it cannot be read, which is logged.
  [[nodiscard]] std::string load();
  // If it differs from what is saved. An empty text removes the file. An error is logged once, until it succeeds.
  void save(std::string text);

 private:
  const std::string state_dir_;
  std::optional<std::string> saved_ = "";  // the text of the file, empty if there is none; nullopt: not known
  bool loaded_ = false, failed_ = false;
};

}  // namespace flight::daemon
