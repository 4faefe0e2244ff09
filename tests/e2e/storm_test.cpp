// SPDX-License-Identifier: Apache-2.0
// A fork storm: thousands of processes start and exit each second. The process tracker loses none of their records,
// stays within its bounds, and still names every sample.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>

#include "libcore/config/memory_share.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kMostRssBytes = kMostBesideRingsBytes;
// Microseconds of the recorder thread for each record of a flood: 0.05 measured, 0.4 without optimization. Only a cost
// that grows with the number of records exceeds this bound, on any machine; scripts/bench measures the cost itself.
constexpr double kMostFloodCostUs = 5;
// Forks a second. Two CPUs without other work reach 6,000 (docs/performance.md).
constexpr double kLeastStorm = 1000;

// The CPU time that the kernel has counted for the recorder thread, in seconds.
double recorder_seconds(pid_t flightd) {
  const std::string tasks = fmt::format("/proc/{}/task", flightd);
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    if (read_text(task.path().string() + "/comm") != "recorder\n") continue;
    return std::stod(read_text(task.path().string() + "/schedstat")) / 1e9;
  }
  ADD_FAILURE() << "no recorder thread";
  return 0;
}

// Children of the load "forker" have their own names in all samples, or "[lost]" if that may be. Returns how many there
// are.
std::size_t right_names(const Child& forker, const std::vector<NamedSample>& samples, bool may_be_lost) {
  std::map<pid_t, std::string> names;
  for (const std::string& line : lines_of(forker.out()))
    if (line.starts_with("tiny-")) names[std::stoi(line.substr(10))] = line.substr(0, 9);
  std::size_t count = 0;
  for (const NamedSample& sample : samples) {
    const auto child = names.find(sample.pid);
    if (child == names.end() || sample.symbol != "hot_in_tiny") continue;
    ++count;
    if (sample.comm == child->second || (may_be_lost && sample.comm == "[lost]")) continue;
    ADD_FAILURE() << "process " << sample.pid << " is called " << sample.comm << ", and was " << child->second;
    break;
  }
  return count;
}

class StormLong : public testing::Test {
 protected:
  TempFolder folder_;
  TestDaemon daemon_{folder_};
};
TEST_F(StormLong, NoSidebandIsLostAndNamesAreRight) {
  ASSERT_TRUE(daemon_.start(stacks_config(1999, "2M")));
  const std::uint64_t forks_before = forks_so_far();
  const std::uint64_t begin_ns = now_ns();
  Child storm =
      Child::start({"stress-ng", "--fork", "4", "--exec", "2", "--temp-path", folder_ / "scratch", "-t", "60"});
  ASSERT_TRUE(wait_until([&] { return forks_so_far() > forks_before + 2000; }, 30s)) << storm.err();
  // Each child has its own name and burns for a while during the storm.
  Child forker = start_load({folder_.load("forker"), std::to_string(load_cpu()), "300", "5"}, -10);
  ASSERT_TRUE(forker.wait_for_line("ended", 60s)) << forker.err();
  const Json sidecar = daemon_.snapshot();
  const double seconds = static_cast<double>(now_ns() - begin_ns) / 1e9;
  const double forks_per_second = static_cast<double>(forks_so_far() - forks_before) / seconds;
  const Json status = daemon_.status();
  storm.signal(SIGTERM);
  (void)storm.wait(10s);

  EXPECT_FALSE(sidecar["tracker"]["stale"]) << "records of the sideband were lost";
  EXPECT_EQ(sidecar["tracker"]["evicted"], 0);
  EXPECT_FALSE(sidecar.contains("warnings")) << sidecar["warnings"];
  if (!sanitized()) {
    const std::uint64_t rings =
        status["self"]["ring_bytes"].get<std::uint64_t>() + status["self"]["staging_bytes"].get<std::uint64_t>();
    EXPECT_LT(status["self"]["flightd"]["rss_bytes"].get<std::uint64_t>(), kMostRssBytes + rings);
  }

  std::map<pid_t, std::string> names;
  for (const std::string& line : lines_of(forker.out()))
    if (line.starts_with("tiny-")) names[std::stoi(line.substr(10))] = line.substr(0, 9);
  std::size_t samples = 0;
  std::size_t nameless = 0;
  std::size_t all = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    ++all;
    // Processes that exited in the first moments of the recording, before the first scan, have no names. A task that is
    // sampled while the kernel frees its ids has pid or tid -1 (kernel/events/core.c, perf_event_pid_type).
    const bool knowable = sample.time_ns > begin_ns && sample.pid != -1 && sample.tid != -1;
    if (knowable && (sample.comm.starts_with(":") || sample.comm.empty())) {
      ++nameless;
      fmt::print("process {} has no name at {} ns, in {}; the window begins at {}\n", sample.pid, sample.time_ns,
                 sample.symbol, sidecar["window"]["begin_ns"].get<std::uint64_t>());
    }
    const auto child = names.find(sample.pid);
    if (child == names.end() || sample.symbol != "hot_in_tiny") continue;
    ++samples;
    ASSERT_EQ(sample.comm, child->second) << "process " << sample.pid;
  }
  fmt::print("{:.0f} forks/s; {} samples, {} of them of {} short-lived processes; {} without a name; {} kept dead\n",
             forks_per_second, all, samples, names.size(), nameless, sidecar["tracker"]["exited"].get<std::uint64_t>());
  EXPECT_GE(forks_per_second, kLeastStorm) << "no storm: that nothing was lost means nothing";
  EXPECT_EQ(nameless, 0U);
  EXPECT_GT(samples, 100U);
  EXPECT_TRUE(daemon_.stop());
}

