// SPDX-License-Identifier: Apache-2.0
// Twenty minutes of random actions: kills, stops, reloads, snapshots, pauses, a store that becomes read-only or full,
// no descriptors, no task, a process with thousands of mappings, a program on a mount that hangs. Whatever is reported
// as a snapshot stays, and can be read; nothing ends that was not killed; nothing leaks. FLIGHT_ACTIONS_SECONDS and
// FLIGHT_ACTIONS_SEED repeat a run.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libcore/base/spare_descriptors.hpp"
#include "tests/e2e/full_group.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* text = ::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::size_t entries(pid_t pid, std::string_view folder) {
  std::error_code error;
  std::size_t count = 0;
  for (auto at = std::filesystem::directory_iterator(fmt::format("/proc/{}/{}", pid, folder), error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error))
    ++count;
  return count;
}

constexpr const char* kManyFiles = "1024";

class Actions : public OwnBroker {
 protected:
  struct Size {
    std::size_t threads = 0, descriptors = 0, children = 0;
  };
  using Action = void (Actions::*)();

  void SetUp() override {
    enter_own_mounts();
    OwnBroker::SetUp();
    config_["store"]["max_files"] = 100'000;
    ASSERT_TRUE(mount_tmpfs(folder_ / "state", kStore)) << "no store";
    for (const std::string& name : {backing_, disk_}) ASSERT_EQ(::mkdir(name.c_str(), 0755), 0);
    std::filesystem::copy_file(folder_.load("burner"), backing_ + "/program");
    set_fault("none 0 0 0");
    fuse_.emplace(Child::start({required_env("FLIGHT_SLOW_DISK"), backing_, disk_, control_}));
    ASSERT_TRUE(wait_until([this] { return std::filesystem::exists(disk_ + "/program"); }, 30s)) << fuse_->err();
    manager_.emplace(folder_ / "notify");
    ASSERT_EQ(::chmod((folder_ / "notify").c_str(), 0666), 0);
    write_text(folder_ / "broker.json", config_.dump(2));
    ASSERT_NO_FATAL_FAILURE(start_broker(&*manager_));
    ASSERT_TRUE(daemon_.start(config_, options_));
  }
  void TearDown() override {
    set_fault("none 0 0 0");
    served_.reset();
    unmount(disk_);
    OwnBroker::TearDown();
    daemon_.process().kill();
    broker_.reset();
    unmount(folder_ / "state");
  }

