// SPDX-License-Identifier: Apache-2.0
// Exited processes keep their names: processes that began before the oldest record in their ring, and have exited.
// Their FORK, COMM and MMAP2 records left the ring long ago (stock perf keeps them in the ring; see the printed
// comparison). The process tracker has them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <map>
#include <set>

#include "libcore/sysinfo/pid_namespace.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

// A sample has about 100 bytes, so these rings hold less than a second and 1.3 seconds of a busy CPU at 997 Hz.
constexpr std::string_view kSmallRing = "64K";
constexpr std::string_view kRingForTwo = "128K";
constexpr std::string_view kBurnSeconds = "3";
// A high priority keeps most samples of other processes out of this small ring.
constexpr useconds_t kDeadForUsec = 200'000;

std::uint64_t oldest_ns(const Json& sidecar, int cpu) {
  for (const Json& ring : sidecar["rings"]) {
    if (ring["channel"] == "stacks" && ring["cpu"] == cpu) return ring["oldest_ns"];
  }
  ADD_FAILURE() << "no ring of CPU " << cpu;
  return 0;
}

// Lets the load run until it exits; returns the time at which it began.
std::uint64_t run_to_its_end(Child& load) {
  std::optional<std::string> started = load.wait_for_line("started");
  EXPECT_TRUE(started) << load.err();
  EXPECT_EQ(load.wait(30s), 0) << load.err();
  return started ? number_in(*started, "time") : 0;
}

struct Tally {
  std::size_t samples = 0, named = 0, with_symbol = 0;
  std::string without_symbol;  // perf's lines for these samples
};
// `began_ns`: after its exec. Before it, the process has the name of this test and runs its code in stripped libraries,
// of which perf names only exported functions.
Tally tally(const std::vector<NamedSample>& samples, pid_t pid, const std::set<std::string>& comms,
            std::uint64_t began_ns = 0) {
  Tally result;
  for (const NamedSample& sample : samples) {
    if (sample.pid != pid) continue;
    ++result.samples;
    const bool before_exec = sample.comm == own_comm() && sample.time_ns < began_ns;
    result.named += comms.contains(sample.comm) || before_exec ? 1 : 0;
    const bool known = sample.has_symbol() || before_exec;
    result.with_symbol += known ? 1 : 0;
    if (!known) result.without_symbol += sample.line + "\n";
  }
  return result;
}
void print(const char* who, const Tally& tally) {
  fmt::print("{:<32} samples of the dead process {:>5}, with its comm {:>5}, with a symbol {:>5}\n", who, tally.samples,
             tally.named, tally.with_symbol);
}

// `perf record --overwrite --switch-output=signal` with the same event, rate and ring.
class StockRecorder {
 public:
  explicit StockRecorder(const TempFolder& folder)
      : folder_(folder.path() + "/scratch/stock"),
        child_((std::filesystem::create_directory(folder_),
                Child::start({"perf", "record", "-q", "-N", "-a", "-g", "-e", "cpu-clock", "-F", "997", "-m", "64K",
                              "--overwrite", "--switch-output=signal", "-o", folder_ + "/stock.data"}))) {}
  // The snapshot's file, empty if there is none.
  std::string snapshot() {
    child_.signal(SIGUSR2);
    // perf renames it to stock.data.TIMESTAMP when it is complete.
    std::string file;
    (void)wait_until(
        [&] {
          for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
            if (entry.path().filename().string().starts_with("stock.data.")) file = entry.path();
          }
          return !file.empty();
        },
        20s);
    child_.signal(SIGINT);
    (void)child_.wait(20s);
    return file;
  }

 private:
  std::string folder_;
  Child child_;
};

class Dead : public testing::Test {
 protected:
  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::string cpu_ = std::to_string(load_cpu());
};

using DeadLong = Dead;

