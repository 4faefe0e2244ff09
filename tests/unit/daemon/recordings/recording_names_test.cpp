// SPDX-License-Identifier: Apache-2.0
// The names and build-ids that a recording writes, and when it asks the broker for them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libcore/perfdata/reader.hpp"
#include "libcore/stream/journal.hpp"
#include "tests/unit/daemon/recordings/recordings_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(PartContextTest, EachWarningIsSaidOnceAndNotWithoutALimit) {
  PartContext context(RecordedRings(), std::make_shared<const KernelSymbols>(), KernelWindow(),
                      HostFacts::read({"test"}));
  context.warn({"one", "two"});
  context.warn({"two"});
  EXPECT_THAT(context.warnings(), ElementsAre("one", "two"));
  for (int i = 0; i < 100; ++i) context.warn({fmt::format("number {}", i)});
  EXPECT_EQ(context.warnings().size(), PartContext::kMaxWarnings);
}

TEST(PartContextTest, EachBuildIdIsForTheJournalOnce) {
  PartContext context(RecordedRings(), std::make_shared<const KernelSymbols>(), KernelWindow(),
                      HostFacts::read({"test"}));
  const TrackerExport::UserBuildId one{.id = {.bytes = {1, 2}, .size = 20}, .name = "/one"};
  const TrackerExport::UserBuildId two{.id = {.bytes = {3}, .size = 8}, .name = "/two"};
  context.add_build_ids({one});
  ASSERT_EQ(context.more_build_ids().size(), 1U);
  context.add_build_ids({one, two});
  const std::vector<FileBuildId> more = context.more_build_ids();
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].name, "/two");
  EXPECT_THAT(more[0].id, ElementsAre(3, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_FALSE(more[0].kernel);
  EXPECT_TRUE(context.more_build_ids().empty());
}

// The recorder's clock stands, so no scan is due, until the test advances it.
class ScansByClockTest : public RecordingsTest {
 protected:
  ScansByClockTest() { bench_.clock.emplace(); }
};

// After a loss and its scan, a part has the name of a process again, at the time of the round before.
TEST_F(ScansByClockTest, APartHasTheNamesAgainWhenAScanHasConfirmedThem) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  ASSERT_NO_FATAL_FAILURE(fill(call, 8192));
  lose_a_sideband_record(*bench_.recorder->attached());
  // Some rounds may have ended before. The first one after the loss waits for the scan, a second.
  for (int i = 0; i < 8; ++i) {
    ASSERT_NO_FATAL_FAILURE(fill(call, 8192));
  }
  bench_.clock->advance(std::chrono::nanoseconds(ScanPace::kSoonNs));
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return call.answer || !bench_.recorder->export_window(0, UINT64_MAX, {kUnknownPid}).stats.stale;
  }));
  for (int i = 0; i < 2; ++i) {
    ASSERT_NO_FATAL_FAILURE(fill(call, 8192));
  }
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  const auto reader = FileReader::open(result.paths[0]);
  ASSERT_TRUE(reader) << reader.error().what;
  std::vector<std::pair<EventTime, std::string>> names;  // of the process that only scans know
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (const auto comm = parse_comm(record); comm && comm->pid == kUnknownPid)
          names.emplace_back(parse_trailer(record)->time_ns, comm->name);
        return {};
      },
      expand);
  ASSERT_TRUE(read) << read.error().what;
  ASSERT_GE(names.size(), 3U);
  EXPECT_EQ(names.front(), std::pair(EventTime{0}, std::string("first")));
  EXPECT_EQ(names.back().second, "first") << "confirmed";
  EXPECT_GT(names.back().first, 0U) << "not before what is in earlier rounds";
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), [](const auto& one) { return one.second == kLostName; }));
}

// The broker's thread has others to serve, and a machine may map files all the time.
TEST_F(RecordingTimesTest, TheBrokerIsAskedForBuildIdsOnceASecond) {
  const auto map_code = [] {
    const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    constexpr std::size_t kPage = 4096;
    void* code = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
    ASSERT_NE(code, MAP_FAILED);
    ::munmap(code, kPage);
  };
  const auto before = bench_.broker->asked(Request::build_ids);
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  const auto map_until_asked = [&](std::ptrdiff_t times) {
    return loop_.until([&] {
      map_code();
      fault(400);
      return call.answer || bench_.broker->asked(Request::build_ids) >= times;
    });
  };
  const auto map_for_rounds = [&] {
    for (int i = 0; i < 4; ++i) {
      ASSERT_NO_FATAL_FAILURE(map_code());
      ASSERT_NO_FATAL_FAILURE(fill(call, 8192));
    }
  };
  ASSERT_TRUE(map_until_asked(before + 2)) << "for the first part, and with the first mapping";
  ASSERT_NO_FATAL_FAILURE(map_for_rounds());
  EXPECT_EQ(bench_.broker->asked(Request::build_ids), before + 2);
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(map_until_asked(before + 3));
  ASSERT_NO_FATAL_FAILURE(map_for_rounds());
  EXPECT_EQ(bench_.broker->asked(Request::build_ids), before + 3);
  static_cast<void>(stop(call));
}

