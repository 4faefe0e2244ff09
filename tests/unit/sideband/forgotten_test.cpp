// SPDX-License-Identifier: Apache-2.0
// What the process tracker drops because of its limits is counted by kind, survives a restart, and is reported for the
// windows that lack it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/mappings.hpp"
#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> warnings_of(const ProcessTracker& tracker, EventTime begin, EventTime end,
                                     const std::unordered_set<std::uint32_t>& pids) {
  return tracker.export_window(begin, end, pids).warnings;
}

// The tracker of the next flightd.
ProcessTracker next(const ProcessTracker& tracker, std::size_t most_state_bytes = 64U << 20U) {
  RecordBuffer records;
  const auto omissions = tracker.checkpoint(most_state_bytes, [&](std::span<const std::byte> some) {
    records.insert(records.end(), some.begin(), some.end());
  });
  ProcessTracker out;
  out.replay(records, omissions.losses);
  return out;
}

void map_much(ProcessTracker& tracker, std::uint32_t pid, std::uint64_t count) {
  Tape tape;
  tape.fork(kSecond, 1, pid);
  tape.exec(kSecond + 1, pid, "jit");
  for (std::uint64_t i = 0; i < count; ++i) tape.map(kSecond + 2 + i, pid, i * 0x2000, 0x1000, "//anon");
  tracker.add(tape.bytes());
}

TEST(ForgottenFacts, MappingsOfTheProcessesThatHaveSamples) {
  ProcessTracker tracker;
  map_much(tracker, 100, kMaxMapsPerProcess + 1);
  Tape tape;
  tape.fork(3 * kSecond, 100, 101);  // it has the same mappings
  tape.fork(3 * kSecond, 1, 200);
  tape.fork(6 * kSecond, 100, 102);
  tracker.add(tape.bytes());
  const std::uint64_t gone = kMaxMapsPerProcess + 1 - kMaxMapsPerProcess * 3 / 4;
  const auto lacks = [](std::uint64_t maps, std::string_view of) {
    return HasSubstr(fmt::format("names: {} executable mappings of {} were forgotten", maps, of));
  };
  EXPECT_THAT(warnings_of(tracker, 4 * kSecond, 5 * kSecond, {100}), ElementsAre(lacks(gone, "1 process")));
  EXPECT_THAT(warnings_of(tracker, 4 * kSecond, 5 * kSecond, {100, 101, 200}),
              ElementsAre(lacks(2 * gone, "2 processes")));
  EXPECT_THAT(warnings_of(tracker, 4 * kSecond, 7 * kSecond, {102}), ElementsAre(lacks(gone, "1 process")))
      << "it was forked in the window";
  EXPECT_THAT(warnings_of(tracker, 4 * kSecond, 7 * kSecond, {200}), IsEmpty());
  EXPECT_THAT(warnings_of(tracker, 0, 5 * kSecond, {100}), IsEmpty()) << "this window has them all";
  for (const EventTime horizon : {kSecond, 5 * kSecond}) {  // in the log, in the state
    tracker.fold(horizon);
    const ProcessTracker after = next(tracker);
    EXPECT_THAT(warnings_of(after, 4 * kSecond, 5 * kSecond, {100}), ElementsAre(lacks(gone, "1 process")));
    EXPECT_THAT(warnings_of(next(after), 4 * kSecond, 5 * kSecond, {101}), ElementsAre(lacks(gone, "1 process")));
    EXPECT_THAT(warnings_of(after, 4 * kSecond, 5 * kSecond, {200}), IsEmpty());
    const auto window = after.export_window(0, 9 * kSecond, {100, 101});
    for (const auto* records : {&window.prologue, &window.log})
      for (std::span<const std::byte> rest = *records; !rest.empty(); rest = rest.subspan(next_record(rest).size()))
        EXPECT_LT(load<perf_event_header>(rest.data()).type, PERF_RECORD_MAX) << "perf does not know it";
  }
  Tape later;
  later.exec(8 * kSecond, 100, "other");
  tracker.add(later.bytes());
  EXPECT_THAT(warnings_of(tracker, 9 * kSecond, 10 * kSecond, {100}), IsEmpty()) << "they ended with the exec";
}

