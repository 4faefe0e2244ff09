// SPDX-License-Identifier: Apache-2.0
// A profile of files with known records, against a count that replays them one by one, as perf does.
#include "libcore/profile/profile.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <ostream>
#include <random>
#include <string>
#include <thread>

#include "libcore/base/clock.hpp"
#include "libcore/profile/read_records.hpp"
#include "tests/unit/profile/made_file.hpp"

namespace flight {

inline void PrintTo(const StackValue& value, std::ostream* out) {
  *out << value.samples << " samples, weight " << value.weight;
}

namespace {

using test::append_sample;
using test::append_switch;
using test::made_file;
using test::made_trailer;
using test::MadeSample;

constexpr std::uint64_t kPage = 0x1000;
constexpr std::uint64_t kKernelCode = 0xffffffff81000000, kKernelPages = 16;
constexpr std::uint64_t kKernelMark = PERF_CONTEXT_KERNEL, kUserMark = PERF_CONTEXT_USER;

using Sums = std::map<std::string, StackValue>;

// "nginx;main;read" -> what ended there, of one event.
Sums stacks_of(const SnapshotProfile& profile, std::string_view event) {
  Sums out;
  const auto& nodes = profile.tree.nodes();
  for (std::uint32_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i].self.all.samples == 0) continue;
    std::string path;
    std::uint32_t at = i;
    for (; nodes[at].frame != FrameTable::kRoot; at = nodes[at].parent)
      path = profile.text_of(nodes[at].frame) + (path.empty() ? "" : ";") + path;
    const auto of = std::find_if(profile.events.begin(), profile.events.end(),
                                 [&](const ProfileEvent& one) { return one.root == at; });
    EXPECT_NE(of, profile.events.end());
    if (of != profile.events.end() && of->name == event) out[path].add(nodes[i].self.all);
  }
  return out;
}

SnapshotProfile profile_of(const FileReader& file, const ProfileOrder& order = {}) {
  auto profile = SnapshotProfile::read(file, order);
  EXPECT_TRUE(profile) << profile.error().what;
  return profile ? std::move(*profile) : SnapshotProfile();
}

std::string made_kallsyms() {
  std::string out;
  for (std::uint64_t i = 0; i < kKernelPages; ++i) out += fmt::format("{:x} T kernel_{}\n", kKernelCode + i * kPage, i);
  return out;
}

// What the records say, replayed in their order: pages of processes, which a fork copies, and names of threads.
class Replay {
 public:
  RecordBuffer sideband, samples;  // of the file, in the order of time
  Sums expected;
  StackValues sum;
  SidecarCompared compared;

  void begin(std::uint32_t pids) {
    append_kernel_mmap(sideband, kKernelCode, kKernelPages * kPage, kKernelCode, "[kernel.kallsyms]_text", {});
    for (std::uint32_t pid = 1; pid <= pids; ++pid) {
      append_fork(sideband, {.pid = pid, .ppid = 1, .tid = pid, .ptid = 1, .exec = true}, {});
      name(pid, pid, fmt::format("task-{}", pid), 0);
      map(pid, 0x400000, 8, 0, "/usr/bin/program", 0);
    }
  }
  void name(std::uint32_t pid, std::uint32_t tid, const std::string& text, EventTime time_ns) {
    append_comm(sideband, {.pid = pid, .tid = tid, .name = text},
                time_ns == 0 ? Trailer() : made_trailer(pid, time_ns));
    names_[tid] = text;
  }
  void map(std::uint32_t pid, std::uint64_t address, std::uint64_t pages, std::uint64_t file_page,
           const std::string& path, EventTime time_ns) {
    append_mmap2(sideband,
                 {.pid = pid,
                  .tid = pid,
                  .address = address,
                  .bytes = pages * kPage,
                  .page_offset = file_page * kPage,
                  .protection = PROT_READ | PROT_EXEC,
                  .name = path},
                 time_ns == 0 ? Trailer() : made_trailer(pid, time_ns));
    for (std::uint64_t i = 0; i < pages; ++i)
      pages_[pid][address / kPage + i] = {path.substr(path.rfind('/') + 1), (file_page + i) * kPage};
  }
  void fork(std::uint32_t parent, std::uint32_t child, EventTime time_ns) {
    append_fork(sideband, {.pid = child, .ppid = parent, .tid = child, .ptid = parent, .time_ns = time_ns},
                made_trailer(parent, time_ns));
    pages_[child] = std::map(pages_[parent]);
    names_[child] = std::string(names_[parent]);
  }
  void take(const MadeSample& sample) {
    append_sample(samples, sample);
    std::string path;
    bool kernel = false;
    for (const std::uint64_t value : sample.chain) {
      if (value == kKernelMark || value == kUserMark)
        kernel = value == kKernelMark;
      else
        path = frame(sample.pid, value, kernel) + (path.empty() ? "" : ";") + path;
    }
    if (sample.chain.empty()) path = frame(sample.pid, sample.ip, sample.kernel);
    const StackValue one{.samples = 1, .weight = sample.period};
    expected[names_.at(sample.tid) + ";" + path].add(one);
    sum.all.add(one);
    if (sample.time_ns >= compared.now_begin_ns)
      sum.now.add(one);
    else if (sample.time_ns >= compared.before_begin_ns)
      sum.before.add(one);
  }

