// SPDX-License-Identifier: Apache-2.0
// What the journal of a part says between the entries of two rounds: what is not in the file and must be stated if its
// writer is killed. A note is written with the entry behind it, and counts only if that entry does.
//
//   | 1 << 63 | kind 8 | bytes of the body 8 | body | checksum 8 |
//
//   kind 1, a hole:          cpu i32, cause u32, estimated u32, bytes, events, from, until, the channel's name
//   kind 2, all the holes:   how many are not listed, events, bytes; if there are more than are listed
//   kind 3, build-ids:       more content for the section BUILD_ID, behind that in the journal's facts
//
// Numbers and checksum are those of the journal (journal.hpp). A kind that is not known is skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libcore/stream/round.hpp"

namespace flight {

inline constexpr std::size_t kMaxListedHoles = 1024;  // of a part

struct JournaledHole {
  std::string channel;  // of the ring; at most kMaxJournaledName bytes
  int cpu = 0;
  Hole hole;
};
inline constexpr std::size_t kMaxJournaledName = 255;

// Sums over all holes since the part began.
struct JournaledLoss {
  std::uint64_t left_out = 0;           // so many are not listed
  std::uint64_t events = 0, bytes = 0;  // of all of them
};

struct JournalNotes {
  std::vector<JournaledHole> holes;
  std::optional<JournaledLoss> loss;  // nullopt: as before
  std::vector<std::byte> build_ids;   // encoded

  // Adds notes that were written later, before the same entry. Holes beyond kMaxListedHoles are dropped.
  void add(JournalNotes&& later);
};

// `facts_checksum`: of the journal's facts.
void append_notes(std::vector<std::byte>& out, const JournalNotes& notes, std::uint64_t facts_checksum);

// Whether a note begins here, and no entry of a round.
[[nodiscard]] bool begins_with_note(std::span<const std::byte> bytes);
// Reads the note at the beginning, and returns its size; 0: it is cut, or its checksum is wrong. Hostile bytes are
// neither believed nor a fault.
[[nodiscard]] std::size_t read_note(std::span<const std::byte> bytes, std::uint64_t facts_checksum, JournalNotes& out);

}  // namespace flight
