// SPDX-License-Identifier: Apache-2.0
// Requests that wait for the configuration, which real processes read. Only the time between two attempts is virtual.
#include "daemon/broker/reload_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/config/config_child.hpp"
#include "tests/unit/daemon/patience.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using testing::HasSubstr;

class Reloads : public testing::Test {
 protected:
  Reloads() { write(1); }
  [[nodiscard]] std::string file() const { return tree_.root() + "/flightd.json"; }
  // Each text has another digest.
  void write(int workers) const {
    tree_.write("/flightd.json", "{ \"snapshot\": { \"workers\": " + std::to_string(workers) + " } }");
  }
  [[nodiscard]] std::string digest() const { return load_config(file())->digest; }

  [[nodiscard]] ReloadQueue make(std::vector<std::string> command) const {
    return ReloadQueue(std::make_unique<ConfigReader>(file(), std::move(command)));
  }
  static std::vector<std::string> reads() { return {test::config_child(), "child", std::string(kReadConfigOption)}; }
  // Not before permit(). The file is $0.
  static std::vector<std::string> reads_when_permitted() {
    return {"/bin/sh", "sh", "-c",
            "while [ ! -e \"$0.permit\" ]; do sleep 0.01; done; exec '" + test::config_child() + "' " +
                std::string(kReadConfigOption) + " \"$0\""};
  }
  void permit() const { tree_.write("/flightd.json.permit", ""); }
  static std::vector<std::string> never_answers() { return {test::config_child(), "child", "--silent"}; }

  static void begin_attempt(ReloadQueue& queue) {
    const ReloadQueue::Clock::time_point begin{};
    queue.keep_trying(begin);
    queue.try_again(true, begin + 1s);
  }
  static std::optional<ReloadQueue::Reading> next(ReloadQueue& queue) {
    std::optional<ReloadQueue::Reading> reading;
    EXPECT_TRUE(test::soon([&] {
      reading = queue.take();
      return reading.has_value();
    }));
    return reading;
  }
  // The process of the reading has sent everything, and has ended.
  static bool has_ended(const ReloadQueue& queue) {
    pollfd watched{.fd = queue.fd(), .events = 0, .revents = 0};
    return ::poll(&watched, 1, 0) == 1 && (watched.revents & POLLHUP) != 0;
  }
  TempTree tree_;
};

TEST_F(Reloads, ThoseThatComeDuringAReadingShareTheNextOne) {
  ReloadQueue queue = make(reads_when_permitted());
  EXPECT_TRUE(queue.add_reload());
  EXPECT_FALSE(queue.add_reload());
  EXPECT_FALSE(queue.add_reload());
  EXPECT_FALSE(queue.take());
  EXPECT_GE(queue.fd(), 0);
  EXPECT_TRUE(queue.is_awaited());
  permit();
  const auto first = next(queue);
  ASSERT_TRUE(first && first->config);
  EXPECT_EQ(first->reloads, 1);
  EXPECT_EQ(first->config->digest, digest());
  write(2);
  const auto second = next(queue);
  ASSERT_TRUE(second && second->config);
  EXPECT_EQ(second->reloads, 2);
  EXPECT_EQ(second->config->digest, digest()) << "it began after the first one had ended";
  EXPECT_FALSE(queue.take());
  EXPECT_EQ(queue.fd(), -1);
  EXPECT_FALSE(queue.is_awaited());
}

TEST_F(Reloads, AReadingThatBeganBeforeIsDropped) {
  ReloadQueue queue = make(reads());
  begin_attempt(queue);
  ASSERT_TRUE(test::soon([&] { return has_ended(queue); })) << "it has read the old text";
  write(2);
  EXPECT_TRUE(queue.add_reload());
  const auto reading = next(queue);
  ASSERT_TRUE(reading && reading->config);
  EXPECT_EQ(reading->reloads, 1);
  EXPECT_EQ(reading->config->digest, digest());
  EXPECT_FALSE(queue.take());
}

TEST_F(Reloads, AReadingThatTakesTooLongIsDroppedWithTheReason) {
  ReloadQueue queue = make(never_answers());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(queue.add_reload());
  EXPECT_FALSE(queue.add_reload());
  std::optional<ReloadQueue::Reading> late;
  EXPECT_TRUE(test::soon([&] {
    EXPECT_FALSE(queue.silence()) << "a reload waits longer";
    late = queue.take();
    return late.has_value();
  }));
  ASSERT_TRUE(late);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, ReloadQueue::kReloadWithin);
  EXPECT_EQ(late->reloads, 1);
  ASSERT_FALSE(late->config);
  EXPECT_TRUE(late->config.error().unread);
  EXPECT_THAT(late->config.error().text(), HasSubstr("the configuration " + file() + " does not answer"));
  EXPECT_EQ(queue.fd(), -1);
  EXPECT_FALSE(queue.take());
  EXPECT_GE(queue.fd(), 0) << "the second reload has a reading of its own";
}

