// SPDX-License-Identifier: Apache-2.0
// Scans of this machine's real /proc, in which the maps of one process or of all processes hang.
#include "daemon/broker/scan/scan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <thread>

#include "daemon/broker/scan/maps_readers.hpp"
#include "libcore/perf/record.hpp"
#include "tests/unit/daemon/broker/users_process.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using testing::HasSubstr;
using testing::IsEmpty;

// Blocks the reads of the chosen processes until the object ends.
class Hang {
 public:
  ~Hang() { release(); }
  void release() {
    released_ = true;
    while (hanging_ > 0) std::this_thread::sleep_for(1ms);
  }
  void wait() {
    ++hanging_;
    while (!released_) std::this_thread::sleep_for(1ms);
    --hanging_;
  }
  [[nodiscard]] int hanging() const { return hanging_; }

 private:
  std::atomic<bool> released_ = false;
  std::atomic<int> hanging_ = 0;
};

struct Found {
  std::set<std::uint32_t> processes, named, with_maps, partly;
  std::map<std::uint32_t, std::string> programs;
  bool all_listed = false;
  EventTime began_ns = 0, oldest_ns = ~EventTime{0};  // of the end, and of all records
};
Found found_in(const ScanAnswer& answer) {
  Found found;
  std::span<const std::byte> rest = answer.records.bytes();
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    EXPECT_FALSE(found.all_listed) << "nothing follows it";
    const std::uint32_t mark = parse_trailer(record)->reserved;
    if (const auto task = parse_task(record)) {
      found.processes.insert(task->pid);
      if (mark == kScanPartly) found.partly.insert(task->pid);
      EXPECT_EQ(mark == kScanUnread && task->time_ns != 0, false);
    }
    if (const auto comm = parse_comm(record)) found.named.insert(comm->pid);
    if (const auto map = parse_mmap2(record)) {
      if (map->bytes != 0) found.with_maps.insert(map->pid);
      if (map->is_program) {
        EXPECT_TRUE(found.programs.emplace(map->pid, map->name).second) << "it is there twice";
      }
    }
    found.oldest_ns = std::min(found.oldest_ns, parse_trailer(record)->time_ns);
    if (mark != kScanAllListed) continue;
    found.all_listed = lost_fields(record)->id == found.processes.size();
    found.began_ns = parse_trailer(record)->time_ns;
  }
  return found;
}

constexpr ScanLimits kLimits{.process = 600ms, .whole = 6s};
constexpr std::size_t kThreads = 8;

// Idle children of another user.
class Sleepers {
 public:
  Sleepers(int count, uid_t uid) {
    for (int i = 0; i < count; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        if (::setresuid(uid, uid, uid) != 0) ::_exit(1);
        for (;;) ::pause();
      }
      pids_.push_back(pid);
    }
    // Waits until each of them has changed its user.
    for (const pid_t pid : pids_)
      for (int i = 0; i < 1000; ++i) {
        struct stat status {};
        if (::stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 && status.st_uid == uid) break;
        std::this_thread::sleep_for(1ms);
      }
  }
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;
  ~Sleepers() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  [[nodiscard]] bool contains(std::uint32_t pid) const {
    return std::find(pids_.begin(), pids_.end(), static_cast<pid_t>(pid)) != pids_.end();
  }

 private:
  std::vector<pid_t> pids_;
};

class Scan : public test::RootTest {
 protected:
  // A read that hangs counts in the next scan, too.
  ~Scan() override {
    hang_->release();
    EXPECT_TRUE(threads_.wait_idle(5s));
  }
  Result<ScanAnswer> scan(ScanReads reads, ScanLimits limits = kLimits) {
    auto scan = ProcessScan::begin(threads_, Manifest{}, limits, std::move(reads));
    if (!scan) return propagate(scan.error());
    scan->wait();
    return scan->take();
  }
  const std::uint32_t own_ = static_cast<std::uint32_t>(::getpid());
  std::shared_ptr<Hang> hang_ = std::make_shared<Hang>();
  BlockingThreads threads_ = BlockingThreads::start("scan", kThreads).value();
};

