// SPDX-License-Identifier: Apache-2.0
// The wall clock is set, or the machine is suspended, while flightd runs: each time is the one that the clock showed
// then. Only flightd's clock is shifted (tests/e2e/witness/shifted_clock.hpp), never the machine's. And a flightd whose
// CLOCK_MONOTONIC is not that of the records.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/store/names.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/verifier.hpp"
#include "tests/e2e/witness/shifted_clock.hpp"

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

constexpr EventTime kMs = 1'000'000, kSecond = 1000 * kMs;

// The clock of a flightd that is started with prefix().
class FlightdClock {
 public:
  explicit FlightdClock(const TempFolder& folder)
      : path_(folder / "clock"), module_(folder.for_other_users(required_env("FLIGHT_SHIFTED_CLOCK_MODULE"))) {
    const UniqueFd file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    EXPECT_EQ(::ftruncate(file.get(), sizeof(ShiftedClock)), 0);
    void* memory = ::mmap(nullptr, sizeof(ShiftedClock), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    EXPECT_NE(memory, MAP_FAILED);
    shift_ = static_cast<ShiftedClock*>(memory);
    const std::string fifo = alarm_of(path_);
    EXPECT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    EXPECT_EQ(::chmod(fifo.c_str(), 0666), 0) << "flightd is another user";
    alarm_.reset(::open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  }
  FlightdClock(const FlightdClock&) = delete;
  FlightdClock& operator=(const FlightdClock&) = delete;
  ~FlightdClock() { ::munmap(shift_, sizeof(ShiftedClock)); }

  [[nodiscard]] Arguments prefix() const {
    Arguments command = preloading(module_);
    command.push_back("FLIGHT_SHIFTED_CLOCK=" + path_);
    return command;
  }
  void set(nanoseconds by) {
    shift_->wall_ns = shift_->wall_ns + by.count();
    const std::uint64_t once = 1;
    EXPECT_EQ(::write(alarm_.get(), &once, sizeof once), static_cast<ssize_t>(sizeof once));
  }
  // And then it is set.
  void suspend(nanoseconds time, nanoseconds set_by) {
    shift_->slept_ns = shift_->slept_ns + time.count();
    set(time + set_by);
  }

 private:
  std::string path_, module_;
  UniqueFd alarm_;
  ShiftedClock* shift_ = nullptr;
};

// What the machine's clock showed; the shift in a test is known.
WallTime real(EventTime time_ns) { return ClockPair::now().wall_at(time_ns); }
WallTime parsed(const Json& text) { return parse_time(text.get<std::string>(), {}).value_or(WallTime{}); }
void wait_for(EventTime time_ns) {
  ASSERT_TRUE(wait_until([&] { return monotonic_now() >= time_ns; }, 60s));
}
testing::AssertionResult near(WallTime a, WallTime b) {
  if (a - b < milliseconds(20) && b - a < milliseconds(20)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_rfc3339(a) << " is not " << to_rfc3339(b);
}
EventTime ns_of(const Json& value) { return value.get<EventTime>(); }

class Clock : public testing::Test {
 protected:
  void start() {
    burner_.emplace(start_load({folder_.load("burner"), std::to_string(load_cpu()), "60"}, kBusy));
    ASSERT_TRUE(daemon_.start(stacks_config(997, "1M"), {.prefix = clock_.prefix()}));
    started_ns_ = monotonic_now();
  }
  // perf's wall time of the first and the last sample, in a window with samples.
  [[nodiscard]] std::pair<std::string, std::string> perf_times(const Json& sidecar) const {
    const Outcome outcome =
        run({"env", "TZ=UTC", "perf", "script", "--no-demangle", "-i", sidecar["path"], "-F", "tod", "--ns"}, 60s);
    const auto lines = lines_of(outcome.out);
    EXPECT_FALSE(lines.empty()) << outcome.text();
    return lines.empty() ? std::pair<std::string, std::string>() : std::pair(lines.front(), lines.back());
  }

  TempFolder folder_;
  FlightdClock clock_{folder_};
  TestDaemon daemon_{folder_};
  std::optional<Child> burner_;
  EventTime started_ns_ = 0;
};

using ClockLong = Clock;

TEST_F(ClockLong, AfterAStepEachTimeIsAsTheClockShowedItThen) {
  ASSERT_NO_FATAL_FAILURE(start());
  wait_for(started_ns_ + 2 * kSecond);
  const EventTime step_ns = monotonic_now();
  clock_.set(hours(1));
  wait_for(step_ns + 2 * kSecond);
  const Json sidecar = daemon_.snapshot();
  const EventTime begin_ns = ns_of(sidecar["window"]["begin_ns"]), end_ns = ns_of(sidecar["window"]["end_ns"]);
  ASSERT_LT(begin_ns, step_ns);
  EXPECT_TRUE(near(parsed(sidecar["window"]["begin"]), real(begin_ns)));
  EXPECT_TRUE(near(parsed(sidecar["window"]["end"]), real(end_ns) + hours(1)));
  ASSERT_EQ(sidecar["clock_steps"].size(), 1U) << sidecar.dump(2);
  const Json& step = sidecar["clock_steps"][0];
  EXPECT_GE(ns_of(step["ns"]), step_ns);
  EXPECT_LT(ns_of(step["ns"]), end_ns);
  EXPECT_TRUE(near(parsed(step["before"]), real(ns_of(step["ns"]))));
  EXPECT_TRUE(near(parsed(step["after"]), real(ns_of(step["ns"])) + hours(1)));
  EXPECT_THAT(sidecar["warnings"].dump(),
              AllOf(HasSubstr("the wall clock was set: " + step["before"].get<std::string>()),
                    HasSubstr("perf script -F +tod"), HasSubstr("60 min too late")));

  // The list has the time of the freeze, by the new clock.
  const Json list = daemon_.ctl_json({"list"});
  ASSERT_EQ(list.size(), 1U);
  EXPECT_TRUE(near(parsed(list[0]["time"]), real(end_ns) + hours(1)));
  const Outcome info = daemon_.ctl({"info"});
  const auto shown = [](WallTime time) {  // in the local zone, as flightctl
    const std::time_t whole = std::chrono::floor<seconds>(time + nanoseconds(500'000)).count();
    std::tm parts{};
    ::localtime_r(&whole, &parts);
    return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
  };
  EXPECT_THAT(info.out, AllOf(HasSubstr(shown(parsed(sidecar["window"]["begin"]))),
                              HasSubstr(shown(parsed(sidecar["window"]["end"]))), HasSubstr("too late")));

  // perf has one pair: the one at the end. So the last sample is right.
  const std::uint64_t last_ns = named_samples(folder_, sidecar["path"]).back().time_ns;
  const std::string last = perf_times(sidecar).second;
  EXPECT_THAT(last, HasSubstr(to_rfc3339(real(last_ns) + hours(1)).substr(11, 7))) << "to ten seconds";
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
}

// With ticks alone, of 100 ms at least, one of five would be noticed as early.
TEST_F(ClockLong, TheTimeOfAStepIsThatOfTheStep) {
  ASSERT_NO_FATAL_FAILURE(start());
  wait_for(started_ns_ + kSecond);
  std::vector<EventTime> set_ns;
  for (int i = 0; i < 8; ++i) {
    set_ns.push_back(monotonic_now());
    clock_.set(hours(1));
    wait_for(set_ns.back() + 200 * kMs);
  }
  const Json steps = daemon_.snapshot()["clock_steps"];
  ASSERT_EQ(steps.size(), set_ns.size()) << steps.dump(2);
  int at_once = 0;
  for (std::size_t i = 0; i < set_ns.size(); ++i) {
    EXPECT_GE(ns_of(steps[i]["ns"]), set_ns[i]);
    if (ns_of(steps[i]["ns"]) < set_ns[i] + 20 * kMs) ++at_once;
  }
  EXPECT_GE(at_once, 5) << steps.dump(2);
}

TEST_F(Clock, SinceIsATimeThatTheClockShowed) {
  ASSERT_NO_FATAL_FAILURE(start());
  wait_for(started_ns_ + kSecond);
  const EventTime step_ns = monotonic_now();
  clock_.set(hours(-24 * 40));
  wait_for(step_ns + kSecond);
  const auto begin_of = [&](const Arguments& arguments) {
    Arguments all{"--post", "100ms"};
    all.insert(all.begin(), arguments.begin(), arguments.end());
    return ns_of(daemon_.snapshot(all)["window"]["begin_ns"]);
  };
  const EventTime before_ns = step_ns - 500 * kMs, after_ns = step_ns + 750 * kMs;
  EXPECT_NEAR(static_cast<double>(begin_of({"--since", to_rfc3339(real(before_ns))})), static_cast<double>(before_ns),
              5e6);
  EXPECT_NEAR(static_cast<double>(begin_of({"--since", to_rfc3339(real(after_ns) - hours(24 * 40))})),
              static_cast<double>(after_ns), 5e6);
  EXPECT_NEAR(static_cast<double>(begin_of(
                  {"--since", to_rfc3339(real(before_ns)), "--until", to_rfc3339(real(after_ns) - hours(24 * 40))})),
              static_cast<double>(before_ns), 5e6)
      << "the end is the earlier time of the wall clock, and came later";
  const EventTime asked_ns = monotonic_now();
  const EventTime ago_ns = begin_of({"--since", "1300ms ago"});
  EXPECT_GE(ago_ns, asked_ns - 1300 * kMs) << "by the new clock it would be older than all rings";
  EXPECT_LE(ago_ns, monotonic_now() - 1300 * kMs);

  clock_.set(hours(24 * 40 + 1));
  const Json forward = daemon_.snapshot({"--post", "100ms"});
  ASSERT_EQ(forward["clock_steps"].size(), 2U);
  EXPECT_EQ(begin_of({"--since", to_rfc3339(real(monotonic_now()) + seconds(1800))}),
            ns_of(forward["clock_steps"][1]["ns"]))
      << "the clock skipped this time";
}

TEST_F(ClockLong, AStepInsideOfPostIsInTheSnapshot) {
  ASSERT_NO_FATAL_FAILURE(start());
  wait_for(started_ns_ + kSecond);
  Child asked = Child::start(daemon_.ctl_command({"--json", "snapshot", "--post", "5s"}));
  // flightd looks at its clock at each request.
  const auto look = [&] { EXPECT_NE(daemon_.ctl({"snapshot", "--since", "2001-01-01T00:00:00Z"}).exit_status, 0); };
  look();
  clock_.set(hours(1));
  look();
  clock_.suspend(hours(8), hours(-1));
  const Outcome outcome = asked.finish(60s);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const Json sidecar = Json::parse(outcome.out);
  const EventTime end_ns = ns_of(sidecar["window"]["end_ns"]);
  EXPECT_EQ(sidecar["clock_steps"].size(), 2U) << sidecar.dump(2);
  EXPECT_THAT(sidecar["warnings"].dump(),
              AllOf(HasSubstr("changed 2 times in this window"),
                    HasSubstr("suspended for 8.0 h, and its wall clock was set"), HasSubstr("up to 8.0 h too late")));
  EXPECT_TRUE(near(parsed(sidecar["window"]["begin"]), real(ns_of(sidecar["window"]["begin_ns"]))));
  EXPECT_TRUE(near(parsed(sidecar["window"]["end"]), real(end_ns) + hours(8)));
}

TEST_F(ClockLong, EachStepInsideOfPostIsInItsSnapshot) {
  ASSERT_NO_FATAL_FAILURE(start());
  wait_for(started_ns_ + kSecond);
  hours shift{0};
  for (const hours step : {hours(1), hours(-1), hours(24 * 40), hours(-24 * 40)}) {
    SCOPED_TRACE(fmt::format("{} h", step.count()));
    const EventTime asked_ns = monotonic_now();
    Child asked = Child::start(daemon_.ctl_command({"--json", "snapshot", "--last", "1s", "--post", "2s"}));
    wait_for(asked_ns + kSecond);
    const EventTime step_ns = monotonic_now();
    clock_.set(step);
    const Outcome outcome = asked.finish(60s);
    ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
    const Json sidecar = Json::parse(outcome.out);
    const EventTime begin_ns = ns_of(sidecar["window"]["begin_ns"]), end_ns = ns_of(sidecar["window"]["end_ns"]);
    EXPECT_LT(begin_ns, step_ns);
    EXPECT_GT(end_ns, step_ns) << "post is of the time that passes, whatever the clock shows";
    EXPECT_LT(end_ns - begin_ns, 5 * kSecond);
    EXPECT_TRUE(near(parsed(sidecar["window"]["begin"]), real(begin_ns) + shift));
    shift += step;
    EXPECT_TRUE(near(parsed(sidecar["window"]["end"]), real(end_ns) + shift));
    ASSERT_EQ(sidecar["clock_steps"].size(), 1U) << sidecar.dump(2);
    EXPECT_TRUE(near(parsed(sidecar["clock_steps"][0]["after"]), real(ns_of(sidecar["clock_steps"][0]["ns"])) + shift));
    EXPECT_TRUE(all_count_all(folder_, sidecar));
    wait_for(monotonic_now() + kSecond);  // the next window begins behind this step
  }
}

class StoreClockTest : public Clock {
 protected:
  void SetUp() override {
    clock_.suspend(hours(2), {});  // not in the first hour of a boot, whatever this machine's uptime is
    config_ = stacks_config(97, "64K");
    config_["store"]["max_age"] = "10d";
    ASSERT_TRUE(daemon_.start(config_, {.prefix = clock_.prefix()}));
    // By the machine's clock, which does not change.
    for (std::uint64_t seq = 1; seq <= 3; ++seq) {
      const SnapshotName name{.host = "box", .time = wall_now() - hours(24), .trigger = "spike", .seq = seq};
      const Json sidecar{{"id", std::to_string(seq)}, {"path", name.data_file()}, {"trigger", "spike"}};
      write_text(daemon_.snapshots_dir() + "/" + name.sidecar_file(), sidecar.dump());
      write_text(daemon_.snapshots_dir() + "/" + name.data_file(), "data");
    }
  }
  [[nodiscard]] std::size_t count() const { return daemon_.ctl_json({"list"}).size(); }
  // flightd vacuums before and after it.
  void take() const { EXPECT_FALSE(daemon_.snapshot().empty()); }
  [[nodiscard]] bool warns_of(const std::string& text) const {
    return daemon_.status()["warnings"].dump().find(text) != std::string::npos;
  }
  Json config_;
};

// The clock jumps ahead by 40 days, flightd is started again, a day passes.
TEST_F(StoreClockTest, AfterAJumpAheadNothingIsDeletedByAgeForADay) {
  take();
  ASSERT_EQ(count(), 4U);
  clock_.set(hours(24 * 40));
  take();
  EXPECT_TRUE(wait_until([&] { return warns_of("4 snapshots") && warns_of("the clock ran ahead by 40"); }, 60s))
      << daemon_.status()["warnings"].dump(2);
  EXPECT_EQ(count(), 5U);
  ASSERT_TRUE(daemon_.stop());
  ASSERT_TRUE(daemon_.start(config_, {.prefix = clock_.prefix()}));
  take();
  EXPECT_TRUE(wait_until([&] { return warns_of("4 snapshots") && warns_of("the clock ran ahead by 40"); }, 60s))
      << daemon_.status()["warnings"].dump(2);
  EXPECT_EQ(count(), 6U);
  clock_.suspend(hours(25), {});
  take();
  EXPECT_TRUE(wait_until([&] { return count() == 3; }, 60s)) << daemon_.log();
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(StoreClockTest, AUserDeletesByAgeAfterAJumpAhead) {
  ASSERT_EQ(count(), 3U);
  clock_.set(hours(24 * 40));
  take();
  ASSERT_TRUE(wait_until([&] { return warns_of("3 snapshots"); }, 60s)) << daemon_.status()["warnings"].dump(2);
  const std::string foretold = daemon_.ctl({"vacuum", "--dry-run"}).out;
  EXPECT_THAT(foretold, AllOf(HasSubstr("Would delete"), HasSubstr("the clock ran ahead by 40"), HasSubstr("until ")));
  ASSERT_EQ(count(), 4U);
  EXPECT_THAT(daemon_.ctl({"vacuum"}).out,
              AllOf(HasSubstr("Deleted"), HasSubstr("store.max_age"), HasSubstr("the clock ran ahead by 40")));
  EXPECT_EQ(count(), 1U);
  EXPECT_TRUE(daemon_.stop());
}

class ClockOutlives : public OwnBroker {
 protected:
  ClockOutlives() { config_ = stacks_config(499, "2M"); }  // the first step stays in the window
  TestDaemon daemon_{folder_};
};

// The rings are the broker's, and the clock's past is in the checkpoint.
TEST_F(ClockOutlives, TheNextFlightdKnowsTheStepsOfTheOneBefore) {
  FlightdClock clock(folder_);
  const Arguments prefix = clock.prefix();
  // `env` is the user of flightd already.
  options_.prefix.insert(options_.prefix.end(), prefix.begin(), prefix.end());
  options_.program = folder_.for_other_users(required_env("FLIGHTD"));
  ASSERT_TRUE(daemon_.start(config_, options_));
  wait_for(monotonic_now() + kSecond);
  clock.set(hours(1));
  // After this snapshot flightd has seen the step; its recorder thread writes it within its longest interval.
  ASSERT_EQ(daemon_.snapshot()["clock_steps"].size(), 1U);
  const std::string checkpoint = folder_ / "run/tracker.checkpoint";
  const std::size_t at_start = 1, at_step = 2;
  ASSERT_TRUE(wait_until([&] { return count_of(read_text(checkpoint), "KCLF") >= at_start + at_step; }, 10s))
      << "the triples: one at the start, and both sides of the step";
  daemon_.process().kill();
  clock.set(hours(1));
  ASSERT_TRUE(daemon_.start(config_, options_));
  const Json sidecar = daemon_.snapshot();
  EXPECT_EQ(sidecar["clock_steps"].size(), 2U) << sidecar.dump(2);
  const EventTime begin_ns = ns_of(sidecar["window"]["begin_ns"]), end_ns = ns_of(sidecar["window"]["end_ns"]);
  EXPECT_TRUE(near(parsed(sidecar["window"]["begin"]), real(begin_ns)));
  EXPECT_TRUE(near(parsed(sidecar["window"]["end"]), real(end_ns) + hours(2)));
  EXPECT_TRUE(daemon_.stop());
}

// perf's records have the kernel's CLOCK_MONOTONIC (time_namespaces(7)).
TEST(TimeNamespace, TheClockIsThatOfTheRecords) {
  TempFolder folder;
  TestDaemon daemon(folder);
  const Child burner = start_load({folder.load("burner"), std::to_string(load_cpu()), "60"}, kBusy);
  const Outcome possible = run({"unshare", "--time", "true"});
  if (possible.exit_status != 0) GTEST_SKIP() << "needs a kernel with time namespaces: " << possible.err;
  ASSERT_TRUE(daemon.start(stacks_config(997, "1M"),
                           {.prefix = {"unshare", "--time", "--monotonic", "100000", "--boottime", "200000"}}));
  Json sidecar;
  EXPECT_TRUE(wait_until(
      [&] {
        sidecar = daemon.snapshot({"--last", "1500ms"});
        return sidecar["samples"] > 500 && sidecar["top"][0]["comm"] == "burner";
      },
      60s))
      << sidecar["top"].dump();
  const EventTime end_ns = ns_of(sidecar["window"]["end_ns"]);
  EXPECT_LE(end_ns, monotonic_now()) << "not the time of the namespace";
  EXPECT_TRUE(near(parsed(sidecar["window"]["end"]), real(end_ns)));
  EXPECT_FALSE(sidecar.contains("clock_steps"));
  EXPECT_TRUE(counts_all(Verifier::installed(), folder, sidecar));
}

}  // namespace
}  // namespace flight
