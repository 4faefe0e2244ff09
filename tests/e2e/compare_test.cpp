// SPDX-License-Identifier: Apache-2.0
// The same load, recorded by flightd and by `perf record -a` at the same time: names, files, build-ids and times must
// be the same in every situation, except for what docs/reading.md lists ("Where it differs from perf record"): perf is
// known to be wrong there, or flightd says more.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "libcore/base/clock.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

struct Situation {
  const char* name;
  const char* command;    // of sh: $L the loads, $C the CPU, $T a directory
  bool any_comm = false;  // it changes its name all the time
};

constexpr Situation kSituations[] = {
    {"a program", "$L/burner $C 1"},
    {"in the kernel", "$L/burner $C 1 kernel"},
    {"two at once", "$L/burner $C 1 & $L/burner 0 1 & wait"},
    {"an exec", "$L/execer $C 0.7 $L/burner $C 0.7"},
    {"a late library", "$L/dlopener $C 0.7 $L/liblate.so 0.7"},
    {"a named thread", "$L/threader $C 1"},
    {"short programs", "$L/forker $C 300 2.7"},
    {"threads that end", "$L/ender $C 1"},
    {"a number used again", "$L/reuser $C 0.7"},
    {"code made at run time", "$L/jitter $C 1 $T"},
    {"forks with many mappings", "$L/mapforker 1 50 4", true},
    {"a shell's loop", "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done"},
    {"a pipeline", "head -c 30000000 /dev/urandom | gzip -1 | wc -c >$T/size"},
    {"a script",
     "printf '#!/bin/sh\\ni=0; while [ $i -lt 600000 ]; do i=$((i+1)); done\\n' >$T/a-script; "
     "chmod +x $T/a-script; $T/a-script"},
    {"an interpreter", "python3 -c 'sum(i * i for i in range(8000000))'"},
    {"another argv[0]", "bash -c \"exec -a other $L/burner $C 1\""},
    {"a name with blanks", "cp $L/burner \"$T/a b (c)\"; \"$T/a b (c)\" $C 1"},
    {"a link", "ln -sf $L/burner $T/link; $T/link $C 1"},
    {"a program that is removed", "cp $L/burner $T/gone; $T/gone $C 1 & sleep 0.3; rm $T/gone; wait"},
    {"a program that is replaced",
     "cp $L/burner $T/new; $T/new $C 1 & sleep 0.3; cp $L/execer $T/newer; mv $T/newer $T/new; wait"},
    {"another user", "setpriv --reuid 60001 --regid 60001 --clear-groups $L/burner $C 1"},
    {"a user namespace", "unshare --user --map-root-user $L/burner $C 1"},
    {"a PID namespace", "unshare --pid --fork --mount-proc $L/burner $C 1"},
    {"a mount namespace", "unshare --mount sh -c \"mount -t tmpfs none $T && cp $L/burner $T/in && $T/in $C 1\""},
};

struct Slice {
  const Situation* situation;
  std::uint64_t begin_ns, end_ns;
};

using Key = std::pair<std::string, std::string>;  // comm, DSO
struct Found {
  std::map<Key, std::vector<std::uint64_t>> times;
  std::size_t samples = 0;
};

std::string without(std::string text, std::string_view part) {
  if (const auto at = text.find(part); at != std::string::npos) text.erase(at, part.size());
  return text;
}

// Kernel threads do work for everybody, and each recorder has its own processes.
bool is_ours(const NamedSample& sample, const std::set<int>& kernel_threads) {
  static const std::set<std::string> kRecorders{"perf", "flightd", "flightd-broker", "flightd-reader", "flightctl"};
  return sample.pid > 0 && !kRecorders.contains(sample.comm) && !kernel_threads.contains(sample.pid) &&
         sample.pid != ::getpid();
}

std::set<int> kernel_threads() {
  std::set<int> out{2};
  std::istringstream children(read_text("/proc/2/task/2/children"));
  for (int pid = 0; children >> pid;) out.insert(pid);
  return out;
}

Found find(const std::vector<NamedSample>& samples, const Slice& slice, const std::set<int>& kernel_threads) {
  Found out;
  for (const NamedSample& sample : samples) {
    if (sample.time_ns < slice.begin_ns || sample.time_ns >= slice.end_ns || !is_ours(sample, kernel_threads)) continue;
    const std::string comm = slice.situation->any_comm ? "*" : sample.comm.starts_with(':') ? ":" : sample.comm;
    out.times[{comm, without(without(sample.dso, " (not the host's)"), " (deleted)")}].push_back(sample.time_ns);
    ++out.samples;
  }
  return out;
}

