// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/journal_notes.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "libcore/stream/journal_code.hpp"

namespace flight {
namespace {

// Larger than the number of any entry, with which an entry begins.
constexpr std::uint64_t kNoteMark = 1ULL << 63U;

enum class NoteKind : std::uint64_t { hole = 1, loss = 2, build_ids = 3 };

void append_note(std::vector<std::byte>& out, NoteKind kind, std::span<const std::byte> body,
                 std::uint64_t facts_checksum) {
  const std::size_t begin = out.size();
  put_journal_value(out, kNoteMark);
  put_journal_value(out, kind);
  put_journal_value(out, std::uint64_t{body.size()});
  out.insert(out.end(), body.begin(), body.end());
  put_journal_value(out, entry_checksum(std::span(out).subspan(begin), facts_checksum));
}

std::vector<std::byte> encode_hole(const JournaledHole& one) {
  std::vector<std::byte> out;
  put_journal_value(out, static_cast<std::int32_t>(one.cpu));
  put_journal_value(out, static_cast<std::uint32_t>(one.hole.cause));
  put_journal_value(out, std::uint32_t{one.hole.estimated ? 1U : 0U});
  for (const std::uint64_t field : {one.hole.bytes, one.hole.events, one.hole.from_ns, one.hole.until_ns})
    put_journal_value(out, field);
  const std::string_view name = std::string_view(one.channel).substr(0, kMaxJournaledName);
  const auto bytes = std::as_bytes(std::span(name.data(), name.size()));
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

std::vector<std::byte> encode_loss(const JournaledLoss& loss) {
  std::vector<std::byte> out;
  for (const std::uint64_t field : {loss.left_out, loss.events, loss.bytes}) put_journal_value(out, field);
  return out;
}

void decode_hole(JournalCursor body, JournalNotes& out) {
  JournaledHole one;
  one.cpu = body.take<std::int32_t>();
  const auto cause = body.take<std::uint32_t>();
  one.hole.estimated = body.take<std::uint32_t>() != 0;
  for (std::uint64_t* field : {&one.hole.bytes, &one.hole.events, &one.hole.from_ns, &one.hole.until_ns})
    *field = body.take<std::uint64_t>();
  const auto name = body.rest();
  if (!body.good() || cause > static_cast<std::uint32_t>(HoleCause::paused) || name.size() > kMaxJournaledName) return;
  one.hole.cause = static_cast<HoleCause>(cause);
  one.channel.resize(name.size());
  if (!name.empty()) std::memcpy(one.channel.data(), name.data(), name.size());
  out.holes.push_back(std::move(one));
}

void decode_loss(JournalCursor body, JournalNotes& out) {
  JournaledLoss loss;
  for (std::uint64_t* field : {&loss.left_out, &loss.events, &loss.bytes}) *field = body.take<std::uint64_t>();
  if (body.at_end()) out.loss = loss;
}

}  // namespace

void JournalNotes::add(JournalNotes&& later) {
  const std::size_t fit = kMaxListedHoles - std::min(kMaxListedHoles, holes.size());
  later.holes.resize(std::min(fit, later.holes.size()));
  holes.insert(holes.end(), std::make_move_iterator(later.holes.begin()), std::make_move_iterator(later.holes.end()));
  if (later.loss) loss = later.loss;
  build_ids.insert(build_ids.end(), later.build_ids.begin(), later.build_ids.end());
}

void append_notes(std::vector<std::byte>& out, const JournalNotes& notes, std::uint64_t facts_checksum) {
  for (const JournaledHole& one : notes.holes) append_note(out, NoteKind::hole, encode_hole(one), facts_checksum);
  if (notes.loss) append_note(out, NoteKind::loss, encode_loss(*notes.loss), facts_checksum);
  if (!notes.build_ids.empty()) append_note(out, NoteKind::build_ids, notes.build_ids, facts_checksum);
}

bool begins_with_note(std::span<const std::byte> bytes) {
  return JournalCursor(bytes).take<std::uint64_t>() == kNoteMark;
}

std::size_t read_note(std::span<const std::byte> bytes, std::uint64_t facts_checksum, JournalNotes& out) {
  JournalCursor cursor(bytes);
  static_cast<void>(cursor.take<std::uint64_t>());  // the mark
  const auto kind = cursor.take<NoteKind>();
  const auto body = cursor.take_bytes(cursor.take<std::uint64_t>());
  const std::size_t fields = bytes.size() - cursor.rest().size();
  const auto checksum = cursor.take<std::uint64_t>();
  if (!cursor.good() || checksum != entry_checksum(bytes.first(fields), facts_checksum)) return 0;
  if (kind == NoteKind::hole) decode_hole(JournalCursor(body), out);
  if (kind == NoteKind::loss) decode_loss(JournalCursor(body), out);
  if (kind == NoteKind::build_ids) out.build_ids.insert(out.build_ids.end(), body.begin(), body.end());
  return bytes.size() - cursor.rest().size();
}

}  // namespace flight
