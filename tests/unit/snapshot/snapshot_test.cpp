// SPDX-License-Identifier: Apache-2.0
// The whole pipeline after a capture without rings: what the sidecar says about names comes from several sources.
#include "libcore/snapshot/snapshot.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "tests/unit/snapshot/made_recording.hpp"

namespace {

std::atomic<int> next_sync = 0, failing_sync = -1;  // their numbers; the first one is the data's
std::atomic<int> refusal_to_rename = 0;             // with flags
std::atomic<off_t> disk_end = 0;                    // a file with more bytes finds the disk full; 0: none does

}  // namespace

// This program's own fdatasync(2): one call can fail as on NFS with a full quota.
extern "C" int fdatasync(int fd) {
  if (next_sync++ != failing_sync) return static_cast<int>(::syscall(SYS_fdatasync, fd));
  errno = EDQUOT;
  return -1;
}

extern "C" ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  if (disk_end == 0 || offset + static_cast<off_t>(count) <= disk_end)
    return static_cast<ssize_t>(::syscall(SYS_pwrite64, fd, bytes, count, offset));
  errno = ENOSPC;
  return -1;
}

// A file system without RENAME_NOREPLACE.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (flags == 0 || refusal_to_rename == 0)
    return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
  errno = refusal_to_rename;
  return -1;
}

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class WriteSnapshot : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-snapshot-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    failing_sync = -1;
    refusal_to_rename = 0;
    disk_end = 0;
  }

  // `more`: a data directory with so many files beside `data`; 0: a file.
  Result<Sidecar> write(const TrackerExport& sideband, std::size_t more = 0) {
    const auto workers = WorkerPool::start(1).value();
    const auto staging = Staging::create({}).value();
    const std::vector<std::size_t> no_rings;
    const BlackoutLog no_blackouts;
    const RecordingFacts recording{.manifest = made_.manifest,
                                   .channel_rings = no_rings,
                                   .events = made_.events,
                                   .host = host_,
                                   .kernel = kernel_,
                                   .kallsyms = {}};
    const CaptureFacts capture{
        .staging = staging, .frozen_ns = MadeRecording::kEnd, .blackouts = no_blackouts, .lost = {}};
    if (more > 0) std::filesystem::create_directory(folder_ + "/data.partial");
    SnapshotOutput output{.data = file(more > 0 ? "data.partial/data" : "data.partial"),
                          .sidecar = file("sidecar.partial"),
                          .data_name = "data.partial",
                          .sidecar_name = "sidecar.partial",
                          .folder = folder_,
                          .seq = 1};
    for (std::size_t i = 0; i < more; ++i) output.more.push_back(file(fmt::format("data.partial/data.{}", i)));
    const auto tracker = [&](EventTime, EventTime, const std::unordered_set<std::uint32_t>&,
                             const std::unordered_set<std::uint64_t>&) { return sideband; };
    return write_snapshot(order_, recording, capture, std::move(output), tracker, *workers, memory_,
                          [](std::string_view, unsigned) {});
  }
  [[nodiscard]] UniqueFd file(const std::string& name) const {
    return open_file(folder_ + "/" + name, O_RDWR | O_CREAT | O_EXCL, 0640).value();
  }
  // The sidecar of the snapshot in the folder.
  [[nodiscard]] Result<Sidecar> stored() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (const std::string path = entry.path(); path.ends_with(kSidecarSuffix))
        return parse_sidecar(read_file(path).value());
    return fail(std::errc::no_such_file_or_directory, "no sidecar in {}", folder_);
  }

  // The one in the folder.
  [[nodiscard]] FileReader data() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (const std::string path = entry.path(); path.ends_with(kDataSuffix)) return FileReader::open(path).value();
    ADD_FAILURE() << "no file in " << folder_;
    return FileReader::open(folder_).value();
  }

  SnapshotOrder order_;
  StreamMemory memory_ = StreamMemory::create(1, 1).value();
  const MadeRecording made_{1, 64U << 10U};
  HostFacts host_;
  KernelNames kernel_;
  std::string folder_;
};

TEST_F(WriteSnapshot, TheNotesOfAllSourcesAreInTheSidecar) {
  TrackerExport sideband;
  sideband.notes = {"of the process tracker"};
  kernel_.looked_ns = kernel_.since_ns = MadeRecording::kEnd + 1;
  host_.own_pid_namespace = true;
  const auto written = write(sideband);
  ASSERT_TRUE(written) << written.error().what;
  const auto all = ElementsAre("of the process tracker", HasSubstr("flightd-broker was started within the window"),
                               HasSubstr("flightd runs in a container"));
  EXPECT_THAT(written->notes, all);
  const auto read = stored();
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_THAT(read->notes, all);
}