std::uint64_t median(std::vector<std::uint64_t> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

// What one of them has often, the other has as well, at the same time. (Both sample, at rates that are no multiples of
// one another or of a load's own.)
void expect_in(const Found& one, const Found& other, const char* who, const Situation& situation) {
  constexpr std::size_t kFew = 50;
  constexpr double kPart = 0.05, kLess = 0.8, kLeast = 0.3, kDeviations = 5;
  constexpr std::int64_t kMoved = 300'000'000;
  ASSERT_GT(other.samples, 100U) << situation.name;
  for (const auto& [key, times] : one.times) {
    if (key.first == ":" && std::string_view(who) == "flightd") continue;
    if (times.size() < kFew || static_cast<double>(times.size()) < kPart * static_cast<double>(one.samples)) continue;
    const double expected =
        static_cast<double>(times.size()) * static_cast<double>(other.samples) / static_cast<double>(one.samples);
    const auto same = other.times.find(key);
    const std::size_t count = same != other.times.end() ? same->second.size() : 0;
    // Both counts are random: their difference has a variance of about twice the expected one.
    const double least = std::max(kLeast * expected, kLess * expected - kDeviations * std::sqrt(2 * expected));
    EXPECT_GT(static_cast<double>(count), least) << situation.name << ": " << who << " has too few samples of "
                                                 << key.first << " in " << key.second << ", of " << times.size();
    if (count < kFew) continue;
    EXPECT_LT(std::abs(static_cast<std::int64_t>(median(times) - median(same->second))), kMoved)
        << situation.name << ": " << key.first << " in " << key.second;
  }
}

std::map<std::string, std::string> build_ids(const std::string& file) {
  std::map<std::string, std::string> out;
  for (const std::string& line : lines_of(run({"perf", "buildid-list", "-i", file}).out))
    if (const auto blank = line.find(' '); blank != std::string::npos)
      out[line.substr(blank + 1)] = line.substr(0, blank);
  return out;
}

class ComparedLong : public testing::Test {
 protected:
  void start_perf(const char* build_ids) {
    perf_.emplace(Child::start({"perf", "record", "-q", build_ids, "-a", "-e", "cpu-clock", "-F", "1499", "-k",
                                "CLOCK_MONOTONIC", "-o", file_}));
    const std::string maps = fmt::format("/proc/{}/maps", perf_->pid());
    ASSERT_TRUE(wait_until([&] { return read_text(maps).find("[perf_event]") != std::string::npos; }, 20s));
    usleep(500'000);
  }
  void start_flightd() {
    Json config = stacks_config(997, "8M");
    config["memory"]["max"] = "50%";
    ASSERT_TRUE(daemon_.start(config));
  }
  void run_all() {
    const std::string folder = folder_ / "scratch/t";
    for (const Situation& situation : kSituations) {
      Slice slice{.situation = &situation, .begin_ns = monotonic_now(), .end_ns = 0};
      const std::string text = fmt::format("L={} C={} T={}; rm -rf $T; mkdir -m 777 $T; export L C T; {}",
                                           folder_.loads(), load_cpu(), folder, situation.command);
      ChildOptions options;
      options.nice = kBusy;
      Outcome outcome = Child::start({"bash", "-c", text}, options).finish(30s);
      EXPECT_EQ(outcome.exit_status, 0) << situation.name << ": " << outcome.text();
      slice.end_ns = monotonic_now();
      slices_.push_back(slice);
      usleep(100'000);
    }
  }
  void compare() {
    const Json sidecar = daemon_.snapshot();
    perf_->signal(SIGINT);
    (void)perf_->finish(60s);
    const std::set<int> kernel = kernel_threads();
    const std::string file = sidecar["path"];
    const auto ours = named_samples(folder_, file), theirs = named_samples(folder_, file_);
    for (const Slice& slice : slices_) {
      const Found mine = find(ours, slice, kernel), stock = find(theirs, slice, kernel);
      expect_in(stock, mine, "flightd", *slice.situation);
      expect_in(mine, stock, "perf", *slice.situation);
    }
    const auto mine = build_ids(file), stock = build_ids(file_);
    std::size_t same = 0;
    std::set<std::string> sampled;  // both have recorded these files
    for (const Slice& slice : slices_)
      for (const auto& [key, times] : find(theirs, slice, kernel).times) sampled.insert(key.second);
    for (const auto& [path, id] : stock) {
      // perf has the host's build-id of a path, flightd that of the file.
      if (path == "[vdso]" || mine.contains(path + " (not the host's)")) continue;
      const auto found = mine.find(path);
      if (found == mine.end() && !sampled.contains(path)) continue;
      EXPECT_EQ(found != mine.end() ? found->second : "none", id) << path;
      ++same;
    }
    EXPECT_GT(same, 10U);
  }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::string file_ = folder_ / "scratch/perf.data";
  std::optional<Child> perf_;
  std::vector<Slice> slices_;
};

TEST_F(ComparedLong, WithAPerfThatBeganEarlier) {
  ASSERT_NO_FATAL_FAILURE(start_perf("--no-buildid-cache"));
  ASSERT_NO_FATAL_FAILURE(start_flightd());
  run_all();
  compare();
}

// One that asks the kernel for build-ids: it marks flightd's records as well (libcore/perf/record_cut.hpp).
TEST_F(ComparedLong, WithAPerfThatBeganLater) {
  ASSERT_NO_FATAL_FAILURE(start_flightd());
  ASSERT_NO_FATAL_FAILURE(start_perf("--buildid-mmap"));
  run_all();
  compare();
}

}  // namespace
}  // namespace flight
