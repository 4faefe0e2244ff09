// SPDX-License-Identifier: Apache-2.0
// Records as a scan produces them, and files of which one does not respond.
#include "daemon/broker/files/file_watch.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include "libcore/base/files.hpp"
#include "libcore/perf/record_build.hpp"
#include "tests/unit/daemon/broker/users_process.hpp"
#include "tests/unit/daemon/patience.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

constexpr std::uint32_t kHungDevice = 66, kServedDevice = 67, kHungProcess = 4'000'000'001,
                        kSlowProcess = 4'000'000'002;
constexpr std::uint64_t kHungInode = 9'000, kOtherInode = 9'999, kPlainInode = 8'000;  // plain: without a build-id
std::atomic<bool> released = false;
std::atomic<bool> replaced = false, names_hang = false;
std::atomic<std::chrono::milliseconds> used{0ms}, measured_cpu{0ms};  // of a CPU, by each task
constexpr EventTime kLaterNs = 1'000'000'000;
std::atomic<EventTime> looked_at_ns{kLaterNs};  // the files of records that have times
std::atomic<int> hanging = 0, asked = 0, asked_at_other = 0, names_asked = 0, tasks_read = 0;

void wait_for_release() {
  ++hanging;
  while (!released) std::this_thread::sleep_for(1ms);
  --hanging;
}

Result<MappedFileFacts> read_or_hang(const MappedAt& at, const std::function<void()>& answered) {
  if (at.by_name) {
    answered();
    ++names_asked;
    if (names_hang) wait_for_release();
    return MappedFileFacts{
        .build_id = {}, .host_path = replaced ? at.name + std::string(kNotTheHosts) : "", .was_read = false};
  }
  ++asked;
  if (at.file.inode == kOtherInode) asked_at_other = asked.load();
  if (at.pid == kHungProcess || at.pid == kSlowProcess) wait_for_release();
  if (at.pid == kHungProcess) return fail(std::errc::timed_out, "its helper was killed");
  answered();
  if (at.file.major == kHungDevice || at.file.inode == kHungInode) wait_for_release();
  if (at.file.major == kServedDevice)
    return MappedFileFacts{.build_id = {}, .host_path = {}, .was_read = false, .served_by = "fuse.sshfs"};
  if (at.file.inode == kPlainInode) return MappedFileFacts{.build_id = {}, .host_path = {}};
  const EventTime looked_ns = at.seen_ns != 0 ? looked_at_ns.load() : 0;
  return MappedFileFacts{.build_id = std::vector<std::uint8_t>(20, static_cast<std::uint8_t>(at.file.inode)),
                         .host_path = {},
                         .looked = {.wall = WallTime(static_cast<std::int64_t>(looked_ns)), .monotonic_ns = looked_ns}};
}

void read_each(std::span<const MappedAt> files, const FileWatch::Steps& steps) {
  steps.has_helper(true);
  for (const MappedAt& at : files) steps.done(read_or_hang(at, steps.answered));
  ++tasks_read;
  steps.used(used.load(), measured_cpu.load());
  steps.has_helper(false);
}

RecordBuffer mapping(std::uint32_t major, std::uint64_t inode, std::string_view name = "/bin/x", std::uint32_t pid = 1,
                     EventTime time_ns = 0) {
  RecordBuffer out;
  append_mmap2(out,
               {.pid = pid, .tid = pid, .address = 4096, .bytes = 4096, .major = major, .inode = inode, .name = name},
               {.time_ns = time_ns});
  return out;
}

KnownFiles known_by(FileWatch& watch) {
  const auto document = watch.answer();
  EXPECT_TRUE(document);
  const auto bytes = read_sealed_memfd(*document, kMaxBuildIdsBytes);
  return *parse_build_ids(std::as_bytes(std::span<const char>(*bytes)));
}

void reset_all() {
  used = measured_cpu = 0ms;
  looked_at_ns = kLaterNs;
  released = replaced = names_hang = false;
  names_asked = hanging = asked = asked_at_other = tasks_read = 0;
}
void release_all() {
  released = true;
  while (hanging > 0) std::this_thread::sleep_for(1ms);
}

class Watch : public testing::Test {
 protected:
  Watch() { reset_all(); }
  ~Watch() override { release_all(); }
  bool look_until(const std::function<bool()>& done) {
    return test::soon([&] {
      watch_.look();
      return done();
    });
  }
  bool wait_until_read(int files) {
    return test::soon([&] { return asked >= files && !threads_.busy(); }) && asked == files;
  }
  KnownFiles known() {
    std::this_thread::sleep_for(FileWatch::kSameFor);
    return known_by(watch_);
  }
  BlockingThreads threads_ = BlockingThreads::start("read", 2).value();
  FileWatch watch_{threads_, read_each};
};

TEST_F(Watch, ReadsEachFileOnceAndOnlyFiles) {
  for (int i = 0; i < 3; ++i)
    for (std::uint64_t inode = 1; inode <= 100; ++inode) watch_.note_scan(mapping(8, inode));
  watch_.note_scan(mapping(8, 0));
  watch_.note_scan(mapping(8, 500, "//anon"));
  watch_.note_scan(mapping(0, 501, "[vdso]"));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 100; }));
  EXPECT_EQ(known().files.size(), 100U);
  EXPECT_EQ(asked, 100);
}

TEST_F(Watch, FilesOfAServerAreUnreadAndSayWhy) {
  watch_.note_scan(mapping(kServedDevice, 1));
  watch_.note_scan(mapping(8, 2));
  EXPECT_TRUE(look_until([&] { return asked == 2 && watch_.settled(); }));
  EXPECT_EQ(known().files.size(), 1U);
  EXPECT_EQ(known().served,
            (std::vector<ServedDisk>{{.disk = {.major = kServedDevice, .minor = 0}, .type = "fuse.sshfs"}}));
  EXPECT_EQ(known().unanswered, std::vector<DeviceNumber>{});
}