TEST_F(DeadLong, EverySampleHasItsNameWhereStockPerfHasNone) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, kSmallRing)));
  StockRecorder stock(folder_);
  Child burner = start_load({folder_.load("burner"), cpu_, std::string(kBurnSeconds)}, kBusy);
  std::uint64_t began_ns = run_to_its_end(burner);
  usleep(kDeadForUsec);
  Json sidecar = daemon_.snapshot();
  std::string stock_file = stock.snapshot();

  EXPECT_LT(began_ns, oldest_ns(sidecar, load_cpu())) << "it must have begun before the oldest record";
  // A quiet CPU's ring can reach back to the moment before its exec.
  Tally ours = tally(named_samples(folder_, sidecar["path"]), burner.pid(), {"burner"}, began_ns);
  print("flightd", ours);
  EXPECT_GT(ours.samples, 50U);
  EXPECT_EQ(ours.named, ours.samples);
  EXPECT_EQ(ours.with_symbol, ours.samples) << ours.without_symbol;
  EXPECT_TRUE(all_count_all(folder_, sidecar));

  ASSERT_FALSE(stock_file.empty()) << "stock perf gave no snapshot to compare with";
  Tally theirs = tally(named_samples(folder_, stock_file), burner.pid(), {"burner"});
  print("perf record --overwrite", theirs);
  EXPECT_GT(theirs.samples, 0U) << "the comparison is of no use";
  EXPECT_LT(theirs.named, theirs.samples);
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Dead, ExecLateLibraryAndThreadAreKnown) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, kRingForTwo)));
  // All three share the CPUs. Each does its work late, when the ring no longer reaches back to its start. Of the two on
  // one CPU, the second ends up to half a second after the first, whose work must still be in the ring.
  std::string other_cpu = std::to_string(usable_cpus().front());
  Child execer = start_load({folder_.load("execer"), cpu_, "2.6", folder_.load("burner"), cpu_, "0.4"}, kBusy);
  Child dlopener = start_load({folder_.load("dlopener"), cpu_, "2.6", folder_.load("liblate.so"), "0.4"}, kBusy);
  Child threader = start_load({folder_.load("threader"), other_cpu, std::string(kBurnSeconds)}, kBusy);
  std::map<pid_t, std::uint64_t> began;
  for (Child* load : {&execer, &dlopener, &threader}) began[load->pid()] = run_to_its_end(*load);
  usleep(kDeadForUsec);
  Json sidecar = daemon_.snapshot();
  EXPECT_LT(began[execer.pid()], oldest_ns(sidecar, load_cpu()));
  EXPECT_LT(began[dlopener.pid()], oldest_ns(sidecar, load_cpu()));
  EXPECT_LT(began[threader.pid()], oldest_ns(sidecar, usable_cpus().front()));

  auto others = std::async(std::launch::async, [&] { return others_count_all(folder_, sidecar); });
  std::map<std::string, std::size_t> hot;
  for (const NamedSample& sample : counted_samples(folder_, sidecar)) {
    if (!began.contains(sample.pid)) continue;
    // The machine's own libraries are stripped: perf names only exported functions.
    EXPECT_NE(sample.dso, "[unknown]") << sample.comm << " " << sample.symbol;
    if (sample.dso.starts_with(folder_.path()) || sample.dso == "[kernel.kallsyms]") {
      EXPECT_NE(sample.symbol, "[unknown]") << sample.comm << " " << sample.dso;
    }
    EXPECT_FALSE(sample.comm.starts_with(":")) << sample.comm;
    ++hot[sample.symbol];
    if (sample.symbol == "hot_function_for_flightd") {
      EXPECT_EQ(sample.pid, execer.pid());
      EXPECT_EQ(sample.comm, "burner");
      EXPECT_EQ(sample.dso, folder_.load("burner"));
    } else if (sample.symbol == "hot_before_exec") {
      EXPECT_EQ(sample.comm, "execer");
      EXPECT_EQ(sample.dso, folder_.load("execer"));
    } else if (sample.symbol == "hot_in_late_library") {
      EXPECT_EQ(sample.comm, "dlopener");
      EXPECT_EQ(sample.dso, folder_.load("liblate.so"));
    } else if (sample.symbol == "hot_before_dlopen") {
      EXPECT_EQ(sample.comm, "dlopener");
    } else if (sample.symbol == "hot_in_thread") {
      EXPECT_EQ(sample.comm, "hot-thread");
      EXPECT_NE(sample.tid, sample.pid);
    }
  }
  for (const char* symbol : {"hot_function_for_flightd", "hot_in_late_library", "hot_in_thread"}) {
    EXPECT_GT(hot[symbol], 10U) << symbol;
  }
  EXPECT_TRUE(others.get());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(DeadLong, TwoThousandShortLivedAreKnown) {
  ASSERT_TRUE(daemon_.start(stacks_config(1999, "2M")));
  Child forker = start_load({folder_.load("forker"), cpu_, "2000", "1"}, kBusy);
  (void)run_to_its_end(forker);
  usleep(kDeadForUsec);
  Json sidecar = daemon_.snapshot();

  std::map<pid_t, std::string> expected;
  for (const std::string& line : lines_of(forker.out())) {
    if (line.starts_with("tiny-")) expected[std::stoi(line.substr(10))] = line.substr(0, 9);
  }
  ASSERT_EQ(expected.size(), 2000U);
  std::set<pid_t> seen;
  std::size_t samples = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    auto child = expected.find(sample.pid);
    if (child == expected.end()) continue;
    ++samples;
    seen.insert(sample.pid);
    EXPECT_TRUE(sample.has_symbol()) << sample.comm << " " << sample.dso;
    // Before it sets its own name it has the name of its parent.
    bool own_name = sample.symbol == "hot_in_tiny" || sample.comm != "forker";
    if (own_name) {
      EXPECT_EQ(sample.comm, child->second);
    }
    if (HasFailure() && samples > 50) break;  // enough failures to see the pattern
  }
  fmt::print("{} samples of {} short-lived processes, 2000 lived\n", samples, seen.size());
  EXPECT_GT(seen.size(), 1000U);
  EXPECT_GE(sidecar["tracker"]["exited"].get<std::size_t>(), 2000U);
  EXPECT_TRUE(all_count_all(folder_, sidecar));
  EXPECT_TRUE(daemon_.stop());
}