// As where it gets no memory; a level that it does not have is refused at the same place.
TEST_F(WriteSnapshot, WhereZstdRefusesTheFileIsPlainAndSaysSo) {
  const auto packed = write(TrackerExport());
  ASSERT_TRUE(packed) << packed.error().what;
  EXPECT_EQ(packed->compression, "zstd");
  EXPECT_TRUE(data().features().contains(kFeatureCompressed));
  EXPECT_THAT(packed->warnings, testing::Not(testing::Contains(HasSubstr("without compression"))));
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directory(folder_);
  order_.compression_level = 99;
  const auto plain = write(TrackerExport());
  ASSERT_TRUE(plain) << plain.error().what;
  EXPECT_EQ(plain->compression, "none");
  EXPECT_FALSE(data().features().contains(kFeatureCompressed));
  EXPECT_THAT(plain->warnings, testing::Contains(HasSubstr("use 1 to 19: stored without compression")));
  EXPECT_EQ(stored()->compression, "none");
}

TEST(HostFacts, WhatChangesWhileFlightdRunsIsReadAgain) {
  const HostFacts now = HostFacts::read({"flightd"});
  HostFacts old = now;
  old.host.hostname = "before";
  old.host.total_memory_kb = 7;
  old.numa = {{.node = 99}};
  old.pmus.clear();
  old.cpus_available = old.cpus_online = 999;
  old.online = {998};
  old.topology = {};
  const HostFacts again = old.again();
  EXPECT_EQ(again.host.hostname, now.host.hostname);
  EXPECT_EQ(again.host.total_memory_kb, now.host.total_memory_kb);
  EXPECT_EQ(again.host.cpu_description, now.host.cpu_description);
  EXPECT_EQ(again.numa.size(), now.numa.size());
  EXPECT_EQ(again.pmus, now.pmus);
  EXPECT_EQ(again.cpus_available, now.cpus_available);
  EXPECT_EQ(again.cpus_online, now.cpus_online);
  EXPECT_EQ(again.topology.cpus.size(), now.topology.cpus.size()) << "other CPUs are online";
  EXPECT_EQ(again.command_line, now.command_line);
}

// With fs.file-max reached, a snapshot's header said that the machine has one CPU and no memory.
TEST(HostFacts, WhatCannotBeReadNowStays) {
  const HostFacts now = HostFacts::read({"flightd"});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const HostFacts again = now.again();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GT(now.host.total_memory_kb, 0U);
  EXPECT_EQ(again.host.total_memory_kb, now.host.total_memory_kb);
  EXPECT_EQ(again.host.hostname, now.host.hostname);
  EXPECT_EQ(again.numa.size(), now.numa.size());
  EXPECT_EQ(again.pmus, now.pmus);
  EXPECT_EQ(again.cpus_available, now.cpus_available);
  EXPECT_EQ(again.cpus_online, now.cpus_online);
  EXPECT_EQ(again.online, now.online);
  EXPECT_EQ(again.topology.cpus.size(), now.topology.cpus.size());
}

TEST_F(WriteSnapshot, AFullQuotaThatIsReportedAtASyncGetsRoomOnce) {
  for (const int sync : {0, 1}) {  // of the data, of the sidecar
    SCOPED_TRACE(sync);
    std::vector<std::uint64_t> asked;
    order_.make_room = [&](std::uint64_t needed_bytes) {
      asked.push_back(needed_bytes);
      return true;
    };
    next_sync = 0;
    failing_sync = sync;
    const auto written = write({});
    ASSERT_TRUE(written) << written.error().what;
    EXPECT_EQ(next_sync, 3);
    ASSERT_EQ(asked.size(), 1U);
    EXPECT_GT(asked[0], 0U);
    const auto read = stored();
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read->path, written->path);
    EXPECT_EQ(std::filesystem::file_size(read->path), read->size_bytes);
    EXPECT_TRUE(data().for_each_record([](std::span<const std::byte>) -> Result<void> { return {}; }, expand));
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry.path());
    // And nothing is left of it without room.
    order_.make_room = [](std::uint64_t) { return false; };
    next_sync = 0;
    const auto refused = write({});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().errno_value(), EDQUOT);
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
  }
}

// It is several times as large as those before, which the store knows, and as what was written. In an earlier version
// there was room for as much again: the next write failed, too, and no later snapshot got any room.
TEST_F(WriteSnapshot, AFullDiskIsAskedForWhatTheWholeFileNeeds) {
  TrackerExport sideband;
  std::mt19937 random(7);
  // Few and large records. The begin of a path compresses little, the rest to nearly nothing.
  constexpr std::size_t kPath = 4000, kRandom = 700;
  for (std::uint64_t id = 1; id <= 14'000; ++id) {
    std::string path(kPath, 'x');
    for (std::size_t i = 0; i < kRandom; ++i) path[i] = static_cast<char>('!' + random() % 90);
    append_cgroup(sideband.prologue, {id, path}, {});
  }
  const auto whole = write(sideband);
  ASSERT_TRUE(whole) << whole.error().what;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry.path());
  constexpr std::uint64_t kFree = 3U << 20U;
  ASSERT_GT(whole->size_bytes, 2 * kFree + (1U << 20U));
  std::vector<std::uint64_t> asked;
  order_.make_room = [&](std::uint64_t needed_bytes) {
    asked.push_back(needed_bytes);
    disk_end = 0;
    return true;
  };
  disk_end = kFree;
  const auto written = write(sideband);
  ASSERT_TRUE(written) << written.error().what;
  EXPECT_EQ(written->size_bytes, whole->size_bytes);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_GE(kFree + asked[0], whole->size_bytes) << "with what is free already it fits";
  EXPECT_LT(asked[0], 2 * whole->size_bytes);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry.path());
  // Not more than it may have.
  asked.clear();
  order_.max_bytes = whole->size_bytes + 1;
  disk_end = kFree;
  ASSERT_TRUE(write(sideband));
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_LE(asked[0], whole->size_bytes);
}