TEST_F(Watch, ADiskThatHangsHoldsUpNoOther) {
  for (std::uint64_t inode = 1; inode <= 50; ++inode) {
    watch_.note_scan(mapping(kHungDevice, inode));
    watch_.note_scan(mapping(8, inode));
  }
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  EXPECT_EQ(hanging, 1) << "scans and other disks need the other threads";
  const KnownFiles meanwhile = known();
  EXPECT_EQ(meanwhile.files.size(), 50U) << "the other disk's";
  EXPECT_EQ(meanwhile.unanswered, (std::vector<DeviceNumber>{{.major = kHungDevice, .minor = 0}}));
  released = true;
  EXPECT_TRUE(look_until([&] { return asked == 100 && watch_.settled(); }));
  EXPECT_EQ(known().files.size(), 100U) << "a disk that was slow: its files are read when it answers";
  EXPECT_EQ(known().unanswered, std::vector<DeviceNumber>{});
}

// One task reads the files of a process: what it has read counts, and the rest is read when the disk answers.
TEST_F(Watch, AFileThatHangsTakesOnlyTheRestOfItsTask) {
  for (const std::uint64_t inode : {std::uint64_t{1}, std::uint64_t{2}, kHungInode, std::uint64_t{3}})
    watch_.note_scan(mapping(8, inode));
  EXPECT_TRUE(look_until([&] { return hanging == 1 && watch_.settled(); }));
  EXPECT_EQ(asked, 3) << "of one process and one disk: one after the other";
  EXPECT_EQ(known().files.size(), 2U);
  std::this_thread::sleep_for(FileTable::kRetryAfter);
  watch_.note_scan(mapping(8, 4, "/bin/y", 2));
  watch_.note_scan(mapping(9, 5, "/bin/z", 2));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 4; }));
  EXPECT_EQ(known().files.size(), 3U) << "of another disk; the disk that hangs must not take the last helper";
  released = true;
  EXPECT_TRUE(look_until([&] { return hanging == 0 && watch_.settled() && known().files.size() == 6U; }));
  EXPECT_EQ(asked, 6);
}

TEST_F(Watch, ATaskWakesOnceNotForEachFile) {
  for (std::uint64_t inode = 1; inode <= 10; ++inode) watch_.note_scan(mapping(8, inode));
  watch_.look();
  std::uint64_t wakes = 0;
  ASSERT_TRUE(wait_until_read(10));
  ASSERT_EQ(::read(threads_.wake_fd(), &wakes, sizeof wakes), static_cast<ssize_t>(sizeof wakes));
  EXPECT_EQ(wakes, 1U);
}

// Like a process that waits for a disk inside mmap(2): reads of /proc/PID/maps and map_files wait for it.
TEST_F(Watch, AProcessThatHangsHoldsUpNoOtherAndNoDisk) {
  watch_.note_scan(mapping(8, 1, "/lib/libc", kHungProcess));
  EXPECT_TRUE(look_until([&] { return hanging == 1 && watch_.settled(); }));
  EXPECT_EQ(known().hung_processes, 1U);
  std::this_thread::sleep_for(FileTable::kRetryAfter);
  for (std::uint64_t inode = 1; inode <= 50; ++inode) {
    watch_.note_scan(mapping(8, inode + 50, "/bin/x", kHungProcess));
    watch_.note_scan(mapping(8, inode));
  }
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  const KnownFiles meanwhile = known();
  EXPECT_EQ(meanwhile.files.size(), 50U) << "also libc, by another process";
  EXPECT_EQ(meanwhile.unanswered, std::vector<DeviceNumber>{});
  EXPECT_EQ(meanwhile.hung_processes, 1U);
  EXPECT_EQ(hanging, 1);
  // Its helper was killed: the process is not asked again for a while.
  released = true;
  EXPECT_TRUE(look_until([&] { return hanging == 0 && watch_.settled(); }));
  const int before = asked;
  watch_.note_scan(mapping(8, 200, "/bin/x", kHungProcess));
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  EXPECT_EQ(asked, before);
  EXPECT_EQ(known().hung_processes, 1U);
}

// A process that forks with much memory keeps the lock for a second; its helper lives.
TEST_F(Watch, AProcessThatWasOnlySlowIsAskedAgain) {
  watch_.note_scan(mapping(8, 1, "/bin/x", kSlowProcess));
  EXPECT_TRUE(look_until([&] { return hanging == 1 && watch_.settled(); }));
  EXPECT_EQ(known().hung_processes, 1U);
  released = true;
  EXPECT_TRUE(look_until([&] { return hanging == 0 && watch_.settled() && known().hung_processes == 0U; }));
  watch_.note_scan(mapping(8, 2, "/bin/y", kSlowProcess));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 2; }));
  EXPECT_EQ(known().files.size(), 2U);
}

// Reads that hang do not occupy the helpers that other reads need.
TEST_F(Watch, ManyThatHangLeaveAHelper) {
  for (std::uint32_t i = 0; i < 40; ++i) {
    watch_.note_scan(mapping(kHungDevice, i + 1, "/net/x", i + 1));
    EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  }
  EXPECT_EQ(hanging, 1);
  watch_.note_scan(mapping(8, 1, "/bin/x", 50));
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  EXPECT_EQ(known().files.size(), 1U);
}

// No helper is free to read the queued file, so no snapshot waits for it.
TEST_F(Watch, WhereEveryHelperHangsItIsSettled) {
  watch_.note_scan(mapping(kHungDevice, 1, "/net/x", 1));
  EXPECT_TRUE(look_until([&] { return hanging == 1; }));
  watch_.note_scan(mapping(8, kHungInode, "/bin/y", 2));
  EXPECT_TRUE(look_until([&] { return hanging == 2 && watch_.settled(); }));
  watch_.note_scan(mapping(9, 3, "/bin/z", 3));
  watch_.look();
  EXPECT_TRUE(watch_.settled());
  const KnownFiles meanwhile = known();
  EXPECT_EQ(meanwhile.unanswered,
            (std::vector<DeviceNumber>{{.major = 8, .minor = 0}, {.major = kHungDevice, .minor = 0}}));
  EXPECT_EQ(meanwhile.waiting,
            (std::vector<WaitingFile>{{.file = {.major = 9, .inode = 3}, .from_ns = 0, .is_next = true}}))
      << "it is not its disk's fault";
  released = true;
  EXPECT_TRUE(look_until([&] { return hanging == 0 && watch_.settled() && known().files.size() == 3U; }));
}

