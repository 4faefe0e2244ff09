// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/task_names.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

void TaskNames::apply(std::span<const std::byte> record, SidebandPosition position) {
  const auto type = load<std::uint32_t>(record.data());
  if (type == PERF_RECORD_COMM) {
    if (const auto comm = parse_comm(record))
      of_tid_[comm->tid].push_back({.since = position, .text = texts_->id_of(comm->name)});
  } else if (type == PERF_RECORD_FORK) {
    if (const auto fork = parse_task(record))
      of_tid_[fork->tid].push_back({.since = position, .text = newest_of(fork->ptid), .begins = true});
  }
}

std::uint32_t TaskNames::newest_of(std::uint32_t tid) const {
  const auto found = of_tid_.find(tid);
  return found == of_tid_.end() || found->second.empty() ? 0 : found->second.back().text;
}

std::uint32_t TaskNames::at(std::uint32_t tid, SidebandPosition position) {
  if (const auto found = of_tid_.find(tid); found != of_tid_.end()) {
    const std::vector<Name>& all = found->second;
    auto next = std::partition_point(all.begin(), all.end(), [&](const Name& name) { return name.since < position; });
    if (next != all.begin() && (next - 1)->text != 0) return (next - 1)->text;
    for (; next != all.end() && !next->begins; ++next)
      if (next->text != 0) return next->text;
  }
  // The idle tasks: the kernel records no name of them.
  return texts_->id_of(tid == 0 ? std::string("swapper") : fmt::format(":{}", static_cast<std::int32_t>(tid)));
}

}  // namespace flight