// A task that is sampled while the kernel releases its numbers has the tid -1. perf shows `:-1`, and a file has one
// name for all of them.
TEST_F(DeadLong, TasksThatAreExitingHaveANameOfTheirOwn) {
  ASSERT_TRUE(daemon_.start(stacks_config(4999, "2M")));
  Child ender = start_load({folder_.load("ender"), cpu_, "2"}, kBusy);
  (void)run_to_its_end(ender);
  const Json sidecar = daemon_.snapshot();
  std::size_t exiting = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.tid != -1) {
      EXPECT_NE(sample.comm, kExitingName) << sample.line;
      continue;
    }
    ++exiting;
    EXPECT_EQ(sample.comm, kExitingName) << sample.line;
  }
  EXPECT_GT(exiting, 10U);
  for (const Json& row : sidecar["top"]) EXPECT_TRUE(row["comm"] != kExitingName || row["pid"] == 0) << row;
  EXPECT_TRUE(all_count_all(folder_, sidecar));
  EXPECT_TRUE(daemon_.stop());
}

// The process began before the broker recorded anything, and ended before a flightd could request the list of running
// processes.
class DeadBeforeFlightd : public OwnBroker {
 protected:
  // `options`: those of the program after its CPU.
  explicit DeadBeforeFlightd(std::string program = "burner", std::vector<std::string> options = {"60"})
      : program_(std::move(program)) {
    Arguments command{folder_.load(program_), std::to_string(load_cpu())};
    command.insert(command.end(), options.begin(), options.end());
    load_.emplace(start_load(command));
  }
  void SetUp() override {
    ASSERT_TRUE(load_->wait_for_line("started"));
    ASSERT_NO_FATAL_FAILURE(OwnBroker::SetUp());
    const auto broker_records = [this] {
      return broker_->err().find("flightd-broker: recording ") != std::string::npos;
    };
    ASSERT_TRUE(wait_until(broker_records, 60s)) << broker_->err();
  }
  // What a snapshot says of it.
  [[nodiscard]] Tally snapshot_after_its_end() {
    EXPECT_TRUE(load_->runs_for(300ms));  // about 150 samples
    const pid_t pid = load_->pid();
    load_->kill();
    TestDaemon daemon(folder_);
    EXPECT_TRUE(daemon.start(config_, options_));
    const Json sidecar = daemon.snapshot();
    const Tally ours = tally(named_samples(folder_, sidecar["path"]), pid, {program_});
    print("flightd", ours);
    EXPECT_GT(ours.samples, 50U);
    EXPECT_EQ(ours.named, ours.samples);
    EXPECT_TRUE(daemon.stop());
    return ours;
  }
  const std::string program_;
  std::optional<Child> load_;
};

TEST_F(DeadBeforeFlightd, EverySampleHasItsName) {
  const Tally ours = snapshot_after_its_end();
  EXPECT_EQ(ours.with_symbol, ours.samples) << ours.without_symbol;
}

// Its records since then say nothing about its name: the broker's first look at the processes has that. They come a
// hundred at a time, five times a second.
class DeadBeforeFlightdWithRecords : public DeadBeforeFlightd {
 protected:
  DeadBeforeFlightdWithRecords() : DeadBeforeFlightd("toggler", {"60", "1", "500"}) {}
};

TEST_F(DeadBeforeFlightdWithRecords, EverySampleHasItsName) { (void)snapshot_after_its_end(); }

// Processes come and go while the broker looks at all of them, before it samples anything.
class DeadAtTheStart : public OwnBroker {
 protected:
  void SetUp() override {
    forker_.emplace(start_load({folder_.load("forker"), std::to_string(load_cpu()), "700", "7"}, kBusy));
    ASSERT_TRUE(forker_->wait_for_line("started"));
    ASSERT_TRUE(forker_->runs_for(5ms));
    OwnBroker::SetUp();
  }
  std::optional<Child> forker_;
};

using DeadAtTheStartLong = DeadAtTheStart;

TEST_F(DeadAtTheStartLong, EverySampleHasItsName) {
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  usleep(500'000);
  const Json sidecar = daemon.snapshot();
  ASSERT_EQ(forker_->wait(60s), 0) << forker_->err();
  std::set<pid_t> children;
  for (const std::string& line : lines_of(forker_->out()))
    if (line.starts_with("tiny-")) children.insert(std::stoi(line.substr(10)));
  std::size_t samples = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (!children.contains(sample.pid)) continue;
    ++samples;
    EXPECT_TRUE(sample.comm.starts_with("tiny-") || sample.comm == "forker") << sample.line;
  }
  EXPECT_GT(samples, 100U);
  EXPECT_TRUE(daemon.stop());
}

}  // namespace
}  // namespace flight
