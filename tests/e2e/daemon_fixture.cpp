// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/mounts.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace flight {
namespace {

// Sanitized programs on a busy machine start slowly.
constexpr Milliseconds kStartLimit = 30s;
constexpr Milliseconds kStopLimit = 30s;

// Each of these programs records the whole machine. For another user than root it is one skipped test: GoogleTest would
// report cases that an environment skips as passed.
class NeedsRoot : public testing::Environment {
 public:
  void SetUp() override {
    constexpr int kSkipped = 77;  // for Meson
    if (geteuid() == 0) return;
    std::puts("needs root: flightd records the whole machine");
    std::fflush(stdout);
    std::_Exit(kSkipped);
  }
};
[[maybe_unused]] const testing::Environment* const kNeedsRoot = testing::AddGlobalTestEnvironment(new NeedsRoot);

}  // namespace

std::string required_env(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr) return value;
  fmt::print(stderr, "{} is not set: run these tests with `meson test`\n", name);
  std::exit(2);
}

bool sanitized() {
  const char* value = std::getenv("FLIGHT_TEST_SANITIZED");
  return value != nullptr && std::string_view(value) == "1";
}

Arguments preloading(const std::string& library) {
  EXPECT_TRUE(std::filesystem::exists(library)) << library << ": ld.so would only warn";
  const char* asan = std::getenv("ASAN_OPTIONS");
  const std::string options = asan != nullptr ? std::string(asan) + ":" : "";
  return {"env", "LD_PRELOAD=" + library, "ASAN_OPTIONS=" + options + "verify_asan_link_order=0"};
}

TempFolder::TempFolder() {
  enter_own_mounts();
  char name[] = "/tmp/flight-e2e.XXXXXX";
  if (mkdtemp(name) == nullptr) std::abort();
  path_ = name;
  chmod(name, 0755);
  std::filesystem::create_directory(*this / "bin");
  std::filesystem::create_directory(*this / "scratch");
  chmod((*this / "scratch").c_str(), 0777);
}

std::string TempFolder::load(const std::string& name) const {
  const std::string copy = path_ + "/bin/" + name;
  const std::string original = required_env("FLIGHT_LOADS") + "/" + name;
  if (std::filesystem::is_regular_file(original) && copied_.insert(name).second)
    std::filesystem::copy_file(original, copy);
  return copy;
}

std::string TempFolder::loads() const {
  for (const auto& entry : std::filesystem::directory_iterator(required_env("FLIGHT_LOADS")))
    static_cast<void>(load(entry.path().filename().string()));
  return path_ + "/bin";
}

std::string TempFolder::for_other_users(const std::string& file) const {
  namespace fs = std::filesystem;
  const fs::path whole = fs::canonical(file);
  for (fs::path folder = whole.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if ((fs::status(folder).permissions() & fs::perms::others_exec) != fs::perms::none) continue;
    const std::string copy = load(whole.filename().string());
    fs::copy_file(whole, copy, fs::copy_options::skip_existing);
    return copy;
  }
  return file;
}

