// SPDX-License-Identifier: Apache-2.0
// Sends entries to the journal (sd_journal_sendv(3)), and logs the line as well if stderr is not the journal
// ($JOURNAL_STREAM), so that each line appears exactly once.
//
//   any thread ── queue of kMostQueued ──▶ thread "journal" ── datagram ──▶ /run/systemd/journal/socket
//
// A thread sends, because sendmsg(2) waits when journald's queue is full. If our queue is full, entries are dropped and
// counted, and the count is reported when journald accepts entries again.
#pragma once

#include <memory>

#include "daemon/notify/journal_entries.hpp"
#include "libcore/base/result.hpp"

namespace flight::daemon {

class Journal {
 public:
  static constexpr std::size_t kMostQueued = 64;

  [[nodiscard]] static Result<std::unique_ptr<Journal>> start();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  // Waits for the queued entries, but not for a journald that hangs.
  ~Journal();

  // Any thread; never waits for journald.
  void report(JournalEntry entry);

 private:
  Journal() = default;
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which outlives this object if sendmsg hangs
};

}  // namespace flight::daemon