// Maps a memfd: nothing else maps its inode, and no file system gives it another number.
class MappedLastTest : public RecordingTimesTest {
 protected:
  static constexpr const char* kMappedName = "/memfd:mapped-last (deleted)";
  static constexpr std::size_t kPage = 4096;

  void make_file() {
    file_ = UniqueFd(::memfd_create("mapped-last", MFD_CLOEXEC));
    ASSERT_TRUE(file_);
    ASSERT_EQ(::ftruncate(file_.get(), kPage), 0);
  }
  // This process maps it as code, for a moment.
  void map_file() {
    if (!file_) {
      ASSERT_NO_FATAL_FAILURE(make_file());
    }
    void* code = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file_.get(), 0);
    ASSERT_NE(code, MAP_FAILED);
    ::munmap(code, kPage);
  }
  // As its mapping's record has it, but for the generation.
  [[nodiscard]] FileIdentity identity() const {
    struct stat status {};
    EXPECT_EQ(::fstat(file_.get(), &status), 0);
    return {.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino, .generation = 0};
  }

  UniqueFd file_;
};

// Its record was written with the broker's last reply, which did not have it yet.
TEST_F(MappedLastTest, AFileHasItsBuildIdInTheList) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  ASSERT_NO_FATAL_FAILURE(map_file());
  for (int i = 0; i < 4; ++i) {
    ASSERT_NO_FATAL_FAILURE(fill(call, 8192));
  }
  bench_.broker->change([&](BrokerSetup& setup) {
    setup.known_files.files.push_back({.file = identity(), .build_id = std::vector<std::uint8_t>(20, 0x42)});
  });
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  const auto reader = FileReader::open(result.paths[0]);
  ASSERT_TRUE(reader) << reader.error().what;
  const auto found = reader->features().find(kFeatureBuildId);
  ASSERT_NE(found, reader->features().end());
  const std::string list(reinterpret_cast<const char*>(found->second.data()), found->second.size());
  EXPECT_THAT(list, HasSubstr(kMappedName));
  EXPECT_THAT(list, HasSubstr(std::string(20, '\x42')));
}

// For the next flightd, if this one is killed.
TEST_F(MappedLastTest, AKnownFileIsInTheJournalOfTheOpenPart) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  ASSERT_NO_FATAL_FAILURE(make_file());
  bench_.broker->change([&](BrokerSetup& setup) {
    setup.known_files.files.push_back({.file = identity(), .build_id = std::vector<std::uint8_t>(20, 0x42)});
  });
  const std::string path =
      bench_.snapshots() + "/" + part_file(PartFileKind::journal, parse_seq(call.steps.front().id).value());
  const auto is_in_journal = [&path] {
    const auto text = read_file(path);
    if (!text) return false;
    const auto journal = parse_journal(std::as_bytes(std::span(*text)));
    if (!journal) return false;
    return std::any_of(journal->notes.begin(), journal->notes.end(), [](const auto& one) {
      const std::vector<std::byte>& ids = one.second.build_ids;
      return std::string(reinterpret_cast<const char*>(ids.data()), ids.size()).find(kMappedName) != std::string::npos;
    });
  };
  // Again and again: the broker is asked once a second.
  ASSERT_TRUE(loop_.until([&] {
    map_file();
    fault(400);
    clock_->advance(std::chrono::seconds(1));
    return call.answer || is_in_journal();
  }));
  ASSERT_FALSE(call.answer) << call.error();
  static_cast<void>(stop(call));
}

TEST_F(MappedLastTest, WithoutABuildIdItHasAReason) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  ASSERT_NO_FATAL_FAILURE(map_file());
  bench_.broker->change([&](BrokerSetup& setup) { setup.known_files.waiting.push_back({.file = identity()}); });
  fault(400);
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  EXPECT_THAT(sidecar_of(result.paths[0]).notes,
              Contains(HasSubstr("build-id unread, later: not read yet with flightd-broker's share of a CPU (1 of ")));
}

}  // namespace
}  // namespace flight::daemon