TempFolder::~TempFolder() {
  if (testing::UnitTest::GetInstance()->Failed()) {
    fmt::print(stderr, "kept for reading: {}\n", path_);
    return;
  }
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

TestDaemon::~TestDaemon() {
  if (!process_) return;
  process_->kill();
  // Its own broker must end with it. If the broker does not end, the test fails and kills it.
  if (broker_is_its_own_ && !wait_until([&] { return !process_exists(broker_pid_); }, 2s)) kill(broker_pid_, SIGKILL);
  if (testing::Test::HasFailure()) fmt::print(stderr, "---- flightd's log\n{}----\n", log());
}

void TestDaemon::launch(std::string_view config_text, const StartOptions& options) {
  std::string config = *folder_ / "flightd.json";
  write_text(config, config_text);
  chmod(config.c_str(), 0644);
  state_dir_ = options.state_dir.empty() ? *folder_ / "state" : options.state_dir;
  runtime_dir_ = options.runtime_dir.empty() ? *folder_ / "run" : options.runtime_dir;
  Arguments command = options.prefix;
  for (const std::string& argument :
       {options.program.empty() ? required_env("FLIGHTD") : options.program, std::string("--config"), config,
        std::string("--state-dir"), state_dir_, std::string("--runtime-dir"), runtime_dir_}) {
    command.push_back(argument);
  }
  command.insert(command.end(), options.arguments.begin(), options.arguments.end());
  broker_pid_ = -1;
  broker_is_its_own_ = false;
  process_.reset();
  process_.emplace(Child::start(command));
}

testing::AssertionResult TestDaemon::wait_ready() {
  Outcome last;
  bool ready = wait_until(
      [&] {
        if (!process_->running()) return true;
        if (!std::filesystem::exists(socket())) return false;  // spares flightctl
        last = run(ctl_command({"--json", "status"}), 10s);
        Json status = Json::parse(last.out, nullptr, false);
        return last.exit_status == 0 && status.is_object() && records(status);
      },
      kStartLimit);
  if (!ready || !process_->running()) {
    return testing::AssertionFailure() << (ready ? "flightd ended" : "flightd never answered") << "\nits log: " << log()
                                       << "\nlast answer: " << last.text();
  }
  Json status = Json::parse(last.out, nullptr, false);
  broker_pid_ = status.contains("/self/broker/pid"_json_pointer) ? status["/self/broker/pid"_json_pointer].get<pid_t>()
                                                                 : pid_t(-1);
  std::vector<pid_t> children = children_of(pid());
  broker_is_its_own_ = std::find(children.begin(), children.end(), broker_pid_) != children.end();
  return testing::AssertionSuccess();
}

testing::AssertionResult TestDaemon::start(const Json& config, const StartOptions& options) {
  launch(config.dump(2), options);
  return wait_ready();
}

testing::AssertionResult TestDaemon::stop() {
  std::vector<pid_t> children = children_of(pid());
  process_->signal(SIGTERM);
  std::optional<int> status = process_->wait(kStopLimit);
  if (!status) return testing::AssertionFailure() << "flightd still runs after SIGTERM; its log: " << log();
  if (*status != 0) return testing::AssertionFailure() << "flightd ended with " << *status << "; its log: " << log();
  for (pid_t child : children) {
    if (!wait_until([&] { return !process_exists(child); }, 10s)) {
      return testing::AssertionFailure() << "process " << child << " of flightd is left";
    }
  }
  return testing::AssertionSuccess();
}

Arguments TestDaemon::ctl_command(const Arguments& arguments) const {
  Arguments command = {required_env("FLIGHTCTL"), "--socket", socket()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

Outcome TestDaemon::ctl(const Arguments& arguments, Milliseconds limit) const {
  return run(ctl_command(arguments), limit);
}

Json TestDaemon::ctl_json(const Arguments& arguments, Milliseconds limit) const {
  Arguments with_json = {"--json"};
  with_json.insert(with_json.end(), arguments.begin(), arguments.end());
  Outcome outcome = ctl(with_json, limit);
  Json value = Json::parse(outcome.out, nullptr, false);
  if (outcome.exit_status != 0 || value.is_discarded()) {
    // Nothing that follows would make sense: an object without the keys that are asked for ends the whole program.
    throw std::runtime_error(outcome.text());
  }
  return value;
}

Json TestDaemon::snapshot(const Arguments& arguments) const {
  Arguments command = {"snapshot"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return ctl_json(command, 120s);
}

testing::AssertionResult TestDaemon::goes_on() const {
  Outcome status = ctl({"--json", "status"});
  Json answer = Json::parse(status.out, nullptr, false);
  if (status.exit_status != 0 || !answer.is_object() || !records(answer)) {
    return testing::AssertionFailure() << "no status: " << status.text();
  }
  Outcome snapshot = ctl({"--json", "snapshot", "--reason", "still there?"});
  Json sidecar = Json::parse(snapshot.out, nullptr, false);
  if (snapshot.exit_status != 0 || !sidecar.is_object() || !std::filesystem::exists(sidecar.value("path", ""))) {
    return testing::AssertionFailure() << "no snapshot: " << snapshot.text();
  }
  return testing::AssertionSuccess();
}

Json stacks_config(unsigned frequency, std::string_view ring) {
  return {{"user", "nobody"},
          {"memory", {{"max", "25%"}}},
          {"channels",
           {{"stacks",
             {{"ring", ring},
              {"events", {{{"event", "cpu-clock"}, {"frequency", frequency}, {"stack", "fp"}, {"max_stack", 32}}}}}}}},
          {"store", {{"max_use", "4G"}, {"keep_free", "1M"}}}};
}

unsigned snapshot_gid() {
  if (const group* own = getgrnam("flightd")) return own->gr_gid;
  const passwd* nobody = getpwnam("nobody");
  return nobody != nullptr ? nobody->pw_gid : 65534;
}

testing::AssertionResult no_partials(const std::string& store) {
  std::string found;
  const auto none = [&] {
    found.clear();
    for (const auto& entry : std::filesystem::directory_iterator(store))
      if (entry.path().extension() == ".partial") found += " " + entry.path().string();
    return found.empty();
  };
  return wait_until(none, 5s) ? testing::AssertionSuccess() : testing::AssertionFailure() << "left:" << found;
}

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

int load_cpu() { return usable_cpus().back(); }

std::string own_comm() { return std::string(program_invocation_short_name).substr(0, 15); }

Child start_load(const Arguments& arguments, int nice, bool keep_stdin) {
  ChildOptions options;
  options.keep_stdin = keep_stdin;
  options.nice = nice;
  // If the scheduler groups by session (autogroup), nice applies only inside the group, and the group has a nice value
  // of its own. In the session of this test it would stay, and the loads of tests that run at the same time would
  // starve.
  if (nice != 0) {
    options.prepare = [nice] {
      static_cast<void>(::setsid());
      write_text("/proc/self/autogroup", std::to_string(nice));
    };
  }
  return Child::start(arguments, options);
}

std::uint64_t forks_so_far() {
  for (const std::string& line : lines_of(read_text("/proc/stat")))
    if (line.starts_with("processes ")) return std::stoull(line.substr(10));
  return 0;
}

std::uint64_t number_in(const std::string& line, std::string_view key) {
  std::string wanted = std::string(key) + "=";
  std::size_t at = line.find(wanted);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << wanted << " in: " << line;
    return 0;
  }
  return std::strtoull(line.c_str() + at + wanted.size(), nullptr, 10);
}

}  // namespace flight
