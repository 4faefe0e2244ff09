// SPDX-License-Identifier: Apache-2.0
// The entries that flightd sends to the journal. The test has its own journald: a datagram socket at journald's path,
// in flightd's own mount namespace (systemd_test.cpp uses the real one). The protocol:
// https://systemd.io/JOURNAL_NATIVE_PROTOCOL
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <map>
#include <thread>

#include "tests/e2e/daemon_fixture.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSnapshotId = "569dd7ad7633419d8fb3a32326c62f33";

using Entry = std::map<std::string, std::string>;

// Parses NAME=value lines; or NAME, a newline, the length as 64 bits, the value.
Entry entry_of(std::string_view text) {
  Entry out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (const std::size_t equals = line.find('='); equals != std::string_view::npos) {
      out[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    } else if (text.size() >= 8) {
      std::uint64_t length = 0;
      std::memcpy(&length, text.data(), 8);
      out[std::string(line)] = text.substr(8, length);
      text.remove_prefix(std::min<std::size_t>(8 + length + 1, text.size()));
    }
  }
  return out;
}

class FakeJournald {
 public:
  // A socket holds one datagram more than net.unix.max_dgram_qlen of its network namespace.
  explicit FakeJournald(const std::string& path, const char* queue_length = nullptr) {
    std::thread([&] {
      if (queue_length != nullptr) {
        ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << strerror(errno);
        write_text("/proc/sys/net/unix/max_dgram_qlen", queue_length);
        ASSERT_EQ(read_text("/proc/sys/net/unix/max_dgram_qlen"), std::string(queue_length) + "\n");
      }
      fd_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      path.copy(address.sun_path, sizeof address.sun_path - 1);
      ASSERT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << strerror(errno);
      ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
    }).join();
  }
  // The next entry with this MESSAGE_ID; empty if none came.
  Entry next(const std::string& id) {
    for (;;) {
      pollfd ready{fd_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 60'000) != 1) return {};
      std::string text(65536, '\0');
      const ssize_t length = ::recv(fd_.get(), text.data(), text.size(), 0);
      if (length < 0) return {};
      text.resize(static_cast<std::size_t>(length));
      Entry entry = entry_of(text);
      if (entry["MESSAGE_ID"] == id) return entry;
    }
  }

 private:
  UniqueFd fd_;
};

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root: a mount namespace";
    ASSERT_EQ(::mkdir((folder_ / "journal").c_str(), 0755), 0);
  }
  // `before`: shell commands that run before flightd.
  testing::AssertionResult start(const std::string& before = "") {
    const std::string script =
        "mkdir -p /run/systemd; mount -t tmpfs -o mode=755 journal /run/systemd; mkdir /run/systemd/journal; "
        "mount --bind \"$0\" /run/systemd/journal; " +
        before + " exec \"$@\"";
    return daemon_.start(stacks_config(199, "256K"), {.prefix = {"unshare", "--mount", "--propagation", "private", "sh",
                                                                 "-euc", script, folder_ / "journal"}});
  }
  std::string socket_path() const { return folder_ / "journal/socket"; }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
};

TEST_F(JournalTest, ASnapshotIsOneEntryThatNamesTheCulprit) {
  FakeJournald journald(socket_path());
  ASSERT_TRUE(start());
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "120"}, -10);
  ASSERT_TRUE(burner.wait_for_line("started"));
  // The headline names the first three. This machine may be busy with something else, too.
  const std::string name = fmt::format("burner[{}]", burner.pid());
  Json sidecar;
  ASSERT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot({"--reason", "line one", "--last", "60s"});
        return daemon_.log().find(name) != std::string::npos;
      },
      60s));
  burner.kill();
  Entry entry;
  do entry = journald.next(kSnapshotId);
  while (!entry.empty() && entry["FLIGHTD_SNAPSHOT_ID"] != sidecar.value("id", ""));
  ASSERT_FALSE(entry.empty()) << "no entry came";
  EXPECT_EQ(entry["FLIGHTD_PATH"], sidecar.value("path", ""));
  EXPECT_EQ(entry["FLIGHTD_TRIGGER"], "manual");
  EXPECT_EQ(entry["FLIGHTD_REASON"], "line one");
  EXPECT_EQ(entry["FLIGHTD_WINDOW_USEC"],
            std::to_string(static_cast<std::uint64_t>(sidecar["window"]["seconds"].get<double>() * 1e6)));
  EXPECT_EQ(entry["FLIGHTD_BLACKOUT_USEC"],
            std::to_string(static_cast<std::uint64_t>(sidecar["blackout"]["max_us"].get<double>())));
  EXPECT_EQ(entry["FLIGHTD_LOST"], std::to_string(sidecar["blackout"]["lost"].get<std::uint64_t>()));
  EXPECT_EQ(entry["FLIGHTD_SIZE"], std::to_string(sidecar["size_bytes"].get<std::uint64_t>()));
  EXPECT_THAT(entry["FLIGHTD_REQUESTED_BY"], testing::MatchesRegex("flightctl.[0-9]+. uid 0"));
  EXPECT_EQ(entry["PRIORITY"], "5");
  EXPECT_EQ(entry["SYSLOG_IDENTIFIER"], "flightd");
  EXPECT_THAT(entry["MESSAGE"],
              AllOf(HasSubstr("snapshot " + sidecar["id"].get<std::string>() + ": manual: line one"), HasSubstr(name)));
  // If flightd is started by hand, the terminal shows the same text.
  EXPECT_THAT(daemon_.log(), HasSubstr(entry["MESSAGE"]));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(JournalTest, WhereStderrIsTheJournalItIsThereOnce) {
  FakeJournald journald(socket_path());
  ASSERT_TRUE(start("export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2);"));
  const Json sidecar = daemon_.snapshot();
  Entry entry = journald.next(kSnapshotId);
  EXPECT_EQ(entry["FLIGHTD_SNAPSHOT_ID"], sidecar.value("id", ""));
  EXPECT_TRUE(daemon_.stop());
  EXPECT_THAT(daemon_.log(), AllOf(HasSubstr("recording"), Not(HasSubstr("snapshot 1: "))));
}

TEST_F(JournalTest, AJournaldThatHangsBlocksNothing) {
  FakeJournald journald(socket_path(), "1");
  ASSERT_TRUE(start());
  for (int number = 0; number < 8; ++number) (void)daemon_.snapshot();
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.stop()) << "its end waits for journald";
}

}  // namespace
}  // namespace flight
