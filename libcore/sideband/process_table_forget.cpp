// SPDX-License-Identifier: Apache-2.0
// How the table removes entries: after the horizon has passed them, and when it is over its limit.
#include <algorithm>

#include "libcore/sideband/process_table.hpp"

namespace flight {
namespace {

// The number of mappings that a living process keeps when memory is short: its program and the usual libraries.
constexpr std::size_t kLeanMaps = 64;
constexpr std::size_t kLeanThreads = 64;

}  // namespace

void ProcessTable::note_end(std::uint32_t pid, EventTime time_ns, std::size_t parts) {
  auto at = due_.end();
  while (at != due_.begin() && (at - 1)->time_ns > time_ns) --at;  // nearly sorted: one or two iterations
  due_.insert(at, Due{time_ns, pid, static_cast<std::uint32_t>(std::min<std::size_t>(parts, UINT32_MAX))});
}

void ProcessTable::forget(EventTime horizon_ns) {
  horizon_ns_ = std::max(horizon_ns_, horizon_ns);
  while (!due_.empty() && due_.front().time_ns < horizon_ns_) {
    const Due due = due_.front();
    due_.pop_front();
    prune(due, horizon_ns_);
  }
}

// Removes what ended before `horizon_ns`; returns how many whole processes were removed.
// `early`: counts the parts of living ones that no horizon has passed yet; null: there are none.
std::uint64_t ProcessTable::prune(const Due& due, EventTime horizon_ns, Evicted* early) {
  const auto place = processes_.find(due.pid);
  if (place == processes_.end()) return 0;
  Entry& entry = place->second;
  std::uint64_t gone = 0;
  {
    const Accounted accounted(*this, entry);
    gone = std::erase_if(entry,
                         [&](const Incarnation& process) { return !process.alive() && process.exit_ns < horizon_ns; });
    if (Incarnation* process = find(due.pid, due.time_ns)) pass(*process, due.parts, horizon_ns, early);
    if (entry.capacity() > entry.size() + 2) entry.shrink_to_fit();
  }
  if (entry.empty()) processes_.erase(place);
  return gone;
}

// `parts` more threads and images have ended before the horizon. A process can have a hundred thousand of them, so they
// are removed when they are a quarter of all: the cost of each is then constant.
void ProcessTable::pass(Incarnation& process, std::size_t parts, EventTime horizon_ns, Evicted* early) {
  process.passed = static_cast<std::uint32_t>(std::min<std::size_t>(process.passed + parts, UINT32_MAX));
  const std::size_t all = process.past.size() + process.threads.size() + process.names.count();
  if (process.passed == 0 || process.passed < all / 4) return;
  visits_ += all;
  process.passed = 0;
  // An image ends where the next one begins.
  auto kept = process.past.begin();
  while (kept != process.past.end()) {
    const Image& next = kept + 1 != process.past.end() ? *(kept + 1) : process.image;
    if (next.from_ns >= horizon_ns) break;
    if (early != nullptr) count_image(next.from_ns, *early);
    ++kept;
  }
  process.past.erase(process.past.begin(), kept);
  std::erase_if(process.threads, [&](const Thread& thread) {
    if (thread.exit_ns == 0 || thread.exit_ns >= horizon_ns) return false;
    if (early != nullptr) count_thread(thread.exit_ns, *early);
    return true;
  });
  if (early != nullptr) lose_names(process, horizon_ns);
  process.names.forget(horizon_ns_);
  if (process.past.capacity() > 2 * process.past.size()) process.past.shrink_to_fit();
  if (process.threads.capacity() > 2 * process.threads.size()) process.threads.shrink_to_fit();
}

// Drops the maps of processes that had exited by then and that no other process shares. False: there were none.
bool ProcessTable::drop_maps(const Due& due) {
  const auto place = processes_.find(due.pid);
  if (place == processes_.end()) return false;
  bool stripped = false;
  const auto drop = [&stripped](Image& image) {
    if (!image.maps || image.maps.use_count() > 1) return;
    image.maps.reset();
    stripped = true;
  };
  for (Incarnation& process : place->second) {
    if (process.alive() || process.exit_ns > due.time_ns) continue;
    drop(process.image);
    for (Image& past : process.past) drop(past);
  }
  return stripped;
}

ProcessTable::Evicted ProcessTable::strip(std::size_t most_bytes) {
  Evicted evicted;
  if (bytes() <= most_bytes) return evicted;
  auto due = std::upper_bound(due_.begin(), due_.end(), stripped_ns_,
                              [](EventTime time, const Due& one) { return time < one.time_ns; });
  for (; bytes() > most_bytes && due != due_.end(); ++due) {
    stripped_ns_ = due->time_ns;
    if (!drop_maps(*due)) continue;
    ++evicted.maps;
    evicted.maps_until_ns = due->time_ns;
  }
  return evicted;
}

ProcessTable::Evicted ProcessTable::shrink(std::size_t most_bytes) {
  Evicted evicted = strip(most_bytes);
  while (bytes() > most_bytes && !due_.empty()) {
    const Due oldest = due_.front();
    due_.pop_front();
    const std::uint64_t gone = prune(oldest, oldest.time_ns + 1, &evicted);
    if (gone > 0) evicted.until_ns = std::max(evicted.until_ns, oldest.time_ns);
    evicted.processes += gone;
  }
  if (bytes() > most_bytes) shrink_living(most_bytes, evicted);
  return evicted;
}

// What ended before the horizon is needed by no window, so it is not counted.
void ProcessTable::count_image(EventTime end_ns, Evicted& evicted) const {
  if (end_ns < horizon_ns_) return;
  ++evicted.images;
  evicted.images_until_ns = std::max(evicted.images_until_ns, end_ns);
}

void ProcessTable::count_thread(EventTime exit_ns, Evicted& evicted) const {
  if (exit_ns < horizon_ns_) return;
  ++evicted.threads;
  evicted.threads_until_ns = std::max(evicted.threads_until_ns, exit_ns);
}

void ProcessTable::lose_names(Incarnation& process, EventTime before_ns) {
  const PastNames::Lost lost = process.names.lose(before_ns, horizon_ns_);
  lost_names_.count += lost.count;
  lost_names_.until_ns = std::max(lost_names_.until_ns, lost.until_ns);
}

void ProcessTable::drop_the_past(Incarnation& process, Evicted& evicted) {
  lose_names(process, ~EventTime{0});
  for (std::size_t i = 0; i < process.past.size(); ++i)
    count_image(i + 1 < process.past.size() ? process.past[i + 1].from_ns : process.image.from_ns, evicted);
  process.past = {};
  std::erase_if(process.threads, [&](const Thread& thread) {
    if (thread.exit_ns == 0) return false;
    count_thread(thread.exit_ns, evicted);
    return true;
  });
  if (process.threads.size() > kLeanThreads) {
    evicted.threads += process.threads.size() - kLeanThreads;
    evicted.threads_until_ns = UINT64_MAX;
    process.live_threads = kLeanThreads;
    process.threads.resize(kLeanThreads);
  }
  process.threads.shrink_to_fit();
  process.passed = 0;
}

// The one that lives, or the last.
bool ProcessTable::is_sampled(const Entry& entry) { return !entry.empty() && entry.back().sampled; }

void ProcessTable::mark_sampled(const std::unordered_set<std::uint32_t>& pids, EventTime begin_ns, EventTime end_ns) {
  for (const std::uint32_t pid : pids) {
    const auto entry = processes_.find(pid);
    if (entry == processes_.end()) continue;
    for (Incarnation& process : entry->second)
      if (process.start_ns <= end_ns && process.alive_at(begin_ns)) process.sampled = true;
  }
}

void ProcessTable::make_lean(bool sampled, Evicted& evicted) {
  // Lists stay shared: each is cut once, and all its users share the short one. One that a sampled process keeps is not
  // cut for others: two lists would be larger.
  std::unordered_map<SharedMaps, SharedMaps> short_lists;
  if (!sampled)
    for (const auto& [pid, entry] : processes_)
      if (is_sampled(entry) && entry.back().image.maps)
        short_lists.emplace(entry.back().image.maps, entry.back().image.maps);
  for (auto& [pid, entry] : processes_) {
    if (is_sampled(entry) != sampled) continue;
    const Accounted accounted(*this, entry);
    for (Incarnation& process : entry) {
      drop_the_past(process, evicted);
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
}

// The machine has more processes than fit the limit.
void ProcessTable::remove_living(bool sampled, std::size_t most_bytes, Evicted& evicted) {
  for (auto place = processes_.begin(); bytes() > most_bytes && place != processes_.end();) {
    Entry& entry = place->second;
    if (is_sampled(entry) != sampled) {
      ++place;
      continue;
    }
    {
      const Accounted accounted(*this, entry);
      for (const Incarnation& process : entry) {
        evicted.living += process.alive() ? 1 : 0;
        evicted.processes += process.alive() ? 0 : 1;
        evicted.until_ns = std::max(evicted.until_ns, process.exit_ns);
      }
      entry.clear();
    }
    place = processes_.erase(place);
  }
}

// A process with samples in one snapshot probably has some in the next one.
void ProcessTable::shrink_living(std::size_t most_bytes, Evicted& evicted) {
  for (const bool sampled : {false, true})
    if (bytes() > most_bytes) make_lean(sampled, evicted);
  for (const bool sampled : {false, true}) remove_living(sampled, most_bytes, evicted);
}

}  // namespace flight
