// SPDX-License-Identifier: Apache-2.0
// Records as a scan produces them, and files of which one does not respond.
#include "daemon/broker/files/file_watch.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <functional>
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
std::atomic<std::chrono::milliseconds> used{0ms};  // of a CPU, by each task
std::atomic<int> hanging = 0, asked = 0, asked_at_other = 0, names_asked = 0;

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
  return MappedFileFacts{.build_id = std::vector<std::uint8_t>(20, static_cast<std::uint8_t>(at.file.inode)),
                         .host_path = {}};
}

void read_each(std::span<const MappedAt> files, const FileWatch::Steps& steps) {
  steps.has_helper(true);
  for (const MappedAt& at : files) steps.done(read_or_hang(at, steps.answered));
  steps.used(used.load(), 0ms);
  steps.has_helper(false);
}

RecordBuffer mapping(std::uint32_t major, std::uint64_t inode, std::string_view name = "/bin/x",
                     std::uint32_t pid = 1) {
  RecordBuffer out;
  append_mmap2(
      out, {.pid = pid, .tid = pid, .address = 4096, .bytes = 4096, .major = major, .inode = inode, .name = name}, {});
  return out;
}

class Watch : public testing::Test {
 protected:
  Watch() {
    used = 0ms;
    released = replaced = names_hang = false;
    names_asked = hanging = asked = asked_at_other = 0;
  }
  ~Watch() override {
    released = true;
    while (hanging > 0) std::this_thread::sleep_for(1ms);
  }
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
    const auto document = watch_.answer();
    EXPECT_TRUE(document);
    const auto bytes = read_sealed_memfd(*document, kMaxBuildIdsBytes);
    return *parse_build_ids(std::as_bytes(std::span<const char>(*bytes)));
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

// What hangs occupies no helper that others need.
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

// Nobody reads what is queued, and no snapshot waits for it.
TEST_F(Watch, WhereEveryHelperHangsItIsSettled) {
  watch_.note_scan(mapping(kHungDevice, 1, "/net/x", 1));
  EXPECT_TRUE(look_until([&] { return hanging == 1; }));
  watch_.note_scan(mapping(8, kHungInode, "/bin/y", 2));
  EXPECT_TRUE(look_until([&] { return hanging == 2 && watch_.settled(); }));
  watch_.note_scan(mapping(9, 3, "/bin/z", 3));
  watch_.look();
  EXPECT_TRUE(watch_.settled());
  EXPECT_EQ(known().unanswered.size(), 3U) << "also that of the file in the queue";
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