// The memory of a process without the shared part.
std::uint64_t anonymous_bytes(pid_t pid) {
  for (const std::string& line : lines_of(read_text(fmt::format("/proc/{}/status", pid))))
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) << 10U;
  return 0;
}

// The memfds that these processes hold or have mapped, each counted once.
std::uint64_t memfd_bytes(std::initializer_list<pid_t> pids) {
  std::map<ino_t, std::uint64_t> bytes;
  for (const pid_t pid : pids)
    for (const char* folder : {"fd", "map_files"}) {
      std::error_code error;
      for (const auto& link : std::filesystem::directory_iterator(fmt::format("/proc/{}/{}", pid, folder), error)) {
        struct stat info {};
        const std::string target = std::filesystem::read_symlink(link.path(), error);
        if (target.starts_with("/memfd:") && stat(link.path().c_str(), &info) == 0)
          bytes[info.st_ino] = static_cast<std::uint64_t>(info.st_blocks) * 512;
      }
    }
  std::uint64_t all = 0;
  for (const auto& [inode, size] : bytes) all += size;
  return all;
}

std::uint64_t file_bytes(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

// The checkpoint exists only if flightd has a separate broker.
class StormBesideABrokerLong : public OwnBroker {
 protected:
  StormBesideABrokerLong() { config_ = stacks_config(997, "2M"); }
};

// Thousands of children of a large process each second, each with mappings of its own.
TEST_F(StormBesideABrokerLong, WithManyMappingsStaysWithinItsMemory) {
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  Child storm = start_load({folder_.load("mapforker"), "12", "300", "6"});
  ASSERT_TRUE(storm.wait_for_line("started")) << storm.err();
  // memory.max counts the checkpoint separately (memory_share.hpp).
  std::uint64_t most = 0, most_checkpoint = 0;
  const auto look = [&] {
    most = std::max(most, anonymous_bytes(daemon.pid()) + anonymous_bytes(broker_->pid()) +
                              memfd_bytes({daemon.pid(), broker_->pid()}));
    most_checkpoint = std::max(most_checkpoint, file_bytes(folder_ / "run/tracker.checkpoint") +
                                                    file_bytes(folder_ / "run/tracker.checkpoint.new"));
  };
  std::optional<Child> taker;
  for (int i = 0; i < 550; ++i) {
    if (i == 400) taker.emplace(Child::start(daemon.ctl_command({"--json", "snapshot"})));
    usleep(20'000);
    look();
  }
  const Outcome taken = taker->finish(30s);
  const auto staging = daemon.status()["self"]["staging_bytes"].get<std::uint64_t>();
  ASSERT_EQ(taken.exit_status, 0) << taken.err;
  const Json sidecar = Json::parse(taken.out);
  EXPECT_EQ(storm.wait(30s), 0) << storm.err();
  std::size_t samples = 0;
  std::size_t unnamed = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (!sample.comm.starts_with("kid-") && sample.symbol != "hot_in_child") continue;
    if (sample.comm.starts_with(":") || sample.comm == "[lost]") {
      ++unnamed;
      continue;
    }
    ++samples;
    // The child has its parent's name until it sets its own.
    ASSERT_EQ(sample.comm == "mapforker" || sample.comm == fmt::format("kid-{}", sample.pid), true) << sample.line;
  }
  fmt::print(
      "{} MiB at most beside rings, flightd and broker, checkpoint {}, staging {}; {} samples named, {} not; {}\n",
      most >> 20U, most_checkpoint >> 20U, staging >> 20U, samples, unnamed, sidecar["tracker"].dump());
  for (const Json& warning : sidecar.value("warnings", Json::array())) fmt::print("{}\n", warning.get<std::string>());
  EXPECT_GT(samples, 200U);
  if (!sanitized()) {
    EXPECT_LT(most, kMostRssBytes + staging);
    EXPECT_LT(most_checkpoint, checkpoint_file_bytes(kMostBesideRingsBytes));
  }
  EXPECT_TRUE(daemon.stop());
}

// A hostile program that needs no privilege: it calls itself like others, and anything, as fast as it can. Records may
// be lost; no name is wrong, and every text can be printed.
class RenamesLong : public StormLong, public testing::WithParamInterface<const char*> {};

TEST_P(RenamesLong, WithoutEndGiveNobodyAWrongName) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child renamer = start_load({folder_.load("renamer"), std::to_string(load_cpu()), "8", GetParam()});
  ASSERT_TRUE(renamer.wait_for_line("started")) << renamer.err();
  Child forker = start_load({folder_.load("forker"), std::to_string(load_cpu()), "100", "5"}, -10);
  ASSERT_TRUE(forker.wait_for_line("ended", 60s)) << forker.err();
  ASSERT_TRUE(renamer.runs_for(500ms));
  const Json sidecar = daemon_.snapshot();
  const Outcome info = daemon_.ctl({"info", sidecar["id"]});
  EXPECT_EQ(renamer.wait(60s), 0) << renamer.err();
  const auto renamed = lines_of(renamer.out());
  fmt::print("{}\n{}\n", fmt::join(renamed, "\n"), sidecar["warnings"].dump(1));
  EXPECT_THAT(sidecar["warnings"].dump(),
              testing::HasSubstr(fmt::format("(pid {}) renamed its tasks more than 1000 times", renamer.pid())));
  for (const char byte : info.out) EXPECT_TRUE(byte == '\n' || (byte >= ' ' && byte != 0x7f) || byte < 0) << info.out;
  EXPECT_GT(right_names(forker, named_samples(folder_, sidecar["path"]), true), 30U);
  EXPECT_TRUE(daemon_.stop());
}
INSTANTIATE_TEST_SUITE_P(MoreThreads, RenamesLong, testing::Values("0", "4"));