 private:
  struct Page {
    std::string file;
    std::uint64_t offset = 0;
  };
  std::string frame(std::uint32_t pid, std::uint64_t address, bool kernel) {
    if (kernel) {
      if (address < kKernelCode || address >= kKernelCode + kKernelPages * kPage) return "[unknown]";
      return fmt::format("kernel_{}", (address - kKernelCode) / kPage);
    }
    const auto page = pages_[pid].find(address / kPage);
    if (page == pages_[pid].end()) return "[unknown]";
    return fmt::format("{}+{:#x}", page->second.file, page->second.offset + address % kPage);
  }

  std::map<std::uint32_t, std::map<std::uint64_t, Page>> pages_;
  std::map<std::uint32_t, std::string> names_;
};

constexpr std::uint32_t kPids = 12;

std::uint64_t some_address(std::mt19937_64& random) { return 0x400000 + random() % 12 * kPage + random() % 4 * 16; }

MadeSample some_sample(std::mt19937_64& random, EventTime time_ns) {
  MadeSample sample;
  sample.pid = sample.tid = static_cast<std::uint32_t>(1 + random() % kPids);
  sample.cpu = static_cast<std::uint32_t>(random() % 4);
  sample.time_ns = time_ns;
  sample.kernel = random() % 3 == 0;
  sample.period = 1 + random() % 1000;
  if (sample.kernel) {
    sample.chain.push_back(kKernelMark);
    for (std::size_t depth = 1 + random() % 3; depth > 0; --depth)
      sample.chain.push_back(kKernelCode + random() % (kKernelPages + 1) * kPage + random() % kPage);
  }
  if (!sample.kernel || random() % 2 == 0) {
    sample.chain.push_back(kUserMark);
    for (std::size_t depth = 1 + random() % 5; depth > 0; --depth) sample.chain.push_back(some_address(random));
  }
  sample.ip = sample.chain.at(1);
  if (random() % 8 == 0) sample.chain.clear();  // an event without a stack
  return sample;
}

Replay random_replay(unsigned seed) {
  Replay out;
  out.compared = {.before_begin_ns = 1500, .now_begin_ns = 3000, .now_end_ns = 9999};
  std::mt19937_64 random(seed);
  out.begin(kPids);
  for (EventTime time_ns = 1000; time_ns < 5000; ++time_ns) {
    const auto pid = static_cast<std::uint32_t>(1 + random() % kPids);
    const auto other = static_cast<std::uint32_t>(1 + random() % kPids);
    switch (random() % 16) {
      case 0:
        out.map(pid, 0x400000 + random() % 12 * kPage, 1 + random() % 3, random() % 50,
                fmt::format("/usr/lib/lib{}.so", random() % 5), time_ns);
        break;
      case 1:
        if (pid != other) out.fork(pid, other, time_ns);
        break;
      case 2:
        out.name(pid, pid, fmt::format("name-{}", random() % 20), time_ns);
        break;
      default:
        out.take(some_sample(random, time_ns));
    }
  }
  return out;
}

