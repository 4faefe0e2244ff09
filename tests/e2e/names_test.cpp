// SPDX-License-Identifier: Apache-2.0
// No name is better than a wrong one: pids that are used again, an exec whose record is missing, lost records.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include "libcore/compress/zstd.hpp"
#include "libcore/perf/sample_parts.hpp"
#include "libcore/perfdata/reader.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

// A high priority: few samples of other processes, and a sample at every moment of the load.

std::string comm_of(pid_t pid) {
  std::string comm = read_text(fmt::format("/proc/{}/comm", pid));
  if (!comm.empty()) comm.pop_back();
  return comm;
}

std::string texts(const Json& list) {
  std::string out;
  for (const Json& one : list) out += one.get<std::string>() + "\n";
  return out;
}

class Names : public testing::Test {
 protected:
  // Every sample of `pid` in its own functions has the name of the program that ran at that moment, or no name.
  struct Seen {
    std::size_t before = 0, after = 0, unknown = 0;
  };
  Seen look_at_execer(const Json& sidecar, pid_t pid) {
    Seen seen;
    for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
      if (sample.pid != pid) continue;
      if (sample.symbol == "hot_before_exec") {
        EXPECT_EQ(sample.comm, "execer") << sample.line;
        ++seen.before;
      } else if (sample.symbol == "hot_function_for_flightd") {
        EXPECT_EQ(sample.comm, "burner") << sample.line;
        ++seen.after;
      } else if (sample.comm == "[lost]" || sample.comm.starts_with(":")) {
        ++seen.unknown;
        EXPECT_EQ(sample.dso == "[unknown]" || sample.dso.starts_with("["), true) << sample.line;
      }
    }
    fmt::print("execer: {} samples before, {} after, {} of nobody knows whom\n", seen.before, seen.after, seen.unknown);
    return seen;
  }
  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::string cpu_ = std::to_string(load_cpu());
};

using NamesLong = Names;

TEST_F(Names, AThreadWithTheNumberOfADeadProcessIsNotCalledSo) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child reuser = start_load({folder_.load("reuser"), cpu_, "60"}, kBusy);
  const auto line = reuser.wait_for_line("began", 30s);
  ASSERT_TRUE(line) << reuser.err();
  const auto victim = static_cast<int>(number_in(*line, "victim"));
  const Json overlapping = daemon_.snapshot();
  const std::uint64_t from_ns = now_ns();
  ASSERT_TRUE(reuser.runs_for(600ms));
  const Json sidecar = daemon_.snapshot({"--last", fmt::format("{}ms", (now_ns() - from_ns) / 1'000'000)});
  std::size_t of_heir = 0;
  std::size_t of_victim = 0;
  for (const Json* one : {&overlapping, &sidecar}) {
    for (const NamedSample& sample : named_samples(folder_, (*one)["path"])) {
      if (sample.tid != victim) continue;
      if (sample.symbol == "hot_in_heir") {
        EXPECT_EQ(sample.comm, "heir") << sample.line;
        EXPECT_EQ(sample.pid, reuser.pid());
        of_heir += one == &sidecar ? 1 : 0;
      } else if (sample.symbol == "hot_in_victim") {
        EXPECT_EQ(sample.comm, "victim") << sample.line;
        ++of_victim;
        EXPECT_EQ(one, &overlapping);
      }
    }
  }
  fmt::print("{} samples of the thread at the end, {} of the process before\n", of_heir, of_victim);
  EXPECT_GT(of_heir, 300U);
  EXPECT_GT(of_victim, 30U);
  EXPECT_TRUE(reuser.running()) << reuser.err();
  EXPECT_TRUE(daemon_.stop());
}