TEST_F(Scan, AllOfItWhereNothingHangs) {
  const EventTime before_ns = monotonic_now();
  const auto answer = scan({}, ScanLimits{});
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_THAT(answer->warning, IsEmpty());
  const Found found = found_in(*answer);
  EXPECT_TRUE(found.with_maps.contains(own_));
  EXPECT_TRUE(found.processes.contains(1));
  EXPECT_THAT(found.partly, IsEmpty());
  EXPECT_EQ(found.named, found.processes);
  EXPECT_TRUE(found.all_listed);
  EXPECT_GE(found.began_ns, before_ns);
  EXPECT_EQ(found.began_ns, found.oldest_ns) << "flightd takes it for the scan's time";
}

// Each thread says it when it has done its part, which may be after the result was taken.
TEST_F(Scan, WhatItTookOfACpuIsSaid) {
  const auto used_ns = std::make_shared<std::atomic<std::int64_t>>(0);
  const auto parts = std::make_shared<std::atomic<int>>(0);
  const auto answer = scan({.used = [used_ns, parts](std::chrono::nanoseconds of_part) {
    *used_ns += of_part.count();
    ++*parts;
  }});
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_TRUE(threads_.wait_idle(5s));
  EXPECT_GT(*used_ns, 0);
  EXPECT_GE(*parts, 2);
}

// A program can move its code to memory without a file, and keep nothing of its executable mapped.
TEST_F(Scan, TheExecutableIsKnownWhateverIsMapped) {
  const std::string path = std::filesystem::read_symlink("/proc/self/exe");
  EXPECT_EQ(found_in(scan({}, ScanLimits{}).value()).programs.at(own_), path);
  for (const bool other_memory : {false, true}) {
    const ScanReads reads{.mappings = [other_memory, own = own_](ProcessInfo& info) {
      read_mappings(info);
      if (info.pid != own) return;
      info.mappings.clear();
      if (other_memory) info.mappings.push_back({.address = 0x1000, .bytes = 0x1000, .name = "//anon"});
    }};
    const Found found = found_in(scan(reads, ScanLimits{}).value());
    EXPECT_EQ(found.with_maps.contains(own_), other_memory);
    EXPECT_EQ(found.programs.at(own_), path);
    EXPECT_THAT(found.partly, IsEmpty());
  }
}

TEST_F(Scan, OneThatHangsIsNamedAndTheOthersAreThere) {
  const ScanReads reads{.mappings = [own = own_, hang = hang_](ProcessInfo& info) {
    if (info.pid == own) hang->wait();
    read_mappings(info);
  }};
  for (int i = 0; i < 2; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const auto answer = scan(reads);
    ASSERT_TRUE(answer) << answer.error().what;
    EXPECT_LT(std::chrono::steady_clock::now() - begun, kLimits.whole);
    EXPECT_EQ(answer->incomplete, 1U);
    EXPECT_THAT(answer->warning, AllOf(HasSubstr("mappings of 1 process are missing (not read in time), so its code"),
                                       HasSubstr(fmt::format("{} (", own_))));
    const Found found = found_in(*answer);
    EXPECT_TRUE(found.named.contains(own_)) << "its name is known";
    EXPECT_EQ(found.partly, std::set<std::uint32_t>{own_});
    EXPECT_FALSE(found.with_maps.contains(own_));
    EXPECT_FALSE(found.with_maps.empty());
    EXPECT_EQ(found.programs.at(own_), std::filesystem::read_symlink("/proc/self/exe")) << "the link does not hang";
    EXPECT_TRUE(found.all_listed);
    EXPECT_EQ(hang_->hanging(), 1) << "a second scan does not wait for it again";
  }
}

TEST_F(Scan, WhereAllHangAllHaveTheirNames) {
  const ScanReads reads{.mappings = [hang = hang_](ProcessInfo&) { hang->wait(); }};
  auto fastest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 10; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const auto answer = scan(reads);
    fastest = std::min(fastest, std::chrono::steady_clock::now() - begun);
    ASSERT_TRUE(answer) << answer.error().what;
    EXPECT_GE(answer->incomplete, 4U);
    EXPECT_EQ(answer->unread, 0U);
    EXPECT_THAT(answer->warning, HasSubstr(" are missing (not read in time), so"));
    const Found found = found_in(*answer);
    EXPECT_EQ(found.named, found.processes);
    EXPECT_TRUE(found.named.contains(own_));
    EXPECT_TRUE(found.all_listed);
    EXPECT_LE(hang_->hanging(), static_cast<int>(kThreads - MapsReaders::kThreadsForNames));
  }
  EXPECT_LT(fastest, kLimits.process + 500ms) << "no longer than for one that hangs";
}