void expect_same(const SnapshotProfile& profile, const Replay& replay) {
  EXPECT_EQ(stacks_of(profile, "cpu-clock"), replay.expected);
  EXPECT_EQ(profile.counts.counted, replay.sum.all.samples);
  EXPECT_EQ(profile.counts.samples, replay.sum.all.samples);
  const auto totals = profile.tree.totals();
  EXPECT_EQ(totals[0].all, replay.sum.all);
  EXPECT_EQ(totals[0].before, replay.sum.before);
  EXPECT_EQ(totals[0].now, replay.sum.now);
  EXPECT_EQ(profile.counts.malformed + profile.counts.bad_chains + profile.counts.others, 0U);
}

// In the order of time, as flightd writes them.
RecordBuffer merged(const Replay& replay) {
  struct One {
    EventTime time_ns = 0;
    std::span<const std::byte> record;
  };
  std::vector<One> all;
  for (const RecordBuffer* records : {&replay.sideband, &replay.samples}) {
    std::span<const std::byte> rest(*records);
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      const EventTime time_ns =
          records == &replay.sideband ? parse_trailer(record)->time_ns : load<EventTime>(record.data() + 32);
      all.push_back({time_ns, record});
      rest = rest.subspan(record.size());
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const One& a, const One& b) { return a.time_ns < b.time_ns; });
  RecordBuffer out;
  for (const One& one : all) out.insert(out.end(), one.record.begin(), one.record.end());
  return out;
}

TEST(Profile, IsTheCountOfAReplay) {
  const std::string kallsyms = made_kallsyms();
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const Replay replay = random_replay(seed);
    const ProfileOrder order{.only = {}, .compared = replay.compared, .kallsyms = kallsyms};
    expect_same(profile_of(made_file(merged(replay), {.compressed = seed % 2 == 0}), order), replay);
    if (HasFailure()) return;
  }
}

// The samples are in other files than the sideband, and in no order.
TEST(Profile, OfADataDirectory) {
  const std::string kallsyms = made_kallsyms();
  for (const bool compressed : {false, true}) {
    const Replay replay = random_replay(77);
    std::vector<RecordBuffer> bare(3);
    std::span<const std::byte> rest(replay.samples);
    for (std::size_t i = 0; !rest.empty(); ++i) {
      const auto record = next_record(rest);
      ASSERT_FALSE(record.empty());
      bare[i / 7 % 3].insert(bare[i / 7 % 3].end(), record.begin(), record.end());
      rest = rest.subspan(record.size());
    }
    std::reverse(bare.begin(), bare.end());
    const ProfileOrder order{.only = {}, .compared = replay.compared, .kallsyms = kallsyms};
    expect_same(profile_of(made_file(replay.sideband, {.compressed = compressed, .bare = bare}), order), replay);
  }
}

class ProfileOfFew : public testing::Test {
 protected:
  ProfileOfFew() {
    append_cgroup(records_, {.id = 5, .path = "/system.slice/nginx.service"}, {});
    append_fork(records_, {.pid = 10, .ppid = 1, .tid = 10, .ptid = 1, .exec = true}, {});
    append_comm(records_, {.pid = 10, .tid = 10, .name = "master"}, {});
    append_comm(records_, {.pid = 10, .tid = 11, .name = "worker"}, {});
    append_mmap2(
        records_,
        {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .name = "/usr/sbin/nginx", .is_program = true},
        Trailer{.reserved = kProgramMap});
    append_fork(records_, {.pid = 20, .ppid = 1, .tid = 20, .ptid = 1, .exec = true}, {});
    append_comm(records_, {.pid = 20, .tid = 20, .name = "other"}, {});
    append_sample(records_, {.pid = 10, .tid = 10, .cpu = 0, .time_ns = 1000, .ip = 0x400010, .cgroup = 5});
    append_sample(records_, {.pid = 10, .tid = 11, .cpu = 1, .time_ns = 2000, .ip = 0x400020, .cgroup = 5});
    append_sample(records_, {.pid = 20, .tid = 20, .cpu = 1, .time_ns = 3000, .ip = 0x400030, .period = 50});
    append_switch(records_, {.pid = 20, .tid = 20, .cpu = 1, .time_ns = 3500, .ip = 0x400040});
  }
  std::vector<std::string> comms(const ProfileFilter& only) {
    std::vector<std::string> out;
    for (const auto& [path, value] : stacks_of(profile_of(made_file(records_), {.only = only}), "cpu-clock"))
      out.push_back(path.substr(0, path.find(';')));
    return out;
  }
  RecordBuffer records_;
};