// It answered never, and its helper was killed before the main thread looked.
TEST_F(Watch, AProcessThatWasFoundSilentLateIsNotAskedAgain) {
  released = true;
  watch_.note_scan(mapping(8, 1, "/bin/x", kHungProcess));
  watch_.look();
  EXPECT_TRUE(wait_until_read(1));
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  EXPECT_EQ(known().hung_processes, 1U);
  std::this_thread::sleep_for(FileTable::kRetryAfter);
  watch_.note_scan(mapping(8, 2, "/bin/y", kHungProcess));
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  EXPECT_EQ(asked, 1);
}

// No helper is left: it must cost nothing, and nothing is forgotten.
TEST(WatchWithoutHelpers, IsTriedOnceASecond) {
  const BlockingThreads threads = BlockingThreads::start("read", 2).value();
  std::atomic<int> tries = 0;
  FileWatch watch(threads, [&tries](std::span<const MappedAt> files, const FileWatch::Steps& steps) {
    ++tries;
    for (std::size_t i = 0; i < files.size(); ++i)
      steps.done(fail(std::errc::device_or_resource_busy, "there is no helper"));
  });
  watch.note_scan(mapping(8, 1));
  watch.note_scan(mapping(9, 2));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(test::soon([&] {
    watch.look();
    return tries >= 3;
  })) << "of two files";
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 900ms);
  EXPECT_LE(tries, 4);
}

TEST_F(Watch, AUserTakesOneHelperWhateverHangs) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const test::UsersProcess one(false), other(false), inside(true);
  watch_.note_scan(mapping(kHungDevice, 1, "/net/x", one.pid()));
  watch_.note_scan(mapping(8, kHungInode, "/bin/y", other.pid()));
  watch_.note_scan(mapping(9, kHungInode, "/bin/z", inside.pid()));
  EXPECT_TRUE(look_until([&] { return hanging == 1 && watch_.settled(); }));
  watch_.note_scan(mapping(8, 1));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 2; }));
  EXPECT_EQ(hanging, 1);
  EXPECT_EQ(known().files.size(), 1U);
  EXPECT_EQ(known().unanswered.size(), 3U) << "the snapshot says what was not read";
  released = true;
  EXPECT_TRUE(look_until([&] { return hanging == 0 && watch_.settled() && known().files.size() == 4U; }));
}

// A user maps files faster than helpers read them.
TEST_F(Watch, UsersTakeTurns) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const test::UsersProcess user(false);
  for (std::uint64_t inode = 1; inode <= 5000; ++inode) watch_.note_scan(mapping(8, inode, "/bin/x", user.pid()));
  watch_.look();
  watch_.note_scan(mapping(8, kOtherInode, "/bin/y"));
  EXPECT_TRUE(look_until([&] { return asked_at_other > 0 && watch_.settled(); }));
  EXPECT_LT(asked_at_other, 100) << "others do not wait for the user's queue";
  EXPECT_GT(known().missed_bytes, 0U) << "his queue has a limit";
}

// His files cost more than his share of a CPU. (Virtually: nothing here uses it.)
TEST_F(Watch, AUserHasAShareOfACpuAndOthersDoNotWait) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const test::UsersProcess user(false);
  used = 1000ms;
  for (std::uint64_t inode = 1; inode <= 100; ++inode) watch_.note_scan(mapping(8, inode, "/bin/x", user.pid()));
  EXPECT_TRUE(look_until([&] { return asked == 16; })) << "one task";
  const auto until = std::chrono::steady_clock::now() + 500ms;
  while (std::chrono::steady_clock::now() < until) watch_.look();
  EXPECT_EQ(asked, 16) << "the next one comes in seconds";
  EXPECT_TRUE(watch_.settled()) << "a client does not wait for his files";
  EXPECT_TRUE(watch_.has_news()) << "they are read nevertheless";
  EXPECT_EQ(watch_.waiting_files(), 0U) << "his share over time is not used up";
  EXPECT_EQ(watch_.soon(), FileWatch::kSoon);
  for (std::uint64_t inode = 1; inode <= 100; ++inode) watch_.note_scan(mapping(9, inode));
  EXPECT_TRUE(look_until([&] { return asked == 116; })) << "root's";
}

// Programs that have ended before they are looked at are those of the user whose process forked them.
TEST_F(Watch, ShortProgramsAreTheirUsers) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  constexpr std::uint32_t kFirst = 4'100'000'000, kOther = 4'200'000'000;
  const test::UsersProcess user(false);
  const auto short_program = [&](std::uint32_t pid, std::uint32_t parent, std::uint64_t inode) {
    RecordBuffer out;
    append_fork(out, {.pid = pid, .ppid = parent, .tid = pid, .ptid = parent}, {});
    const RecordBuffer map = mapping(8, inode, "/bin/x", pid);
    out.insert(out.end(), map.begin(), map.end());
    watch_.note_recorded(out);
  };
  for (std::uint32_t i = 1; i <= 5000; ++i) short_program(kFirst + i, user.pid(), i);
  watch_.look();
  short_program(kOther, static_cast<std::uint32_t>(::getpid()), kOtherInode);
  EXPECT_TRUE(look_until([&] { return asked_at_other > 0; }));
  EXPECT_LT(asked_at_other, 100) << "others' short programs do not wait for his";
}