// A user that holds the locks of its processes, or lets them wait for a disk of its own.
TEST_F(Scan, OneUserTakesNoMappingsOfOthers) {
  const Sleepers his(10, 54321);
  const Sleepers others(10, 54322);
  const ScanReads reads{.mappings = [&his, hang = hang_](ProcessInfo& info) {
    if (his.contains(info.pid)) hang->wait();
    read_mappings(info);
  }};
  for (int i = 0; i < 3; ++i) {
    const auto answer = scan(reads);
    ASSERT_TRUE(answer) << answer.error().what;
    EXPECT_EQ(answer->incomplete, 10U) << answer->warning;
    EXPECT_EQ(hang_->hanging(), 2);
    const Found found = found_in(*answer);
    EXPECT_EQ(found.partly.size(), 10U);
    std::size_t complete = 0;
    for (const std::uint32_t pid : found.processes) {
      EXPECT_EQ(his.contains(pid), found.partly.contains(pid));
      EXPECT_TRUE(found.named.contains(pid));
      if (others.contains(pid) && found.with_maps.contains(pid)) ++complete;
    }
    EXPECT_EQ(complete, 10U);
    EXPECT_TRUE(found.with_maps.contains(own_));
  }
  hang_->release();
}

// Many mappings with long paths, up to the limit of the reply.
TEST_F(Scan, OneUserLeavesSpaceForOthers) {
  const Sleepers his(30, 54321);
  const Sleepers others(10, 54322);
  const ScanReads reads{.mappings = [&](ProcessInfo& info) {
    read_mappings(info);
    const ProcessMapping huge{.address = 4096, .bytes = 4096, .inode = 1, .name = std::string(4000, 'x')};
    if (his.contains(info.pid)) info.mappings.assign(240, huge);  // 1 MB each: four of them fill the whole reply
    if (others.contains(info.pid)) info.mappings.assign(24, huge);
  }};
  for (const std::size_t bytes : {std::size_t{4} << 20U, std::size_t{64} << 20U}) {
    const auto answer = scan(reads, {.process = 5s, .whole = 20s, .bytes = bytes});
    ASSERT_TRUE(answer) << answer.error().what;
    EXPECT_LE(answer->records.size(), bytes + (1U << 20U)) << "names come on top";
    const Found found = found_in(*answer);
    EXPECT_TRUE(found.all_listed);
    EXPECT_EQ(found.named, found.processes);
    std::size_t complete = 0, of_others = 0;
    for (const std::uint32_t pid : found.with_maps) {
      complete += his.contains(pid) ? 1U : 0U;
      of_others += others.contains(pid) ? 1U : 0U;
    }
    EXPECT_EQ(of_others, 10U);
    EXPECT_TRUE(found.with_maps.contains(own_));
    if (bytes > (32U << 20U)) {
      EXPECT_EQ(complete, 30U) << "nobody else needs it";
      EXPECT_EQ(answer->incomplete, 0U);
    } else {
      EXPECT_GE(complete, 1U);
      EXPECT_LE(complete, 4U);
      EXPECT_EQ(answer->incomplete, 30U - complete);
      EXPECT_THAT(answer->warning, HasSubstr("are missing (limit of memory.max reached: raise memory.max), so"));
    }
  }
}

// The broker gets no CPU: processes that it could not read are still listed.
TEST_F(Scan, ProcessesThatWereNotLookedAtAreReportedByPid) {
  std::atomic<int> looked = 0;
  const ScanReads reads{.stat = [&looked](std::uint32_t pid, ProcessStat& out) {
    if (++looked == 3) std::this_thread::sleep_for(500ms);
    return read_stat(pid, out);
  }};
  const auto answer = scan(reads, {.process = 50ms, .whole = 200ms});
  ASSERT_TRUE(answer) << answer.error().what;
  const Found found = found_in(*answer);
  EXPECT_TRUE(found.all_listed);
  EXPECT_TRUE(found.processes.contains(own_)) << "with the pid alone";
  EXPECT_FALSE(found.named.contains(own_));
  EXPECT_EQ(found.named.size() + answer->unread, found.processes.size());
  EXPECT_THAT(answer->warning, AllOf(HasSubstr("; of "), HasSubstr(", only the pid is known")));
  EXPECT_TRUE(threads_.wait_idle(5s));
}