TEST_F(ProfileOfFew, EachFilterAlone) {
  using List = std::vector<std::string>;
  EXPECT_EQ(comms({}), (List{"master", "other", "worker"}));
  EXPECT_EQ(comms({.from_ns = 2000}), (List{"other", "worker"}));
  EXPECT_EQ(comms({.until_ns = 2000}), (List{"master", "worker"}));
  EXPECT_EQ(comms({.from_ns = 1001, .until_ns = 2999}), (List{"worker"}));
  EXPECT_EQ(comms({.cpu = 1}), (List{"other", "worker"}));
  EXPECT_EQ(comms({.pid = 10}), (List{"master", "worker"}));
  EXPECT_EQ(comms({.tid = 11}), (List{"worker"}));
  EXPECT_EQ(comms({.comm = "worker"}), (List{"worker"}));
  EXPECT_EQ(comms({.comm = "*er"}), (List{"master", "other", "worker"}));
  EXPECT_EQ(comms({.comm = "work"}), (List{}));
  EXPECT_EQ(comms({.unit = "nginx.service"}), (List{"master", "worker"}));
  EXPECT_EQ(comms({.unit = "nginx"}), (List{"master", "worker"}));
  EXPECT_EQ(comms({.unit = "ngin"}), (List{}));
  EXPECT_EQ(comms({.unit = "[unknown]"}), (List{"other"}));
  EXPECT_EQ(comms({.program = "nginx"}), (List{"master", "worker"}));
  EXPECT_EQ(comms({.comm = "master", .program = "n*"}), (List{"master"}));
  EXPECT_EQ(comms({.event = "cpu-clock"}), (List{"master", "other", "worker"}));
  EXPECT_EQ(comms({.event = "context-*"}), (List{}));
}

// What the tree does not have of a sample.
TEST_F(ProfileOfFew, EachSampleIsPassedOn) {
  append_sample(records_, {.pid = 30, .tid = 30, .time_ns = 5000, .ip = 0x400030, .period = 1, .cgroup = 77});
  append_sample(records_, {.pid = 0, .tid = 0, .time_ns = 6000, .ip = 0x400030, .period = 1, .cgroup = 5});
  std::vector<CountedSample> samples;
  ProfileOrder order{.only = {.until_ns = 6000}};
  order.each = [&samples](const CountedSample& sample) { samples.push_back(sample); };
  const SnapshotProfile profile = profile_of(made_file(records_), order);
  ASSERT_EQ(samples.size(), profile.counts.counted);
  ASSERT_EQ(samples.size(), 6U);
  const auto text = [&](std::uint32_t number) { return profile.texts[number]; };
  const CountedSample& worker = samples[1];
  EXPECT_EQ(worker.event, 1U);
  EXPECT_EQ(worker.time_ns, 2000U);
  EXPECT_EQ(worker.cpu, 1U);
  EXPECT_EQ(worker.pid, 10U);
  EXPECT_EQ(worker.tid, 11U);
  EXPECT_EQ(worker.weight, 1000U);
  EXPECT_EQ(text(worker.process), "master") << "the process, not the thread";
  EXPECT_EQ(text(worker.unit), "nginx.service");
  EXPECT_EQ(text(worker.cgroup), "/system.slice/nginx.service");
  EXPECT_EQ(profile.text_of(profile.tree.nodes()[profile.tree.nodes()[worker.node].parent].frame), "worker");
  EXPECT_EQ(samples[3].event, 2U);
  EXPECT_EQ(text(samples[3].unit), "[unknown]") << "the event has no cgroup";
  EXPECT_EQ(samples[4].cgroup, 0U) << "a cgroup without a path";
  EXPECT_EQ(text(samples[4].unit), "[unknown]");
  EXPECT_EQ(text(samples[5].unit), "") << "idle";
  StackValue sum;
  for (const CountedSample& sample : samples) sum.add({.samples = 1, .weight = sample.weight});
  EXPECT_EQ(profile.tree.totals()[0].all, sum);
}

