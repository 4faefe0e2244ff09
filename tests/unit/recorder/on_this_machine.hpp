// SPDX-License-Identifier: Apache-2.0
// What the tests with real events begin with.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <vector>

#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight::test {

class OnThisMachine : public testing::Test {
 protected:
  void SetUp() override {
    const auto tracefs = find_or_mount_tracefs();
    ASSERT_TRUE(tracefs) << tracefs.error().what;
    sources_.tracefs = *tracefs;
    cpus_ = online_cpus().value();
    features_ = KernelFeatures::probe(cpus_.front());
    config_.memory_max = {.bytes = 1U << 30U};
    ::sched_getaffinity(0, sizeof mask_, &mask_);
  }
  void TearDown() override { run_anywhere(); }

  [[nodiscard]] Result<Recording> open_recording() const { return Recording::open(config_, sources_, features_); }
  static void run_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(cpu), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  }
  void run_anywhere() const { ::sched_setaffinity(0, sizeof mask_, &mask_); }

  Config config_;
  EventSources sources_;
  KernelFeatures features_;
  std::vector<int> cpus_;

 private:
  cpu_set_t mask_{};
};

}  // namespace flight::test
