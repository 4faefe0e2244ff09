// SPDX-License-Identifier: Apache-2.0
// systemd's own Varlink client as the verifier of the control interface: varlinkctl of Debian trixie, in a system that
// was booted by systemd (tests/testbed/with-systemd), connects to the socket of this machine's flightd.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/e2e/daemon_fixture.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class VarlinkctlLong : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: it boots another system";
    ASSERT_TRUE(daemon_.start(stacks_config(199, "64K")));
  }
  // Runs `script` in that system; $S is the socket.
  Outcome guest(const std::string& script) const {
    const char* cache = std::getenv("FLIGHT_TESTBED_CACHE");
    const std::string rootfs = std::string(cache != nullptr ? cache : "/var/cache/flightd-testbed") + "/trixie";
    return run({required_env("FLIGHT_SOURCE_ROOT") + "/tests/testbed/with-systemd", "--no-download", "--work",
                folder_ / "scratch", "--bind", daemon_.runtime_dir() + ":/run/flightd-here", "--env",
                "S=unix:/run/flightd-here/io.flightd.Recorder", "--timeout", "60", rootfs, "--", "sh", "-euc", script},
               280s);
  }
  TempFolder folder_;
  TestDaemon daemon_{folder_};
};

TEST_F(VarlinkctlLong, IntrospectsCallsAndStreams) {
  const Outcome outcome = guest(R"(
    echo "== introspect"; varlinkctl introspect "$S" io.flightd.Recorder
    echo "== info"; varlinkctl info "$S"
    echo "== call"; varlinkctl call --json=short "$S" io.flightd.Recorder.GetStatus '{}'
    echo "== more"; varlinkctl call --more --json=short "$S" io.flightd.Recorder.TakeSnapshot '{"reason":"by varlinkctl"}'
    echo "== pin"; varlinkctl call --json=short "$S" io.flightd.Recorder.PinSnapshot '{"id":"latest","pinned":true}'
    echo "== list"; varlinkctl call --json=short "$S" io.flightd.Recorder.ListSnapshots '{}'
    echo "== refused"; ! varlinkctl call "$S" io.flightd.Recorder.DescribeSnapshot '{"id":"99"}' 2>&1
    echo "== monitor"
    varlinkctl call --more --json=short "$S" io.flightd.Recorder.Monitor '{}' >/tmp/events & listener=$!
    for _ in $(seq 100); do grep -q monitoring /tmp/events && break; sleep 0.1; done
    varlinkctl call --json=short "$S" io.flightd.Recorder.SetRecording '{"recording":false}'
    varlinkctl call --json=short "$S" io.flightd.Recorder.SetRecording '{"recording":true}'
    for _ in $(seq 100); do grep -q resumed /tmp/events && break; sleep 0.1; done
    kill $listener; cat /tmp/events
    echo "== end")");
  if (outcome.exit_status == kNoDownload)
    GTEST_SKIP() << "no verifier: varlinkctl of Debian trixie could not be downloaded";
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const auto part = [&](const std::string& name) {
    const std::size_t begin = outcome.out.find("== " + name + "\n");
    EXPECT_NE(begin, std::string::npos) << name;
    return begin == std::string::npos ? "" : outcome.out.substr(begin, outcome.out.find("\n== ", begin) - begin);
  };
  EXPECT_THAT(part("introspect"), AllOf(HasSubstr("interface io.flightd.Recorder"), HasSubstr("method TakeSnapshot"),
                                        HasSubstr("method Monitor"), HasSubstr("error StoreFull")));
  EXPECT_THAT(part("info"), HasSubstr("flightd"));
  EXPECT_THAT(part("call"), ContainsRegex(R"re("recording":"(on|unproven)")re"));
  EXPECT_THAT(part("more"), AllOf(HasSubstr(R"("progress")"), HasSubstr(R"("reason":"by varlinkctl")")));
  EXPECT_THAT(part("list"), HasSubstr(R"("pinned":true)"));
  EXPECT_THAT(part("refused"), HasSubstr("NoSuchSnapshot"));
  EXPECT_THAT(part("monitor"),
              AllOf(HasSubstr("monitoring"), HasSubstr("recording_paused"), HasSubstr("recording_resumed")));
  EXPECT_TRUE(daemon_.goes_on());
}

}  // namespace
}  // namespace flight