// A kernel that is mapped from 0 on, as perf has it without kernel symbols: an offset in it would be an address.
TEST(Profile, AnAddressOfTheKernelIsNoOffset) {
  RecordBuffer records;
  append_kernel_mmap(records, 0, UINT64_MAX, 0, "[kernel.kallsyms]_text", {});
  append_comm(records, {.pid = 10, .tid = 10, .name = "task"}, {});
  append_sample(records, {.time_ns = 1000, .ip = kKernelCode + 0x10, .kernel = true});
  const FileReader file = made_file(records);
  const SnapshotProfile bare = profile_of(file);
  EXPECT_EQ(stacks_of(bare, "cpu-clock").begin()->first, "task;[unknown]");
  const std::string kallsyms = made_kallsyms();
  const SnapshotProfile named = profile_of(file, {.kallsyms = kallsyms});
  EXPECT_EQ(stacks_of(named, "cpu-clock").begin()->first, "task;kernel_0");
  for (const SnapshotProfile* profile : {&bare, &named})
    for (const StackFrame& frame : profile->frames) EXPECT_EQ(frame.offset, 0U);
}

TEST_F(ProfileOfFew, EventsAreApart) {
  const SnapshotProfile profile = profile_of(made_file(records_));
  const auto totals = profile.tree.totals();
  ASSERT_EQ(profile.events.size(), 3U);
  EXPECT_EQ(profile.events[1].name, "cpu-clock");
  EXPECT_EQ(profile.events[1].frequency, 99U);
  EXPECT_EQ(totals[profile.events[1].root].all, (StackValue{.samples = 3, .weight = 2050}));
  EXPECT_EQ(profile.events[2].frequency, 0U);
  EXPECT_EQ(totals[profile.events[2].root].all, (StackValue{.samples = 1, .weight = test::kSwitchPeriod}))
      << "a sample without a period has that of its event";
  EXPECT_EQ(totals[profile.events[0].root].all.samples, 0U);
  const auto none = SnapshotProfile::read(made_file(records_), {.only = {.event = "cycles"}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().errno_value(), EINVAL);
  EXPECT_THAT(none.error().what, testing::HasSubstr("'cycles'"));
}

TEST_F(ProfileOfFew, ChainsThatAreNoneAreCounted) {
  // The chain of a precise event begins elsewhere: the sample's own function is the innermost.
  append_sample(records_, {.time_ns = 4000, .ip = 0x400010, .chain = {kUserMark, 0x400020, 0x400030}, .cgroup = 5});
  // A context that there is not, and one of a guest: perf discards these chains, too.
  append_sample(records_, {.time_ns = 4001, .ip = 0x400050, .chain = {kUserMark, 0x400020, ~std::uint64_t{0} - 700}});
  append_sample(records_,
                {.time_ns = 4002, .ip = 0x400050, .chain = {static_cast<std::uint64_t>(PERF_CONTEXT_GUEST), 0x400020}});
  // Longer than its record.
  const std::size_t begin = records_.size();
  append_sample(records_, {.time_ns = 4003, .ip = 0x400050, .chain = {kUserMark, 0x400050}});
  const std::uint64_t million = 1'000'000;
  std::memcpy(records_.data() + begin + 56, &million, sizeof million);
  // Deeper than any kernel records.
  std::vector<std::uint64_t> deep(8000, 0x400060);
  deep.front() = kUserMark;
  append_sample(records_, {.time_ns = 4004, .ip = 0x400060, .chain = deep});
  const SnapshotProfile profile = profile_of(made_file(records_));
  const Sums stacks = stacks_of(profile, "cpu-clock");
  EXPECT_TRUE(stacks.contains("master;nginx+0x30;nginx+0x20;nginx+0x10"));
  ASSERT_TRUE(stacks.contains("master;nginx+0x50"));
  EXPECT_EQ(stacks.at("master;nginx+0x50").samples, 2U);
  EXPECT_EQ(profile.counts.bad_chains, 2U);
  EXPECT_EQ(profile.counts.malformed, 1U);
  EXPECT_EQ(profile.counts.cut_chains, 1U);
  EXPECT_EQ(profile.counts.samples, 9U);
  EXPECT_EQ(profile.counts.counted, 8U);
  std::string warnings;
  for (const std::string& warning : profile.warnings()) warnings += warning + "\n";
  EXPECT_THAT(warnings, testing::HasSubstr("1 sample left out"));
  EXPECT_THAT(warnings, testing::HasSubstr("2 stacks reduced"));
  EXPECT_THAT(warnings, testing::HasSubstr("only 1024 are shown"));
}

TEST_F(ProfileOfFew, CodeInNoMappingShowsNoAddress) {
  append_sample(records_,
                {.time_ns = 4000, .ip = 0x7ffe12345678, .chain = {kUserMark, 0x7ffe12345678, 0x7ffe99999999}});
  append_sample(records_, {.time_ns = 4001, .ip = 0xffffffffa1234567, .kernel = true});
  const SnapshotProfile profile = profile_of(made_file(records_));
  EXPECT_TRUE(stacks_of(profile, "cpu-clock").contains("master;[unknown];[unknown]"));
  EXPECT_TRUE(stacks_of(profile, "cpu-clock").contains("master;[unknown]"));
  for (const StackFrame& frame : profile.frames) EXPECT_LT(frame.offset, 0x1000U);
}

TEST_F(ProfileOfFew, LostRecordsAreCountedOnce) {
  append_lost(records_, {.id = test::kClockId, .lost = 7}, made_trailer(10, 3000));
  append_lost(records_, {.id = test::kClockId, .lost = 5}, made_trailer(10, 3001));
  EXPECT_EQ(profile_of(made_file(records_)).counts.lost, 12U);
}

TEST_F(ProfileOfFew, AnUnknownIdIsNoSample) {
  const std::size_t begin = records_.size();
  append_sample(records_, {.time_ns = 4000, .ip = 0x400010});
  const std::uint64_t id = 999;
  std::memcpy(records_.data() + begin + 8, &id, sizeof id);
  const SnapshotProfile profile = profile_of(made_file(records_));
  EXPECT_EQ(profile.counts.unknown_ids, 1U);
  EXPECT_EQ(profile.counts.counted, 4U);
}

TEST(Profile, OfAFileWithoutSamples) {
  RecordBuffer records;
  append_comm(records, {.pid = 10, .tid = 10, .name = "idle"}, {});
  const SnapshotProfile profile = profile_of(made_file(records));
  EXPECT_EQ(profile.counts.samples, 0U);
  EXPECT_TRUE(stacks_of(profile, "cpu-clock").empty());
}

TEST_F(ProfileOfFew, AFileWithTooManyBytesIsRefused) {
  for (const bool compressed : {true, false}) {
    SCOPED_TRACE(compressed);
    ProfileOrder order;
    order.most_expanded_bytes = records_.size();
    EXPECT_TRUE(SnapshotProfile::read(made_file(records_, {.compressed = compressed}), order));
    --order.most_expanded_bytes;
    const auto profile = SnapshotProfile::read(made_file(records_, {.compressed = compressed}), order);
    ASSERT_FALSE(profile);
    EXPECT_EQ(profile.error().errno_value(), EFBIG);
  }
}

TEST_F(ProfileOfFew, ReadingEndsAtItsDeadline) {
  for (const bool compressed : {true, false}) {
    SCOPED_TRACE(compressed);
    ProfileOrder order;
    order.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
    EXPECT_TRUE(SnapshotProfile::read(made_file(records_, {.compressed = compressed}), order));
    order.deadline = std::chrono::steady_clock::now() - std::chrono::hours(1);
    const auto profile = SnapshotProfile::read(made_file(records_, {.compressed = compressed}), order);
    ASSERT_FALSE(profile);
    EXPECT_EQ(profile.error().errno_value(), ETIMEDOUT);
  }
}

// The visitor waits until the deadline is over.
TEST_F(ProfileOfFew, ReadingEndsBetweenTwoRecords) {
  for (EventTime time_ns = 4000; time_ns < 8000; ++time_ns)
    append_sample(records_, {.time_ns = time_ns, .ip = 0x400010});
  for (const bool compressed : {true, false}) {
    SCOPED_TRACE(compressed);
    const FileReader file = made_file(records_, {.compressed = compressed});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    std::size_t visited = 0;
    const auto read =
        read_records(file, {.deadline = deadline}, [&visited, deadline](std::span<const std::byte>) -> Result<void> {
          std::this_thread::sleep_until(deadline + std::chrono::milliseconds(1));
          ++visited;
          return {};
        });
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().errno_value(), ETIMEDOUT) << read.error().what;
    EXPECT_LE(visited, 256U);
  }
}