// Without memory the living lose what they were before, and most of their threads and mappings.
TEST(ForgottenFacts, ThePastAndTheThreadsOfLivingProcesses) {
  ProcessTracker tracker({.log_bytes = 4096, .state_bytes = 128U << 10U});
  Tape tape;
  for (std::uint32_t pid = 100; pid < 110; ++pid) {
    tape.fork(kSecond, 1, pid);
    for (EventTime i = 0; i < 100; ++i) tape.exec(2 * kSecond + i, pid, fmt::format("image{}", i));
    for (std::uint32_t i = 0; i < 500; ++i) tape.thread(3 * kSecond + i, pid, pid * 1000 + i);
    for (std::uint64_t i = 0; i < 100; ++i) tape.map(4 * kSecond + i, pid, i * 0x2000, 0x1000, "/lib/one");
    tracker.add(tape.take());
  }
  tape.fork(5 * kSecond, 1, 300);
  tracker.add(tape.take());
  const TrackerStats stats = tracker.stats();
  ASSERT_EQ(stats.evicted, 0U);
  EXPECT_GT(stats.forgotten.images, 100U);
  EXPECT_GT(stats.forgotten.threads, 1000U);
  const auto images = HasSubstr(fmt::format("before {} execs was forgotten", stats.forgotten.images));
  const auto threads =
      HasSubstr(fmt::format("names: {} threads of living processes were forgotten", stats.forgotten.threads));
  EXPECT_THAT(warnings_of(tracker, kSecond, 6 * kSecond, {300}), ElementsAre(images, threads));
  EXPECT_THAT(warnings_of(tracker, 5 * kSecond, 6 * kSecond, {300}), ElementsAre(threads)) << "the threads may live";
  const ProcessTracker after = next(tracker);
  EXPECT_EQ(after.stats().forgotten.images, stats.forgotten.images);
  EXPECT_EQ(after.stats().forgotten.threads, stats.forgotten.threads);
  tracker.fold(2 * kSecond + 100);
  EXPECT_EQ(tracker.stats().forgotten.images, 0U) << "no ring holds a sample of that time";
}

constexpr TrackerLimits kPlenty{.state_bytes = 64U << 20U};

TEST(ForgottenFacts, SymbolsTheOldestFirst) {
  ProcessTracker tracker(kPlenty);
  Tape tape;
  const auto at = [](std::uint64_t number) { return 0x1000 + (number * 7919 % 65537) * 0x1000; };  // in no order
  constexpr std::uint64_t kAll = kMaxKsymbols + 10;
  for (std::uint64_t i = 0; i < kAll; ++i) tape.ksymbol(kSecond + i, at(i), fmt::format("bpf_{}", i));
  tracker.add(tape.take());
  EXPECT_THAT(warnings_of(tracker, 0, 3 * kSecond, {1}), IsEmpty()) << "this window has them all";
  tracker.fold(2 * kSecond);
  const auto window = tracker.export_window(2 * kSecond, 3 * kSecond, {1});
  EXPECT_THAT(window.warnings, ElementsAre(HasSubstr("names: 10 symbols of the kernel's generated code were")));
  const ReaderModel model = read(window);
  EXPECT_EQ(model.ksymbols.size(), kMaxKsymbols);
  EXPECT_FALSE(model.ksymbols.contains(at(9)));
  EXPECT_TRUE(model.ksymbols.contains(at(10)));
  EXPECT_TRUE(model.ksymbols.contains(at(kAll - 1))) << "the newest";
  // Some of those end, others are loaded again, and nine that are known end.
  for (std::uint64_t i = 0; i < 9; ++i) tape.ksymbol(4 * kSecond + i, at(20 + i), "bpf", true);
  for (std::uint64_t i = 0; i < 9; ++i) tape.ksymbol(5 * kSecond + i, at(i), "bpf", i % 2 == 0);
  tracker.add(tape.take());
  EXPECT_THAT(warnings_of(tracker, 6 * kSecond, 7 * kSecond, {1}), ElementsAre(HasSubstr("names: 1 symbol of")));
  tape.ksymbol(8 * kSecond, at(9), "bpf", true);
  tracker.add(tape.take());
  EXPECT_THAT(warnings_of(tracker, 9 * kSecond, 10 * kSecond, {1}), IsEmpty());
  EXPECT_THAT(warnings_of(tracker, 6 * kSecond, 7 * kSecond, {1}), ElementsAre(HasSubstr("names: 1 symbol of")));
}

