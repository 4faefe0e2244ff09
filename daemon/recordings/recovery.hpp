// SPDX-License-Identifier: Apache-2.0
// Finishes a part of a recording whose flightd was killed, or whose machine lost its power. Its files belong to root,
// and this flightd cannot write to them: it copies the data to a new file of the broker's, and finishes that one. It
// can be killed at any step: the next start goes on with what it finds.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "daemon/recordings/part_store.hpp"
#include "daemon/recordings/running_recording.hpp"

namespace flight::daemon {

struct PartRecovery {
  std::uint64_t seq = 0;
  std::string host;                         // as in names
  RecordingEnd why = RecordingEnd::killed;  // or `disk`: it could not be finished when the recording ended
  bool last = true;                         // of its recording: it says why that ended
  // Before the part is copied. An error: there is no space.
  std::function<Result<void>(std::uint64_t bytes)> make_room;
  std::function<bool()> stop;  // asked between two MiB. True: no more, for now
};

// A thread that may wait for the disk and the broker. Returns what became of it, for the log. What cannot be used is
// removed; then the part before it says why its recording ended. An error: the files are still there, and it can be
// tried again. ECANCELED: `stop`.
[[nodiscard]] Result<std::string> recover_part(PartStore& store, const PartRecovery& order);

// Those of these unfinished parts that are the last of their recordings. `host`: as in PartRecovery.
[[nodiscard]] std::set<std::uint64_t> last_parts(const std::string& folder, const std::vector<std::uint64_t>& seqs,
                                                 const std::string& host);

// After such an error. A full disk is not made fuller all the time.
[[nodiscard]] std::chrono::seconds recover_again_after(const Error& error);

}  // namespace flight::daemon