// The addresses of the program in each sample of `pid` in this file.
std::vector<std::vector<std::uint64_t>> user_chains(const std::string& path, pid_t pid) {
  std::vector<std::vector<std::uint64_t>> out;
  const auto reader = FileReader::open(path);
  EXPECT_TRUE(reader) << reader.error().what;
  if (!reader) return out;
  RecordLayout layout;  // all samples are of the same event
  layout.sample_type = reader->events().front().attr.sample_type;
  constexpr std::size_t kPidAt = 24;  // behind IDENTIFIER and IP
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        const auto word = [record](std::size_t at) { return load<std::uint64_t>(record.data() + at); };
        if (load<std::uint32_t>(record.data()) != PERF_RECORD_SAMPLE) return {};
        if (static_cast<pid_t>(word(kPidAt) & UINT32_MAX) != pid) return {};
        const auto parts = find_sample_parts(layout, record.size(), word);
        EXPECT_TRUE(parts);
        bool user = false;
        std::vector<std::uint64_t> chain;
        for (std::uint64_t i = 0; parts && i < parts->frames; ++i) {
          const std::uint64_t address = word(parts->chain + 8 * i);
          if (user) chain.push_back(address);
          user = user || address == static_cast<std::uint64_t>(PERF_CONTEXT_USER);
        }
        out.push_back(std::move(chain));
        return {};
      },
      expand);
  EXPECT_TRUE(read) << read.error().what;
  return out;
}

// What a frame pointer leads to that is none (tests/e2e/loads/garbage_chain.cpp).
TEST_F(Names, CallersThatAreNoCodeAreNotInASnapshot) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child garbage = start_load({folder_.load("garbage_chain"), cpu_, "60"}, kBusy);
  const auto line = garbage.wait_for_line("code=", 30s);
  ASSERT_TRUE(line) << garbage.err();
  const std::uint64_t code = std::stoull(*line);
  ASSERT_TRUE(garbage.runs_for(600ms));
  const Json sidecar = daemon_.snapshot();
  std::size_t whole = 0;
  for (const std::vector<std::uint64_t>& chain : user_chains(sidecar["path"], garbage.pid())) {
    for (std::size_t i = 1; i < chain.size(); ++i) {
      EXPECT_NE(chain[i], 0x1234U);
      EXPECT_NE(chain[i], 0x5678U);
    }
    whole += chain.size() == 2 && chain[1] == code ? 1 : 0;
  }
  EXPECT_GT(whole, 100U);
  ASSERT_TRUE(sidecar.contains("stacks")) << sidecar;
  const Json& stacks = sidecar["stacks"];
  EXPECT_GE(stacks["checked"].get<std::size_t>(), whole) << stacks;
  EXPECT_GE(stacks["garbage_frames"].get<std::size_t>(), 2 * whole) << stacks;
  EXPECT_GE(stacks["callers"].get<std::size_t>(), 3 * whole) << stacks;
  EXPECT_THAT(daemon_.ctl({"info", "--all"}).out, HasSubstr(" were no code, and were dropped"));
  EXPECT_TRUE(daemon_.stop());
}

// As /proc and perf call it, not as the main thread is called.
TEST_F(Names, AProcessThatAThreadForkedHasTheThreadsName) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child threader = start_load({folder_.load("threader"), cpu_, "20", "fork"}, kBusy);
  const auto line = threader.wait_for_line("forked", 30s);
  ASSERT_TRUE(line) << threader.err();
  const auto child = static_cast<pid_t>(number_in(*line, "pid"));
  EXPECT_EQ(comm_of(child), "hot-thread");
  EXPECT_TRUE(runs_for(child, 250ms));
  const Json sidecar = daemon_.snapshot();
  std::size_t samples = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.pid != child || sample.symbol != "hot_in_thread") continue;
    EXPECT_EQ(sample.comm, "hot-thread") << sample.line;
    ++samples;
  }
  EXPECT_GT(samples, 100U);
  const auto row =
      std::find_if(sidecar["top"].begin(), sidecar["top"].end(), [&](const Json& one) { return one["pid"] == child; });
  kill(child, SIGKILL);
  ASSERT_NE(row, sidecar["top"].end()) << sidecar["top"];
  EXPECT_EQ((*row)["comm"], "hot-thread");
  EXPECT_TRUE(daemon_.stop());
}

