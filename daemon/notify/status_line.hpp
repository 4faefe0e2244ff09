// SPDX-License-Identifier: Apache-2.0
// The line in `systemctl status`: problems first, then
//
//   recording 2 CPUs, 3 channels, 13 s held (channel net); last snapshot 12 min ago (lopsided); store 180M of 2.0G
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace flight::daemon {

struct StatusFacts {
  std::size_t cpus = 0, channels = 0;
  std::chrono::nanoseconds held{};  // how far back the shortest ring reaches: a snapshot has all channels for so long
  std::string shortest{};           // its channel; empty: there is only one
  bool paused = false, broker_gone = false;
  std::string refusal;  // why the broker cannot record; empty: it can, or it is gone
  std::string trouble;  // "degraded (disk): …"; empty: none
  struct Last {
    std::chrono::nanoseconds ago{};
    std::string trigger;
  };
  std::optional<Last> last;
  std::uint64_t store_bytes = 0, store_max_bytes = 0;  // max 0: not known yet
};

// Printable, on one line, bounded.
[[nodiscard]] std::string status_line(const StatusFacts& facts);

}  // namespace flight::daemon