  // The actions.
  void take_snapshot() {
    const Outcome outcome = daemon_.ctl({"--json", "snapshot", "--reason", "at random"});
    note(outcome);
    EXPECT_TRUE(outcome.exit_status == 0 || !outcome.err.empty()) << outcome.text();
  }
  // Snapshots that `flightctl snapshot` reported must stay.
  void note(const Outcome& outcome) {
    EXPECT_FALSE(outcome.timed_out) << outcome.text();
    if (outcome.exit_status != 0) return;
    const std::string id = Json::parse(outcome.out)["id"];
    // On a full disk it may be deleted for the next one, unless it is pinned.
    if (!filled_ || daemon_.ctl({"pin", id}).exit_status == 0) reported_.insert(id);
  }
  void signal_snapshot() { daemon_.process().signal(SIGUSR2); }
  void ask() {
    for (const Arguments& call : {Arguments{"--json", "status"}, {"list"}, {"triggers"}, {"config"}})
      EXPECT_FALSE(daemon_.ctl(call).timed_out) << daemon_.log();
  }
  void reload() {
    config_["channels"]["stacks"]["events"][0]["frequency"] = 199 + 100 * dice(3);
    write_configs();
    EXPECT_FALSE(daemon_.ctl({"reload"}).timed_out);
  }
  void reload_wrong() {
    write_text(folder_ / "flightd.json", "{ \"channels\": 7 }");
    const Outcome outcome = daemon_.ctl({"reload"});
    EXPECT_EQ(outcome.exit_status, 1) << outcome.text();
    write_configs();
  }
  void pause() {
    EXPECT_FALSE(daemon_.ctl({"pause"}).timed_out);
    EXPECT_FALSE(daemon_.ctl({"resume"}).timed_out);
  }
  void kill_broker() {
    manager_->receive_all();
    broker_->kill();
    start_broker(&*manager_);
  }
  void kill_flightd() {
    daemon_.process().kill();
    EXPECT_TRUE(daemon_.start(config_, options_));
  }
  // In the middle of what the other one waits for.
  void kill_during_a_snapshot() {
    Child asker = Child::start(daemon_.ctl_command({"--json", "snapshot"}));
    std::this_thread::sleep_for(Milliseconds(dice(60)));
    if (dice(2) == 0)
      kill_broker();
    else
      kill_flightd();
    note(asker.finish(60s));
  }
  void stop_one() {
    const pid_t pid = any();
    EXPECT_EQ(::kill(pid, SIGSTOP), 0);
    Child asker = Child::start(daemon_.ctl_command({"--json", "snapshot"}));
    std::this_thread::sleep_for(Milliseconds(500 + dice(1500)));
    EXPECT_EQ(::kill(pid, SIGCONT), 0);
    note(asker.finish(60s));
  }
  // The kernel refuses it while a file is open for writing: a snapshot, or a spare file that is just being made.
  void read_only() {
    EXPECT_TRUE(wait_until([&] { return remount_tmpfs(folder_ / "state", true, kStore); }, 10s));
  }
  // Nearly: a snapshot does not fit, or only a small one. What was reported before may not make room.
  void fill_store() {
    if (filled_) return;
    for (const std::string& id : reported_) {
      const Outcome pinned = daemon_.ctl({"pin", id});
      if (pinned.exit_status != 0) return;  // read-only, or no descriptors: not now
    }
    filled_ = true;
    struct statvfs space {};
    if (::statvfs((folder_ / "state").c_str(), &space) != 0) return;
    const std::uint64_t free = space.f_bavail * space.f_frsize;
    const int file = ::open(filler().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) return;  // read-only
    (void)::posix_fallocate(file, 0, static_cast<off_t>(free - std::min<std::uint64_t>(free, dice(4) * 65536)));
    ::close(file);
  }
  // A program runs from a mount that answers nothing.
  void hang_mount() {
    if (!served_) served_.emplace(start_load({disk_ + "/program", std::to_string(load_cpu()), "3600"}, 10));
    set_fault("* -1 0 0");
  }
  void set_fault(const std::string& text) const {
    write_text(control_ + ".new", text);
    std::filesystem::rename(control_ + ".new", control_);
  }
  [[nodiscard]] std::string filler() const { return folder_ / "state/filler"; }
  void no_descriptors() {
    const pid_t pid = any();
    limit_files(pid, std::to_string(entries(pid, "fd")));
  }
  // A broker that was just started needs its threads first: without them it records nothing until there are tasks
  // again.
  void no_tasks() {
    full_.reset();
    EXPECT_TRUE(wait_until([this] { return entries(broker_->pid(), "task") >= broker_threads_; }, 30s));
    full_.emplace(std::vector<pid_t>{daemon_.pid(), broker_->pid()});
    EXPECT_TRUE(full_->made()) << "no cgroup with pids.max";
  }
  // The soft limit, by the process's own user: root may lack CAP_SYS_RESOURCE.
  void limit_files(pid_t pid, const std::string& number) {
    Arguments command{"prlimit", "--pid", std::to_string(pid), "--nofile=" + number + ":"};
    if (pid == daemon_.pid()) command.insert(command.begin(), options_.prefix.begin(), options_.prefix.end());
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.text();
  }
  void map_much() {
    if (!mapper_) mapper_.emplace(start_load({folder_.load("mapper"), folder_ / "scratch"}, 10));
  }
  void calm() {
    set_fault("none 0 0 0");
    served_.reset();
    mapper_.reset();
    full_.reset();
    EXPECT_TRUE(remount_tmpfs(folder_ / "state", false, kStore));
    for (const pid_t pid : {daemon_.pid(), broker_->pid()}) limit_files(pid, kManyFiles);
    std::filesystem::remove(filler());
    filled_ = false;
    manager_->receive_all();
  }

  // A number below `count`.
  unsigned dice(unsigned count) { return static_cast<unsigned>(random_() % count); }
  [[nodiscard]] pid_t any() { return dice(2) == 0 ? daemon_.pid() : broker_->pid(); }
  void write_configs() const {
    write_text(folder_ / "flightd.json", config_.dump(2));
    write_text(folder_ / "broker.json", config_.dump(2));
  }
  [[nodiscard]] std::map<std::string, std::string> listed() const {
    std::map<std::string, std::string> states;
    for (const Json& row : daemon_.ctl_json({"list"})) states[row["id"]] = row["state"];
    return states;
  }
  [[nodiscard]] static Size size_of(pid_t pid) {
    return {.threads = entries(pid, "task"), .descriptors = entries(pid, "fd"), .children = children_of(pid).size()};
  }
  // As at the start: all threads, and the descriptors that are kept for the moment in which there are no more. The
  // broker may have made one more helper, and needs one that lives to make others.
  void expect_size(pid_t pid, const Size& most) const {
    const bool has_helpers = pid == broker_->pid();
    const auto is_constant = [&] {
      const Size now = size_of(pid);
      return now.threads == most.threads && now.descriptors <= most.descriptors + 2 &&
             now.descriptors + SpareDescriptors::kMany / 2 >= most.descriptors && now.children <= most.children &&
             (!has_helpers || !living_children_of(pid).empty());
    };
    EXPECT_TRUE(wait_until(is_constant, 60s)) << fmt::format(
        "process {}: {} threads, {} descriptors, {} children; at the start {}, {}, {}", pid, size_of(pid).threads,
        size_of(pid).descriptors, size_of(pid).children, most.threads, most.descriptors, most.children);
  }
  // All snapshots that it reported are there.
  void expect_calm(const Size& most, const Size& most_of_broker) {
    calm();
    ASSERT_TRUE(wait_until([&] { return static_cast<bool>(daemon_.goes_on()); }, 60s)) << daemon_.log();
    const auto states = listed();
    for (const std::string& id : reported_) {
      const auto found = states.find(id);
      EXPECT_TRUE(found != states.end() && found->second == "present") << "snapshot " << id << " is gone";
    }
    expect_size(daemon_.pid(), most);
    expect_size(broker_->pid(), most_of_broker);
  }