// A hostile program that needs no privilege toggles mprotect(PROT_EXEC). At 165,000 times a second nothing is lost. As
// fast as possible on each CPU it writes more than the recorder's share of the CPUs can take: then records may be lost,
// and no name is wrong.
struct Toggling {
  const char* variants;
  const char* per_second = "0";  // on one CPU; 0: on all, as fast as possible
};
class FloodLong : public StormLong, public testing::WithParamInterface<Toggling> {};

TEST_P(FloodLong, OfMappingsLosesNoNamesAndCostsLittleEach) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  const double before = recorder_seconds(daemon_.pid());
  const std::uint64_t begin_ns = now_ns();
  std::vector<Child> togglers;
  const std::string variants = GetParam().variants;
  const bool everywhere = std::string(GetParam().per_second) == "0";
  const bool may_lose = sanitized() || everywhere;
  for (const int cpu : everywhere ? usable_cpus() : std::vector<int>{load_cpu()})
    togglers.push_back(
        start_load({folder_.load("toggler"), std::to_string(cpu), "5", variants, GetParam().per_second}));
  Child forker = start_load({folder_.load("forker"), std::to_string(load_cpu()), "100", "5"}, -10);
  ASSERT_TRUE(forker.wait_for_line("ended", 60s)) << forker.err();
  const Json sidecar = daemon_.snapshot();
  std::uint64_t toggled = 0;
  for (Child& toggler : togglers) {
    EXPECT_EQ(toggler.wait(30s), 0) << toggler.err();
    for (const std::string& line : lines_of(toggler.out()))
      if (line.starts_with("toggled ")) toggled += std::stoull(line.substr(8));
  }
  const double seconds = static_cast<double>(now_ns() - begin_ns) / 1e9;
  const double cost = (recorder_seconds(daemon_.pid()) - before) / seconds;
  const Json status = daemon_.status();
  fmt::print("{:.0f} MMAP2 records a second; the recorder thread took {:.1f} % of a CPU; {} MiB resident\n",
             static_cast<double>(toggled) / seconds, cost * 100,
             status["self"]["flightd"]["rss_bytes"].get<std::uint64_t>() >> 20U);
  EXPECT_GT(static_cast<double>(toggled) / seconds, 10'000) << "not a flood";
  // A sanitized recorder can be too slow for so many records. Then samples have no name, never a wrong one.
  if (!may_lose) {
    EXPECT_FALSE(sidecar["tracker"]["stale"]);
    for (const Json& warning : sidecar.value("warnings", Json::array()))
      EXPECT_EQ(warning.get<std::string>().find("were lost"), std::string::npos) << warning;
  }
  if (!sanitized()) {
    EXPECT_LT(cost * seconds * 1e6 / static_cast<double>(toggled), kMostFloodCostUs);
  }
  const bool many = variants != "1";  // otherwise they are repetitions
  EXPECT_EQ(
      sidecar.value("warnings", Json::array()).dump().find(") mapped executable memory more") != std::string::npos,
      many)
      << sidecar.value("warnings", Json::array());
  const std::size_t samples = right_names(forker, named_samples(folder_, sidecar["path"]), may_lose);
  EXPECT_GT(samples, sanitized() ? 0U : 30U);
  EXPECT_TRUE(daemon_.stop());
}

// One mapping again and again, or eleven mappings that replace each other in turn.
INSTANTIATE_TEST_SUITE_P(Storm, FloodLong,
                         testing::Values(Toggling{"1", "165000"}, Toggling{"11", "165000"}, Toggling{"11"}));

}  // namespace
}  // namespace flight