// perf takes what the name leads to, and that can be another file by now.
TEST_F(Watch, TheNameOfAFileWithoutABuildIdIsLookedAtForEachClient) {
  watch_.note_scan(mapping(8, kPlainInode));
  watch_.note_scan(mapping(8, 1, "/bin/y"));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 2; }));
  EXPECT_EQ(names_asked, 0) << "nobody asks";
  const auto path = [&] {
    std::this_thread::sleep_for(FileTable::kAskedAfter);
    watch_.look(true);
    for (int i = 0; i < 2000 && !watch_.settled(); ++i) {
      std::this_thread::sleep_for(1ms);
      watch_.look(true);
    }
    EXPECT_TRUE(watch_.settled());
    std::string out;
    for (const KnownFile& one : known().files) out += one.host_path;
    return out;
  };
  EXPECT_EQ(path(), "");
  EXPECT_EQ(names_asked, 1) << "once for a client";
  replaced = true;
  EXPECT_EQ(path(), "/bin/x (not the host's)");
  EXPECT_EQ(names_asked, 2);
}

TEST_F(Watch, ANameWhoseDiskHangsHoldsUpNoClient) {
  watch_.note_scan(mapping(8, kPlainInode));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 1; }));
  names_hang = true;
  std::this_thread::sleep_for(FileTable::kAskedAfter);
  watch_.look(true);
  EXPECT_FALSE(watch_.settled()) << "the client waits for it, for a while";
  EXPECT_TRUE(look_until([&] { return hanging == 1 && watch_.settled(); }));
  EXPECT_EQ(known().hung_processes, 0U);
  EXPECT_EQ(known().unanswered, std::vector<DeviceNumber>{}) << "its files are known";
  watch_.note_scan(mapping(9, 1, "/bin/y"));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 2; }));
  released = true;
  EXPECT_TRUE(look_until([&] { return hanging == 0 && watch_.settled(); }));
  names_hang = false;
  replaced = true;
  watch_.look(true);
  const auto is_found = [&] {
    const auto files = known().files;
    return std::any_of(files.begin(), files.end(), [](const KnownFile& one) { return !one.host_path.empty(); });
  };
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  EXPECT_TRUE(is_found());
}

TEST_F(Watch, AScanOfItsOwnLooksAtNewFilesOnly) {
  watch_.note_scan(mapping(8, 1));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 1; }));
  RecordBuffer both = mapping(8, 1);
  const RecordBuffer other = mapping(8, 2);
  both.insert(both.end(), other.begin(), other.end());
  watch_.note_scan(both, true);
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  EXPECT_EQ(asked, 2);
}

// Virtual, so that nothing depends on this machine: the time, and the CPU time of the main thread, which grows by a
// step with each look at it. A thread that reads may outlive the test.
std::atomic<std::int64_t> now_is_ns = 0, cpu_is_ns = 0, cpu_step_ns = 0;
std::atomic<std::thread::id> main_thread;

std::chrono::nanoseconds virtual_cpu_time() {
  if (std::this_thread::get_id() != main_thread.load()) return 0ms;
  return std::chrono::nanoseconds(cpu_is_ns += cpu_step_ns.load());
}
std::chrono::steady_clock::time_point virtual_now() {
  return std::chrono::steady_clock::time_point(std::chrono::steady_clock::duration(now_is_ns.load()));
}

// Processes that have ended, each of a user of its own.
constexpr std::uint32_t kEndedUsers = 4'250'000'000;
std::atomic<int> owners_asked = 0;

std::optional<uid_t> virtual_owner(std::uint32_t pid) {
  ++owners_asked;
  return pid >= kEndedUsers ? std::optional<uid_t>(pid) : owner_if_there(pid);
}

