// SPDX-License-Identifier: Apache-2.0
// How the table forgets: behind the horizon, and when it is over its bound.
#include <algorithm>

#include "libcore/sideband/process_table.hpp"

namespace flight {
namespace {

// What is left of a living process when memory is short: enough for its program and the usual libraries.
constexpr std::size_t kLeanMaps = 64;
constexpr std::size_t kLeanThreads = 64;

void drop_the_past(Incarnation& process) {
  process.past = {};
  std::erase_if(process.threads, [](const Thread& thread) { return thread.exit_ns != 0; });
  process.threads.shrink_to_fit();
}

}  // namespace

void ProcessTable::note_end(std::uint32_t pid, EventTime time_ns) {
  auto at = due_.end();
  while (at != due_.begin() && (at - 1)->time_ns > time_ns) --at;  // nearly sorted: a step or two
  due_.insert(at, Due{time_ns, pid});
}

void ProcessTable::forget(EventTime horizon_ns) {
  horizon_ns_ = std::max(horizon_ns_, horizon_ns);
  while (!due_.empty() && due_.front().time_ns < horizon_ns_) {
    const std::uint32_t pid = due_.front().pid;
    due_.pop_front();
    prune(pid, horizon_ns_);
  }
}

// Drops what ended before `horizon_ns`; returns how many whole processes that were.
std::uint64_t ProcessTable::prune(std::uint32_t pid, EventTime horizon_ns) {
  const auto place = processes_.find(pid);
  if (place == processes_.end()) return 0;
  Entry& entry = place->second;
  std::uint64_t gone = 0;
  {
    const Accounted accounted(*this, entry);
    gone = std::erase_if(entry,
                         [&](const Incarnation& process) { return !process.alive() && process.exit_ns < horizon_ns; });
    for (Incarnation& process : entry) {
      // An image ends where the next one begins.
      while (!process.past.empty()) {
        const Image& next = process.past.size() > 1 ? process.past[1] : process.image;
        if (next.from_ns >= horizon_ns) break;
        process.past.erase(process.past.begin());
      }
      std::erase_if(process.threads,
                    [&](const Thread& thread) { return thread.exit_ns != 0 && thread.exit_ns < horizon_ns; });
    }
    if (entry.capacity() > entry.size() + 2) entry.shrink_to_fit();
  }
  if (entry.empty()) processes_.erase(place);
  return gone;
}

std::uint64_t ProcessTable::shrink(std::size_t most_bytes) {
  if (bytes() <= most_bytes) return 0;
  std::uint64_t evicted = 0;
  while (bytes() > most_bytes && !due_.empty()) {
    const Due oldest = due_.front();
    due_.pop_front();
    evicted += prune(oldest.pid, oldest.time_ns + 1);
  }
  return evicted + shrink_living(most_bytes);
}

std::uint64_t ProcessTable::shrink_living(std::size_t most_bytes) {
  if (bytes() <= most_bytes) return 0;
  // Lists stay shared: each is cut once, and all that shared it share the short one.
  std::unordered_map<SharedMaps, SharedMaps> short_lists;
  for (auto& [pid, entry] : processes_) {
    const Accounted accounted(*this, entry);
    for (Incarnation& process : entry) {
      drop_the_past(process);
      if (process.threads.size() > kLeanThreads) {
        process.live_threads = kLeanThreads;
        process.threads.resize(kLeanThreads);
        process.threads.shrink_to_fit();
      }
      SharedMaps& maps = process.image.maps;
      if (!maps || maps->all().size() <= kLeanMaps) continue;
      SharedMaps& lean = short_lists[maps];
      if (!lean) {
        lean = std::make_shared<MapList>(*maps, meter_);
        lean->trim(kLeanMaps);
      }
      maps = lean;
    }
  }
  short_lists.clear();
  std::uint64_t evicted = 0;
  while (bytes() > most_bytes && !processes_.empty()) {  // the machine has more processes than we may remember
    Entry& entry = processes_.begin()->second;
    {
      const Accounted accounted(*this, entry);
      evicted += entry.size();
      entry.clear();
    }
    processes_.erase(processes_.begin());
  }
  return evicted;
}

}  // namespace flight
