// SPDX-License-Identifier: Apache-2.0
// What the tests with real events begin with.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "tests/unit/on_cpu.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {

class OnThisMachine : public RootTest {
 protected:
  void SetUp() override {
    const auto tracefs = find_or_mount_tracefs();
    ASSERT_TRUE(tracefs) << tracefs.error().what;
    sources_.tracefs = *tracefs;
    cpus_ = online_cpus().value();
    features_ = KernelFeatures::probe(cpus_.front());
    config_.memory_max = {.bytes = 1U << 30U};
  }

  [[nodiscard]] Result<Recording> open_recording() const { return Recording::open(config_, sources_, features_); }

  Config config_;
  EventSources sources_;
  KernelFeatures features_;
  std::vector<int> cpus_;
};

}  // namespace flight::test
