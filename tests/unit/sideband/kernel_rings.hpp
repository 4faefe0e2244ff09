// SPDX-License-Identifier: Apache-2.0
// The sideband of this machine's real kernel: one event and one forward ring per CPU, as the broker opens them.
#pragma once

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

class KernelRings {
 public:
  KernelRings() {
    if (testing::Test::IsSkipped()) return;  // without root
    const long cpus = ::sysconf(_SC_NPROCESSORS_ONLN);
    const KernelFeatures features = KernelFeatures::probe(0);
    for (int cpu = 0; cpu < static_cast<int>(cpus); ++cpu) {
      auto fd = open_event(sideband_attr(features), cpu, "sideband");
      if (!fd) {
        ADD_FAILURE() << fd.error().what;
        return;
      }
      auto memory = Mapping::open(fd->get(), page() + kRingBytes, PROT_READ | PROT_WRITE);
      if (!memory) {
        ADD_FAILURE() << memory.error().what;
        return;
      }
      if (::ioctl(fd->get(), PERF_EVENT_IOC_ENABLE, 0) != 0) ADD_FAILURE() << "enable the sideband of CPU " << cpu;
      rings_.push_back({std::move(*fd), std::move(*memory)});
    }
  }

  // Drains one ring after the other, like flightd.
  void drain(ProcessTracker& tracker) {
    for (Ring& ring : rings_) tracker.add(drain(ring));
  }

 private:
  static constexpr std::size_t kRingBytes = 1U << 20U;
  struct Ring {
    UniqueFd fd;
    Mapping memory;
  };

  static std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

  static RecordBuffer drain(Ring& ring) {
    auto* control = reinterpret_cast<perf_event_mmap_page*>(ring.memory.data());
    const std::byte* data = ring.memory.data() + page();
    const std::uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
    std::uint64_t tail = control->data_tail;
    RecordBuffer bytes;
    for (; tail != head; ++tail) bytes.push_back(data[tail % kRingBytes]);
    std::atomic_ref(control->data_tail).store(tail, std::memory_order_release);
    return bytes;
  }

  std::vector<Ring> rings_;
};

}  // namespace flight
