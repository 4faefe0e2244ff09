// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/journal.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/stream/journal_code.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kJournalMagic = 0x31304345524c4600;  // "\0FLREC01"
constexpr std::size_t kMaxJournalEvents = 4096;              // as of FileReader
constexpr unsigned kHighestFeature = 255;

struct JournalHeader {
  std::uint64_t magic = kJournalMagic;
  std::uint64_t facts_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(JournalHeader) == 24);
static_assert(kJournalEntryBytes == 6 * sizeof(std::uint64_t));  // append_entry()

std::uint64_t checksum_of(const JournalHeader& header, std::span<const std::byte> facts) {
  const std::array<std::uint64_t, 2> begin{header.magic, header.facts_bytes};
  return journal_checksum(facts, journal_checksum(std::as_bytes(std::span(begin))));
}

std::vector<std::byte> encode_facts(std::span<const FileEvent> events, std::span<const EncodedFeature> features,
                                    std::size_t more_files) {
  std::vector<std::byte> out;
  put_journal_value(out, static_cast<std::uint32_t>(events.size()));
  for (const FileEvent& event : events) {
    perf_event_attr attr = event.attr;
    attr.size = kStoredAttrBytes;
    const auto stored = std::as_bytes(std::span(&attr, 1)).first(kStoredAttrBytes);
    out.insert(out.end(), stored.begin(), stored.end());
    put_journal_value(out, static_cast<std::uint32_t>(event.ids.size()));
    const auto ids = std::as_bytes(std::span(event.ids));
    out.insert(out.end(), ids.begin(), ids.end());
  }
  put_journal_value(out, static_cast<std::uint32_t>(features.size()));
  for (const EncodedFeature& feature : features) {
    put_journal_value(out, static_cast<std::uint32_t>(feature.bit));
    put_journal_value(out, static_cast<std::uint64_t>(feature.bytes.size()));
    out.insert(out.end(), feature.bytes.begin(), feature.bytes.end());
  }
  if (more_files > 0) put_journal_value(out, static_cast<std::uint32_t>(more_files));
  return out;
}

void append_entry(std::vector<std::byte>& out, std::uint64_t number, const JournaledRound& entry,
                  std::uint64_t facts_checksum) {
  const std::size_t begin = out.size();
  for (const std::uint64_t field : {number, entry.data_bytes, entry.expanded_bytes, entry.first_ns, entry.newest_ns})
    put_journal_value(out, field);
  for (const std::uint64_t bytes : entry.more_bytes) put_journal_value(out, bytes);
  put_journal_value(out, entry_checksum(std::span(out).subspan(begin), facts_checksum));
}

Result<void> write_journal(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return sys_error(count < 0 ? errno : EIO, "write a recording's journal ({} bytes at {})", bytes.size(), offset);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

// False: they are no facts. Nothing is allocated that the bytes do not have.
bool decode_facts(std::span<const std::byte> bytes, JournalContents& out) {
  JournalCursor cursor(bytes);
  const auto events = cursor.take<std::uint32_t>();
  if (events > kMaxJournalEvents) return false;
  for (std::uint32_t i = 0; i < events && cursor.good(); ++i) {
    FileEvent event;
    const auto attr = cursor.take_bytes(kStoredAttrBytes);
    if (!attr.empty()) std::memcpy(&event.attr, attr.data(), attr.size());
    const auto ids = cursor.take_bytes(std::uint64_t{cursor.take<std::uint32_t>()} * sizeof(std::uint64_t));
    event.ids.resize(ids.size() / sizeof(std::uint64_t));
    if (!ids.empty()) std::memcpy(event.ids.data(), ids.data(), ids.size());
    out.events.push_back(std::move(event));
  }
  const auto features = cursor.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < features && cursor.good(); ++i) {
    const auto bit = cursor.take<std::uint32_t>();
    const auto contents = cursor.take_bytes(cursor.take<std::uint64_t>());
    const bool ascends = out.features.empty() || out.features.back().bit < bit;
    if (bit > kHighestFeature || !ascends) return false;
    out.features.push_back({.bit = bit, .bytes = {contents.begin(), contents.end()}});
  }
  if (cursor.at_end() || !cursor.good()) return cursor.good();
  out.more_files = cursor.take<std::uint32_t>();
  return cursor.at_end() && out.more_files > 0 && out.more_files < kMaxDataFiles;
}

