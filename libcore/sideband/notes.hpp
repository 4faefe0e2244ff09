// SPDX-License-Identifier: Apache-2.0
// Records of the process tracker's own: what it has dropped. They are in its log and its checkpoint, in the form of
// the kernel's records, and never in a snapshot. An older flightd ignores them, because it does not know their type.
// Private to sideband.
//
//   | header 8 | u32 pid | u32 kind | u64 count | u64 begin | trailer 32 |
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libcore/perf/record_build.hpp"

namespace flight {

// Neither the kernel nor perf has records of this type. 16 bits, as in the log's index.
inline constexpr std::uint16_t kNoteRecord = 0x464c;

enum class NoteKind : std::uint32_t {
  maps = 1,       // mappings of `pid` that were forgotten by then
  images = 2,     // past images of living processes, the last of which ended then
  threads = 3,    // threads of living processes, the last of which exited then
  cgroups = 4,    // paths of cgroups
  strangers = 5,  // records of the rings that were not believed (strangers.hpp), the last of which was drained then
  flood = 6,      // mappings of `pid` that were not kept, until then (intake.hpp)
  renames = 7,    // names of its tasks, the same
  unnamed = 8,    // Incarnation::unnamed_threads of `pid` from then on
  replaced = 9,   // mappings that others had replaced, the last of them then, when they were folded early
  names = 10,     // names that tasks had before a rename, and that were lost, the last rename then
};

struct Note {
  NoteKind kind{};
  std::uint32_t pid = 0;  // 0: it is not about one process
  std::uint64_t count = 0;
  EventTime begin_ns = 0;  // 0: there is only the trailer's time
};

void append_note(RecordBuffer& out, const Note& note, const Trailer& trailer);
// nullopt: another type. The kind may be one of a later flightd.
[[nodiscard]] std::optional<Note> parse_note(std::span<const std::byte> record);

}  // namespace flight
