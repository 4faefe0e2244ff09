// SPDX-License-Identifier: Apache-2.0
// The journal of a part that is being written: what is needed to finish the file after its writer was killed. The facts
// come first; then, after each round, an entry with the length of the data.
//
//   | magic 8 | bytes of the facts 8 | checksum 8 | events: attr 128, ids … | features: bit, contents … |
//   | entry 48: number, data bytes, expanded bytes, first time, newest time, checksum | notes | entry 48 | …
//
// Notes (journal_notes.hpp) have what is missing in the file, and facts that were not known when the part began. They
// precede the entry of the round that brought them. If the part is a directory, the facts end with the number of its
// files data.N, u32, and an entry has the length of each before its checksum.
//
// All numbers are little-endian u64, counts u32. A checksum is FNV-1a over everything since the beginning of the
// journal, or for an entry over it and the checksum of the facts, so that no entry of another journal is accepted.
// The order of its entries is that of the file; a torn last one is ignored. The journal is input from outside when it
// is read again: hostile bytes cause an error. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/perfdata/features.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/stream/journal_notes.hpp"

namespace flight {

inline constexpr std::size_t kJournalEntryBytes = 48;

// After a round the file is whole up to here.
struct JournaledRound {
  std::uint64_t data_bytes = 0;             // of the data section
  std::uint64_t expanded_bytes = 0;         // the same, expanded
  EventTime first_ns = 0, newest_ns = 0;    // of the records of rings so far; 0: there was none
  std::vector<std::uint64_t> more_bytes{};  // of a directory: the lengths of data.0, data.1 …
};

class Journal {
 public:
  // `file`: empty. Writes the facts: attrs and ids of the events, and the encoded features (EVENT_DESC among them).
  // `more_files`: of a directory, the number of its files data.N; each entry has so many lengths.
  [[nodiscard]] static Result<Journal> create(UniqueFd file, std::span<const FileEvent> events,
                                              std::span<const EncodedFeature> features, std::size_t more_files = 0);
  // `notes` come before the entry. After an error the next ones take the place of these.
  [[nodiscard]] Result<void> append(const JournaledRound& entry, const JournalNotes& notes = {});
  // The end of the journal behind one of its entries.
  struct Mark {
    std::uint64_t entries = 0, end = 0;
  };
  [[nodiscard]] Mark mark() const { return {.entries = number_, .end = end_}; }
  // Leaves what was there at this mark.
  [[nodiscard]] Result<void> cut(const Mark& mark);
  // fdatasync(2), after that of the data.
  [[nodiscard]] Result<void> sync() const;
  // The bytes of all entries and notes.
  [[nodiscard]] std::uint64_t bytes() const { return end_ - begin_; }

 private:
  Journal(UniqueFd file, std::uint64_t checksum, std::uint64_t end, std::size_t more_files)
      : file_(std::move(file)), checksum_(checksum), begin_(end), end_(end), more_files_(more_files) {}
  UniqueFd file_;
  std::uint64_t checksum_;     // of the facts
  std::uint64_t begin_, end_;  // where the entries begin and end
  std::size_t more_files_;
  std::uint64_t number_ = 0;
};

struct JournalContents {
  std::vector<FileEvent> events;  // without names: these are in EVENT_DESC
  std::vector<EncodedFeature> features;
  std::size_t more_files = 0;                   // of a directory; 0: the part is one file
  std::vector<JournaledRound> entries;          // the lengths ascend
  std::vector<std::size_t> ends;                // of the journal, behind each entry
  std::map<std::uint64_t, JournalNotes> notes;  // by the number of the entry behind them, which may be missing
  std::uint64_t torn_bytes = 0;                 // after the last valid entry or note
};

// EBADMSG: not a journal, or cut within its facts, or changed.
[[nodiscard]] Result<JournalContents> parse_journal(std::span<const std::byte> bytes);

}  // namespace flight
