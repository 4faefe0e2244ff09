// SPDX-License-Identifier: Apache-2.0
// Drops the callers of a program that are in no code of it. The kernel follows the frame pointer; in a program that
// was built without, that register has any value, and what lies there is no return address. Of gzip, python3 and
// sqlite3 of Debian, 93 of 100 callers are such.
//
//   ring   | … | n | CONTEXT_KERNEL, ip, … | CONTEXT_USER, ip, caller, garbage, caller, … | … |
//   file   | … | n | CONTEXT_KERNEL, ip, … | CONTEXT_USER, ip, caller, caller, …          | … |
//
// Its one rule: the first address of the program is never dropped, nor any of a process whose code is not completely
// known (mapped_code.hpp); those samples are counted.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "libcore/perf/record.hpp"
#include "libcore/snapshot/code_cache.hpp"
#include "libcore/snapshot/mapped_code.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

class GarbageFrames {
 public:
  // `events` is the recording's own table. `code` must outlive this object and not change meanwhile; null: nothing is
  // dropped or counted.
  GarbageFrames(const EventTable& events, const MappedCode* code);

  // Whether it looks at any sample.
  [[nodiscard]] bool any() const { return any_; }
  // The record for the file, valid until the next call. `record`: without copies of the user's registers and stack
  // (user_copies.hpp). `key`: record_key(), needed of a SAMPLE. One thread.
  [[nodiscard]] std::span<const std::byte> drop(std::span<const std::byte> record, const std::optional<RecordKey>& key);
  // Of all records until now.
  [[nodiscard]] const SidecarStacks& stacks() const { return stacks_; }

 private:
  [[nodiscard]] std::span<const std::byte> without_garbage(std::span<const std::byte> record, std::size_t chain,
                                                           std::size_t frames, std::size_t memory);

  std::optional<CodeCache> code_;  // if any_
  bool any_ = false;
  std::vector<RecordLayout> layouts_;  // by event, as the file has its samples
  std::vector<std::byte> shorter_;
  SidecarStacks stacks_;
};

}  // namespace flight