// The program's own mapping is its oldest one. It is kept, whether the mappings were made before the start or after it.
TEST_F(NamesLong, AProgramWithMoreMappingsThanAreKeptHasItsNames) {
  constexpr const char* kMappings = "4500";  // of 4,096
  Child early = start_load({folder_.load("many_mappings"), cpu_, "90", kMappings}, kBusy);
  ASSERT_TRUE(early.wait_for_line("started", 60s)) << early.err();
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child late = start_load({folder_.load("many_mappings"), cpu_, "90", kMappings}, kBusy);
  ASSERT_TRUE(late.wait_for_line("started", 60s)) << late.err();
  const std::uint64_t from_ns = now_ns();
  for (const Child* one : {&early, &late}) ASSERT_TRUE(one->runs_for(350ms));
  const Json sidecar = daemon_.snapshot({"--last", fmt::format("{}ms", (now_ns() - from_ns) / 1'000'000)});
  std::map<int, std::size_t> named, nameless;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.comm != "many_mappings" || sample.dso.starts_with("[kernel")) continue;
    ++(sample.symbol == "hot_function_for_flightd" ? named : nameless)[sample.pid];
  }
  for (const pid_t pid : {early.pid(), late.pid()}) {
    EXPECT_GT(named[pid], 100U) << pid;
    EXPECT_LT(nameless[pid], named[pid] / 20) << pid;
  }
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(NamesLong, AnExecDuringAPauseIsKnownAfterwards) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child execer = start_load({folder_.load("execer"), cpu_, "1.5", folder_.load("burner"), cpu_, "4"}, kBusy);
  Child burner = start_load({folder_.load("burner"), cpu_, "10"}, kBusy);
  ASSERT_TRUE(execer.wait_for_line("started"));
  ASSERT_TRUE(burner.wait_for_line("started"));
  usleep(500'000);  // a fixed time: the last window below begins 400 ms before the pause
  const std::uint64_t pausing = now_ns();
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  const std::uint64_t paused = now_ns();
  ASSERT_TRUE(wait_until([&] { return comm_of(execer.pid()) == "burner"; }, 20s));
  const std::uint64_t resuming = now_ns();
  ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  const std::uint64_t resumed = now_ns();
  ASSERT_TRUE(execer.runs_for(500ms)) << "the other one on its CPU has as much";
  const Json sidecar = daemon_.snapshot();
  const Seen seen = look_at_execer(sidecar, execer.pid());
  EXPECT_GT(seen.before, 50U);
  EXPECT_GT(seen.after, 50U) << "what changed is known after resume";
  std::size_t of_burner = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.pid == execer.pid() && (sample.comm == "[lost]" || sample.comm.starts_with(":"))) {
      const bool switching = (sample.time_ns >= pausing && sample.time_ns <= paused) ||
                             (sample.time_ns >= resuming && sample.time_ns <= resumed);
      EXPECT_TRUE(switching) << "only while events are switched off and on: " << sample.line;
    }
    if (sample.pid != burner.pid() || sample.symbol != "hot_function_for_flightd") continue;
    EXPECT_EQ(sample.comm, "burner") << sample.line;
    ++of_burner;
  }
  EXPECT_GT(of_burner, 50U);
  // Its load was steady: the time of the pause is no time in which it did nothing.
  const Json steady = daemon_.snapshot({"--last", fmt::format("{}ms", (now_ns() - pausing) / 1'000'000 + 400)});
  bool is_listed = false;
  for (const Json& row : steady["top"]) {
    if (row["pid"] != burner.pid() || !row["cpus_before"].is_number()) continue;
    is_listed = true;
    EXPECT_GT(row["cpus_before"].get<double>(), 0.7 * row["cpus_now"].get<double>()) << row;
  }
  EXPECT_TRUE(is_listed) << steady["top"];
  EXPECT_TRUE(daemon_.stop());
}

