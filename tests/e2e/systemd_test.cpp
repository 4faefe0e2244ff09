// SPDX-License-Identifier: Apache-2.0
// The view of an operator with systemd's tools journalctl, journalctl -x and systemctl: flightd is a service of a
// booted system (tests/testbed/with-systemd). The service has this machine's root, so that it runs the programs built
// here. All tests share one boot.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/e2e/daemon_fixture.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Systemd : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: it boots another system";
    write_text(folder_ / "flightd.json", stacks_config(199, "256K").dump(2));
  }
  std::string unit() const {
    return fmt::format(
        "[Service]\nType=notify\nRootDirectory=/host\nMountAPIVFS=yes\n"
        "BindPaths=/run/systemd/notify /run/systemd/journal\n"
        "ExecStart=\"{}\" --config {} --state-dir {} --runtime-dir {}\n",
        required_env("FLIGHTD"), folder_ / "flightd.json", folder_ / "state", folder_ / "run");
  }
  Outcome guest(const std::string& script) const {
    const char* cache = std::getenv("FLIGHT_TESTBED_CACHE");
    const std::string rootfs = std::string(cache != nullptr ? cache : "/var/cache/flightd-testbed") + "/trixie";
    return run({required_env("FLIGHT_SOURCE_ROOT") + "/tests/testbed/with-systemd",
                "--no-download",
                "--work",
                folder_ / "scratch",
                "--bind",
                "/:/host",
                "--env",
                "UNIT=" + unit(),
                "--env",
                "FLIGHTCTL=" + required_env("FLIGHTCTL"),
                "--env",
                fmt::format("SOCKET={}/io.flightd.Recorder", folder_ / "run"),
                "--env",
                "SOURCE=/host" + required_env("FLIGHT_SOURCE_ROOT"),
                "--env",
                fmt::format("BURNER={} {} 200", folder_.load("burner"), load_cpu()),
                "--timeout",
                "200",
                rootfs,
                "--",
                "sh",
                "-euc",
                script},
               290s);
  }
  TempFolder folder_;
};

TEST_F(Systemd, JournalctlAndSystemctlShowIt) {
  const Outcome outcome = guest(R"(
    ctl() { chroot /host "$FLIGHTCTL" --socket "$SOCKET" "$@"; }
    printf '%s' "$UNIT" >/etc/systemd/system/flightd.service
    cp "$SOURCE/systemd/flightd.catalog" /usr/lib/systemd/catalog/
    journalctl --update-catalog
    systemctl daemon-reload
    systemctl start flightd
    echo "== first"; systemctl show -P StatusText flightd
    systemd-run --quiet --unit burn -p RootDirectory=/host $BURNER
    wait_for() { for _ in $(seq 600); do if eval "$1"; then return 0; fi; sleep 0.1; done; echo "never: $1"; return 1; }
    snapshot=MESSAGE_ID=569dd7ad7633419d8fb3a32326c62f33 degraded=MESSAGE_ID=e9b92a3c69c94002a11d5de30652aceb
    wait_for 'ctl snapshot --reason "by the test" | grep -q "burner\["'  # what else this machine does may come first
    wait_for 'journalctl -q -n1 $snapshot | grep -q "burner\["'
    systemctl stop burn
    wait_for 'systemctl status flightd | grep -q "Status: \"recording.*last snapshot.*manual.*store"'
    echo "== status"; systemctl status --no-pager -l -n0 flightd
    echo "== entry"; journalctl -q -n1 -o json $snapshot
    echo "== explained"; journalctl -q -x -n1 $snapshot
    echo "== lines"; journalctl -q -o cat -u flightd
    main=$(systemctl show -P MainPID flightd)
    kill -9 $(cat /proc/$main/task/$main/children)
    wait_for 'journalctl -q $degraded | grep -q "broker is gone"'
    echo "== degraded"; journalctl -q -x $degraded
    wait_for 'journalctl -q -p warning -o cat -u flightd _TRANSPORT=stdout | grep -q broker'
    echo "== warnings"; journalctl -q -p warning -o cat -u flightd _TRANSPORT=stdout
    echo "== end")");
  if (outcome.exit_status == kNoDownload)
    GTEST_SKIP() << "no verifier: systemd of Debian trixie could not be downloaded";
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const auto part = [&](const std::string& name) {
    const std::size_t begin = outcome.out.find("== " + name + "\n");
    EXPECT_NE(begin, std::string::npos) << name;
    if (begin == std::string::npos) return std::string();
    const std::size_t text = begin + name.size() + 4;
    return outcome.out.substr(text, outcome.out.find("\n== ", begin) + 1 - text);
  };
  EXPECT_THAT(part("first"), testing::MatchesRegex("recording .*, [0-9]+ s held; .*\n"))
      << "of a flightd that just began";
  EXPECT_THAT(part("status"), AllOf(HasSubstr("1 channel, "), HasSubstr(" s held; last snapshot "),
                                    HasSubstr(" ago (manual); store ")));
  const Json entry = Json::parse(part("entry"), nullptr, false);
  ASSERT_TRUE(entry.is_object()) << part("entry");
  EXPECT_EQ(entry.value("_SYSTEMD_UNIT", ""), "flightd.service");
  EXPECT_EQ(entry.value("FLIGHTD_TRIGGER", ""), "manual");
  EXPECT_EQ(entry.value("FLIGHTD_REASON", ""), "by the test");
  for (const char* name : {"FLIGHTD_SNAPSHOT_ID", "FLIGHTD_PATH", "FLIGHTD_WINDOW_USEC", "FLIGHTD_BLACKOUT_USEC",
                           "FLIGHTD_LOST", "FLIGHTD_SIZE", "FLIGHTD_REQUESTED_BY"})
    EXPECT_NE(entry.value(name, ""), "") << name;
  const std::string message = entry.value("MESSAGE", "");
  EXPECT_THAT(message, AllOf(HasSubstr("manual: by the test; "), HasSubstr("burner[")));
  EXPECT_EQ(count_of(part("lines"), message), 1U) << "it stands twice in the journal:\n" << part("lines");
  EXPECT_THAT(part("explained"),
              AllOf(HasSubstr("Subject: flightd took snapshot " + entry.value("FLIGHTD_SNAPSHOT_ID", "")),
                    HasSubstr("    " + entry.value("FLIGHTD_PATH", "")), HasSubstr("Reason: by the test"),
                    Not(HasSubstr("@FLIGHTD"))));
  EXPECT_THAT(part("degraded"), HasSubstr("Subject: flightd is degraded (broker)"));
  // The lines of stderr, with the priority that their prefix gave.
  EXPECT_THAT(part("warnings"), AllOf(HasSubstr("broker"), Not(HasSubstr("<4>"))));
}

}  // namespace
}  // namespace flight
