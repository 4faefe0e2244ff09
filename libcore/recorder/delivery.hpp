// SPDX-License-Identifier: Apache-2.0
// Whether a sampling event delivers. In many virtual machines the PMU's counters can be opened and even count, and no
// sample is ever written: only a sample in the ring proves that there are any. How many are missing follows from how
// long the CPU was busy, for the events that have a frequency and count whenever a process runs (counts_while_busy()).
// Only the CPUs of which the channel has a ring are looked at: no sample is expected of the others.
// The other events need not occur: a raw or a cache event, one with a period, page-faults, task-clock, a tracepoint.
// That they write no sample proves nothing, and neither do their counters; a sample proves that they are recorded.
//
//   events that count while busy    others              Delivery
//   one delivers                    any                 on
//   none delivers, one is silent    any                 silent
//   nothing is known                any                 unproven
//   there are none                  a sample was seen   on
//   there are none                  no sample yet       unproven, for ever with a tracepoint that never fires
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/sysinfo/proc_stat.hpp"

namespace flight {

// One CPU's time in processes since boot, from /proc/stat, without guests': the events have exclude_guest.
struct CpuBusy {
  int cpu = 0;
  std::uint64_t user_ns = 0, system_ns = 0;  // user: with nice
};

[[nodiscard]] CpuBusy busy_of(const CpuTicks& cpu);

// One event on one CPU. A throttled event needs no special case: it has delivered samples.
class EventDelivery {
 public:
  // So many samples are expected before their absence means that there will be none.
  static constexpr double kEnough = 100;

  struct Look {
    EventTime enabled_ns = 0, running_ns = 0;  // read(2): since it was opened; running: it had a counter
    CpuBusy busy;
    bool sampled = false;  // a sample of it was written since the last look
  };
  void look(const perf_event_attr& attr, const Look& now);
  // It was not recorded for a time: the next look only begins to count.
  void interrupt() { last_.reset(); }

  [[nodiscard]] bool silent() const { return expected_ >= kEnough; }
  // It has delivered, and is not silent now.
  [[nodiscard]] bool delivers() const { return delivered_ && !silent(); }
  [[nodiscard]] bool ever_delivered() const { return delivered_; }

 private:
  std::optional<Look> last_;
  double expected_ = 0;  // samples since the last one that was seen
  bool delivered_ = false;
};

enum class Found : std::uint8_t { sample, none, unknown };
// Looks for a SAMPLE with this id among the records that were written since the head was `old_head` (0: since the ring
// was made), the newest first. `data`: the data area of a backward ring, into which the kernel may write meanwhile.
// unknown: there are too many records to look at.
[[nodiscard]] Found find_sample(std::span<const std::byte> data, std::uint64_t head, std::uint64_t old_head,
                                std::uint64_t id);
// The indexes of those `ids` of which there is a SAMPLE, each index once.
[[nodiscard]] std::vector<std::size_t> find_samples(std::span<const std::byte> data, std::uint64_t head,
                                                    std::uint64_t old_head, std::span<const std::uint64_t> ids);

}  // namespace flight
