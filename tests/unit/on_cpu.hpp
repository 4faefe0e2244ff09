// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

namespace flight::test {

// The calling thread runs on one CPU while this exists, and where it could before from then on.
class OnCpu {
 public:
  explicit OnCpu(int cpu = ::sched_getcpu()) : cpu_(cpu) {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(cpu), &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  OnCpu(const OnCpu&) = delete;
  OnCpu& operator=(const OnCpu&) = delete;
  ~OnCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }
  [[nodiscard]] int cpu() const { return cpu_; }

 private:
  cpu_set_t before_{};
  int cpu_;
};

}  // namespace flight::test
