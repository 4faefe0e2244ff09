// SPDX-License-Identifier: Apache-2.0
// The kernel's limit of samples. It is the whole machine's, so no other test runs at the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/doctor_findings.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class SampleRate : public DaemonTest {
 protected:
  SampleRate() : DaemonTest(stacks_config(99, "256K")) {}
};

// For a moment, the kernel allows fewer samples than flightd asks for, as it does itself on a machine that is too slow.
class LowerRate {
 public:
  LowerRate() : before_(read_text(kFile)), is_set_(set("50")) {}
  LowerRate(const LowerRate&) = delete;
  LowerRate& operator=(const LowerRate&) = delete;
  ~LowerRate() { set(before_); }
  [[nodiscard]] bool is_set() const { return is_set_; }

 private:
  static constexpr const char* kFile = "/proc/sys/kernel/perf_event_max_sample_rate";
  static bool set(const std::string& text) {
    std::ofstream file(kFile);
    file << text << std::flush;
    return file.good();
  }
  std::string before_;
  bool is_set_;
};

TEST_F(SampleRate, ALowLimitIsNotTakenForAMissingRight) {
  const LowerRate lower;
  ASSERT_TRUE(lower.is_set());
  DoctorFindings found = doctor_findings(daemon_.ctl({"--json", "doctor"}));
  EXPECT_EQ(found["perf-events"]["state"], "ok") << found["perf-events"];
  EXPECT_EQ(found["perf-max-sample-rate"]["state"], "warn");
  EXPECT_THAT(found["cap-sys-admin"]["why"], HasSubstr("(tried)"));
}

}  // namespace
}  // namespace flight
