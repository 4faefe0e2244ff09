// SPDX-License-Identifier: Apache-2.0
// The promises of the freeze under any load: nothing is allocated between the first head and the last resume, the
// freeze thread has a higher priority than all others and the workers have a lower one, and a snapshot that is taken
// under load is correct.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fcntl.h>
#include <filesystem>
#include <map>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/memory_group.hpp"
#include "tests/e2e/verifier.hpp"
#include "tests/e2e/witness/allocations.hpp"

namespace flight {
namespace {

std::string first_line(const std::string& path) {
  const std::vector<std::string> lines = lines_of(read_text(path));
  return lines.empty() ? std::string() : lines.front();
}

// The thread ids of flightd's threads by name.
std::map<std::string, pid_t> threads_of(pid_t pid) {
  std::map<std::string, pid_t> out;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid)))
    out[first_line(task.path().string() + "/comm")] = std::stoi(task.path().filename().string());
  return out;
}

// Field N of /proc/PID/stat, as proc(5) numbers them, N > 2.
long stat_field(pid_t thread, std::size_t number) {
  const std::string stat = read_text(fmt::format("/proc/{}/stat", thread));
  std::size_t at = stat.rfind(')');
  for (std::size_t field = 2; field < number && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  return at == std::string::npos ? -1 : std::strtol(stat.c_str() + at, nullptr, 10);
}
constexpr std::size_t kNice = 19, kRtPriority = 40, kPolicy = 41;

// RLIMIT_RTPRIO; root of a container often may not raise it.
bool may_be_realtime(pid_t pid) {
  const std::string limits = read_text(fmt::format("/proc/{}/limits", pid));
  constexpr std::string_view kName = "Max realtime priority";
  const std::size_t at = limits.find(kName);
  return at != std::string::npos && std::strtol(limits.c_str() + at + kName.size(), nullptr, 10) > 0;
}

class Freeze : public testing::Test {
 protected:
  // The snapshot is complete, has samples of both CPUs, and no ring stayed paused.
  void expect_right(const Json& sidecar) {
    ASSERT_TRUE(sidecar.contains("samples"));
    EXPECT_GT(sidecar["samples"], 0);
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
    for (const Json& ring : sidecar["rings"]) EXPECT_EQ(ring["unknown_ids"], 0) << ring;
  }
  // `many` takes snapshots, and perf verifies the last one. Then flightd ends normally.
  void take(int many) {
    Json sidecar;
    std::uint64_t worst_us = 0;
    for (int i = 0; i < many; ++i) {
      sidecar = daemon_.snapshot();
      ASSERT_TRUE(sidecar.contains("timings_us"));
      worst_us = std::max(worst_us, sidecar["timings_us"]["queued"].get<std::uint64_t>());
    }
    fmt::print("{} snapshots; the worst was frozen {:.1f} ms after its request\n", many,
               static_cast<double>(worst_us) / 1e3);
    expect_right(sidecar);
  }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
};
using FreezeLong = Freeze;

TEST_F(Freeze, AllocatesNothingBetweenTheFirstHeadAndTheLastResume) {
  if (sanitized()) return;  // a sanitizer has its own malloc, which the witness must not replace
  const std::string path = folder_ / "allocations";
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(file.get(), sizeof(AllocationNotes)), 0);
  void* memory = ::mmap(nullptr, sizeof(AllocationNotes), PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto& witness = *static_cast<const AllocationNotes*>(memory);
  const StartOptions options{
      .prefix = {"env", "LD_PRELOAD=" + required_env("FLIGHT_WITNESS"), "FLIGHT_ALLOCATIONS=" + path}};
  ASSERT_TRUE(daemon_.start(stacks_config(997, "1M"), options));
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "60"});
  const auto threads = threads_of(daemon_.pid());
  ASSERT_TRUE(threads.contains("freeze") && threads.contains("snapshot"));

  std::uint64_t seen = 0;
  std::size_t afterwards = 0;
  for (const char* capture : {"pause", "live", "pause", "pause", "live"}) {
    const Json sidecar = daemon_.snapshot({"--capture", capture});
    const auto begin_ns = sidecar["window"]["end_ns"].get<std::uint64_t>();
    const auto end_ns = begin_ns + sidecar["timings_us"]["freeze"].get<std::uint64_t>() * 1000;
    const std::uint64_t count = witness.count;
    ASSERT_LT(count - seen, AllocationNotes::kNotes) << "more than the witness can remember";
    for (; seen < count; ++seen) {
      const AllocationNotes::Note& note = witness.notes[seen % AllocationNotes::kNotes];
      EXPECT_NE(note.thread, threads.at("freeze")) << "the freeze thread never allocates";
      if (note.thread != threads.at("snapshot")) continue;
      EXPECT_FALSE(begin_ns <= note.time_ns && note.time_ns <= end_ns) << note.time_ns - begin_ns << " ns into it";
      if (note.time_ns > end_ns) ++afterwards;
    }
  }
  EXPECT_GT(afterwards, 0U) << "the witness is blind";
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Freeze, ItsThreadStandsAboveAllAndTheWorkersBelow) {
  Json config = stacks_config(97, "64K");
  const int cpu = load_cpu();
  config["snapshot"] = {{"workers", fmt::format("0-1023/{}", cpu)}};
  ASSERT_TRUE(daemon_.start(config));
  Child burner = start_load({folder_.load("burner"), std::to_string(cpu), "60"});
  const auto before = threads_of(daemon_.pid());
  expect_right(daemon_.snapshot());
  EXPECT_EQ(threads_of(daemon_.pid()), before) << "a fixed set: a snapshot starts no thread";

  ASSERT_TRUE(before.contains("freeze"));
  EXPECT_EQ(stat_field(before.at("freeze"), kPolicy), SCHED_FIFO);
  EXPECT_GE(stat_field(before.at("freeze"), kRtPriority), 1);
  EXPECT_LE(stat_field(before.at("freeze"), kNice), 0) << "never niced";
  // A request wakes these two. Between their waits they are ordinary threads.
  const int waiting = may_be_realtime(daemon_.pid()) ? SCHED_FIFO : SCHED_OTHER;
  for (const char* name : {"flightd", "snapshot"}) {
    ASSERT_TRUE(before.contains(name)) << name;
    EXPECT_TRUE(wait_until([&] { return stat_field(before.at(name), kPolicy) == waiting; }, 10s)) << name;
    EXPECT_EQ(stat_field(before.at(name), kNice), -10) << name;
  }
  for (const char* name : {"worker-0", "merge", "writer"}) {
    ASSERT_TRUE(before.contains(name)) << name;
    const pid_t thread = before.at(name);
    EXPECT_EQ(stat_field(thread, kPolicy), SCHED_BATCH) << name;
    EXPECT_EQ(stat_field(thread, kNice), 5) << name;
    constexpr int kWhoProcess = 1;  // ioprio_set(2)
    EXPECT_EQ(::syscall(SYS_ioprio_get, kWhoProcess, thread), (2 << 13) | 7) << name;
  }
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(before.at("worker-0"), sizeof set, &set), 0);
  EXPECT_TRUE(CPU_COUNT(&set) == 1 && CPU_ISSET(cpu, &set)) << "the mask's affinity";
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(FreezeLong, IsRightUnderSixteenSpinningProcesses) {
  ASSERT_TRUE(daemon_.start(stacks_config(499, "1M")));
  std::vector<Child> burners;
  for (int i = 0; i < 16; ++i) {
    const std::vector<int> cpus = usable_cpus();
    const int cpu = cpus[static_cast<std::size_t>(i) % cpus.size()];
    burners.push_back(start_load({folder_.load("burner"), std::to_string(cpu), "200"}));
  }
  take(sanitized() ? 3 : 5);
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(FreezeLong, IsRightAmongAThousandSleepers) {
  ASSERT_TRUE(daemon_.start(stacks_config(499, "1M")));
  Child crowd = start_load({folder_.load("crowd"), "1000"});
  ASSERT_TRUE(crowd.wait_for_line("asleep")) << crowd.err();
  take(sanitized() ? 3 : 10);
  const Json last = daemon_.snapshot();
  EXPECT_GE(last["tracker"]["processes"], 1000);
  EXPECT_FALSE(last["tracker"]["stale"]);
  EXPECT_TRUE(daemon_.stop());
}

// flightd and its broker share a memory group with a process that takes all the memory left in it, is killed by the OOM
// killer, and starts again. Where no group can be made (in a container), the process takes a limited part of the
// machine's memory.
TEST_F(FreezeLong, IsRightAtTheEdgeOfTheOomKiller) {
  const auto group = MemoryGroup::create(sanitized() ? 1024U << 20U : 192U << 20U);
  const Arguments enter = group ? group->enter() : Arguments{};
  StartOptions options;
  options.prefix = enter;
  ASSERT_TRUE(daemon_.start(stacks_config(499, "1M"), options));
  Arguments hog = enter;
  for (const std::string& word : {folder_.load("hog"), std::string("1536")}) hog.push_back(word);
  Child load = start_load(hog);
  ASSERT_TRUE(load.wait_for_line(group ? "killed" : "taken")) << "memory was never short: " << load.err();
  take(sanitized() ? 3 : 10);
  EXPECT_TRUE(load.running());
  load.kill();
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
