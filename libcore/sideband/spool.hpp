// SPDX-License-Identifier: Apache-2.0
// The ledger's spool: what the next flightd of this boot has to know of processes that no longer run, in a file of the
// runtime folder, which is memory. Its one rule: a record is in the file before its ring may forget it.
//
//   ledger.spool   header │ checkpoint: the ledger as it was │ what was drained since: raw perf records
//
// When that has grown by as much as the checkpoint was (kLeast…kMostGrowthBytes), a new file with a new checkpoint
// takes its place under the same name, so whoever dies when, there is always one that is whole up to its last write. No
// sync: it is to survive the death of a process, not the machine's. One thread at a time; it waits for the folder's
// file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/sideband/ledger.hpp"

namespace flight {

struct SpoolLimits {
  std::size_t state_bytes = 6U << 20U;  // of a checkpoint, beside the ledger's log, which has a bound of its own
  std::size_t least_growth_bytes = 1U << 20U;
  std::size_t most_growth_bytes = 4U << 20U;
  EventTime retry_ns = 10'000'000'000;  // after an error
};

// What an earlier flightd left.
struct SpoolContents {
  std::string records;        // empty: nothing, or nothing of this boot
  std::uint64_t evicted = 0;  // processes that it had to let go
  bool found = false;         // there is a spool of this boot
  bool complete = true;       // false: it could not be written to the end
};

class Spool {
 public:
  static constexpr std::string_view kName = "ledger.spool";
  static constexpr std::string_view kNewName = "ledger.spool.new";
  static constexpr std::size_t kMaxFileBytes = 64U << 20U;
  // Of readings that nobody outlived: then its content may be why.
  static constexpr std::uint32_t kMaxReadings = 5;

  // Nothing is done before the first call.
  Spool(std::string folder, std::string boot_id, SpoolLimits limits = {});

  // What is there for Ledger::replay(), and counts that it was read. Nothing where there is no file, or one of another
  // boot or layout. An error: there is one that is not to be trusted (not a plain file, somebody else's, writable for
  // others, too large, no spool, read kMaxReadings times): the text says which, and that names are missing.
  [[nodiscard]] Result<SpoolContents> read();

  // The following return an error once, and again only after a success; trouble() has its text meanwhile.
  // A new file with all that `ledger` knows, in place of the old one.
  [[nodiscard]] Result<void> begin(const Ledger& ledger, EventTime now_ns);
  // `records` were drained; they are added to the ledger right after this. Nothing is written where an error was, until
  // the next begin().
  [[nodiscard]] Result<void> append(const Ledger& ledger, std::span<const std::byte> records);
  // begin(), where it is due: the file has grown, is gone, or there was an error limits.retry_ns ago.
  [[nodiscard]] Result<void> keep_up(const Ledger& ledger, EventTime now_ns);

  // Why there is nothing to outlive us; empty: there is.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  [[nodiscard]] Result<void> write_new(const Ledger& ledger);
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> failed(const Error& error);
  void mark_incomplete() const;
  [[nodiscard]] bool is_gone() const;
  // Of the living that no checkpoint holds and that end in `records`.
  void append_ending(const Ledger& ledger, std::span<const std::byte> records, RecordBuffer& out);

  std::string folder_, boot_id_;
  SpoolLimits limits_;
  UniqueFd file_;  // none: not begun, or an error
  std::size_t checkpoint_bytes_ = 0, grown_bytes_ = 0;
  EventTime tried_ns_ = 0;
  std::unordered_set<std::uint32_t> unwritten_;  // as LedgerCheckpoint's
  std::string trouble_;
};

}  // namespace flight
