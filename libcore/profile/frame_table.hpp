// SPDX-License-Identifier: Apache-2.0
// Numbers the frames of stacks. A frame is a function of an object, or, where its name is not known, a place in the
// object. Code in no mapping is one frame: its address would say where the kernel or a process lies in memory (KASLR,
// ASLR), which no view and no export shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace flight {

enum class StackFrameKind : std::uint8_t {
  root,    // of an event
  others,  // what had no space in the tree
  task,    // the name of a thread: the outermost frame of each stack
  code,
};

struct StackFrame {
  StackFrameKind kind = StackFrameKind::root;
  std::uint32_t name = 0;    // a text: of a task or function; 0: unknown
  std::uint32_t object = 0;  // as in AddressSpaces
  std::uint64_t offset = 0;  // of the function's begin; without a name that of the place
};

class FrameTable {
 public:
  static constexpr std::uint32_t kRoot = 0, kOthers = 1;
  static constexpr std::size_t kMostFrames = 1U << 20U;

  explicit FrameTable(std::size_t most = kMostFrames);

  // kOthers: there are too many.
  [[nodiscard]] std::uint32_t number_of(const StackFrame& frame);
  [[nodiscard]] const std::vector<StackFrame>& all() const { return frames_; }

 private:
  std::size_t most_;
  std::vector<StackFrame> frames_;
  std::map<std::tuple<StackFrameKind, std::uint32_t, std::uint32_t, std::uint64_t>, std::uint32_t> numbers_;
};

}  // namespace flight
