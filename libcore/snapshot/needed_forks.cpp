// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/needed_forks.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

bool is_fork(std::span<const std::byte> record) {
  return load<perf_event_header>(record.data()).type == PERF_RECORD_FORK;
}

}  // namespace

NeededForks::NeededForks(std::span<const std::byte> prologue) {
  std::vector<std::uint32_t> tids;
  for (auto record = next_record(prologue); !record.empty(); record = next_record(prologue)) {
    prologue = prologue.subspan(record.size());
    if (const auto fork = is_fork(record) ? parse_task(record) : std::nullopt) tids.push_back(fork->tid);
  }
  std::sort(tids.begin(), tids.end());
  for (auto tid = tids.begin(); (tid = std::adjacent_find(tid, tids.end())) != tids.end();) {
    shared_tids_.push_back(*tid);
    tid = std::upper_bound(tid, tids.end(), *tid);
  }
}

bool NeededForks::has(std::span<const std::byte> record, std::span<const std::byte> rest) const {
  const auto fork = is_fork(record) ? parse_task(record) : std::nullopt;
  if (!fork) return true;
  // Two tasks with one number, because an EXIT was lost: perf gives the records of the second one to the first one's
  // process, unless a FORK ends that (tools/perf/util/machine.c, machine__process_fork_event()).
  if (std::binary_search(shared_tids_.begin(), shared_tids_.end(), fork->tid)) return true;
  // A process without a name keeps its number as its name: perf would give it its parent's. A thread without one has
  // that of its process, which perf knows from the FORK only.
  if (fork->tid == fork->pid) return false;
  const auto comm = parse_comm(next_record(rest));
  return !comm || comm->pid != fork->pid || comm->tid != fork->tid;
}

}  // namespace flight
