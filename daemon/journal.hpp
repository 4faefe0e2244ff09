// SPDX-License-Identifier: Apache-2.0
// To the journal, in flightd's own name (sd_journal_sendv(3)), and to the log where that is not the journal as well: by
// hand a person sees the line on the terminal, under systemd it is there once, as the entry with its fields.
//
//   any thread ── queue of kMostQueued ──▶ thread "journal" ── datagram ──▶ /run/systemd/journal/socket
//
// journald takes entries one by one, and sendmsg(2) waits for a journald that hangs: so it is a thread of its own that
// waits. What finds the queue full is dropped and counted, and the count is told when the journal answers again.
#pragma once

#include <memory>

#include "daemon/journal_entries.hpp"

namespace flight {

class Journal {
 public:
  static constexpr std::size_t kMostQueued = 64;

  Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  // Waits for what is queued, but not for a journald that hangs.
  ~Journal();

  // Any thread; never waits for journald.
  void tell(JournalEntry entry);

 private:
  struct State;
  std::shared_ptr<State> state_;  // the thread's, too: it may outlive us by a hanging sendmsg
};

// Whether what is written to stderr arrives in the journal: systemd says so in $JOURNAL_STREAM (systemd.exec(5)).
[[nodiscard]] bool stderr_is_journal();

}  // namespace flight
