// SPDX-License-Identifier: Apache-2.0
// The tables of a Firefox profile that all threads share: the stacks of one event, their frames and functions, the
// files, and the texts. Private to this module.
//
// A frame, its function and its text have the same number. Behind the texts of the frames are those of the files, and
// then those that the caller adds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/export/json_pieces.hpp"
#include "libcore/profile/profile.hpp"

namespace flight {

// "key":[0,1,2], `count` of them from `first` on.
void write_numbers(JsonPieces& out, std::string_view key, std::size_t first, std::size_t count);

class FirefoxTables {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  // `profile` must outlive it. `root`: the event's node.
  FirefoxTables(const SnapshotProfile& profile, std::uint32_t root);

  // The number of the stack that ends at this node; kNone: it is of another event.
  [[nodiscard]] std::uint32_t stack_at(std::uint32_t node) const { return stack_of_[node]; }
  [[nodiscard]] std::size_t own_texts() const { return frames_.size() + objects_.size(); }

  // The items of "libs".
  void write_libs(JsonPieces& out) const;
  // The members of "shared".
  void write_shared(JsonPieces& out, const std::vector<std::string>& more_texts) const;

 private:
  void add(std::uint32_t node);
  // 0: it is in no file.
  [[nodiscard]] std::uint32_t code_of(std::uint32_t frame) const;
  void write_stacks(JsonPieces& out) const;
  void write_frames(JsonPieces& out) const;
  void write_functions(JsonPieces& out) const;
  void write_texts(JsonPieces& out, const std::vector<std::string>& more_texts) const;

  const SnapshotProfile& profile_;
  std::vector<std::uint32_t> stack_of_, frame_of_, object_of_;  // by node, frame and object of the profile
  std::vector<std::uint32_t> stacks_, frames_, objects_;        // the reverse
};

}  // namespace flight
