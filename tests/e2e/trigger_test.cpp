// SPDX-License-Identifier: Apache-2.0
// Triggers that clients fire and triggers that the kernel fires: their actions, their limits, and what survives a
// restart.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "tests/e2e/trigger_fixture.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class External : public TriggerTest {
 protected:
  External()
      : TriggerTest({{"probe", {{"external", true}, {"max_per_hour", 2}}},
                     {"late", {{"external", true}, {"post", "2s"}, {"last", "1s"}}},
                     {"busy", {{"metric", "cpu.busy"}, {"above", "90%"}, {"for", "1h"}}}},
                    {{"burst", 20}, {"per_hour", 20}}) {}
};

using ExternalLong = External;

TEST_F(External, FiresUntilItsPolicySaysNo) {
  for (int time = 1; time <= 2; ++time) {
    const Json fired = daemon_.ctl_json({"fire", "probe", "--reason", fmt::format("check {} failed", time)});
    const Json sidecar = daemon_.ctl_json({"info", fired["id"]});
    EXPECT_EQ(sidecar["trigger"], "probe");
    EXPECT_THAT(sidecar["reason"], HasSubstr(fmt::format("check {} failed", time)));
    EXPECT_TRUE(sidecar["fired"].is_null()) << "no metric made it fire";
    EXPECT_EQ(sidecar["requests"][0]["comm"], "flightctl");
    EXPECT_THAT(sidecar["path"], HasSubstr("-probe-"));
  }
  const Outcome third = daemon_.ctl({"--json", "fire", "probe"});
  EXPECT_EQ(third.exit_status, 1);
  EXPECT_EQ(third.out, "");
  EXPECT_THAT(third.err, AllOf(HasSubstr("io.flightd.Recorder.Suppressed"), HasSubstr("max_per_hour")));
  EXPECT_EQ(trigger("probe")["fired"], 2);
  EXPECT_EQ(trigger("probe")["suppressed"], 1);
  EXPECT_EQ(trigger("probe")["state"], "held back");
  // A manual request is never throttled.
  EXPECT_EQ(daemon_.snapshot()["trigger"], "manual");
  EXPECT_EQ(daemon_.ctl({"--json", "fire", "nothing"}).exit_status, 1);
  EXPECT_THAT(daemon_.ctl({"--json", "fire", "nothing"}).err, HasSubstr("NoSuchTrigger"));
  EXPECT_THAT(daemon_.ctl({"fire", "busy"}).err, HasSubstr("fires automatically"));
  EXPECT_EQ(daemon_.ctl({"fire"}).exit_status, 2);
  EXPECT_EQ(daemon_.ctl({"fire", "../x"}).exit_status, 2);
}