TEST_F(Scan, OneThatCannotBeReadIsNotGone) {
  const ScanReads reads{.stat = [own = own_](std::uint32_t pid, ProcessStat& out) {
    return pid == own ? Presence::unknown : read_stat(pid, out);
  }};
  const auto answer = scan(reads);
  ASSERT_TRUE(answer) << answer.error().what;
  const Found found = found_in(*answer);
  EXPECT_TRUE(found.processes.contains(own_));
  EXPECT_FALSE(found.named.contains(own_));
  EXPECT_EQ(answer->unread, 1U);
}

// The symbols of generated code in an answer, and the bits of their end; nullopt: there is no end.
struct FoundSymbols {
  std::vector<std::string> names;
  EventTime read_ns = 0;
  std::optional<std::uint64_t> bits;
};
FoundSymbols symbols_in(const ScanAnswer& answer) {
  FoundSymbols found;
  std::span<const std::byte> rest = answer.records.bytes();
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    if (const auto symbol = parse_ksymbol(record)) found.names.emplace_back(symbol->name);
    const auto trailer = parse_trailer(record);
    if (trailer->reserved != kScanSymbolsListed) continue;
    EXPECT_EQ(lost_fields(record)->id, found.names.size());
    found.bits = lost_fields(record)->lost;
    found.read_ns = trailer->time_ns;
  }
  return found;
}

GeneratedCode code_of(std::size_t count) {
  GeneratedCode out{.has_addresses = true};
  for (std::uint64_t i = 0; i < count; ++i)
    out.symbols.push_back({.address = 4096 * (i + 1), .bytes = 64, .bpf = true, .name = fmt::format("bpf_prog_{}", i)});
  return out;
}

TEST_F(Scan, HasTheGeneratedCode) {
  const EventTime before_ns = monotonic_now();
  const auto answer = scan({.symbols = [] { return Result<GeneratedCode>(code_of(2)); }});
  ASSERT_TRUE(answer) << answer.error().what;
  const FoundSymbols found = symbols_in(*answer);
  EXPECT_THAT(found.names, testing::ElementsAre("bpf_prog_0", "bpf_prog_1"));
  EXPECT_EQ(found.bits, 0U);
  EXPECT_GE(found.read_ns, before_ns);
  EXPECT_TRUE(found_in(*answer).all_listed);
}

TEST_F(Scan, WaitsForTheGeneratedCodeLongerThanForAProcess) {
  const auto answer = scan({.symbols =
                                [] {
                                  std::this_thread::sleep_for(400ms);
                                  return Result<GeneratedCode>(code_of(1));
                                }},
                           {.process = 50ms, .whole = 5s});
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_EQ(symbols_in(*answer).names.size(), 1U);
}

TEST_F(Scan, GeneratedCodeThatIsKnownIsNotReadAgain) {
  const auto first = scan({.symbols = [] { return Result<GeneratedCode>(code_of(3)); }});
  ASSERT_TRUE(first && first->symbols);
  std::atomic<int> reads = 0;
  auto again = ProcessScan::begin(threads_, Manifest{}, kLimits,
                                  {.symbols =
                                       [&reads] {
                                         ++reads;
                                         return Result<GeneratedCode>(code_of(0));
                                       }},
                                  {}, first->symbols);
  ASSERT_TRUE(again);
  again->wait();
  const auto second = again->take();
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_TRUE(threads_.wait_idle(5s));
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(symbols_in(*second).names, symbols_in(*first).names);
  EXPECT_EQ(symbols_in(*second).read_ns, symbols_in(*first).read_ns);
  EXPECT_TRUE(found_in(*second).all_listed);
  EXPECT_EQ(symbols_in(*second).bits, 0U);
}

TEST_F(Scan, GeneratedCodeIsBoundedAndSaysSo) {
  const auto answer = scan({.symbols = [] { return Result<GeneratedCode>(code_of(20000)); }},
                           {.process = 5s, .whole = 20s, .bytes = 1U << 20U});
  ASSERT_TRUE(answer) << answer.error().what;
  const FoundSymbols found = symbols_in(*answer);
  EXPECT_GT(found.names.size(), 1000U);
  EXPECT_LT(found.names.size(), 5000U) << "a quarter of the space";
  EXPECT_EQ(found.bits, kScanSymbolsCut);
}

