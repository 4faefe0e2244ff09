// SPDX-License-Identifier: Apache-2.0
// Finishes a part whose writer was killed, or whose machine lost its power: cuts the data to the length that the newest
// usable entry of its journal states, appends the features, mends the header. The last step writes the header, so a
// recovery that is killed is repeated.
//
// An entry is usable if the file has that much data, whole records up to there, and every frame of them can be
// expanded: after a power cut the newest entries may be on the disk, and the records before them not. What it does not
// find: bytes that are zeros, or others, within a record or within a frame that can still be expanded, since neither
// has a checksum. And it believes what an entry says about the times and the expanded size, if the times are in order.
// Both files are input from outside: hostile bytes cause an error.
//
// It does not sync: do that with the data before the file gets its name and the journal is removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/stream/journal_notes.hpp"

namespace flight {

struct Recovered {
  std::uint64_t file_bytes = 0, data_bytes = 0, expanded_bytes = 0;  // of a directory: of all its files
  std::uint64_t events = 0;                                          // samples, counted
  EventTime first_ns = 0, newest_ns = 0;  // of the records of rings, as the journal says; so is expanded_bytes
  std::size_t rounds = 0;                 // with an entry that is kept
  std::size_t left_out = 0;               // newer entries that are not usable,
  std::string reason;                     // and why
  // The losses up to the newest round that is kept, from the journal, in the form of PartFacts. It is not known what is
  // missing after that round.
  std::vector<JournaledHole> holes;
  std::uint64_t lost_events = 0, lost_bytes = 0, holes_left_out = 0;
};

// `data`: readable and writable. An error leaves it as it was, except if writing itself failed. EBADMSG: the journal is
// none, or it is cut before its first round, or its first round is not in this file; the text says which. `more`: of a
// directory, data.0, data.1 …, as `data`.
[[nodiscard]] Result<Recovered> recover(int data, std::span<const std::byte> journal, std::span<const int> more = {});
// The same where the disk may be full: then the newest rounds make space for the features, about twice as much as these
// need. If that does not help, the others stay.
[[nodiscard]] Result<Recovered> recover_what_fits(int data, std::span<const std::byte> journal,
                                                  std::span<const int> more = {});
// How many files data.N the part of this journal has; 0: it is one file, or the journal cannot be used.
[[nodiscard]] std::size_t more_files_of(std::span<const std::byte> journal);

}  // namespace flight
