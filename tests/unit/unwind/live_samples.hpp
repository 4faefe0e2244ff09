// SPDX-License-Identifier: Apache-2.0
// Real samples of a thread from a perf event of cpu-clock: registers, copied stack, the kernel's callchain.
#pragma once

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/unwind/byte_cursor.hpp"
#include "libcore/unwind/stack_copy.hpp"
#include "tests/unit/unwind/process_code.hpp"

namespace flight::test {

struct LiveSample {
  UnwindRegisters registers;
  std::vector<std::byte> stack;
  std::uint64_t stack_at = 0;
  std::vector<std::uint64_t> chain;  // the kernel's, its user part

  [[nodiscard]] StackCopy copy() const { return {stack_at, stack}; }
};

class LiveSamples {
 public:
  // Disabled at first. thread 0: the calling one. why_not() says why there is no event.
  explicit LiveSamples(std::uint32_t stack_bytes, std::uint64_t period_ns = 500'000, pid_t thread = 0) {
    perf_event_attr attr{};
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_CPU_CLOCK;
    attr.sample_period = period_ns;
    attr.sample_type = PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attr.sample_regs_user = sample_register_mask(kThisMachine);
    attr.sample_stack_user = stack_bytes;
    attr.exclude_kernel = 1;
    attr.exclude_callchain_kernel = 1;
    attr.disabled = 1;
    fd_ = UniqueFd(static_cast<int>(::syscall(SYS_perf_event_open, &attr, thread, -1, -1, PERF_FLAG_FD_CLOEXEC)));
    if (!fd_) {
      why_not_ = std::string("perf_event_open: ") + std::strerror(errno);
      return;
    }
    page_ = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    auto ring = Mapping::open(fd_.get(), page_ + kRingBytes, PROT_READ | PROT_WRITE);
    if (!ring) why_not_ = ring.error().what;
    if (ring) ring_ = std::move(*ring);
  }
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  void enable(bool on) const { ::ioctl(fd_.get(), on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0); }

  // All samples; those that did not fit into the ring are lost.
  [[nodiscard]] std::vector<LiveSample> take() const {
    std::vector<LiveSample> samples;
    const void* page = ring_.data();
    const std::uint64_t head =
        __atomic_load_n(&static_cast<const perf_event_mmap_page*>(page)->data_head, __ATOMIC_ACQUIRE);
    ByteCursor ring(std::span<const std::byte>(ring_.bytes()).subspan(page_, static_cast<std::size_t>(head)));
    while (ring.left() >= sizeof(perf_event_header)) {
      const auto header = ring.take<perf_event_header>();
      const auto content = ring.take_bytes(header.size - sizeof header);
      if (header.type != PERF_RECORD_SAMPLE) continue;
      auto sample = sample_of(content);
      EXPECT_TRUE(sample);
      if (sample) samples.push_back(std::move(*sample));
    }
    return samples;
  }

 private:
  static constexpr std::size_t kRingBytes = 16U << 20U;

  static std::optional<LiveSample> sample_of(std::span<const std::byte> content) {
    LiveSample sample;
    ByteCursor cursor(content);
    for (auto left = cursor.take<std::uint64_t>(); left > 0 && cursor.ok(); --left) {
      const auto address = cursor.take<std::uint64_t>();
      if (address < PERF_CONTEXT_MAX) sample.chain.push_back(address);
    }
    if (cursor.take<std::uint64_t>() != PERF_SAMPLE_REGS_ABI_64) return std::nullopt;
    const std::uint64_t mask = sample_register_mask(kThisMachine);
    std::vector<std::uint64_t> values;
    for (std::uint64_t rest = mask; rest != 0; rest &= rest - 1) values.push_back(cursor.take<std::uint64_t>());
    const auto registers = registers_of_sample(kThisMachine, mask, values);
    const auto bytes = cursor.take_bytes(cursor.take<std::uint64_t>());
    const auto valid_bytes = cursor.take<std::uint64_t>();
    if (!registers || !cursor.ok() || valid_bytes > bytes.size()) return std::nullopt;
    sample.registers = *registers;
    sample.stack.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(valid_bytes));
    sample.stack_at = registers->values[traits_of(kThisMachine).stack_pointer];
    return sample;
  }

  std::string why_not_;
  UniqueFd fd_;
  std::size_t page_ = 0;
  Mapping ring_;
};

}  // namespace flight::test
