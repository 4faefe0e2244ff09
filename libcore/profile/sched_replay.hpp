// SPDX-License-Identifier: Apache-2.0
// Follows the switches of a file through the time, as `perf sched timehist` does, and adds up for each thread how long
// it ran and how long it was off the CPUs, by its state:
//
//   runs ──switch, R──▶ preempted ──▶ runs ──switch, S or D──▶ slept, blocked ──wakeup──▶ delayed ──▶ runs
//                       `waited`                                                          `waited`
//
// On each CPU, the thread of a switch must be the one that got the CPU before. Where it is another one, records are
// missing: nothing is counted for the time between, and it is `unknown_ns` of the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/profile/sched_holes.hpp"
#include "libcore/profile/sched_tape.hpp"
#include "libcore/profile/sched_waits.hpp"

namespace flight {

class SchedLanes;

enum class SchedState : std::uint8_t { unknown, running, runnable, blocked, sleeping, ended };

// The stretches of a thread in one state.
struct SchedSpans {
  std::uint64_t count = 0, total_ns = 0, longest_ns = 0;
  EventTime longest_begin_ns = 0;
  bool longest_goes_on = false;  // at the end of the time that is shown
  std::uint64_t unsure = 0;      // how many are across a hole, in which the state can have changed
};

struct SchedThread {
  std::uint32_t tid = 0;
  std::uint32_t pid = 0;   // 0: unknown: it has not left a CPU
  std::uint32_t name = 0;  // as in SchedEvents: the newest
  SchedSpans run;
  SchedSpans preempted;               // runnable: another thread got its CPU
  SchedSpans blocked;                 // state D, with the wait after the wake-up
  SchedSpans slept;                   // state S and all others, with the wait after the wake-up
  SchedSpans delayed;                 // from its wake-up until it ran, where the wake-up is recorded
  SchedSpans waited;                  // for a CPU: preempted or delayed
  std::uint64_t unknown_wakeups = 0;  // it ran after it had slept or was blocked, and no wake-up is recorded

  // Now.
  SchedState state = SchedState::unknown;
  EventTime since_ns = 0, woken_ns = 0;  // 0: not woken
  std::uint32_t cpu = 0;                 // where it runs
};

struct SchedCpu {
  bool known = false;  // there is a switch
  std::uint64_t run_ns = 0, idle_ns = 0, unknown_ns = 0, breaks = 0;

  std::uint32_t thread = SchedWaits::kNobody;  // now; kNobody: an idle task, or one too many
  std::uint32_t tid = 0;
  EventTime since_ns = 0;
};

// What is counted: of stretches that go beyond it, only the part in it.
struct SchedStretch {
  EventTime begin_ns = 0, end_ns = 0;
  // From when on the file has the switches of all CPUs; 0: not known. What ran on a CPU before its first switch is
  // counted from then on.
  EventTime covered_ns = 0;
};

class SchedReplay {
 public:
  static constexpr std::size_t kMostThreads = 1U << 17U;
  static constexpr std::size_t kLaneSteps = 240;

  // `holes`, `waits` and `lanes` must outlive it; nullptr: none.
  SchedReplay(const SchedStretch& shown, const SchedHoles& holes, SchedWaits* waits, SchedLanes* lanes = nullptr);

  // In the order of time.
  void take(const SchedRecord& record);
  // Afterwards: adds the stretches that go on at the end, which `perf sched timehist` leaves out.
  void finish();

  [[nodiscard]] std::vector<SchedThread>& threads() { return threads_; }
  [[nodiscard]] const std::vector<SchedCpu>& cpus() const { return cpus_; }
  [[nodiscard]] std::uint64_t left_out_threads() const { return left_out_threads_; }  // switches to one too many
  // How many threads were in state D, as the mean of each step.
  [[nodiscard]] std::uint64_t lane_step_ns() const { return lane_step_ns_; }
  [[nodiscard]] std::vector<double> blocked_lane() const;

 private:
  [[nodiscard]] std::uint32_t number_of(std::uint32_t tid, std::uint32_t name);
  void on_wakeup(const SchedRecord& record);
  [[nodiscard]] std::uint32_t leave(const SchedRecord& record, SchedCpu& cpu, bool follows);
  [[nodiscard]] EventTime ran_since(const SchedRecord& record, const SchedCpu& cpu, bool follows,
                                    std::uint32_t number) const;
  void get_cpu(const SchedRecord& record, SchedCpu& cpu);
  void forget(std::uint32_t cpu, std::uint32_t number);
  void end_off_cpu(std::uint32_t number, EventTime until_ns, bool goes_on);
  void note_ran(const SchedRecord& record, const SchedCpu& cpu, bool follows, std::uint32_t number,
                EventTime since_ns) const;
  void note_off(std::uint32_t number, EventTime until_ns, bool goes_on) const;
  void add(SchedSpans& spans, EventTime from_ns, EventTime until_ns, bool unsure, bool goes_on) const;
  [[nodiscard]] std::uint64_t shown_part(EventTime from_ns, EventTime until_ns) const;
  void add_to_lane(EventTime from_ns, EventTime until_ns);

  EventTime begin_ns_, end_ns_, covered_ns_;
  const SchedHoles& holes_;
  SchedWaits* waits_;
  SchedLanes* lanes_;
  std::vector<SchedThread> threads_;
  std::unordered_map<std::uint32_t, std::uint32_t> of_tid_;  // the newest
  std::vector<SchedCpu> cpus_;
  std::uint64_t lane_step_ns_ = 0;
  std::vector<std::uint64_t> lane_ns_;
  std::uint64_t left_out_threads_ = 0;
};

}  // namespace flight