class ShareOfWatch : public test::RootTest {
 protected:
  ShareOfWatch() {
    if (test::is_root()) user_.emplace(false);
    reset_all();
    owners_asked = 0;
    now_is_ns = 1'000'000'000'000;
    cpu_step_ns = 0;
    main_thread = std::this_thread::get_id();
  }
  ~ShareOfWatch() override { release_all(); }
  static void pass(std::chrono::nanoseconds time) { now_is_ns += time.count(); }
  bool look_until(const std::function<bool()>& done, bool client_waits = false) {
    return test::soon([&] {
      watch_.look(client_waits);
      return done();
    });
  }
  // Everything that may be read was read.
  bool settle(bool client_waits = false) {
    return look_until([&] { return watch_.settled(); }, client_waits);
  }
  KnownFiles known() {
    pass(FileWatch::kSameFor);
    return known_by(watch_);
  }
  static std::set<std::uint64_t> inodes(const std::vector<WaitingFile>& files) {
    std::set<std::uint64_t> out;
    for (const WaitingFile& one : files) out.insert(one.file.inode);
    return out;
  }
  static bool any_is_next(const std::vector<WaitingFile>& files) {
    return std::any_of(files.begin(), files.end(), [](const WaitingFile& one) { return one.is_next; });
  }
  // A file of the user costs as much as that.
  void spend(std::chrono::milliseconds time, std::uint32_t pid) {
    const int before = tasks_read;
    measured_cpu = time;
    watch_.note_scan(mapping(8, 7'000 + static_cast<std::uint64_t>(before), "/bin/x", pid));
    EXPECT_TRUE(look_until([&] { return tasks_read == before + 1 && watch_.settled(); }));
    measured_cpu = 0ms;
  }
  void spend(std::chrono::milliseconds time) { spend(time, user()); }
  // New files, mapped one after the other.
  static RecordBuffer mappings(std::uint64_t first_inode, std::uint64_t count, std::uint32_t pid,
                               EventTime first_ns = 0) {
    RecordBuffer out;
    for (std::uint64_t i = 0; i < count; ++i) {
      const RecordBuffer one = mapping(8, first_inode + i, "/bin/x", pid, first_ns == 0 ? 0 : first_ns + i);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  [[nodiscard]] std::uint32_t user() const { return user_->pid(); }
  std::optional<test::UsersProcess> user_;
  BlockingThreads threads_ = BlockingThreads::start("read", 2).value();
  FileWatch watch_{threads_, read_each, {.now = virtual_now, .cpu = virtual_cpu_time}, virtual_owner};
};

// A FORK record of a new process with the pid of the one that hangs.
RecordBuffer fork_at(EventTime time_ns) {
  RecordBuffer out;
  append_fork(out, {.pid = kHungProcess, .ppid = 1, .tid = kHungProcess, .ptid = 1, .time_ns = time_ns},
              {.time_ns = time_ns});
  return out;
}

TEST_F(ShareOfWatch, AReadThatHangsIsCountedWhoeverHasTheNumberThen) {
  watch_.note_scan(mapping(8, 1, "/bin/x", kHungProcess, 1000));
  EXPECT_TRUE(look_until([] { return hanging == 1; }));
  watch_.note_recorded(fork_at(2000));
  released = true;  // its helper was killed
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(known().hung_processes, 1U) << "or its user's next one gets a helper, too";
}

TEST_F(ShareOfWatch, WhoseNumberASilentProcessHadIsAsked) {
  released = true;  // its helper was killed
  watch_.note_scan(mapping(8, 1, "/bin/x", kHungProcess, 1000));
  EXPECT_TRUE(look_until([&] { return asked == 1 && watch_.settled(); }));
  EXPECT_EQ(known().hung_processes, 1U);
  watch_.note_recorded(fork_at(999));
  watch_.note_scan(mapping(8, 2, "/bin/y", kHungProcess, 1001));
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, 1) << "the record of its own fork came late";
  watch_.note_recorded(fork_at(2000));
  EXPECT_TRUE(look_until([&] { return asked > 1; }));
  EXPECT_GE(known().hung_processes, 1U) << "the user's processes are counted on";
}

// The start of that process, in a scan.
RecordBuffer scanned_start(std::uint64_t boottime_ns) {
  RecordBuffer out;
  append_fork(
      out, {.pid = kHungProcess, .ppid = 1, .tid = kHungProcess, .ptid = 1, .time_ns = boottime_ns, .exec = true}, {});
  return out;
}

// The FORK of its successor was lost.
TEST_F(ShareOfWatch, AScanKnowsWhetherANumberIsStillThatOfASilentProcess) {
  released = true;  // its helper was killed
  watch_.note_scan(mapping(8, 1, "/bin/x", kHungProcess, 1000));
  EXPECT_TRUE(look_until([&] { return asked == 1 && watch_.settled(); }));
  watch_.note_scan(scanned_start(1));
  watch_.note_scan(mapping(8, 2, "/bin/y", kHungProcess, 1001));
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, 1) << "it is the same process";
  watch_.note_scan(scanned_start(boottime_now()));
  EXPECT_TRUE(look_until([&] { return asked > 1; }));
  EXPECT_GE(known().hung_processes, 1U) << "the user's processes are counted on";
}

TEST_F(ShareOfWatch, FilesThatWaitAreSaidAndReadLater) {
  measured_cpu = 500ms;
  for (std::uint64_t inode = 1; inode <= 200; ++inode) watch_.note_scan(mapping(8, inode, "/bin/x", user()));
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, 96) << "six tasks: 3 s of a CPU";
  EXPECT_TRUE(settle(true)) << "a client does not wait for the others";
  EXPECT_EQ(asked, 128) << "for which a part is kept";
  EXPECT_EQ(watch_.waiting_files(), 72U);
  EXPECT_TRUE(watch_.has_news()) << "they are read nevertheless";
  KnownFiles meanwhile = known();
  EXPECT_EQ(meanwhile.files.size(), 128U);
  EXPECT_EQ(meanwhile.waiting.size(), 72U);
  EXPECT_FALSE(any_is_next(meanwhile.waiting)) << "they wait for his share";
  EXPECT_EQ(*inodes(meanwhile.waiting).rbegin(), 72U) << "the newest were read first";
  EXPECT_EQ(meanwhile.unanswered, std::vector<DeviceNumber>{}) << "their disk has answered";
  EXPECT_EQ(meanwhile.missed_bytes, 0U);
  EXPECT_EQ(meanwhile.left_out_ns, 0U);
  // A new one does not go behind those that wait.
  watch_.note_scan(mapping(8, kOtherInode, "/bin/y", user()));
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked_at_other, 0);
  pass(101s);
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, 144);
  EXPECT_GT(asked_at_other, 128);
  pass(10'000s);
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, 201);
  EXPECT_EQ(watch_.waiting_files(), 0U);
  meanwhile = known();
  EXPECT_EQ(meanwhile.files.size(), 201U);
  EXPECT_TRUE(meanwhile.waiting.empty());
}

