// SPDX-License-Identifier: Apache-2.0
// Which generated FORK records of a prologue the file needs.
//
// The process tracker writes FORK, COMM, MMAP2 for each process that exists at the window's beginning, and FORK, COMM
// for each of its threads. COMM has the pid and the tid of the task, so to perf the FORK says no more than who the
// parent was. hotspot (1.3.0, 1.6.0) copies the parent's mappings over the process's own at such a FORK, and then finds
// no function of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flight {

class NeededForks {
 public:
  explicit NeededForks(std::span<const std::byte> prologue);

  // `record`: any record of the prologue; `rest`: the records behind it. False only for a FORK that is not needed.
  [[nodiscard]] bool has(std::span<const std::byte> record, std::span<const std::byte> rest) const;

 private:
  std::vector<std::uint32_t> shared_tids_;  // ascending
};

}  // namespace flight