TEST_F(ExternalLong, TheAftermathAndOnlySoMuchOfThePast) {
  ASSERT_TRUE(wait_until([&] { return daemon_.status()["uptime_seconds"].get<double>() > 3; }, 60s));
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "100"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  const std::uint64_t asked_ns = now_ns();
  const Json fired = daemon_.ctl_json({"fire", "late"});
  const Json sidecar = daemon_.ctl_json({"info", fired["id"]});
  EXPECT_GE(sidecar["window"]["end_ns"].get<std::uint64_t>(), asked_ns + 2'000'000'000);
  EXPECT_GE(sidecar["window"]["begin_ns"].get<std::uint64_t>(), asked_ns - 1'000'000'000);
}

// The cost is in the wake-ups, not in the checks: a wrong wait would wake with every tick of its clock.
TEST_F(ExternalLong, LooksTenTimesASecondAndSleepsBetween) {
  std::string thread;
  const std::string tasks = fmt::format("/proc/{}/task", daemon_.pid());
  for (const auto& task : std::filesystem::directory_iterator(tasks))
    if (read_text(task.path() / "comm") == "trigger\n") thread = task.path();
  ASSERT_NE(thread, "") << tasks;
  const auto sleeps = [&] {
    const std::string status = read_text(thread + "/status");
    const std::string key = "\nvoluntary_ctxt_switches:";
    return std::stoul(status.substr(status.find(key) + key.size()));
  };
  const std::size_t before = sleeps();
  const std::uint64_t begin_ns = now_ns();
  ASSERT_TRUE(wait_until([&] { return sleeps() >= before + 20; }, 60s)) << "it does not look";
  std::this_thread::sleep_for(3s);
  const double seconds = static_cast<double>(now_ns() - begin_ns) / 1e9;
  EXPECT_LT(static_cast<double>(sleeps() - before) / seconds, 30) << "wake-ups a second";
}

TEST_F(External, SwitchedOffAndTested) {
  EXPECT_THAT(daemon_.ctl({"triggers", "disable", "probe"}).out, HasSubstr("disabled probe"));
  const Outcome refused = daemon_.ctl({"--json", "fire", "probe"});
  EXPECT_EQ(refused.exit_status, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("TriggerDisabled"), HasSubstr("flightctl triggers enable probe")));
  EXPECT_EQ(trigger("probe")["enabled"], false);
  EXPECT_EQ(trigger("probe")["state"], "off");
  // A test ignores the rate limits, and its reason says that it is a test.
  const Json tested = daemon_.ctl_json({"triggers", "test", "busy"});
  const Json sidecar = daemon_.ctl_json({"info", tested["id"]});
  EXPECT_THAT(sidecar["reason"], HasSubstr("test of the trigger (state: "));
  EXPECT_EQ(sidecar["test"], true);
  EXPECT_EQ(trigger("busy")["fired"], 1);
  EXPECT_EQ(trigger("busy")["last_snapshot"], tested["id"]);
  // The trigger stays off after a restart.
  ASSERT_TRUE(daemon_.stop());
  ASSERT_TRUE(daemon_.start(config_));
  EXPECT_EQ(trigger("probe")["enabled"], false);
  EXPECT_EQ(daemon_.ctl({"triggers", "enable", "probe"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"fire", "probe"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"triggers", "enable", "nothing"}).exit_status, 1);
  EXPECT_EQ(daemon_.ctl({"triggers", "enable"}).exit_status, 2);
}

TEST_F(External, CountersOutliveARestart) {
  EXPECT_EQ(daemon_.ctl({"fire", "probe"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"fire", "probe"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"fire", "probe"}).exit_status, 1);
  ASSERT_TRUE(daemon_.stop());
  ASSERT_TRUE(daemon_.start(config_));
  EXPECT_EQ(trigger("probe")["fired"], 2);
  EXPECT_EQ(trigger("probe")["suppressed"], 1);
  EXPECT_EQ(daemon_.ctl({"fire", "probe"}).exit_status, 1) << "a restart opens no gate";
  // A damaged state file does not end flightd either.
  ASSERT_TRUE(daemon_.stop());
  write_text(daemon_.state_dir() + "/triggers.state", "flightd-triggers 1\nrubbish\n");
  ASSERT_TRUE(daemon_.start(config_));
  EXPECT_THAT(daemon_.log(), HasSubstr("start at zero"));
  EXPECT_EQ(trigger("probe")["fired"], 0);
}

TEST_F(External, TheMetricsOfTheLastMinuteAreInTheSidecar) {
  ASSERT_TRUE(wait_until([&] { return daemon_.status()["uptime_seconds"].get<double>() > 2; }, 60s));
  const Json metrics = daemon_.snapshot()["metrics"];
  ASSERT_TRUE(metrics.is_object());
  for (const char* name : {"cpu.busy", "cpu.hottest", "tasks.running"})
    EXPECT_GE(metrics["recent"]["values"][name].size(), 5U) << name;
  EXPECT_EQ(metrics["recent"]["step_ns"], 100'000'000);
  EXPECT_EQ(metrics["minutes"]["step_ns"], 1'000'000'000);
  EXPECT_GE(metrics["cpus"]["values"].size(), 1U);
  EXPECT_LE(metrics.dump().size(), 256U << 10U);
}

// This process sends itself signals, which a tracepoint with a filter records.
class KernelEvent : public TriggerTest {
 protected:
  KernelEvent()
      : TriggerTest({{"signalled",
                      {{"event",
                        {{"event", "signal:signal_generate"},
                         {"filter", fmt::format("sig == {} && pid == {}", SIGWINCH, ::getpid())}}},
                       {"max_per_hour", 3}}},
                     {"other", {{"event", "oom:mark_victim"}}}}) {}
  static void hit() { ::kill(::getpid(), SIGWINCH); }
};

TEST_F(KernelEvent, FiresAtOnceWithTheKernelsDetail) {
  ::kill(::getpid(), SIGURG);  // the filter must reject this one
  hit();
  const Json sidecar = await_snapshot_of("signalled");
  EXPECT_THAT(sidecar["reason"],
              AllOf(HasSubstr("signal:signal_generate"), HasSubstr(fmt::format("sig={}", SIGWINCH))));
  EXPECT_EQ(sidecar["requests"][0]["comm"], "flightd");
  EXPECT_EQ(trigger("signalled")["fired"], 1);
  EXPECT_EQ(trigger("other")["fired"], 0);
  EXPECT_TRUE(wait_until([&] { return trigger("signalled")["last_snapshot"] == sidecar["id"]; }, 60s));
}

TEST_F(KernelEvent, AThousandInAStormAreCountedAndThreeAreTaken) {
  constexpr int kStorm = 1000;
  for (int number = 0; number < kStorm; ++number) {
    hit();
    if (number % 50 == 0) ::usleep(20'000);
    // A manual snapshot is still possible during the storm: one of its own, or one that a firing requested as well.
    if (number == kStorm / 2) {
      const Json requests = daemon_.snapshot()["requests"];
      EXPECT_TRUE(std::any_of(requests.begin(), requests.end(), [](const Json& one) {
        return one["comm"] == "flightctl";
      })) << requests;
    }
  }
  const auto seen = [&] {
    const Json row = trigger("signalled");
    return row["fired"].get<int>() + row["suppressed"].get<int>();
  };
  // Hits for which a ring had no space are reported with the next one.
  int sent = kStorm;
  for (int attempt = 0; attempt < 20 && !wait_until([&] { return seen() == sent; }, 3s); ++attempt, ++sent) hit();
  EXPECT_EQ(seen(), sent);
  EXPECT_EQ(trigger("signalled")["fired"], 3);
  ASSERT_TRUE(wait_until([&] { return !newest_of("signalled").is_null(); }, 60s));
  int of_it = 0;
  for (const Json& row : daemon_.ctl_json({"list"})) of_it += row["trigger"] == "signalled" ? 1 : 0;
  EXPECT_LE(of_it, 3);
  ASSERT_TRUE(daemon_.stop());
  EXPECT_EQ(count_of(daemon_.log(), fmt::format("{} firings", sent - 3)), 1U) << "reported once";
}

// As KernelEvent; each firing goes on in a recording.
class RecordedEvent : public TriggerTest {
 protected:
  RecordedEvent()
      : TriggerTest({{"signalled",
                      {{"event",
                        {{"event", "signal:signal_generate"},
                         {"filter", fmt::format("sig == {} && pid == {}", SIGWINCH, ::getpid())}}},
                       {"action", {{"record", "10min"}}}}},
                     {"probe", {{"external", true}, {"action", {{"record", "10min"}}}}}}) {}
  // The id of its last recording, when it has begun.
  [[nodiscard]] std::string recording_of(std::string_view name) const {
    Json id;
    EXPECT_TRUE(wait_until([&] { return (id = trigger(name)["last_recording"]).is_string(); }, 60s)) << daemon_.log();
    return id.is_string() ? id.get<std::string>() : "";
  }
  [[nodiscard]] bool is_running(const std::string& id) const {
    return daemon_.status()["messages"].dump().find(fmt::format("recording {} of trigger", id)) != std::string::npos;
  }
};
using RecordedEventLong = RecordedEvent;

TEST_F(RecordedEvent, GoesOnWhateverBecomesOfItsTrigger) {
  ::kill(::getpid(), SIGWINCH);
  const std::string id = recording_of("signalled");
  EXPECT_TRUE(wait_until([&] { return trigger("signalled")["last_snapshot"].is_string(); }, 60s)) << daemon_.log();
  EXPECT_NE(trigger("signalled")["last_snapshot"], id);
  EXPECT_EQ(trigger("signalled")["recordings"], 1);
  EXPECT_EQ(trigger("signalled")["recordings_failed"], 0);
  EXPECT_TRUE(is_running(id));
  EXPECT_EQ(daemon_.ctl({"triggers", "disable", "signalled"}).exit_status, 0);
  EXPECT_TRUE(is_running(id));
  config_["triggers"].erase("signalled");
  write_text(folder_ / "flightd.json", config_.dump(2));
  EXPECT_EQ(daemon_.ctl({"reload"}).exit_status, 0);
  EXPECT_TRUE(trigger("signalled").is_null());
  EXPECT_TRUE(is_running(id));
  EXPECT_EQ(daemon_.ctl_json({"record", "--stop", id})["ended"], "asked");
  const Json part = daemon_.ctl_json({"info", id});
  EXPECT_EQ(part["kind"], "recording");
  EXPECT_EQ(part["trigger"], "record");
  EXPECT_THAT(part["reason"].get<std::string>(), HasSubstr("trigger signalled: signal:signal_generate"));
  EXPECT_EQ(part["record"]["ended"], "asked");
  EXPECT_FALSE(is_running(id));
}

TEST_F(RecordedEventLong, TheEndOfFlightdEndsItInOrder) {
  EXPECT_EQ(daemon_.ctl({"fire", "probe"}).exit_status, 0);
  const std::string id = recording_of("probe");
  ASSERT_TRUE(daemon_.stop());
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  ASSERT_TRUE(daemon_.start(config_));
  EXPECT_EQ(daemon_.ctl_json({"info", id})["record"]["ended"], "asked");
  EXPECT_EQ(trigger("probe")["recordings"], 1) << "it is counted on";
  EXPECT_EQ(trigger("probe")["last_recording"], id);
}

class Guarded : public TriggerTest {
 protected:
  Guarded()
      : TriggerTest({{"one", {{"external", true}}}, {"two", {{"external", true}}}}, {{"burst", 3}, {"per_hour", 1}}) {}
};

TEST_F(Guarded, TheStormGuardIsOverAllOfThem) {
  EXPECT_EQ(daemon_.ctl({"fire", "one"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"fire", "two"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"fire", "one"}).exit_status, 0);
  for (const char* name : {"one", "two"}) {
    const Outcome held = daemon_.ctl({"fire", name});
    EXPECT_EQ(held.exit_status, 1);
    EXPECT_THAT(held.err, HasSubstr("storm guard"));
  }
  EXPECT_EQ(daemon_.ctl({"snapshot"}).exit_status, 0);
}

// A file as proc_stat(5), of a machine whose CPUs are idle until a hypervisor takes 95 % of their time.
class ChangingStat {
 public:
  explicit ChangingStat(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    for (const std::string& line : lines_of(read_text("/proc/stat")))
      if (line.starts_with("cpu") && !line.starts_with("cpu ")) cpus_.push_back(line.substr(0, line.find(' ')));
    write();
    thread_ = std::thread([this] {
      for (Stopwatch watch; !ends_;) {
        std::this_thread::sleep_for(50ms);
        add(static_cast<double>(watch.gone_by().count()) / 10);  // ticks of 10 ms
        watch = Stopwatch();
        write();
      }
    });
  }
  ChangingStat(const ChangingStat&) = delete;
  ChangingStat& operator=(const ChangingStat&) = delete;
  ~ChangingStat() {
    ends_ = true;
    thread_.join();
  }
  void steal() { steals_ = true; }

 private:
  void add(double ticks) {
    const bool steals = steals_;
    user_ += ticks * (steals ? 0.01 : 0.03);
    steal_ += ticks * (steals ? 0.95 : 0);
    idle_ += ticks * (steals ? 0.04 : 0.97);
  }
  void write() const {
    const auto line = [this](const std::string& name, double cpus) {
      return fmt::format("{} {:.0f} 0 0 {:.0f} 0 0 0 {:.0f} 0 0\n", name, user_ * cpus, idle_ * cpus, steal_ * cpus);
    };
    std::string text = line("cpu ", static_cast<double>(cpus_.size()));
    for (const std::string& cpu : cpus_) text += line(cpu, 1);
    text += "intr 0\nctxt 1\nbtime 1795600000\nprocesses 1000\nprocs_running 1\nprocs_blocked 0\nsoftirq 0\n";
    EXPECT_EQ(::pwrite(file_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }
  UniqueFd file_;
  std::vector<std::string> cpus_;
  double user_ = 1000, idle_ = 100'000, steal_ = 0;  // of one CPU
  std::atomic<bool> steals_ = false, ends_ = false;
  std::thread thread_;
};

class StolenTimeLong : public TriggerTest {
 protected:
  StolenTimeLong()
      : TriggerTest({{"spike", {{"metric", "cpu.busy"}, {"above", "80%"}, {"for", "1s"}}},
                     {"used", {{"metric", "cpu.used"}, {"above", "50%"}, {"for", "1s"}}},
                     {"steal", {{"metric", "cpu.steal"}, {"above", "30%"}, {"for", "3s"}}}}) {}
  void SetUp() override {
    StartOptions options;
    options.prefix = {"unshare", "--mount", "sh", "-c", R"(mount --bind "$0" /proc/stat && exec "$@")", path_};
    ASSERT_TRUE(daemon_.start(config_, options));
  }
  const std::string path_ = folder_ / "stat";
  ChangingStat stat_{path_};
};

// Nobody here has used it.
TEST_F(StolenTimeLong, IsNamedAndBlamesNobody) {
  usleep(1'500'000);  // a fixed time: as long as it lasts below, nothing fires
  for (const auto& [name, count] : fired()) EXPECT_EQ(count, 0U) << name;
  stat_.steal();
  const Json spike = await_snapshot_of("spike");
  ASSERT_TRUE(spike.is_object());
  EXPECT_THAT(spike["reason"].get<std::string>(), HasSubstr("stolen"));
  EXPECT_EQ(spike["fired"]["metric"], "cpu.busy");
  EXPECT_GT(spike["fired"]["value"], 80);
  EXPECT_GT(spike["fired"]["stolen"], 75);
  EXPECT_LE(spike["fired"]["stolen"].get<double>(), spike["fired"]["value"].get<double>());
  EXPECT_THAT(daemon_.ctl({"info", spike["id"]}).out, HasSubstr("stolen"));
  const Json steal = await_snapshot_of("steal");
  ASSERT_TRUE(steal.is_object());
  EXPECT_EQ(steal["fired"]["metric"], "cpu.steal");
  EXPECT_EQ(fired().at("used"), 0U) << "what is used is little";
}

// If the configuration names something that this machine does not have, the error names the place in the file.
TEST(Trigger, AnUnavailableTriggerIsReportedAtTheStart) {
  const TempFolder folder;
  TestDaemon daemon(folder);
  Json config = stacks_config(99, "64K");
  config["triggers"] = {{"mine", {{"event", "nothing:such"}}}};
  daemon.launch(config.dump(2));
  const auto status = daemon.process().wait(60s);
  ASSERT_TRUE(status);
  EXPECT_NE(*status, 0);
  EXPECT_THAT(daemon.log(), AllOf(HasSubstr("nothing:such"), HasSubstr("flightd.json:")));
}

}  // namespace
}  // namespace flight
