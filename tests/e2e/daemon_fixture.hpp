// SPDX-License-Identifier: Apache-2.0
// A real flightd, started by hand as root, in a directory of its own:
//
//   /tmp/flight-e2e.XXXXXX/        0755
//     flightd.json  state/  run/   of the daemon
//     bin/                         copies of the loads: a verifier's chroot sees /tmp at the same path
//     scratch/                     0777, for what verifiers write
//
// The programs come from the environment: FLIGHTD, FLIGHTCTL, FLIGHTD_BROKER, FLIGHT_LOADS, FLIGHT_SOURCE_ROOT.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "tests/e2e/command.hpp"

namespace flight {

using Json = nlohmann::json;

// A variable that the build passes; the test ends if it is not set.
[[nodiscard]] std::string required_env(const char* name);
// The programs under test are sanitized builds: slower and larger, but otherwise the same.
[[nodiscard]] bool sanitized();

// The prefix of a command that loads this library before all others; AddressSanitizer wants to be the first itself.
[[nodiscard]] Arguments preloading(const std::string& library);

class TempFolder {
 public:
  TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder();  // removes it, but keeps it for reading if the test failed

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // The path of a load's copy, which the first call makes.
  [[nodiscard]] std::string load(const std::string& name) const;
  // The directory of these copies, with all of them.
  [[nodiscard]] std::string loads() const;
  // `file`, or a copy of it here if other users do not reach it: the build folder may be below /root.
  [[nodiscard]] std::string for_other_users(const std::string& file) const;

 private:
  std::string path_;
  mutable std::set<std::string> copied_;  // a test may have removed the copy
};

struct StartOptions {
  std::string program;      // default $FLIGHTD
  Arguments prefix;         // e.g. {"setpriv", …}
  Arguments arguments;      // more options of flightd
  std::string state_dir;    // default FOLDER/state
  std::string runtime_dir;  // default FOLDER/run
};

// Whether flightd records, by its status; a machine that has been idle may not have delivered a sample yet.
[[nodiscard]] inline bool records(const Json& status) {
  const auto state = status.find("recording");
  return state != status.end() && (*state == "on" || *state == "unproven");
}

// How far back all rings of the first channel reach, by this status.
[[nodiscard]] inline double history_seconds(const Json& status) {
  return status.at("channels").at(0).at("history_seconds").at("min").get<double>();
}

class TestDaemon {
 public:
  explicit TestDaemon(const TempFolder& folder) : folder_(&folder) {}
  TestDaemon(const TestDaemon&) = delete;
  TestDaemon& operator=(const TestDaemon&) = delete;
  ~TestDaemon();  // kills a running flightd; prints its log if the test failed

  // Writes the config, starts flightd, waits until it answers and records.
  [[nodiscard]] testing::AssertionResult start(const Json& config, const StartOptions& options = {});
  // Only starts it: for a start that must fail.
  void launch(std::string_view config_text, const StartOptions& options = {});
  [[nodiscard]] testing::AssertionResult wait_ready();
  // SIGTERM: exit 0, and no process remains.
  [[nodiscard]] testing::AssertionResult stop();

  [[nodiscard]] Arguments ctl_command(const Arguments& arguments) const;
  [[nodiscard]] Outcome ctl(const Arguments& arguments, Milliseconds limit = 60s) const;
  // With --json; throws at an error, which ends the test with the text.
  [[nodiscard]] Json ctl_json(const Arguments& arguments, Milliseconds limit = 60s) const;
  [[nodiscard]] Json status() const { return ctl_json({"status"}); }
  // The sidecar; `arguments` of `flightctl snapshot`.
  [[nodiscard]] Json snapshot(const Arguments& arguments = {}) const;
  // It answers, records, and takes a snapshot.
  [[nodiscard]] testing::AssertionResult goes_on() const;

  [[nodiscard]] Child& process() { return *process_; }
  [[nodiscard]] pid_t pid() const { return process_->pid(); }
  [[nodiscard]] pid_t broker_pid() const { return broker_pid_; }
  [[nodiscard]] std::string log() const { return process_ ? process_->err() : std::string(); }
  [[nodiscard]] const std::string& state_dir() const { return state_dir_; }
  [[nodiscard]] std::string snapshots_dir() const { return state_dir_ + "/snapshots"; }
  [[nodiscard]] const std::string& runtime_dir() const { return runtime_dir_; }
  [[nodiscard]] std::string socket() const { return runtime_dir_ + "/io.flightd.Recorder"; }

 private:
  const TempFolder* folder_;
  std::string state_dir_, runtime_dir_;
  std::optional<Child> process_;
  pid_t broker_pid_ = -1;
  bool broker_is_its_own_ = false;  // forked by it
};

// A config with one channel, "stacks": cpu-clock with frame pointer stacks. flightd becomes nobody.
[[nodiscard]] Json stacks_config(unsigned frequency, std::string_view ring);
// The group of the snapshots with such a config: flightd, otherwise nobody's.
[[nodiscard]] unsigned snapshot_gid();

// No unfinished file is left in this store. New spare files and the symbols are unfinished for a moment, after the
// snapshot's reply.
[[nodiscard]] testing::AssertionResult no_partials(const std::string& store);

// The CPUs this test may use, and the last of them: the one for the loads.
[[nodiscard]] std::vector<int> usable_cpus();
[[nodiscard]] int load_cpu();
// The nice value of a load that must run whatever else the machine does.
inline constexpr int kBusy = -15;
// A load's name before its exec: this test program's, truncated as by the kernel.
[[nodiscard]] std::string own_comm();
// Starts a load. Below 0, other work of the machine takes little of its CPU (at -20 nearly nothing, including perf and
// flightd).
[[nodiscard]] Child start_load(const Arguments& arguments, int nice = 0, bool keep_stdin = false);
// The number of processes and threads that were created since the machine started.
[[nodiscard]] std::uint64_t forks_so_far();
// The number after "KEY=" in a load's line.
[[nodiscard]] std::uint64_t number_in(const std::string& line, std::string_view key);

}  // namespace flight