TEST_F(Reloads, AttachesWaitUntilTheReadingIsLate) {
  ReloadQueue queue = make(never_answers());
  EXPECT_FALSE(queue.add_attach()) << "nothing is being read";
  begin_attempt(queue);
  EXPECT_TRUE(queue.add_attach());
  EXPECT_TRUE(queue.add_attach());
  std::optional<ConfigError> why;
  EXPECT_TRUE(test::soon([&] {
    EXPECT_FALSE(queue.take());
    why = queue.silence();
    return why.has_value();
  }));
  ASSERT_TRUE(why);
  EXPECT_THAT(why->text(), HasSubstr("the configuration " + file() + " does not answer"));
  EXPECT_TRUE(queue.is_awaited());
  EXPECT_EQ(queue.take_attaches(), 2);
  EXPECT_EQ(queue.take_attaches(), 0);
  EXPECT_FALSE(queue.is_awaited());
  EXPECT_FALSE(queue.add_attach());
  EXPECT_GE(queue.fd(), 0) << "the reading goes on";
}

// Each look is another process, and ends if what hangs was not replaced.
TEST_F(Reloads, AnAttemptFindsWhatReplacedALinkThatHangs) {
  std::filesystem::remove(file());
  std::filesystem::create_symlink("elsewhere", file());
  ReloadQueue queue = make({test::config_child(), "child", "--hangs-at-links"});
  begin_attempt(queue);
  ASSERT_TRUE(test::soon([&] {
    EXPECT_FALSE(queue.take());
    const auto why = queue.silence();
    return why && why->text().find("does not answer") != std::string::npos;
  }));
  const int hangs = queue.fd();
  ReloadQueue::Clock::time_point now = ReloadQueue::Clock::time_point{} + 1s;
  for (int i = 0; i < 3; ++i) {
    now += 10s;
    queue.try_again(false, now);
    EXPECT_NE(queue.fd(), hangs) << "it looks";
    EXPECT_TRUE(test::soon([&] { return !queue.take() && queue.fd() == hangs; }));
  }
  std::filesystem::remove(file());
  write(2);
  queue.try_again(false, now + 9s);
  EXPECT_EQ(queue.fd(), hangs) << "not before 10 s";
  queue.try_again(false, now + 10s);
  const auto reading = next(queue);
  ASSERT_TRUE(reading && reading->config);
  EXPECT_EQ(reading->reloads, 0);
  EXPECT_EQ(reading->config->digest, digest());
  EXPECT_EQ(queue.fd(), -1);
}

// It is read on this thread, so that there is a result at once.
TEST_F(Reloads, AttemptsComeAfter1And2And5AndThenEvery10Seconds) {
  ReloadQueue queue = make({});
  ReloadQueue::Clock::time_point now{};
  queue.try_again(true, now + std::chrono::hours(1));
  EXPECT_FALSE(queue.take()) << "not before keep_trying()";
  queue.keep_trying(now);
  for (const std::chrono::seconds wait : {1s, 2s, 5s, 10s, 10s}) {
    queue.try_again(false, now + wait - 1ms);
    EXPECT_FALSE(queue.take()) << wait.count();
    now += wait;
    queue.try_again(false, now);
    const auto reading = queue.take();
    ASSERT_TRUE(reading && reading->config) << wait.count();
    EXPECT_EQ(reading->reloads, 0);
    now += 100ms;  // events were opened
    queue.note_attempt(now);
  }
  queue.try_again(true, now + 999ms);
  EXPECT_FALSE(queue.take());
  queue.try_again(true, now + 1s);
  EXPECT_TRUE(queue.take()) << "somebody waits";
}

TEST_F(Reloads, NobodyWaitsWhenTheClientHasLeft) {
  for (const bool is_recording : {true, false}) {
    ReloadQueue queue = make(reads());
    EXPECT_TRUE(queue.add_reload());
    EXPECT_FALSE(queue.add_reload());
    EXPECT_TRUE(queue.add_attach());
    queue.forget(is_recording);
    EXPECT_EQ(queue.take_attaches(), 0);
    if (is_recording) {
      EXPECT_EQ(queue.fd(), -1);
    } else {
      const auto reading = next(queue);
      ASSERT_TRUE(reading && reading->config) << "a broker that does not record needs it";
      EXPECT_EQ(reading->reloads, 0);
    }
    EXPECT_FALSE(queue.take());
    EXPECT_EQ(queue.fd(), -1) << "the second reload is forgotten, too";
  }
}

TEST_F(Reloads, AReadingForNoRequestIsNotTheClients) {
  ReloadQueue queue = make(never_answers());
  begin_attempt(queue);
  queue.forget(true);
  EXPECT_GE(queue.fd(), 0);
}

}  // namespace
}  // namespace flight::broker
