// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/past_names.hpp"

#include <algorithm>
#include <utility>

namespace flight {

std::vector<PastNames::Name>::iterator PastNames::first_after(EventTime time_ns) {
  return std::upper_bound(kept_->names.begin(), kept_->names.end(), time_ns,
                          [](EventTime time, const Name& name) { return time < name.until_ns; });
}

Comm& PastNames::at(std::uint32_t tid, EventTime time_ns, Comm& current, EventTime to_ns) {
  if (!kept_) return current;
  const auto end = kept_->names.end();
  const auto later = std::find_if(first_after(time_ns), end, [tid](const Name& name) { return name.tid == tid; });
  return later != end && later->until_ns <= to_ns ? later->comm : current;
}

PastNames::Lost PastNames::rename(std::uint32_t tid, EventTime time_ns, Comm& current, const Comm& now,
                                  EventTime to_ns) {
  Lost lost;
  if (count() >= kMost) lost = lose(kept_->names[kMost / 4].until_ns + 1, 0);
  if (!kept_) kept_ = std::make_unique<Kept>();
  const Comm before = std::exchange(at(tid, time_ns, current, to_ns), now);
  kept_->names.insert(first_after(time_ns), Name{.until_ns = time_ns, .tid = tid, .comm = before});
  return lost;
}

void PastNames::drop(EventTime before_ns) {
  std::vector<Name>& names = kept_->names;
  std::erase_if(names, [before_ns](const Name& name) { return name.until_ns < before_ns; });
  if (names.empty() && kept_->lost_until_ns == 0)
    kept_.reset();
  else if (names.capacity() > 2 * names.size())
    names.shrink_to_fit();
}

void PastNames::forget(EventTime before_ns) {
  if (!kept_) return;
  if (kept_->lost_until_ns < before_ns) kept_->lost_until_ns = 0;
  drop(before_ns);
}

PastNames::Lost PastNames::lose(EventTime before_ns, EventTime needed_ns) {
  Lost lost;
  if (!kept_) return lost;
  for (const Name& name : kept_->names) {
    if (name.until_ns >= before_ns) break;
    if (name.until_ns < needed_ns) continue;
    ++lost.count;
    lost.until_ns = name.until_ns;
  }
  kept_->lost_until_ns = std::max(kept_->lost_until_ns, lost.until_ns);
  drop(before_ns);
  return lost;
}

std::vector<PastNames::Since> PastNames::of(std::uint32_t tid, EventTime from_ns, EventTime to_ns,
                                            const Comm& last) const {
  if (!kept_) return {{.since_ns = from_ns, .comm = last}};
  std::vector<Since> out;
  EventTime since_ns = from_ns;
  if (from_ns < kept_->lost_until_ns) {
    out.push_back({.since_ns = from_ns, .comm = lost_comm()});
    since_ns = kept_->lost_until_ns;
  }
  for (const Name& name : kept_->names) {
    if (name.tid != tid || name.until_ns <= since_ns || name.until_ns > to_ns) continue;
    out.push_back({.since_ns = since_ns, .comm = name.comm});
    since_ns = name.until_ns;
  }
  if (since_ns < to_ns || out.empty()) out.push_back({.since_ns = since_ns, .comm = last});
  return out;
}

}  // namespace flight
