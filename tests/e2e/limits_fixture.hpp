// SPDX-License-Identifier: Apache-2.0
// A machine without resources, and the requests for a snapshot that must be answered there.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "libcore/base/spare_descriptors.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {

class Limits : public testing::Test {
 protected:
  // LeakSanitizer needs another task at the end, which this flightd cannot have.
  static std::vector<std::string> without_leak_check() {
    if (!sanitized()) return {};
    const char* set = ::getenv("ASAN_OPTIONS");
    return {"env", fmt::format("ASAN_OPTIONS={}:detect_leaks=0", set != nullptr ? set : "")};
  }
  [[nodiscard]] std::vector<std::string> store_files() const {
    std::vector<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "state/snapshots", none))
      if (entry.path().string().ends_with(".perf.data")) names.push_back(entry.path());
    return names;
  }
  // A trigger that ask_by_trigger() fires.
  void add_trigger() {
    config_["triggers"] = {{"winch",
                            {{"event",
                              {{"event", "signal:signal_generate"},
                               {"filter", fmt::format("sig == {} && pid == {}", SIGWINCH, ::getpid())}}}}}};
  }
  // A request for a snapshot, and the trigger in its name. Nobody can connect where flightd cannot have a descriptor.
  struct Way {
    std::string trigger;
    std::function<void()> ask;
  };
  [[nodiscard]] static std::vector<Way> ways(const TestDaemon& daemon, RawSocket& connected_before) {
    return {{"signal", [&daemon] { EXPECT_EQ(::kill(daemon.pid(), SIGUSR2), 0); }},
            {"winch", [] { EXPECT_EQ(::kill(::getpid(), SIGWINCH), 0); }},
            {"manual", [&connected_before] {
               EXPECT_TRUE(connected_before.call(R"({"method":"io.flightd.Recorder.TakeSnapshot"})"));
               EXPECT_THAT(connected_before.receive(60s).value_or("no answer"), testing::HasSubstr(R"("snapshot":{)"));
             }}};
  }
  // Asks, and waits for the snapshot.
  void expect_snapshot(const TestDaemon& daemon, const Way& way) const {
    SCOPED_TRACE(way.trigger);
    const std::size_t before = store_files().size();
    way.ask();
    ASSERT_TRUE(wait_until([&] { return store_files().size() > before; }, 30s)) << daemon.log();
    const std::vector<std::string> files = store_files();
    EXPECT_TRUE(std::any_of(files.begin(), files.end(), [&](const std::string& file) {
      return file.find("-" + way.trigger + "-") != std::string::npos;
    }));
  }
  // Starts flightd. True: it ended with a message that has `reason` and one of `statuses`. Otherwise it can take a
  // snapshot, and ends in order.
  [[nodiscard]] bool refuses(const std::string& reason, const std::vector<int>& statuses = {1}) const {
    TestDaemon daemon(folder_);
    daemon.launch(config_.dump(), options_);
    if (daemon.wait_ready()) {
      EXPECT_TRUE(daemon.goes_on()) << daemon.log();
      EXPECT_TRUE(daemon.stop());
      return false;
    }
    const Outcome outcome = daemon.process().finish(30s);
    EXPECT_THAT(statuses, testing::Contains(outcome.exit_status)) << outcome.text();
    EXPECT_THAT(outcome.err, testing::AllOf(testing::HasSubstr(reason), testing::Not(testing::IsEmpty())));
    return true;
  }
  TempFolder folder_;
  StartOptions options_;
  Json config_ = stacks_config(99, "64K");
};

// The numbers of what is kept for such a moment.
inline std::vector<int> spare_descriptors(pid_t pid) {
  std::vector<int> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), error)) {
    const int number = std::stoi(entry.path().filename());
    if (number > STDERR_FILENO && std::filesystem::read_symlink(entry, error) == "/dev/null") numbers.push_back(number);
  }
  return numbers;
}

inline int lowest_free(pid_t pid) {
  int number = 0;
  while (::access(fmt::format("/proc/{}/fd/{}", pid, number).c_str(), F_OK) == 0) ++number;
  return number;
}

// Its next file has to be one of them.
inline bool has_no_number_left(pid_t pid) {
  rlimit limit{};
  if (::prlimit(pid, RLIMIT_NOFILE, nullptr, &limit) != 0) return false;
  return static_cast<rlim_t>(lowest_free(pid)) >= limit.rlim_cur;
}

// It has all of them, or cannot have more.
inline bool is_prepared(pid_t pid) {
  return spare_descriptors(pid).size() == 2 * SpareDescriptors::kMany || has_no_number_left(pid);
}

}  // namespace flight
