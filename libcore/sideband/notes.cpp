// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/notes.hpp"

#include <linux/perf_event.h>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

struct NoteRecord {
  perf_event_header header;
  std::uint32_t pid;
  NoteKind kind;
  std::uint64_t count;
  EventTime begin_ns;
  Trailer trailer;
};
static_assert(sizeof(NoteRecord) == 64);

}  // namespace

void append_note(RecordBuffer& out, const Note& note, const Trailer& trailer) {
  const NoteRecord record{.header = {.type = kNoteRecord, .misc = 0, .size = sizeof record},
                          .pid = note.pid,
                          .kind = note.kind,
                          .count = note.count,
                          .begin_ns = note.begin_ns,
                          .trailer = trailer};
  const auto bytes = std::as_bytes(std::span(&record, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::optional<Note> parse_note(std::span<const std::byte> record) {
  if (record.size() != sizeof(NoteRecord) || load<perf_event_header>(record.data()).type != kNoteRecord)
    return std::nullopt;
  const auto note = load<NoteRecord>(record.data());
  return Note{.kind = note.kind, .pid = note.pid, .count = note.count, .begin_ns = note.begin_ns};
}

}  // namespace flight
