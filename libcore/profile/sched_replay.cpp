// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/sched_replay.hpp"

#include <algorithm>

#include "libcore/profile/sched_lanes.hpp"

namespace flight {
namespace {

// prev_state of the tracepoint (include/trace/events/sched.h): a bit of the state, 0 for R; 0x100 more if the thread
// was preempted.
constexpr unsigned kStateBits = 0xff, kBlockedBit = 0x02, kEndedBits = 0x10 | 0x20;

SchedState state_behind(std::uint16_t state) {
  if ((state & kEndedBits) != 0) return SchedState::ended;
  if ((state & kBlockedBit) != 0) return SchedState::blocked;
  return (state & kStateBits) == 0 ? SchedState::runnable : SchedState::sleeping;
}

bool is_off_cpu(SchedState state) {
  return state == SchedState::runnable || state == SchedState::blocked || state == SchedState::sleeping;
}

}  // namespace

SchedReplay::SchedReplay(const SchedStretch& shown, const SchedHoles& holes, SchedWaits* waits, SchedLanes* lanes)
    : begin_ns_(shown.begin_ns),
      end_ns_(std::max(shown.begin_ns, shown.end_ns)),
      covered_ns_(shown.covered_ns),
      holes_(holes),
      waits_(waits),
      lanes_(lanes),
      lane_ns_(kLaneSteps) {
  lane_step_ns_ = (end_ns_ - begin_ns_) / kLaneSteps + 1;
}

std::uint32_t SchedReplay::number_of(std::uint32_t tid, std::uint32_t name) {
  if (tid == 0) return SchedWaits::kNobody;
  const auto known = of_tid_.find(tid);
  // After its end, the number can be that of another thread.
  if (known != of_tid_.end() && threads_[known->second].state != SchedState::ended) {
    if (name != 0) threads_[known->second].name = name;
    return known->second;
  }
  if (threads_.size() >= kMostThreads) {
    if (known != of_tid_.end()) of_tid_.erase(known);
    ++left_out_threads_;
    return SchedWaits::kNobody;
  }
  const auto number = static_cast<std::uint32_t>(threads_.size());
  threads_.push_back({.tid = tid, .name = name});
  of_tid_[tid] = number;
  return number;
}

std::uint64_t SchedReplay::shown_part(EventTime from_ns, EventTime until_ns) const {
  from_ns = std::max(from_ns, begin_ns_);
  until_ns = std::min(until_ns, end_ns_);
  return until_ns > from_ns ? until_ns - from_ns : 0;
}

void SchedReplay::add(SchedSpans& spans, EventTime from_ns, EventTime until_ns, bool unsure, bool goes_on) const {
  const std::uint64_t ns = shown_part(from_ns, until_ns);
  if (ns == 0) return;
  ++spans.count;
  if (unsure) ++spans.unsure;
  spans.total_ns += ns;
  if (ns <= spans.longest_ns) return;
  spans.longest_ns = ns;
  spans.longest_begin_ns = std::max(from_ns, begin_ns_);
  spans.longest_goes_on = goes_on;
}

void SchedReplay::add_to_lane(EventTime from_ns, EventTime until_ns) {
  from_ns = std::max(from_ns, begin_ns_);
  until_ns = std::min(until_ns, end_ns_);
  while (from_ns < until_ns) {
    const auto step = static_cast<std::size_t>((from_ns - begin_ns_) / lane_step_ns_);
    const std::uint64_t left_ns = lane_step_ns_ - (from_ns - begin_ns_) % lane_step_ns_;
    const EventTime next_ns = until_ns - from_ns > left_ns ? from_ns + left_ns : until_ns;
    lane_ns_[step] += next_ns - from_ns;
    from_ns = next_ns;
  }
}

std::vector<double> SchedReplay::blocked_lane() const {
  std::vector<double> out;
  for (std::size_t i = 0; i < lane_ns_.size(); ++i) {
    const EventTime from_ns = begin_ns_ + i * lane_step_ns_;
    const std::uint64_t width_ns = shown_part(from_ns, from_ns + lane_step_ns_);
    if (width_ns == 0) break;
    out.push_back(static_cast<double>(lane_ns_[i]) / static_cast<double>(width_ns));
  }
  return out;
}

void SchedReplay::note_off(std::uint32_t number, EventTime until_ns, bool goes_on) const {
  const SchedThread& thread = threads_[number];
  const bool is_runnable = thread.state == SchedState::runnable, woken = thread.woken_ns != 0 && !is_runnable;
  const EventTime off_until_ns = woken ? thread.woken_ns : until_ns;
  if (is_off_cpu(thread.state))
    lanes_->off({.begin_ns = thread.since_ns,
                 .end_ns = off_until_ns,
                 .thread = number,
                 .state = thread.state,
                 .unsure = holes_.any_in(thread.since_ns, off_until_ns),
                 .goes_on = goes_on && !woken});
  if (woken)
    lanes_->off({.begin_ns = thread.woken_ns,
                 .end_ns = until_ns,
                 .thread = number,
                 .state = SchedState::runnable,
                 .unsure = holes_.any_in(thread.woken_ns, until_ns),
                 .goes_on = goes_on});
}

void SchedReplay::end_off_cpu(std::uint32_t number, EventTime until_ns, bool goes_on) {
  if (lanes_ != nullptr) note_off(number, until_ns, goes_on);
  SchedThread& thread = threads_[number];
  const EventTime woken_ns = thread.woken_ns;
  const bool is_runnable = thread.state == SchedState::runnable;
  if (is_off_cpu(thread.state)) {
    const bool unsure = holes_.any_in(thread.since_ns, until_ns);
    // At the end, a thread that is awake waits for a CPU.
    const bool awake = goes_on && woken_ns != 0 && !is_runnable;
    SchedSpans& spans = is_runnable                           ? thread.preempted
                        : thread.state == SchedState::blocked ? thread.blocked
                                                              : thread.slept;
    add(spans, thread.since_ns, awake ? woken_ns : until_ns, unsure, goes_on && !awake);
    if (is_runnable) add(thread.waited, thread.since_ns, until_ns, unsure, goes_on);
    if (thread.state == SchedState::blocked) add_to_lane(thread.since_ns, woken_ns != 0 ? woken_ns : until_ns);
    if (!is_runnable && woken_ns == 0 && !goes_on) ++thread.unknown_wakeups;
  }
  if (woken_ns == 0) return;
  const bool unsure = holes_.any_in(woken_ns, until_ns);
  add(thread.delayed, woken_ns, until_ns, unsure, goes_on);
  if (!is_runnable) add(thread.waited, woken_ns, until_ns, unsure, goes_on);
}

void SchedReplay::on_wakeup(const SchedRecord& record) {
  const std::uint32_t number = number_of(record.tid, record.name);
  if (number == SchedWaits::kNobody) return;
  SchedThread& thread = threads_[number];
  if (thread.state == SchedState::running || thread.woken_ns != 0) return;
  thread.woken_ns = record.time_ns;
  if (waits_ != nullptr) waits_->waits(number, record.cpu, record.time_ns);
}

// Since when the thread of the switch has run on the CPU; the time of the switch: it is not known.
EventTime SchedReplay::ran_since(const SchedRecord& record, const SchedCpu& cpu, bool follows,
                                 std::uint32_t number) const {
  if (follows) return cpu.since_ns;
  const bool seen = number != SchedWaits::kNobody && threads_[number].state != SchedState::unknown;
  return cpu.known || seen || covered_ns_ == 0 ? record.time_ns : covered_ns_;
}

void SchedReplay::note_ran(const SchedRecord& record, const SchedCpu& cpu, bool follows, std::uint32_t number,
                           EventTime since_ns) const {
  if (cpu.known && !follows)
    lanes_->ran({.begin_ns = cpu.since_ns, .end_ns = record.time_ns, .cpu = record.cpu, .thread = SchedWaits::kNobody});
  else if (record.tid != 0)
    lanes_->ran({.begin_ns = since_ns, .end_ns = record.time_ns, .cpu = record.cpu, .thread = number});
}

// The thread of the switch leaves the CPU; returns its number. `follows`: it is the one that ran there.
std::uint32_t SchedReplay::leave(const SchedRecord& record, SchedCpu& cpu, bool follows) {
  const std::uint32_t number = follows ? cpu.thread : number_of(record.tid, record.name);
  const EventTime since_ns = ran_since(record, cpu, follows, number);
  if (cpu.known && !follows) cpu.unknown_ns += shown_part(cpu.since_ns, record.time_ns);
  (record.tid == 0 ? cpu.idle_ns : cpu.run_ns) += shown_part(since_ns, record.time_ns);
  if (lanes_ != nullptr) note_ran(record, cpu, follows, number, since_ns);
  if (number == SchedWaits::kNobody) return number;
  SchedThread& thread = threads_[number];
  if (record.name != 0) thread.name = record.name;
  if (record.pid != 0) thread.pid = record.pid;
  add(thread.run, since_ns, record.time_ns, holes_.any_on(record.cpu, since_ns, record.time_ns), false);
  if (waits_ != nullptr) waits_->stops(number, record.time_ns);  // when it got the CPU is not known
  thread.state = state_behind(record.state);
  thread.since_ns = record.time_ns;
  thread.woken_ns = 0;
  return number;
}

// The next thread gets the CPU.
void SchedReplay::get_cpu(const SchedRecord& record, SchedCpu& cpu) {
  cpu.thread = number_of(record.next_tid, record.next_name);
  cpu.tid = record.next_tid;
  cpu.since_ns = record.time_ns;
  cpu.known = true;
  if (cpu.thread == SchedWaits::kNobody) return;
  end_off_cpu(cpu.thread, record.time_ns, false);
  SchedThread& thread = threads_[cpu.thread];
  thread.state = SchedState::running;
  thread.since_ns = record.time_ns;
  thread.woken_ns = 0;
  thread.cpu = record.cpu;
  if (waits_ != nullptr) waits_->stops(cpu.thread, record.time_ns);
}

// When the thread left this CPU, and how, is not known.
void SchedReplay::forget(std::uint32_t cpu, std::uint32_t number) {
  if (number == SchedWaits::kNobody) return;
  SchedThread& thread = threads_[number];
  if (thread.state == SchedState::running && thread.cpu == cpu) thread.state = SchedState::unknown;
}

void SchedReplay::take(const SchedRecord& record) {
  if (record.time_ns > end_ns_) return;
  if (record.is_wakeup) {
    on_wakeup(record);
    return;
  }
  if (record.cpu >= cpus_.size()) cpus_.resize(record.cpu + std::size_t{1});
  SchedCpu& cpu = cpus_[record.cpu];
  const bool follows = cpu.known && cpu.tid == record.tid;
  if (cpu.known && !follows) {
    ++cpu.breaks;
    forget(record.cpu, cpu.thread);
  }
  if (waits_ != nullptr) waits_->runs(record.cpu, SchedWaits::kNobody, record.time_ns, follows);
  const std::uint32_t before = leave(record, cpu, follows);
  get_cpu(record, cpu);
  if (waits_ == nullptr) return;
  waits_->runs(record.cpu, cpu.thread, record.time_ns, true);
  if (before != SchedWaits::kNobody && threads_[before].state == SchedState::runnable)
    waits_->waits(before, record.cpu, record.time_ns);
}

void SchedReplay::finish() {
  for (std::size_t number = 0; number < cpus_.size(); ++number) {
    SchedCpu& cpu = cpus_[number];
    if (!cpu.known) continue;
    (cpu.tid == 0 ? cpu.idle_ns : cpu.run_ns) += shown_part(cpu.since_ns, end_ns_);
    if (lanes_ != nullptr && cpu.tid != 0)
      lanes_->ran({.begin_ns = cpu.since_ns,
                   .end_ns = end_ns_,
                   .cpu = static_cast<std::uint32_t>(number),
                   .thread = cpu.thread});
  }
  for (std::uint32_t number = 0; number < threads_.size(); ++number) {
    SchedThread& thread = threads_[number];
    if (thread.state == SchedState::running)
      add(thread.run, thread.since_ns, end_ns_, holes_.any_on(thread.cpu, thread.since_ns, end_ns_), true);
    else if (thread.state != SchedState::ended)
      end_off_cpu(number, end_ns_, true);
  }
  if (waits_ != nullptr) waits_->finish();
}

}  // namespace flight
