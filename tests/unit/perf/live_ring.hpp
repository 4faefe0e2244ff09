// SPDX-License-Identifier: Apache-2.0
// A real backward ring like the recorder's: a dummy owns it, a tracepoint writes into it. The test's thread is pinned
// to the ring's CPU, so that its actions are recorded in order.
#pragma once

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/ring_walk.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "tests/unit/on_cpu.hpp"

namespace flight::test {

inline constexpr std::size_t kPage = 4096;

// The control page's head; the barrier that perf_event_open(2) asks for.
inline std::uint64_t head_of(const Mapping& ring) {
  const void* page = ring.data();
  return __atomic_load_n(&static_cast<const perf_event_mmap_page*>(page)->data_head, __ATOMIC_ACQUIRE);
}

inline EventSpec must_parse(const std::string& name) {
  const auto tracefs = find_or_mount_tracefs();
  EXPECT_TRUE(tracefs) << tracefs.error().what;
  const auto spec = parse_event(name, {tracefs.value_or(""), "/sys"});
  EXPECT_TRUE(spec) << spec.error().what;
  return spec.value_or(EventSpec{});
}

// Opens everything. If it fails, the test has failed; check with HasFatalFailure().
class LiveRing {
 public:
  explicit LiveRing(std::size_t bytes) : features_(KernelFeatures::probe(here_.cpu())) { open(bytes); }

  // Redirects an event into the ring; its id goes into the table unless `known` is false. Not enabled yet.
  int add(const std::string& name, const std::string& filter, bool known = true, const SamplingOptions& options = {}) {
    const auto attr = event_attr(must_parse(name), options, features_);
    auto event = open_event(attr, here_.cpu(), name);
    EXPECT_TRUE(event) << event.error().what;
    if (!event) return -1;
    const int fd = event->get();
    if (!filter.empty()) {
      EXPECT_EQ(::ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter.c_str()), 0) << filter;
    }
    EXPECT_EQ(::ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, owner_.get()), 0);
    const auto id = event_id(fd);
    EXPECT_TRUE(id);
    if (known && id) table_.add_id(*id, table_.add_event(attr.sample_type, attr.sample_regs_user));
    events_.push_back(std::move(*event));
    return fd;
  }

  void pause(bool on) const { EXPECT_EQ(::ioctl(owner_.get(), PERF_EVENT_IOC_PAUSE_OUTPUT, on ? 1L : 0L), 0); }
  [[nodiscard]] RingImage image() const { return {mapping_.bytes().subspan(kPage), head_of(mapping_), bytes_}; }
  [[nodiscard]] const EventTable& table() const { return table_; }
  [[nodiscard]] const KernelFeatures& features() const { return features_; }
  [[nodiscard]] int cpu() const { return here_.cpu(); }

 private:
  void open(std::size_t bytes) {
    auto owner = open_event(owner_attr(features_), here_.cpu(), "owner");
    ASSERT_TRUE(owner) << owner.error().what;
    owner_ = std::move(*owner);
    auto mapping = Mapping::open(owner_.get(), kPage + bytes, PROT_READ);
    ASSERT_TRUE(mapping) << mapping.error().what << explain_privilege(mapping.error().errno_value());
    mapping_ = std::move(*mapping);
    bytes_ = bytes;
  }

  OnCpu here_;
  KernelFeatures features_;
  UniqueFd owner_;
  Mapping mapping_;
  std::size_t bytes_ = 0;
  std::vector<UniqueFd> events_;
  EventTable table_;
};

// getpgid(-n) as a counter: it fails at once, the tracepoint records n, and nothing else in this thread calls it (the
// sanitizers' runtimes, for example, call close).
inline constexpr long kCounterCall = SYS_getpgid;
inline std::string only_my_calls() {
  return "common_pid == " + std::to_string(::syscall(SYS_gettid)) + " && id == " + std::to_string(kCounterCall);
}
inline void call_numbers(int first, int last) {
  for (int n = first; n <= last; ++n) ::syscall(kCounterCall, -n);
}

// n of a raw_syscalls:sys_enter sample. After the fixed fields (no CALLCHAIN), the raw data has `long id` at 8 and
// `args[0]` at 16.
inline std::optional<int> number_of(std::span<const std::byte> record) {
  constexpr std::size_t kRaw = sizeof(perf_event_header) + 6 * 8 + 4;
  if (record.size() < kRaw + 24) return std::nullopt;
  return -load<std::int32_t>(record.data() + kRaw + 16);
}

}  // namespace flight::test