// Processes end, execute others and get names of their own; a number is used again. Whenever a snapshot is taken, a
// sample has the same name, and a process in `top` has that of its samples, and as many.
TEST_F(NamesLong, OverlappingSnapshotsNameEachSampleAlike) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  const std::string other_cpu = std::to_string(usable_cpus().front());
  const Child execer = start_load({folder_.load("execer"), other_cpu, "1.5", folder_.load("burner"), other_cpu, "60"});
  const Child threader = start_load({folder_.load("threader"), other_cpu, "15", "fork"});
  const Child reuser = start_load({folder_.load("reuser"), other_cpu, "1"});
  const Child forker = start_load({folder_.load("forker"), cpu_, "9999", "3"}, -5);
  ASSERT_TRUE(forker.wait_for_line("started")) << forker.err();
  const auto forked = threader.wait_for_line("forked", 30s);
  ASSERT_TRUE(forked) << threader.err();
  const auto of_thread = static_cast<int>(number_in(*forked, "pid"));
  std::vector<Json> sidecars;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(execer.runs_for(200ms));
    sidecars.push_back(daemon_.snapshot());
  }
  kill(of_thread, SIGKILL);
  std::map<std::pair<std::uint64_t, int>, NamedSample> known;
  std::size_t again = 0, differ = 0;
  std::string example;
  for (const Json& sidecar : sidecars) {
    std::map<int, std::size_t> counted;
    std::map<int, NamedSample> newest;
    for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
      ++counted[sample.pid];
      if (sample.tid == sample.pid && sample.time_ns >= newest[sample.pid].time_ns) newest[sample.pid] = sample;
      const auto [before, is_new] = known.try_emplace(std::pair(sample.time_ns, sample.cpu), sample);
      again += is_new ? 0 : 1;
      const NamedSample& first = before->second;
      if (first.comm == sample.comm && first.pid == sample.pid && first.tid == sample.tid) continue;
      ++differ;
      example = first.line + "\n" + sample.line;
    }
    for (const int pid : {static_cast<int>(execer.pid()), of_thread}) {
      const Json& top = sidecar["top"];
      const auto row = std::find_if(top.begin(), top.end(), [pid](const Json& one) { return one["pid"] == pid; });
      ASSERT_NE(row, top.end()) << pid << top;
      EXPECT_EQ((*row)["comm"], newest[pid].comm) << newest[pid].line;
      EXPECT_EQ((*row)["samples"], counted[pid]) << *row;
    }
  }
  fmt::print("{} samples, {} of them again in the next snapshots\n", known.size(), again);
  EXPECT_GT(again, 1000U);
  EXPECT_EQ(differ, 0U) << example;
  EXPECT_TRUE(daemon_.stop());
}