// The deadline is over when the last sample's program is to be read.
TEST_F(ProfileOfFew, NoNamesAreReadAfterTheDeadline) {
  BuildId build_id;
  build_id.size = 20;
  append_mmap2(
      records_,
      {.pid = 20, .tid = 20, .address = 0x500000, .bytes = 0x1000, .build_id = build_id, .name = "/nowhere/at/all"},
      {});
  append_sample(records_, {.pid = 20, .tid = 20, .cpu = 1, .time_ns = 4000, .ip = 0x500010});
  const FileReader file = made_file(records_);
  ProfileOrder order;
  order.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  EXPECT_EQ(profile_of(file, order).counts.unnamed.absent, 1U);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  order.deadline = deadline;
  order.each = [deadline](const CountedSample&) {
    std::this_thread::sleep_until(deadline + std::chrono::milliseconds(1));
  };
  const auto profile = SnapshotProfile::read(file, order);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().errno_value(), ETIMEDOUT) << profile.error().what;
}

// The events of `perf record`: it writes other trailers.
TEST(Profile, OfAnotherProgramsFileIsRefused) {
  UniqueFd fd = test::made_memfd();
  std::vector<FileEvent> events = test::made_events();
  for (FileEvent& event : events) event.attr.sample_type |= PERF_SAMPLE_ID;
  auto writer = FileWriter::create(fd.get(), events);
  ASSERT_TRUE(writer);
  RecordBuffer records;
  append_comm(records, {.pid = 10, .tid = 10, .name = "idle"}, {});
  ASSERT_TRUE(writer->append(records));
  ASSERT_TRUE(writer->finish(Features{.hostname = "box"}));
  const auto file = FileReader::open(fmt::format("/proc/self/fd/{}", fd.get()));
  ASSERT_TRUE(file) << file.error().what;
  const auto profile = SnapshotProfile::read(*file, {});
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().errno_value(), ENOTSUP) << profile.error().what;
}

// Whatever the bytes are: an answer or an error, and no sample is counted twice or invented.
TEST_F(ProfileOfFew, HostileBytes) {
  const std::string kallsyms = made_kallsyms();
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    RecordBuffer bad = records_;
    for (int changes = 0; changes < 3; ++changes) bad[random() % bad.size()] = static_cast<std::byte>(random() % 256);
    const FileReader file = made_file(bad);
    const auto profile = SnapshotProfile::read(file, {.only = {.program = "*"}, .kallsyms = kallsyms});
    if (!profile) continue;
    const auto totals = profile->tree.totals();
    EXPECT_EQ(totals[0].all.samples, profile->counts.counted);
    EXPECT_LE(profile->counts.counted + profile->counts.malformed + profile->counts.unknown_ids,
              profile->counts.samples);
  }
}

}  // namespace
}  // namespace flight