TEST_F(ShareOfWatch, NeverMoreThanSomeAtOnceAndOnePercent) {
  measured_cpu = 100ms;
  constexpr int kSteps = 2000, kFiles = 20;
  for (int i = 0; i < kSteps; ++i) {
    RecordBuffer records;
    for (int k = 0; k < kFiles; ++k) {
      const RecordBuffer one = mapping(8, static_cast<std::uint64_t>(100'000 + i * kFiles + k), "/bin/x", user());
      records.insert(records.end(), one.begin(), one.end());
    }
    watch_.note_recorded(records);
    ASSERT_TRUE(settle());
    pass(100ms);
  }
  EXPECT_LE(tasks_read.load() * 100ms, 3000ms + 2000ms + 100ms) << "and one item";
  EXPECT_GE(tasks_read.load() * 100ms, 3000ms + 2000ms - 200ms);
  EXPECT_LE(watch_.waiting_files(), OwnerQueues::kMaxQueued / 4);
  watch_.note_scan(mapping(8, kOtherInode));
  EXPECT_TRUE(settle());
  EXPECT_GT(asked_at_other, 0) << "nobody else waits";
}

// The CPU time for noting a user's files is charged while the user owes less than kNoticed. Beyond that it comes on top
// of the 1 % for reading, and is not limited.
TEST_F(ShareOfWatch, LooksComeBesideTheOnePercentOfReading) {
  constexpr std::chrono::microseconds kLook(500);
  constexpr int kSteps = 2000, kFiles = 20;
  measured_cpu = 100ms;
  for (int i = 0; i < kSteps; ++i) {
    cpu_step_ns = std::chrono::nanoseconds(kLook).count();
    watch_.note_scan(mappings(100'000 + static_cast<std::uint64_t>(i) * kFiles, kFiles, user()));
    cpu_step_ns = 0;
    ASSERT_TRUE(settle());
    pass(100ms);
  }
  const auto reads = tasks_read.load() * 100ms;
  EXPECT_LE(reads, 3000ms + 2000ms + 100ms) << "and one item";
  EXPECT_GE(reads, 3000ms + 2000ms - 200ms);
  EXPECT_LE(reads + kSteps * kLook, 3000ms + 2000ms + 100ms + 1000ms)
      << "as measured: half of a percent of looks in 200 s";
}

// Both have used up what is common.
TEST_F(ShareOfWatch, TwoUsersWhoAreHeldLeaveAThirdWhatIsHisOwn) {
  constexpr std::uint32_t kOne = kEndedUsers + 1, kOther = kEndedUsers + 2, kThird = kEndedUsers + 3;
  spend(10'000ms, kOne);
  spend(10'000ms, kOther);
  const int before = tasks_read;
  measured_cpu = 10ms;
  for (std::uint32_t disk = 20; disk < 25; ++disk) watch_.note_scan(mapping(disk, 1, "/bin/z", kThird));
  watch_.note_scan(mapping(8, 1, "/bin/x", kOne));
  watch_.note_scan(mapping(8, 2, "/bin/y", kOther));
  EXPECT_TRUE(settle());
  EXPECT_EQ(tasks_read, before + 3) << "30 ms";
  EXPECT_EQ(watch_.waiting_files(), 4U);
  EXPECT_TRUE(settle(true));
  EXPECT_EQ(tasks_read, before + 5) << "a snapshot has a part of what is common";
  EXPECT_EQ(watch_.waiting_files(), 2U);
  EXPECT_EQ(inodes(known().waiting), (std::set<std::uint64_t>{1, 2}));
}

TEST_F(ShareOfWatch, AFileThatOthersNeedDoesNotWaitWithHis) {
  spend(10'000ms);
  for (std::uint64_t inode = 1; inode <= 3; ++inode) watch_.note_scan(mapping(8, inode, "/bin/x", user()));
  EXPECT_TRUE(settle());
  EXPECT_EQ(watch_.waiting_files(), 3U);
  const int before = asked;
  watch_.note_scan(mapping(8, 2));
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before + 1);
  EXPECT_EQ(watch_.waiting_files(), 2U) << "what is left of it in his queue counts no more";
  EXPECT_EQ(inodes(known().waiting), (std::set<std::uint64_t>{1, 3}));
  pass(10'000s);
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before + 3) << "it is not read twice";
}

// Whatever he maps, only the newest is noted, so that it costs nearly nothing.
TEST_F(ShareOfWatch, OfAFloodTheNewestAreNotedAndAScanLooksForTheRest) {
  spend(10'000ms);
  RecordBuffer records;
  for (std::uint64_t inode = 1; inode <= 1000; ++inode) {
    const RecordBuffer one = mapping(8, inode, "/bin/x", user(), 100 + inode);
    records.insert(records.end(), one.begin(), one.end());
  }
  const RecordBuffer others = mapping(8, kOtherInode, "/bin/y", 1, 50);
  records.insert(records.begin(), others.begin(), others.end());
  watch_.note_recorded(records);
  EXPECT_TRUE(settle());
  EXPECT_GT(asked_at_other, 0);
  EXPECT_EQ(watch_.waiting_files(), 64U);
  KnownFiles meanwhile = known();
  EXPECT_EQ(inodes(meanwhile.waiting).size(), 64U);
  EXPECT_EQ(*inodes(meanwhile.waiting).begin(), 937U);
  EXPECT_EQ(meanwhile.left_out_ns, 100U + 936U);
  EXPECT_FALSE(watch_.wants_scan()) << "nothing of it could be read now";
  pass(10'000s);
  EXPECT_TRUE(watch_.wants_scan());
  watch_.begin_scan();
  EXPECT_FALSE(watch_.wants_scan());
  watch_.note_no_scan();
  EXPECT_TRUE(watch_.wants_scan()) << "it failed";
  watch_.begin_scan();
  watch_.note_scan(records, true);
  EXPECT_TRUE(settle());
  EXPECT_FALSE(watch_.wants_scan());
  EXPECT_EQ(known().files.size(), 1002U);
}

// It was passed over, and what was known of it before does not hold for that mapping.
TEST_F(ShareOfWatch, AScanAlsoLooksAtKnownFilesThatWereLeftOut) {
  looked_at_ns = 10;
  watch_.note_recorded(mapping(8, 7, "/bin/known", 1, 5));
  EXPECT_TRUE(settle());
  spend(10'000ms);
  RecordBuffer records = mapping(8, 7, "/bin/known", user(), 20);
  const RecordBuffer newer = mappings(100, 64, user(), 21);
  records.insert(records.end(), newer.begin(), newer.end());
  watch_.note_recorded(records);
  EXPECT_TRUE(settle());
  const auto known_until = [&](std::uint64_t inode) {
    const KnownFiles now = known();
    const auto found = std::find_if(now.files.begin(), now.files.end(),
                                    [inode](const KnownFile& one) { return one.file.inode == inode; });
    return found != now.files.end() ? found->to_ns : EventTime{0};
  };
  EXPECT_EQ(known().left_out_ns, 20U);
  EXPECT_EQ(known_until(7), 10U);
  pass(10'000s);
  looked_at_ns = 1'000;
  EXPECT_TRUE(settle());
  ASSERT_TRUE(watch_.wants_scan());
  watch_.begin_scan();
  watch_.note_scan(mapping(8, 7, "/bin/known", user(), 900), true);
  EXPECT_TRUE(settle());
  EXPECT_EQ(known_until(7), 1'000U);
  EXPECT_FALSE(watch_.wants_scan());
  // The next one finds nothing to do for him.
  const int before = asked;
  watch_.begin_scan();
  watch_.note_scan(mapping(8, 7, "/bin/known", user(), 2'000), true);
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before);
}

TEST_F(ShareOfWatch, ScansThatAreMadeForNobodyHaveAShare) {
  watch_.charge_scans(20s);
  spend(5'000ms);
  watch_.note_recorded(mappings(100, 65, user(), 20));
  pass(901s);
  EXPECT_FALSE(watch_.wants_scan()) << "he has a share again";
  pass(10'000s);
  EXPECT_TRUE(watch_.wants_scan());
}

TEST_F(ShareOfWatch, AScanIsPaidByThoseForWhomItIsMade) {
  constexpr std::uint32_t kOther = kEndedUsers + 1, kThird = kEndedUsers + 2;
  for (const std::uint32_t pid : {user(), kOther}) {
    spend(5'000ms, pid);
    watch_.note_recorded(mappings(pid + 10'000ULL, 65, pid, 20));
  }
  pass(10'000s);
  ASSERT_TRUE(settle());
  watch_.begin_scan();
  watch_.note_scan({}, true);
  watch_.charge_scans(10s);
  const int before = asked;
  for (const std::uint32_t pid : {user(), kOther, kThird}) watch_.note_scan(mapping(9, pid, "/bin/new", pid));
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before + 1) << "the third one's";
  EXPECT_EQ(inodes(known().waiting), (std::set<std::uint64_t>{user(), kOther})) << "they owe 5 s each";
  pass(401s);
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before + 3);
}

// The one who forked it is held, and root is not.
TEST_F(ShareOfWatch, AProcessThatBecameRootsDoesNotWaitWithItsParents) {
  spend(10'000ms);
  const auto own = static_cast<std::uint32_t>(::getpid());
  RecordBuffer records;
  append_fork(records, {.pid = own, .ppid = user(), .tid = own, .ptid = user()}, {});
  for (const std::uint32_t pid : {own, user()}) {
    const RecordBuffer one = mapping(8, pid == own ? kOtherInode : 1, "/bin/x", pid);
    records.insert(records.end(), one.begin(), one.end());
  }
  watch_.note_recorded(records);
  EXPECT_TRUE(settle());
  EXPECT_GT(asked_at_other, 0);
  EXPECT_EQ(inodes(known().waiting), std::set<std::uint64_t>{1});
}

TEST_F(ShareOfWatch, AFloodOfProcessesTakesFewLooksAtThem) {
  constexpr std::uint32_t kFirst = 4'100'000'000, kProcesses = 300;
  spend(10'000ms);
  RecordBuffer records;
  for (std::uint32_t i = 0; i < kProcesses; ++i) {
    const RecordBuffer one = mapping(8, 100 + i, "/bin/x", kFirst + i);
    records.insert(records.end(), one.begin(), one.end());
  }
  const int before = asked;
  owners_asked = 0;
  watch_.note_recorded(records);
  EXPECT_LE(owners_asked, 64);
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before + static_cast<int>(kProcesses)) << "nobody's, and read nevertheless";
}

// At the end of a client's patience: a disk that answers is not one that hangs.
TEST_F(ShareOfWatch, AFileWhoseTurnHasNotComeIsNotItsDisksFault) {
  watch_.note_scan(mapping(8, kHungInode, "/bin/slow", 1));
  EXPECT_TRUE(look_until([&] { return hanging == 1; }, true));
  watch_.note_scan(mapping(8, 5, "/bin/next", 2));
  watch_.look(true);
  EXPECT_FALSE(watch_.settled());
  KnownFiles at_once = known();
  EXPECT_EQ(at_once.unanswered, std::vector<DeviceNumber>{});
  EXPECT_EQ(inodes(at_once.waiting), (std::set<std::uint64_t>{5, kHungInode}));
  for (const WaitingFile& one : at_once.waiting) EXPECT_TRUE(one.is_next) << one.file.inode;
  EXPECT_EQ(watch_.waiting_files(), 0U) << "nobody has used up his share";
  pass(300ms);
  EXPECT_TRUE(settle(true));
  at_once = known();
  EXPECT_EQ(at_once.unanswered, (std::vector<DeviceNumber>{{.major = 8, .minor = 0}}));
  EXPECT_TRUE(at_once.waiting.empty());
  released = true;
  EXPECT_TRUE(look_until([&] { return hanging == 0 && watch_.settled() && asked == 2; }, true));
  at_once = known();
  EXPECT_EQ(at_once.files.size(), 2U);
  EXPECT_EQ(at_once.unanswered, std::vector<DeviceNumber>{});
}

// Otherwise the main thread would wake a hundred times a second for one file each time.
TEST_F(ShareOfWatch, WhatCollectsIsReadTogether) {
  spend(3'000ms);
  watch_.note_scan(mapping(8, 1, "/bin/x", user()));
  EXPECT_TRUE(settle());
  EXPECT_EQ(watch_.waiting_files(), 1U);
  EXPECT_TRUE(watch_.has_news());
  EXPECT_EQ(watch_.soon(), FileWatch::kSoon) << "he may go on in a moment";
  // A quarter of a CPU is a matter of milliseconds.
  constexpr std::uint32_t kOther = kEndedUsers + 1;
  used = 150ms;
  spend(1ms, kOther);
  used = 0ms;
  watch_.note_scan(mapping(9, 2, "/bin/y", kOther));
  watch_.look();
  EXPECT_EQ(watch_.soon(), 50ms);
}

// A helper can wait for a disk for hours.
TEST_F(ShareOfWatch, WhatCostsLateIsCharged) {
  measured_cpu = 10'000ms;
  watch_.note_scan(mapping(8, kHungInode, "/bin/x", user()));
  EXPECT_TRUE(look_until([&] { return hanging == 1; }));
  pass(1000s);
  EXPECT_TRUE(settle());
  released = true;
  EXPECT_TRUE(look_until([&] { return tasks_read == 1 && !threads_.busy(); }));
  EXPECT_TRUE(settle());
  measured_cpu = 0ms;
  const int before = asked;
  watch_.note_scan(mapping(8, 2, "/bin/y", user()));
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before);
  EXPECT_EQ(watch_.waiting_files(), 1U);
  pass(701s);
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before + 1);
}

TEST_F(ShareOfWatch, WhatTheBrokerItselfDoesIsChargedToTheSameUser) {
  cpu_step_ns = 1'000'000'000;
  for (std::uint64_t inode = 1; inode <= 4; ++inode) {
    watch_.note_recorded(mapping(8, inode, "/bin/x", user()));
    watch_.look();
  }
  cpu_step_ns = 0;
  EXPECT_TRUE(settle());
  EXPECT_EQ(watch_.waiting_files(), 0U) << "that alone, 1.5 s of the 4 s, keeps nobody waiting";
  EXPECT_EQ(asked, 4);
  spend(1'500ms);
  const int before = asked;
  watch_.note_recorded(mapping(8, 5, "/bin/x", user()));
  watch_.note_recorded(mapping(8, 6));
  EXPECT_TRUE(settle());
  EXPECT_EQ(asked, before + 1) << "root's";
  EXPECT_GE(watch_.waiting_files(), 1U);
}

// A user who renames threads for ever does not delay the files of users whose programs start meanwhile.
TEST_F(ShareOfWatch, RecordsOfSomethingElseAreNotChargedToThoseWhoMapFiles) {
  cpu_step_ns = 1'000'000'000;
  RecordBuffer renames;
  for (int i = 0; i < 10'000; ++i) append_comm(renames, {.pid = 77, .tid = 77, .name = "x"}, {});
  for (std::uint64_t inode = 1; inode <= 20; ++inode) {
    RecordBuffer records = renames;
    const RecordBuffer one = mapping(8, inode, "/bin/x", user());
    records.insert(records.end(), one.begin(), one.end());
    watch_.note_scan(records);
    watch_.note_recorded(renames);
    watch_.look();
  }
  cpu_step_ns = 0;
  watch_.note_recorded(mapping(8, 100, "/bin/x", user()));
  EXPECT_TRUE(settle());
  EXPECT_EQ(watch_.waiting_files(), 0U);
}

// No user is held back. The known facts about a name are valid until it has been looked at again.
TEST_F(ShareOfWatch, ANameThatIsLookedAtAgainIsKnownMeanwhile) {
  for (const std::uint32_t disk : {20U, 21U, 22U}) watch_.note_scan(mapping(disk, kPlainInode, "/bin/x", 1));
  EXPECT_TRUE(settle());
  names_hang = true;
  pass(1s);
  EXPECT_TRUE(look_until([&] { return hanging == 2; }, true));
  EXPECT_FALSE(watch_.settled()) << "the third one is in the queue";
  KnownFiles meanwhile = known();
  EXPECT_EQ(meanwhile.files.size(), 3U);
  EXPECT_TRUE(meanwhile.waiting.empty());
  released = true;
  EXPECT_TRUE(look_until([&] { return names_asked >= 3 && watch_.settled(); }, true));
  meanwhile = known();
  EXPECT_EQ(meanwhile.files.size(), 3U);
  EXPECT_TRUE(meanwhile.waiting.empty());
}

// perf takes what its name leads to, and that was not looked at.
TEST_F(ShareOfWatch, ANameThatCouldNotBeLookedAtIsSaid) {
  watch_.note_scan(mapping(8, kPlainInode, "/bin/x", user()));
  EXPECT_TRUE(settle());
  spend(10'000ms);
  pass(1s);
  EXPECT_TRUE(settle(true));
  EXPECT_EQ(names_asked, 0);
  EXPECT_EQ(known().waiting, (std::vector<WaitingFile>{{.file = {.major = 8, .inode = kPlainInode}, .from_ns = 0}}));
  pass(10'000s);
  EXPECT_TRUE(settle(true));
  EXPECT_GE(names_asked, 1);
  EXPECT_TRUE(known().waiting.empty());
}

TEST_F(ShareOfWatch, ANameIsSaidHoweverManyFilesWait) {
  watch_.note_scan(mapping(8, kPlainInode, "/bin/x", user()));
  EXPECT_TRUE(settle());
  spend(10'000ms);
  for (std::uint64_t i = 0; i < 5; ++i) watch_.note_scan(mappings(100'000 + i * 1'000, 1'000, user()));
  EXPECT_EQ(watch_.waiting_files(), OwnerQueues::kMaxQueued / 4) << "his queue is full";
  pass(1s);
  EXPECT_TRUE(settle(true));
  EXPECT_EQ(names_asked, 0);
  EXPECT_TRUE(inodes(known().waiting).contains(kPlainInode));
}

TEST_F(Watch, TheSameAnswerAsLongAsNothingChanged) {
  watch_.note_scan(mapping(8, 1));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 1; }));
  watch_.look();
  const auto first = watch_.answer();
  struct stat one {
  }, other{};
  ASSERT_EQ(::fstat(*first, &one), 0);
  std::this_thread::sleep_for(FileWatch::kSameFor);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(::fstat(*watch_.answer(), &other), 0);
    ASSERT_EQ(one.st_ino, other.st_ino);
  }
}

}  // namespace
}  // namespace flight::broker