TEST(ForgottenFacts, CgroupsAreCountedByTheCheckpointToo) {
  ProcessTracker tracker(kPlenty);
  Tape tape;
  for (std::uint64_t id = 1; id <= kMaxCgroups + 7; ++id) tape.cgroup(kSecond + id, id, fmt::format("/job{}", id));
  tracker.add(tape.bytes());
  EXPECT_EQ(tracker.export_window(0, 5 * kSecond, {1}).forgotten.cgroups, 0U);
  EXPECT_EQ(tracker.export_window(5 * kSecond, 5 * kSecond, {1}).forgotten.cgroups, 7U);
  tracker.fold(4 * kSecond);
  EXPECT_EQ(tracker.stats().forgotten.cgroups, 7U);
  EXPECT_EQ(next(tracker).stats().forgotten.cgroups, 7U);
  const ProcessTracker cut = next(tracker, 400'000);  // a quarter of it is for cgroups
  const auto window = cut.export_window(5 * kSecond, 5 * kSecond, {1});
  const std::size_t kept = read(window).cgroups.size();
  EXPECT_LT(kept, 2500U);
  EXPECT_EQ(window.forgotten.cgroups + kept, kMaxCgroups + 7);
}

std::set<std::string> cgroups_of(const ProcessTracker& tracker) {
  std::set<std::string> out;
  for (const auto& [id, path] : read(tracker.export_window(0, 100 * kSecond, {1})).cgroups) out.insert(path);
  return out;
}

// A user makes 40,000 of them below his own, after others' units and between them. `fraction`: 4 is a quarter of all of
// them, with a quarter of the memory.
void expect_that_who_has_the_most_loses_cgroups(std::size_t fraction) {
  const std::uint64_t all = 43'000 / fraction, others_alone = 3000 / fraction;
  const std::vector<std::string> owners{
      "/user.slice/user-1000.slice/user@1000.service/app.slice/x{}.scope",
      "/user.slice/user-1000.slice/user@1000.service/x{}.slice/a.service",
      "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-1.scope/x{}",
      "/lxc.payload.web/x{}/y",
      // few, with long paths
      "/system.slice/docker-1.scope/" + std::string(3000, 'd') + "/x{}",
  };
  for (const std::string& owner : owners) {
    SCOPED_TRACE(owner.substr(0, 80));
    ProcessTracker tracker(
        {.log_bytes = (std::size_t{4} << 20U) / fraction, .state_bytes = (std::size_t{16} << 20U) / fraction});
    Tape tape;
    std::set<std::string> others;
    std::uint64_t id = 0;
    const auto add = [&](const std::string& path) {
      tape.cgroup(kSecond + id, id + 1, path);
      ++id;
    };
    for (std::uint64_t i = 0; i < all; ++i) {
      if (i >= others_alone) add(fmt::format(fmt::runtime(owner), i));
      if (i >= others_alone && i % 100 != 0) continue;
      const std::string other = i % 2 == 0 ? fmt::format("/system.slice/unit{}.service", i)
                                           : fmt::format(
                                                 "/kubepods.slice/kubepods-burstable.slice/"
                                                 "kubepods-burstable-pod{}.slice/cri-{}.scope",
                                                 i + 1000, i);
      add(other);
      others.insert(other);
    }
    tracker.add(tape.bytes());
    tracker.fold(50 * kSecond);
    const std::set<std::string> kept = cgroups_of(tracker);
    std::size_t missing = 0;
    for (const std::string& other : others) missing += kept.contains(other) ? 0 : 1;
    EXPECT_EQ(missing, 0U) << "of " << others.size();
    EXPECT_EQ(kept.size() + tracker.stats().forgotten.cgroups, id) << "each one is kept or counted";
    EXPECT_GT(kept.size(), others.size()) << "the owner has a share, too";
    EXPECT_TRUE(kept.contains(fmt::format(fmt::runtime(owner), all - 1))) << "the newest";
  }
}

TEST(ForgottenFacts, CgroupsOfWhoHasTheMostGoFirst) { expect_that_who_has_the_most_loses_cgroups(4); }
TEST(ForgottenFactsLong, CgroupsOfWhoHasTheMostGoFirst) { expect_that_who_has_the_most_loses_cgroups(1); }

}  // namespace
}  // namespace flight
