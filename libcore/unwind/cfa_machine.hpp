// SPDX-License-Identifier: Apache-2.0
// Runs call frame instructions (DWARF 5, 6.4.2; GNU's and arm64's own ones): from a program to the rows it describes. A
// program has no loop, so its run is as long as its bytes. Registers that are not tracked (vectors, flags) are parsed
// and dropped.
#pragma once

#include <cstdint>
#include <vector>

#include "libcore/unwind/byte_cursor.hpp"
#include "libcore/unwind/cfi_entry.hpp"
#include "libcore/unwind/frame_state.hpp"

namespace flight {

inline constexpr std::size_t kMaxRememberedStates = 16;  // compilers nest one or two

class CfaMachine {
 public:
  // `initial`: the state at the end of the CIE's program; while that program itself runs, an empty one. Both are
  // borrowed.
  CfaMachine(Machine machine, const Cie& cie, const FrameState& initial, const CfiProgram& program,
             std::uint64_t begin);

  enum class Stop : std::uint8_t { advanced, ended, refused };
  // Runs until the next instruction has a higher address. `state` is then the state of [old location, new location).
  // refused: an unknown or truncated instruction.
  [[nodiscard]] Stop run();

  [[nodiscard]] const FrameState& state() const { return state_; }
  [[nodiscard]] std::uint64_t location() const { return location_; }

 private:
  enum class Effect : std::uint8_t { none, advance, refuse };
  Effect execute(std::uint8_t opcode);
  Effect execute_extended(std::uint8_t opcode);
  Effect execute_cfa(std::uint8_t opcode);
  Effect execute_location(std::uint8_t opcode);
  Effect execute_vendor(std::uint8_t opcode);
  Effect advance(std::uint64_t delta);
  Effect set(std::uint64_t number, const RegisterPlace& place);
  Effect restore(std::uint64_t number);
  Effect restore_state();
  [[nodiscard]] std::int64_t factored(std::uint64_t offset) const;
  [[nodiscard]] std::span<const std::byte> take_block() { return cursor_.take_bytes(cursor_.take_uleb()); }

  const Cie& cie_;
  const FrameState& initial_;
  CfiProgram program_;
  std::size_t registers_;
  ByteCursor cursor_;
  FrameState state_;
  std::uint64_t location_, next_location_;
  std::vector<FrameState> remembered_;
};

}  // namespace flight