TEST_F(WriteSnapshot, AFileSystemWithoutRenameFlagsIsUsed) {
  for (const int refusal : {EINVAL, ENOSYS, EOPNOTSUPP}) {
    refusal_to_rename = refusal;
    const auto written = write({});
    ASSERT_TRUE(written) << written.error().what;
    EXPECT_TRUE(stored());
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) std::filesystem::remove(entry.path());
  }
  refusal_to_rename = EEXIST;
  const auto refused = write({});
  ASSERT_FALSE(refused) << "the name is another snapshot's";
  EXPECT_EQ(refused.error().errno_value(), EEXIST);
}

// Readers other than perf take the first event for what was sampled, and a FORK of time 0 for a process's beginning.
TEST_F(WriteSnapshot, TheFirstEventIsASampledOne) {
  ASSERT_TRUE(write({}));
  std::vector<std::string> names;
  const FileReader file = data();
  for (const FileEvent& event : file.events()) names.push_back(event.name);
  EXPECT_THAT(names, ElementsAre("cpu-clock", "dummy:HG"));
}

TEST_F(WriteSnapshot, ForksThatSayNoMoreThanCommsAreLeftOut) {
  TrackerExport sideband;
  for (const std::uint32_t tid : {100U, 101U, 102U}) {
    const std::uint32_t parent = tid == 100 ? 1 : 100;
    append_fork(sideband.prologue, {100, parent, tid, parent, 0, true}, {});
    if (tid != 102) append_comm(sideband.prologue, {100, tid, "server"}, {});
  }
  ASSERT_TRUE(write(sideband));
  std::vector<std::string> found;
  const auto read = data().for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (const auto task = parse_task(record)) found.push_back(fmt::format("fork {}", task->tid));
        if (const auto comm = parse_comm(record)) found.push_back(fmt::format("comm {}", comm->tid));
        return {};
      },
      expand);
  EXPECT_TRUE(read);
  EXPECT_THAT(found, ElementsAre("comm 100", "comm 101", "fork 102"));
}

TEST_F(WriteSnapshot, ADirectoryHasTheSidebandInItsFirstFile) {
  TrackerExport sideband;
  append_comm(sideband.prologue, {100, 100, "server"}, {});
  append_comm(sideband.log, {100, 100, "later"}, {.time_ns = MadeRecording::kEnd - 5});
  const auto written = write(sideband, 2);
  ASSERT_TRUE(written) << written.error().what;
  const std::string path = written->path;
  ASSERT_TRUE(std::filesystem::is_directory(path));
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) bytes += entry.file_size();
  EXPECT_EQ(written->size_bytes, bytes);
  EXPECT_EQ(stored()->size_bytes, bytes);
  EXPECT_EQ(std::filesystem::file_size(path + "/data.0"), 0U) << "there is no ring";
  EXPECT_EQ(std::filesystem::file_size(path + "/data.1"), 0U);
  const FileReader file = data();
  EXPECT_TRUE(file.features().contains(kFeatureDirFormat));
  EXPECT_TRUE(file.features().contains(kFeatureCompressed));
  std::vector<std::string> names;
  std::size_t rounds = 0;
  const auto read = file.for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (const auto comm = parse_comm(record)) names.emplace_back(comm->name);
        rounds += load<std::uint32_t>(record.data()) == kRecordFinishedRound ? 1 : 0;
        return {};
      },
      expand);
  EXPECT_TRUE(read) << read.error().what;
  EXPECT_THAT(names, ElementsAre("server", "later"));
  EXPECT_EQ(rounds, 0U);
}

TEST_F(WriteSnapshot, ADirectoryOnAFullQuotaGetsRoomOnce) {
  std::vector<std::uint64_t> asked;
  order_.make_room = [&](std::uint64_t needed_bytes) {
    asked.push_back(needed_bytes);
    return true;
  };
  next_sync = 0;
  failing_sync = 1;  // of data.1
  const auto written = write({}, 2);
  ASSERT_TRUE(written) << written.error().what;
  EXPECT_EQ(next_sync, 2 + 3 + 1) << "again all three, and the sidecar";
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_GT(asked[0], 0U);
  EXPECT_TRUE(data().for_each_record([](std::span<const std::byte>) -> Result<void> { return {}; }, expand));
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directory(folder_);
  // And nothing is left of it without room.
  order_.make_room = [](std::uint64_t) { return false; };
  next_sync = 0;
  const auto refused = write({}, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EDQUOT);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace flight