// flightd is stopped for a moment. Meanwhile one thread on each CPU fills the sideband rings, and a process executes
// another program; the record is lost.
TEST_F(NamesLong, AfterLostRecordsUncertainNamesAreLost) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child burner = start_load({folder_.load("burner"), cpu_, "60"}, kBusy);
  Child execer = start_load({folder_.load("execer"), cpu_, "2", folder_.load("burner"), cpu_, "30"}, kBusy);
  ASSERT_TRUE(execer.wait_for_line("started"));
  ASSERT_TRUE(burner.wait_for_line("started"));
  ASSERT_TRUE(execer.runs_for(200ms)) << "meanwhile flightd, which looks every 100 ms, reads the records of both";
  daemon_.process().signal(SIGSTOP);
  std::vector<Child> togglers;
  for (const int cpu : usable_cpus())
    togglers.push_back(start_load({folder_.load("toggler"), std::to_string(cpu), "1.5", "1"}, kBusy));
  const bool execed = wait_until([&] { return comm_of(execer.pid()) == "burner"; }, 30s);
  std::vector<std::string> pids;
  for (Child& toggler : togglers) {
    pids.push_back(fmt::format("(pid {}", toggler.pid()));
    (void)toggler.wait(30s);
  }
  daemon_.process().signal(SIGCONT);
  ASSERT_TRUE(execed);
  const Json first = daemon_.snapshot();
  ASSERT_TRUE(execer.runs_for(300ms));
  const Json sidecar = daemon_.snapshot();
  for (const Json* one : {&first, &sidecar}) {
    (void)look_at_execer(*one, execer.pid());
    EXPECT_THAT(texts((*one)["warnings"]), HasSubstr("lost within"));
    // The record of its fork or its exec may be lost. Its pid is always known.
    const std::string warnings = texts((*one)["warnings"]);
    EXPECT_TRUE(
        std::ranges::any_of(pids, [&](const std::string& pid) { return warnings.find(pid) != std::string::npos; }))
        << "who wrote them: " << warnings;
    EXPECT_FALSE((*one)["tracker"]["stale"]) << "a snapshot waits for the scan";
  }
  const Seen seen = look_at_execer(sidecar, execer.pid());
  EXPECT_GT(seen.before, 30U);
  EXPECT_GT(seen.after, 100U);
  // A process that executed nothing keeps its name all the time.
  std::size_t of_burner = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.pid != burner.pid() || sample.time_ns < sidecar["window"]["begin_ns"].get<std::uint64_t>()) continue;
    // A sanitized build may be too slow to confirm the name in time. Then the process has no name, never a wrong one.
    const bool lost = sanitized() && sample.comm == "[lost]";
    EXPECT_TRUE(sample.comm == "burner" || sample.comm == own_comm() || lost) << sample.line;
    of_burner += sample.symbol == "hot_function_for_flightd" ? 1 : 0;
  }
  EXPECT_GT(of_burner, 100U);
  EXPECT_THAT(texts(daemon_.status()["warnings"]), HasSubstr("sideband record"));
  const Outcome text = daemon_.ctl({"info", sidecar["id"]});
  EXPECT_LT(text.out.find("sideband records"), text.out.find("window")) << "it stands on top:\n" << text.out;
  EXPECT_TRUE(daemon_.stop());
}

// The CPU time that a process has used.
double cpu_seconds(pid_t pid) {
  const std::string stat = read_text(fmt::format("/proc/{}/stat", pid));
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// Programs of BPF: loaded before the recording, while it is paused, and while it runs.
class BpfNamesLong : public Names {
 protected:
  static bool lists_bpf() {
    const std::string folder = "/proc/sys/net/core/";
    return read_text(folder + "bpf_jit_enable") != "0\n" && read_text(folder + "bpf_jit_harden") == "0\n" &&
           read_text(folder + "bpf_jit_kallsyms") == "1\n";
  }
  // Runs the BPF program `name`; nullptr: this machine has no compiled BPF.
  std::unique_ptr<Child> load(const std::string& name) {
    auto spinner = std::make_unique<Child>(start_load({folder_.load("bpf_spinner"), cpu_, "120", name}, kBusy));
    if (!spinner->wait_for_line("loaded")) return nullptr;
    return spinner;
  }
  // Until it has run for another `seconds`.
  static void let_run(const Child& spinner, double seconds) {
    const double until = cpu_seconds(spinner.pid()) + seconds;
    EXPECT_TRUE(wait_until([&] { return cpu_seconds(spinner.pid()) >= until; }, 60s));
  }
  // Nearly all samples of its process have the BPF program's name, and none another program's.
  void expect_named(const Json& sidecar, const Child& spinner, const std::string& name) {
    std::size_t named = 0, unknown = 0;
    for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
      if (sample.pid != spinner.pid()) continue;
      if (sample.dso.starts_with("bpf_prog_")) {
        EXPECT_TRUE(sample.symbol.ends_with("_" + name)) << sample.line;
        ++named;
      } else if (sample.dso == "[unknown]") {
        ++unknown;
      }
    }
    fmt::print("{}: {} samples have its name, {} have none\n", name, named, unknown);
    EXPECT_GT(named, 100U) << name;
    EXPECT_LT(unknown, 20U) << name << ": at most those of the moment of the switch";
    for (const Verifier& verifier : Verifier::all()) {
      const Outcome script = verifier.perf(
          folder_, {"script", "-i", sidecar["path"], "-G", "-F", "pid,ip,sym", "--pid", std::to_string(spinner.pid())});
      std::size_t lines = 0;
      for (std::size_t at = script.out.find("_" + name); at != std::string::npos;
           at = script.out.find("_" + name, at + 1))
        ++lines;
      EXPECT_GE(lines, named) << verifier.name() << ": " << script.err;
    }
  }
  // The kernel symbols in the store.
  std::vector<std::string> symbol_files() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(daemon_.snapshots_dir()))
      if (entry.path().filename().string().starts_with("kallsyms-")) out.push_back(entry.path());
    return out;
  }
};

