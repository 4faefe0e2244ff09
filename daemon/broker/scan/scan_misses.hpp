// SPDX-License-Identifier: Apache-2.0
// The processes of which a scan has no mappings, or not all, and the warning about them. A plain value; a scan uses it
// with its mutex locked. All processes are counted, but only the first few are named, so the text stays short.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flight::broker {

enum class ScanMiss : std::uint8_t {
  late,    // not read in time
  memory,  // the scan's share of memory.max was used up
  cut,     // more mappings or threads than are read of one process
};

struct ScanMisses {
  std::array<std::size_t, 3> by_reason{};
  std::size_t unread = 0;                     // of the late ones, those of which only the pid is known
  std::string named;                          // the first of them: "12 (bash), 13 (?)"
  std::uint64_t threads = 0, threads_of = 0;  // beyond kMostThreads, and of how many processes

  void leave_out(std::uint64_t threads_of_one);
  void add(ScanMiss reason, std::uint32_t pid, std::string_view comm);
  [[nodiscard]] std::size_t count() const;
  // What is missing, why, and what to do; empty: nothing is missing. `limit_bytes`: of the scan.
  [[nodiscard]] std::string warning(std::size_t limit_bytes) const;
};

}  // namespace flight::broker