TEST_F(Scan, WithoutAddressesNothingIsSaidOfGeneratedCode) {
  const auto answer = scan({.symbols = [] { return Result<GeneratedCode>(GeneratedCode{}); }});
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_FALSE(symbols_in(*answer).bits);
  EXPECT_EQ(answer->symbols, nullptr);
  EXPECT_TRUE(found_in(*answer).all_listed);
}

TEST(ProcessOwner, IsOneUserWithWhateverUids) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const test::UsersProcess plain(false), inside(true);
  for (const auto* process : {&plain, &inside}) {
    EXPECT_EQ(owner_of(process->pid()), test::UsersProcess::kUser);
    ProcessStat stat;
    EXPECT_EQ(ScanReads().stat(process->pid(), stat), Presence::there);
    EXPECT_EQ(stat.uid, test::UsersProcess::kUser);
  }
  EXPECT_EQ(owner_of(static_cast<std::uint32_t>(::getpid())), ::geteuid());
}

TEST(MapsReading, AUserHasTwoAndRootLeavesAsMany) {
  MapsReaders readers;
  const auto begin = [&](std::uint32_t pid, uid_t uid, std::chrono::milliseconds hangs_after = 1h) {
    return readers.begin(pid, uid, kThreads, hangs_after);
  };
  using Answer = MapsReaders::Answer;
  for (const std::uint32_t pid : {1U, 2U, 3U, 4U}) EXPECT_EQ(begin(pid, 0), Answer::yes);
  EXPECT_EQ(begin(5, 0), Answer::later);
  EXPECT_EQ(begin(5, 0, 0ms), Answer::no) << "they hang";
  EXPECT_EQ(begin(4, 0), Answer::no) << "a thread has it";
  EXPECT_EQ(begin(11, 1000), Answer::yes);
  EXPECT_EQ(begin(12, 1000), Answer::yes);
  EXPECT_EQ(begin(13, 1000), Answer::later);
  EXPECT_EQ(begin(21, 1001), Answer::later) << "the last two threads are for names";
  readers.end(1);
  EXPECT_EQ(begin(13, 1000), Answer::later);
  EXPECT_EQ(begin(21, 1001), Answer::yes);
}

TEST(Threads, OfThoseThatHangNobodyWaits) {
  const auto hang = std::make_shared<Hang>();
  {
    const BlockingThreads threads = BlockingThreads::start("x", 2).value();
    EXPECT_TRUE(threads.post([hang] { hang->wait(); }));
    EXPECT_FALSE(threads.wait_idle(20ms) && hang->hanging() == 1);
  }
  hang->release();
}

TEST(Threads, NoneIsARefusalAndNoException) {
  const BlockingThreads none;
  EXPECT_FALSE(none.post([] {}));
  EXPECT_FALSE(ProcessScan::begin(none, Manifest{}));
}

// In a child: a limit on its user's tasks counts those of the whole machine.
TEST(ThreadsDeathTest, TooFewAreAnErrorThatNamesTheLimit) {
  const auto with_few = [] {
    const rlimit limit{.rlim_cur = 1, .rlim_max = 1};
    if (::setrlimit(RLIMIT_NPROC, &limit) != 0 || (test::is_root() && ::setuid(65534) != 0)) ::_exit(2);
    const auto threads = BlockingThreads::start("x", 3);
    if (threads) ::_exit(3);
    fmt::print(stderr, "{}\n", threads.error().what);
    ::_exit(4);
  };
  EXPECT_EXIT(with_few(), testing::ExitedWithCode(4), "start the thread 'x'.*TasksMax");
}

// Otherwise an exception of a task would end the program with an abort, a core and no message.
TEST(ThreadsDeathTest, ATaskWithoutMemoryEndsTheProgramWithAMessage) {
  const auto without_memory = [] {
    const auto threads = BlockingThreads::start("x", 1);
    if (!threads || !threads->post([] { throw std::bad_alloc(); })) ::_exit(2);
    ::sleep(10);
    ::_exit(3);
  };
  EXPECT_EXIT(without_memory(), testing::ExitedWithCode(1), "thread 'x': out of memory");
}

}  // namespace
}  // namespace flight::broker