TEST_F(BpfNamesLong, ThoseFromBeforeTheRecordingAndFromAPauseHaveNames) {
  if (!lists_bpf()) GTEST_SKIP() << "the kernel does not compile BPF, or hides its programs";
  const auto before = load("spin_before");
  if (!before) GTEST_SKIP() << "no BPF program can be loaded here";
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  let_run(*before, 0.5);
  const Json first = daemon_.snapshot();
  expect_named(first, *before, "spin_before");

  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  const auto paused = load("spin_paused");
  ASSERT_TRUE(paused);
  ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  const auto live = load("spin_live");
  ASSERT_TRUE(live);
  let_run(*paused, 0.5);
  let_run(*live, 0.5);
  const Json second = daemon_.snapshot();
  expect_named(second, *before, "spin_before");
  expect_named(second, *paused, "spin_paused");
  expect_named(second, *live, "spin_live");
  EXPECT_TRUE(all_count_all(folder_, second));

  // Programs that come and go store no other kernel symbols.
  EXPECT_EQ(first["kallsyms"], second["kallsyms"]);
  ASSERT_TRUE(wait_until([&] { return !symbol_files().empty(); }, 20s));
  const auto files = symbol_files();
  ASSERT_EQ(files.size(), 1U);
  const auto frame = read_text(files.front());
  const auto text = expand(std::as_bytes(std::span<const char>(frame)), 64U << 20U);
  ASSERT_TRUE(text) << text.error().what;
  const std::string_view symbols(reinterpret_cast<const char*>(text->data()), text->size());
  EXPECT_NE(symbols.find(" _text\n"), std::string_view::npos);
  EXPECT_EQ(symbols.find("\t[bpf]"), std::string_view::npos);
  EXPECT_EQ(symbols.find("\t[__builtin__"), std::string_view::npos);
  EXPECT_TRUE(daemon_.stop());
}

// flightd is stopped, and the sideband rings are full when the program is loaded.
TEST_F(BpfNamesLong, OneWhoseRecordWasLostHasItsNameAfterwards) {
  if (!lists_bpf()) GTEST_SKIP() << "the kernel does not compile BPF, or hides its programs";
  const auto before = load("spin_before");
  if (!before) GTEST_SKIP() << "no BPF program can be loaded here";
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  daemon_.process().signal(SIGSTOP);
  std::vector<Child> togglers;
  for (const int cpu : usable_cpus())
    togglers.push_back(start_load({folder_.load("toggler"), std::to_string(cpu), "1.5", "1"}, kBusy));
  for (Child& toggler : togglers) (void)toggler.wait(30s);
  const auto lost = load("spin_lost");
  daemon_.process().signal(SIGCONT);
  ASSERT_TRUE(lost);
  const Json first = daemon_.snapshot();
  EXPECT_FALSE(first["tracker"]["stale"]) << "a snapshot waits for the scan";
  let_run(*lost, 0.5);
  let_run(*before, 0.5);
  const Json sidecar = daemon_.snapshot({"--last", "1s"});
  EXPECT_GT(sidecar["tracker"]["lost"], 0);
  expect_named(sidecar, *lost, "spin_lost");
  expect_named(sidecar, *before, "spin_before");
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
