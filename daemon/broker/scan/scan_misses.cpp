// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/scan_misses.hpp"

#include <fmt/format.h>

#include <numeric>

#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/config/memory_share.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight::broker {
namespace {

constexpr std::size_t kNamedInWarning = 8;

std::string reason_text(ScanMiss reason, std::size_t limit_bytes) {
  switch (reason) {
    case ScanMiss::late:
      return "not read in time";
    case ScanMiss::memory:
      return limit_bytes < scan_bytes(kMostBesideRingsBytes) ? "limit of memory.max reached: raise memory.max"
                                                             : "limit of a scan reached";
    case ScanMiss::cut:
      return "more mappings or threads than flightd reads of one process";
  }
  return {};
}

}  // namespace

void ScanMisses::add(ScanMiss reason, std::uint32_t pid, std::string_view comm) {
  ++by_reason.at(static_cast<std::size_t>(reason));
  if (count() > kNamedInWarning) return;
  named += fmt::format("{}{} ({})", named.empty() ? "" : ", ", pid, comm.empty() ? "?" : own_name(comm));
}

void ScanMisses::leave_out(std::uint64_t threads_of_one) {
  threads += threads_of_one;
  threads_of += threads_of_one == 0 ? 0 : 1;
}

std::size_t ScanMisses::count() const { return std::accumulate(by_reason.begin(), by_reason.end(), std::size_t{0}); }

std::string ScanMisses::warning(std::size_t limit_bytes) const {
  const std::size_t all = count();
  std::string unnamed;
  if (threads > 0)
    unnamed =
        fmt::format("{} of {} {} not read, and have no names: flightd reads {} threads of a process",
                    counted(threads, "thread"), counted(threads_of, "process"), was_or_were(threads), kMostThreads);
  if (all == 0) return unnamed;
  std::string reasons;
  for (const ScanMiss reason : {ScanMiss::memory, ScanMiss::late, ScanMiss::cut}) {
    const std::size_t number = by_reason.at(static_cast<std::size_t>(reason));
    if (number == 0) continue;
    if (!reasons.empty()) reasons += "; ";
    if (number != all) reasons += fmt::format("{}: ", number);
    reasons += reason_text(reason, limit_bytes);
  }
  std::string out =
      fmt::format("the scan of /proc is incomplete: mappings of {} are missing ({}), so {} code may have no names: {}",
                  counted(all, "process"), reasons, all == 1 ? "its" : "their", named);
  if (all > kNamedInWarning) out += fmt::format(" and {} more", all - kNamedInWarning);
  if (unread != 0) out += fmt::format("; of {}, only the pid is known", counted(unread, "process"));
  if (!unnamed.empty()) out += "; " + unnamed;
  return out;
}

}  // namespace flight::broker