// nullopt: its checksum or its number is wrong.
std::optional<JournaledRound> decode_entry(std::span<const std::byte> bytes, std::uint64_t number,
                                           std::size_t more_files, std::uint64_t facts_checksum) {
  JournalCursor cursor(bytes);
  const auto its_number = cursor.take<std::uint64_t>();
  JournaledRound entry;
  entry.data_bytes = cursor.take<std::uint64_t>();
  entry.expanded_bytes = cursor.take<std::uint64_t>();
  entry.first_ns = cursor.take<std::uint64_t>();
  entry.newest_ns = cursor.take<std::uint64_t>();
  for (std::size_t i = 0; i < more_files; ++i) entry.more_bytes.push_back(cursor.take<std::uint64_t>());
  const auto checksum = cursor.take<std::uint64_t>();
  const auto fields = bytes.first(bytes.size() - sizeof checksum);
  if (its_number != number || checksum != entry_checksum(fields, facts_checksum)) return std::nullopt;
  return entry;
}

bool follows(const JournaledRound& entry, const std::vector<JournaledRound>& before) {
  if (before.empty()) return true;
  const JournaledRound& last = before.back();
  return entry.data_bytes >= last.data_bytes &&
         std::equal(entry.more_bytes.begin(), entry.more_bytes.end(), last.more_bytes.begin(), last.more_bytes.end(),
                    std::greater_equal<>());
}

// What follows the facts, up to what is cut or damaged. `facts_end`: in the journal.
void read_entries(std::span<const std::byte> bytes, std::size_t facts_end, std::uint64_t facts_checksum,
                  JournalContents& out) {
  const std::size_t all = bytes.size(), entry_bytes = kJournalEntryBytes + out.more_files * sizeof(std::uint64_t);
  while (!bytes.empty()) {
    if (begins_with_note(bytes)) {
      JournalNotes note;
      const std::size_t size = read_note(bytes, facts_checksum, note);
      if (size == 0) break;
      out.notes[out.entries.size()].add(std::move(note));
      bytes = bytes.subspan(size);
      continue;
    }
    if (bytes.size() < entry_bytes) break;
    auto entry = decode_entry(bytes.first(entry_bytes), out.entries.size(), out.more_files, facts_checksum);
    if (!entry || !follows(*entry, out.entries)) break;
    out.entries.push_back(std::move(*entry));
    bytes = bytes.subspan(entry_bytes);
    out.ends.push_back(facts_end + all - bytes.size());
  }
  out.torn_bytes = bytes.size();
}

}  // namespace

Result<Journal> Journal::create(UniqueFd file, std::span<const FileEvent> events,
                                std::span<const EncodedFeature> features, std::size_t more_files) {
  const std::vector<std::byte> facts = encode_facts(events, features, more_files);
  JournalHeader header;
  header.facts_bytes = facts.size();
  header.checksum = checksum_of(header, facts);
  std::vector<std::byte> out;
  put_journal_value(out, header);
  out.insert(out.end(), facts.begin(), facts.end());
  if (auto written = write_journal(file.get(), out, 0); !written) return propagate(written.error());
  return Journal(std::move(file), header.checksum, out.size(), more_files);
}

Result<void> Journal::append(const JournaledRound& entry, const JournalNotes& notes) {
  assert(entry.more_bytes.size() == more_files_);
  std::vector<std::byte> stored;
  append_notes(stored, notes, checksum_);
  append_entry(stored, number_, entry, checksum_);
  if (auto written = write_journal(file_.get(), stored, end_); !written) return written;
  end_ += stored.size();
  ++number_;
  return {};
}

Result<void> Journal::cut(const Mark& mark) {
  assert(mark.entries <= number_ && mark.end >= begin_ && mark.end <= end_);
  end_ = mark.end;
  number_ = mark.entries;
  if (::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0)
    return sys_error(errno, "cut a recording's journal to {} bytes", end_);
  return {};
}

Result<void> Journal::sync() const {
  if (const auto synced = sync_data_now(file_.get()); !synced) return wrap(synced.error(), "a recording's journal");
  return {};
}

Result<JournalContents> parse_journal(std::span<const std::byte> bytes) {
  JournalHeader header;
  if (bytes.size() < sizeof header)
    return fail(std::errc::bad_message, "the journal of the recording has {} bytes, less than its header's {}",
                bytes.size(), sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes = bytes.subspan(sizeof header);
  if (header.magic != kJournalMagic)
    return fail(std::errc::bad_message, "not the journal of a recording, or that of another version");
  if (header.facts_bytes > bytes.size())
    return fail(std::errc::bad_message, "the journal of the recording is cut: it has {} of {} bytes about the file",
                bytes.size(), header.facts_bytes);
  const auto facts = bytes.first(static_cast<std::size_t>(header.facts_bytes));
  JournalContents out;
  if (checksum_of(header, facts) != header.checksum || !decode_facts(facts, out))
    return fail(std::errc::bad_message,
                "the journal of the recording is damaged: what it says about the file is wrong");
  read_entries(bytes.subspan(facts.size()), sizeof header + facts.size(), header.checksum, out);
  return out;
}

}  // namespace flight
