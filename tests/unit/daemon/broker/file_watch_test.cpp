// SPDX-License-Identifier: Apache-2.0
// Records as a scan produces them, and files of which one does not respond.
#include "daemon/broker/file_watch.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "libcore/base/files.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight::broker {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

constexpr std::uint32_t kHungDevice = 66, kServedDevice = 67, kHungProcess = 4'000'000'001;
constexpr std::uint64_t kHungInode = 9'000;
std::atomic<bool> released = false;
std::atomic<int> hanging = 0, asked = 0;

Result<MappedFileFacts> read_or_hang(const MappedAt& at) {
  ++asked;
  if (at.file.major == kHungDevice || at.pid == kHungProcess || at.file.inode == kHungInode) {
    ++hanging;
    while (!released) std::this_thread::sleep_for(1ms);
    --hanging;
  }
  if (at.file.major == kServedDevice)
    return MappedFileFacts{.build_id = {}, .host_path = {}, .was_read = false, .served_by = "fuse.sshfs"};
  return MappedFileFacts{.build_id = std::vector<std::uint8_t>(20, static_cast<std::uint8_t>(at.file.inode)),
                         .host_path = {}};
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
    released = false;
    hanging = asked = 0;
  }
  ~Watch() override {
    released = true;
    while (hanging > 0) std::this_thread::sleep_for(1ms);
  }
  bool look_until(const std::function<bool()>& done) {
    for (int i = 0; i < 2000; ++i) {
      watch_.look();
      if (done()) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }
  bool wait_until_read(int files) {
    for (int i = 0; i < 2000 && (asked < files || threads_.busy()); ++i) std::this_thread::sleep_for(1ms);
    return asked == files;
  }
  KnownFiles known() {
    std::this_thread::sleep_for(FileWatch::kSameFor);
    const auto document = watch_.answer();
    EXPECT_TRUE(document);
    const auto bytes = read_sealed_memfd(*document, kMaxBuildIdsBytes);
    return *parse_build_ids(std::as_bytes(std::span<const char>(*bytes)));
  }
  BlockingThreads threads_ = BlockingThreads::start("read", 10).value();
  FileWatch watch_{threads_, read_or_hang};
};

TEST_F(Watch, ReadsEachFileOnceAndOnlyFiles) {
  for (int i = 0; i < 3; ++i)
    for (std::uint64_t inode = 1; inode <= 100; ++inode) watch_.note(mapping(8, inode));
  watch_.note(mapping(8, 0));
  watch_.note(mapping(8, 500, "//anon"));
  watch_.note(mapping(0, 501, "[vdso]"));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 100; }));
  EXPECT_EQ(known().files.size(), 100U);
  EXPECT_EQ(asked, 100);
}

TEST_F(Watch, FilesOfAServerAreUnreadAndSayWhy) {
  watch_.note(mapping(kServedDevice, 1));
  watch_.note(mapping(8, 2));
  EXPECT_TRUE(look_until([&] { return asked == 2 && watch_.settled(); }));
  EXPECT_EQ(known().files.size(), 1U);
  EXPECT_EQ(known().served,
            (std::vector<ServedDisk>{{.disk = {.major = kServedDevice, .minor = 0}, .type = "fuse.sshfs"}}));
  EXPECT_EQ(known().unanswered, std::vector<DeviceNumber>{});
}

TEST_F(Watch, ADiskThatHangsHoldsUpNoOther) {
  for (std::uint64_t inode = 1; inode <= 50; ++inode) {
    watch_.note(mapping(kHungDevice, inode));
    watch_.note(mapping(8, inode));
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

// One task reads the files of a process: what it has read counts, and another way can read the rest.
TEST_F(Watch, AFileThatHangsTakesOnlyTheRestOfItsTask) {
  for (const std::uint64_t inode : {std::uint64_t{1}, std::uint64_t{2}, kHungInode, std::uint64_t{3}})
    watch_.note(mapping(8, inode));
  EXPECT_TRUE(look_until([&] { return hanging == 1 && watch_.settled(); }));
  EXPECT_EQ(asked, 3) << "of one process and one disk: one after the other";
  EXPECT_EQ(known().files.size(), 2U);
  std::this_thread::sleep_for(FileTable::kRetryAfter);
  watch_.note(mapping(8, 3, "/bin/x", 2));
  EXPECT_TRUE(look_until([&] { return watch_.settled() && asked == 4; }));
  EXPECT_EQ(known().files.size(), 3U) << "through another process";
  released = true;
  EXPECT_TRUE(look_until([&] { return hanging == 0 && !threads_.busy(); }));
  watch_.look();
  EXPECT_EQ(known().files.size(), 4U) << "it came back late";
  EXPECT_EQ(asked, 4) << "the rest is no longer its task";
}

TEST_F(Watch, ATaskWakesOnceNotForEachFile) {
  for (std::uint64_t inode = 1; inode <= 10; ++inode) watch_.note(mapping(8, inode));
  watch_.look();
  std::uint64_t wakes = 0;
  ASSERT_TRUE(wait_until_read(10));
  ASSERT_EQ(::read(threads_.wake_fd(), &wakes, sizeof wakes), static_cast<ssize_t>(sizeof wakes));
  EXPECT_EQ(wakes, 1U);
}

// Like a process that waits for a disk inside mmap(2): reads of /proc/PID/maps and map_files wait for it.
TEST_F(Watch, AProcessThatHangsHoldsUpNoOtherAndNoDisk) {
  watch_.note(mapping(8, 1, "/lib/libc", kHungProcess));
  EXPECT_TRUE(look_until([&] { return hanging == 1 && watch_.settled(); }));
  EXPECT_EQ(known().unanswered.size(), 1U) << "so far it can be the disk";
  std::this_thread::sleep_for(FileTable::kRetryAfter);
  for (std::uint64_t inode = 1; inode <= 50; ++inode) {
    watch_.note(mapping(8, inode + 50, "/bin/x", kHungProcess));
    watch_.note(mapping(8, inode));
  }
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  const KnownFiles meanwhile = known();
  EXPECT_EQ(meanwhile.files.size(), 50U) << "also libc, by another process";
  EXPECT_EQ(meanwhile.unanswered, std::vector<DeviceNumber>{});
  EXPECT_EQ(meanwhile.hung_processes, 1U);
  EXPECT_EQ(hanging, 1);
}

// Processes that hang occupy no thread that others need.
TEST_F(Watch, ManyThatHangLeaveThreads) {
  for (std::uint32_t i = 0; i < 40; ++i) {
    watch_.note(mapping(kHungDevice, i + 1, "/net/x", i + 1));
    EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  }
  EXPECT_LE(hanging, 3);
  watch_.note(mapping(8, 1, "/bin/x", 50));
  EXPECT_TRUE(look_until([&] { return watch_.settled(); }));
  EXPECT_EQ(known().files.size(), 1U);
}

TEST_F(Watch, TheSameAnswerAsLongAsNothingChanged) {
  watch_.note(mapping(8, 1));
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
