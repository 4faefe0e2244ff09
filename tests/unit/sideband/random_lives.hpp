// SPDX-License-Identifier: Apache-2.0
// Random lives of processes and threads, as records with increasing times.
#pragma once

#include <linux/perf_event.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/unit/sideband/tape.hpp"

namespace flight {

struct Event {
  EventTime time_ns = 0;
  RecordBuffer bytes;
};

// `simple`: only records that early folding keeps exactly (no mapping over another), and leaders exit last; a second of
// it has a hundred records, otherwise ten times as many.
class RandomLives {
 public:
  RandomLives(unsigned seed, bool simple) : random_(seed), simple_(simple) {
    add([&](Tape& tape) { tape.fork(now_, 0, 1); });
    add([&](Tape& tape) { tape.comm(now_, 1, 1, "init"); });
    living_[1] = {1};
  }

  void step() {
    const std::uint32_t pid = any(living_).first;
    auto& tids = living_[pid];
    const std::uint32_t tid = tids[random_() % tids.size()];
    switch (random_() % 10) {
      case 0:
      case 1: {
        const std::uint32_t child = fresh_number();
        if (child == 0) return;
        add([&](Tape& tape) { tape.fork(now_, pid, child, tid); });
        living_[child] = {child};
        return;
      }
      case 2: {
        const std::uint32_t thread = fresh_number();
        if (thread == 0) return;
        add([&](Tape& tape) { tape.thread(now_, pid, thread, tid); });
        tids.push_back(thread);
        return;
      }
      case 3:
      case 4:
        return exit(pid, tid);
      case 5:
        return exec(pid);
      case 6:
        add([&](Tape& tape) { tape.comm(now_, pid, tid, name("name")); });
        return;
      default: {
        const std::uint64_t at = simple_ ? (next_map_++ * 0x4000) : (random_() % 64 * 0x1000);
        const std::uint64_t bytes = simple_ ? 0x2000 : (1 + random_() % 8) * 0x1000;
        add([&](Tape& tape) { tape.map(now_, pid, at, bytes, "/lib/" + name("lib")); });
      }
    }
  }

  [[nodiscard]] const std::vector<Event>& events() const { return events_; }
  [[nodiscard]] EventTime now() const { return now_; }

 private:
  template <typename Write>
  void add(const Write& write) {
    now_ += 2 + random_() % (simple_ ? 20'000'000 : 2'000'000);
    Tape tape;
    write(tape);
    events_.push_back({now_, tape.take()});
  }
  void exit(std::uint32_t pid, std::uint32_t tid) {
    auto& tids = living_[pid];
    if (pid == 1 || (simple_ && tid == pid && tids.size() > 1)) return;
    add([&](Tape& tape) { tape.exit(now_, pid, tid); });
    std::erase(tids, tid);
    // A zombie leader keeps its pid until the last thread has exited.
    if (tids.empty()) living_.erase(pid);
  }
  void exec(std::uint32_t pid) {
    if (pid == 1) return;
    for (const std::uint32_t tid : std::vector(living_[pid]))
      if (tid != pid && living_[pid].size() > 1) exit(pid, tid);
    add([&](Tape& tape) { tape.exec(now_, pid, name("exec")); });
    living_[pid] = {pid};
  }
  std::pair<const std::uint32_t, std::vector<std::uint32_t>>& any(auto& map) {
    auto at = map.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(random_() % map.size()));
    return *at;
  }
  // A few numbers, so that they are reused often.
  std::uint32_t fresh_number() {
    for (int i = 0; i < 20; ++i) {
      const auto number = static_cast<std::uint32_t>(2 + random_() % 40);
      const bool used = living_.contains(number) || std::any_of(living_.begin(), living_.end(), [&](const auto& one) {
                          return std::find(one.second.begin(), one.second.end(), number) != one.second.end();
                        });
      if (!used) return number;
    }
    return 0;
  }
  std::string name(const char* kind) { return kind + std::to_string(random_() % 1000); }

  std::mt19937 random_;
  bool simple_;
  EventTime now_ = 1000;
  std::uint64_t next_map_ = 1;
  std::map<std::uint32_t, std::vector<std::uint32_t>> living_;
  std::vector<Event> events_;
};

inline std::unordered_set<std::uint32_t> everybody() {
  std::unordered_set<std::uint32_t> pids;
  for (std::uint32_t pid = 0; pid < 50; ++pid) pids.insert(pid);
  return pids;
}

// Events [from, to) in the order of several rings: each ring in order, one ring after the other.
inline RecordBuffer drained(const std::vector<Event>& events, std::size_t from, std::size_t to, std::mt19937& random) {
  RecordBuffer rings[3];
  for (std::size_t i = from; i < to; ++i) {
    RecordBuffer& ring = rings[random() % 3];
    ring.insert(ring.end(), events[i].bytes.begin(), events[i].bytes.end());
  }
  for (const RecordBuffer& ring : {rings[1], rings[2]}) rings[0].insert(rings[0].end(), ring.begin(), ring.end());
  return rings[0];
}

}  // namespace flight