  struct Named {
    const char* name;
    Action action;
    unsigned weight;
  };
  static const std::vector<Named>& actions() {
    static const std::vector<Named> kAll{{"snapshot", &Actions::take_snapshot, 6},
                                         {"SIGUSR2", &Actions::signal_snapshot, 2},
                                         {"status, list, triggers", &Actions::ask, 3},
                                         {"reload", &Actions::reload, 2},
                                         {"reload of a wrong configuration", &Actions::reload_wrong, 1},
                                         {"pause and resume", &Actions::pause, 2},
                                         {"kill -9 flightd-broker", &Actions::kill_broker, 2},
                                         {"kill -9 flightd", &Actions::kill_flightd, 2},
                                         {"kill -9 during a snapshot", &Actions::kill_during_a_snapshot, 2},
                                         {"SIGSTOP", &Actions::stop_one, 2},
                                         {"read-only store", &Actions::read_only, 1},
                                         {"full store", &Actions::fill_store, 1},
                                         {"hung mount", &Actions::hang_mount, 1},
                                         {"no descriptors", &Actions::no_descriptors, 1},
                                         {"no task", &Actions::no_tasks, 1},
                                         {"thousands of mappings", &Actions::map_much, 1},
                                         {"calm", &Actions::calm, 2}};
    return kAll;
  }
  static constexpr const char* kStore = "size=512m,mode=0755,uid=65534,gid=65534";
  std::optional<test::ServiceManager> manager_;
  TestDaemon daemon_{folder_};
  const std::string backing_ = folder_ / "backing", disk_ = folder_ / "disk", control_ = folder_ / "fault";
  std::optional<Child> fuse_;
  std::optional<Child> mapper_, served_;
  bool filled_ = false;
  std::optional<FullGroup> full_;
  std::size_t broker_threads_ = 0;  // as at the start
  std::set<std::string> reported_;
  std::mt19937_64 random_;
};

TEST_F(Actions, AtRandomLoseNothing) {
  const std::uint64_t seconds = number_of("FLIGHT_ACTIONS_SECONDS", 1200);
  const std::uint64_t seed = number_of("FLIGHT_ACTIONS_SEED", std::random_device()());
  fmt::print("FLIGHT_ACTIONS_SEED={}\n", seed);
  random_.seed(seed);
  std::vector<std::size_t> choices;
  for (std::size_t i = 0; i < actions().size(); ++i) choices.insert(choices.end(), actions()[i].weight, i);
  take_snapshot();
  ASSERT_EQ(reported_.size(), 1U) << daemon_.log();
  // The spare descriptors and files are there.
  ASSERT_TRUE(wait_until([&] { return entries(daemon_.pid(), "fd") > 40 && entries(broker_->pid(), "fd") > 40; }, 30s));
  const Size most = size_of(daemon_.pid());
  Size most_of_broker = size_of(broker_->pid());
  ++most_of_broker.children;
  broker_threads_ = most_of_broker.threads;
  const std::uint64_t end_ns = now_ns() + seconds * 1'000'000'000;
  std::vector<std::string> done;
  while (now_ns() < end_ns && !HasFailure()) {
    for (int i = 0; i < 25 && !HasFailure(); ++i) {
      const Named& next = actions()[choices[dice(static_cast<unsigned>(choices.size()))]];
      done.emplace_back(next.name);
      (this->*next.action)();
      manager_->receive_all();
      EXPECT_TRUE(daemon_.process().running()) << "flightd ended after: " << next.name;
      EXPECT_TRUE(broker_->running()) << "flightd-broker ended after: " << next.name;
    }
    if (!HasFailure()) expect_calm(most, most_of_broker);
  }
  fmt::print("{} actions, {} snapshots\n", done.size(), reported_.size());
  if (HasFailure()) {
    std::string last;
    for (std::size_t i = done.size() - std::min<std::size_t>(done.size(), 25); i < done.size(); ++i)
      last += done[i] + "; ";
    fmt::print("the last ones: {}\n", last);
    return;
  }
  EXPECT_GT(reported_.size(), 3U);
  for (const std::string& id : reported_)
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, daemon_.ctl_json({"info", id}))) << "snapshot " << id;
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
