// SPDX-License-Identifier: Apache-2.0
// The store's thread on a real directory, with a loop that the test runs and a disk that can hang.
#include "daemon/store/store_service.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>

#include "libcore/base/files.hpp"
#include "libcore/base/partial_name.hpp"
#include "libcore/store/leftovers.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr auto kPatience = 20s;
const ControlBackend::Progress kNoProgress = [](std::string_view, unsigned) {};

class StoreServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-store-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    state_ = name;
    folder_ = state_ + "/snapshots";
    fs::create_directory(folder_);
    config_.keep_free = SizeOrShare{.bytes = 0};
  }
  void TearDown() override {
    resume_disk();
    service_.reset();
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
    fs::remove_all(state_);
  }

  // `take`: as Setup::take_state.
  void start(std::function<Result<StateFolder>()> take = {}) {
    auto thread = TaskThread::start("store");
    ASSERT_TRUE(thread);
    disk_ = thread->get();
    service_ = std::make_unique<StoreService>(
        loop_, std::move(*thread),
        StoreService::Setup{.folder = folder_,
                            .state_dir = state_,
                            .boot_id = "boot",
                            .config = config_,
                            .take_state = std::move(take),
                            .opened_late = [this](std::string saved) { opened_late_.push_back(std::move(saved)); },
                            .moved = [this] { ++moved_; },
                            .times = times_},
        [this] { ++use_changes_; });
    settle();
  }
  // As Setup::take_state.
  Result<StateFolder> take_if_there() {
    ++attempts_;
    if (!there_) return sys_error(EIO, "open directory STATE");
    return StateFolder{};
  }
  // Waits until the store's thread has finished all posted tasks, and the loop has run the replies.
  void settle() {
    std::promise<void> idle;
    disk_->post([&] { idle.set_value(); });
    ASSERT_EQ(idle.get_future().wait_for(kPatience), std::future_status::ready);
    run_loop(0ms);
  }
  // Runs what is ready, then whatever becomes ready within `time`.
  void run_loop(std::chrono::milliseconds time) {
    loop_.restart();
    if (time > 0ms)
      loop_.run_for(time);
    else
      loop_.poll();
  }
  // Runs the loop until that holds.
  template <typename Condition>
  [[nodiscard]] bool run_until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      loop_.restart();
      loop_.run_one_for(5ms);
    }
    return true;
  }
  // The store's thread stops until resume_disk().
  void hang_disk() {
    resume_.emplace();
    std::promise<void> hanging;
    disk_->post([&hanging, resume = resume_->get_future().share()] {
      hanging.set_value();
      resume.wait();
    });
    hanging.get_future().wait();
  }
  void resume_disk() {
    if (resume_) resume_->set_value();
    resume_.reset();
  }

  using Answer = std::optional<CallResult<std::string>>;
  static StoreService::Done into(Answer& answer) {
    return [&answer](CallResult<std::string> got) {
      EXPECT_FALSE(answer) << "answered twice";
      answer = std::move(got);
    };
  }
  static std::string error_of(const Answer& answer) {
    if (!answer) return "not answered";
    return *answer ? "no error" : answer->error().name + " " + answer->error().parameters;
  }

  [[nodiscard]] SnapshotName name_of(std::uint64_t seq) const {
    return {.host = "box", .time = first_ + seq * 1s, .trigger = "spike", .seq = seq};
  }
  SnapshotName make(std::uint64_t seq, const std::optional<std::string>& kallsyms = sample_sidecar().kallsyms) const {
    const SnapshotName name = name_of(seq);
    Sidecar sidecar = sample_sidecar();
    sidecar.id = fmt::format("{}", seq);
    sidecar.kallsyms = kallsyms;
    write(name.data_file(), "data");
    write(name.sidecar_file(), to_json(sidecar));
    return name;
  }
  void write(const std::string& file, const std::string& text) const { std::ofstream(folder_ + "/" + file) << text; }
  [[nodiscard]] bool has(const std::string& file) const { return fs::exists(folder_ + "/" + file); }
  [[nodiscard]] std::string saved() const {
    std::ostringstream out;
    out << std::ifstream(state_ + "/triggers.state").rdbuf();
    return out.str();
  }

  const WallTime first_ = wall_now() - 1h;
  std::string state_, folder_;
  StoreConfig config_;
  StoreService::Times times_{.save_again = 20ms};
  std::atomic<bool> there_ = false;  // the disk of take_if_there()
  std::atomic<int> attempts_ = 0;    // to take it
  boost::asio::io_context loop_;
  std::unique_ptr<StoreService> service_;
  TaskThread* disk_ = nullptr;
  std::optional<std::promise<void>> resume_;
  int use_changes_ = 0, moved_ = 0;
  std::vector<std::string> opened_late_;
  bool mounted_ = false;
};

TEST_F(StoreServiceTest, PartsOfARunningRecordingAreNotVacuumed) {
  config_.keep_first = config_.keep_last = 0;
  std::vector<std::string> files;
  for (std::uint64_t seq = 1; seq <= 3; ++seq) files.push_back(folder_ + "/" + make(seq).data_file());
  start();
  service_->hold_part(1);
  config_.max_files = 1;
  service_->configure(config_);
  service_->keep_budget();
  settle();
  EXPECT_TRUE(fs::exists(files[0]));
  EXPECT_FALSE(fs::exists(files[1]));
  EXPECT_TRUE(fs::exists(files[2])) << "the newest one";
  auto room = std::async(std::launch::async, [this] { return service_->make_part_room(1U << 20U); });
  const auto limit = room.get();
  ASSERT_TRUE(limit) << limit.error().what;
  ASSERT_TRUE(*limit) << "the disk answers";
  EXPECT_EQ((*limit)->max_files, 1U);
  service_->release_parts({1});
  settle();
  EXPECT_FALSE(fs::exists(files[0]));
}

TEST_F(StoreServiceTest, CallsAreAnsweredOnTheLoop) {
  const SnapshotName first = make(1), second = make(2);
  start();
  Answer listed, described, pinned, removed;
  service_->list(into(listed));
  service_->describe("latest", into(described));
  service_->pin("1", true, into(pinned));
  service_->remove("2", into(removed));
  std::promise<void> done;
  disk_->post([&] { done.set_value(); });
  ASSERT_EQ(done.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(has(first.pin_file()));
  EXPECT_FALSE(listed || described || pinned || removed) << "answered on the store's thread";
  run_loop(0ms);
  ASSERT_TRUE(listed && *listed) << error_of(listed);
  EXPECT_EQ(parse_rows(**listed).value().size(), 2U);
  ASSERT_TRUE(described && *described) << error_of(described);
  EXPECT_EQ(parse_sidecar(**described).value().id, "2");
  EXPECT_TRUE(pinned && *pinned) << error_of(pinned);
  EXPECT_TRUE(removed && *removed) << error_of(removed);
  EXPECT_FALSE(has(second.data_file()));
  settle();
  EXPECT_EQ(service_->use().usage.snapshots, 1U) << "a removal refreshes the use";
}

TEST_F(StoreServiceTest, ReadsTheFileWithItsName) {
  const SnapshotName name = make(1);
  start();
  std::optional<CallResult<OpenSnapshot>> data, kallsyms;
  service_->read("latest", SnapshotFile::data, [&](CallResult<OpenSnapshot> got) { data = std::move(got); });
  service_->read("1", SnapshotFile::kallsyms, [&](CallResult<OpenSnapshot> got) { kallsyms = std::move(got); });
  settle();
  ASSERT_TRUE(data && *data);
  EXPECT_EQ((*data)->name, name.data_file());
  EXPECT_EQ((*data)->size_bytes, 4U);
  ASSERT_TRUE(kallsyms && !*kallsyms);
  EXPECT_THAT(kallsyms->error().name, HasSubstr("NoSuchSnapshot")) << "of this one there are none";
}

TEST_F(StoreServiceTest, ErrorsNameTheirKind) {
  make(1);
  const SnapshotName damaged = make(2);
  write(damaged.sidecar_file(), "garbage");
  start();
  Answer unknown, no_id, damage, pin;
  service_->describe("7", into(unknown));
  service_->remove("first", into(no_id));
  service_->describe("2", into(damage));
  service_->pin("8", true, into(pin));
  settle();
  EXPECT_THAT(error_of(unknown), HasSubstr("NoSuchSnapshot"));
  EXPECT_THAT(error_of(no_id), HasSubstr("InvalidParameter"));
  EXPECT_THAT(error_of(damage), testing::AllOf(HasSubstr("WriteFailed"), HasSubstr("damaged")));
  EXPECT_THAT(error_of(pin), HasSubstr("NoSuchSnapshot"));
}

TEST_F(StoreServiceTest, ABoundedNumberOfCallsWaitsForTheDisk) {
  start();
  hang_disk();
  std::size_t answered = 0;
  for (std::size_t i = 0; i < StoreService::kMaxCalls; ++i)
    service_->list([&](const CallResult<std::string>& rows) { answered += rows ? 1U : 0U; });
  Answer refused;
  bool read_refused = false;
  service_->list(into(refused));
  service_->read("1", SnapshotFile::data, [&](const CallResult<OpenSnapshot>& got) { read_refused = !got; });
  EXPECT_TRUE(read_refused);
  EXPECT_THAT(error_of(refused), testing::AllOf(HasSubstr("WriteFailed"), HasSubstr("wait for the disk")));
  resume_disk();
  settle();
  EXPECT_EQ(answered, StoreService::kMaxCalls);
  Answer again;
  service_->list(into(again));
  settle();
  EXPECT_TRUE(again && *again) << error_of(again);
}

TEST_F(StoreServiceTest, AReaderDoesNotWaitForEverForADiskThatHangs) {
  times_.answer_within = 5ms;
  make(1);
  start();
  hang_disk();
  Answer rows, sidecar, pin;
  std::optional<bool> is_read;
  service_->list(into(rows));
  service_->describe("1", into(sidecar));
  service_->read("1", SnapshotFile::data, [&](const CallResult<OpenSnapshot>& got) {
    EXPECT_FALSE(is_read) << "answered twice";
    is_read = got.has_value();
  });
  service_->pin("1", true, into(pin));
  ASSERT_TRUE(run_until([&] { return rows && sidecar && is_read; }));
  for (const Answer& answer : {rows, sidecar})
    EXPECT_THAT(error_of(answer), testing::AllOf(HasSubstr("WriteFailed"), HasSubstr("has not answered for")));
  EXPECT_EQ(is_read, false);
  EXPECT_FALSE(pin) << "it may take effect";
  resume_disk();
  ASSERT_TRUE(run_until([&] { return pin.has_value(); }));
  EXPECT_TRUE(*pin) << error_of(pin);
}

TEST_F(StoreServiceTest, AStatusDoesNotWaitForADiskThatHangs) {
  make(1);
  start();
  int fresh = 0, late = 0;
  service_->refresh_use(kPatience, [&] { ++fresh; });
  settle();
  EXPECT_EQ(fresh, 1);
  EXPECT_EQ(use_changes_, 1);
  EXPECT_EQ(service_->use().usage.snapshots, 1U);
  EXPECT_EQ(service_->use_asked_ns(), 0U);
  make(2);
  hang_disk();
  service_->refresh_use(1ms, [&] { ++late; });
  run_loop(200ms);
  EXPECT_EQ(late, 1);
  EXPECT_EQ(service_->use().usage.snapshots, 1U) << "the last known";
  EXPECT_NE(service_->use_asked_ns(), 0U);
  service_->refresh_use();  // is in progress
  resume_disk();
  settle();
  EXPECT_EQ(late, 1) << "answered twice";
  EXPECT_EQ(use_changes_, 2);
  EXPECT_EQ(service_->use().usage.snapshots, 2U);
  EXPECT_EQ(service_->use_asked_ns(), 0U);
}

TEST_F(StoreServiceTest, TheBudgetIsKeptAtStartAndWhenItChanges) {
  config_.max_files = 4;
  config_.keep_first = config_.keep_last = 0;
  for (std::uint64_t seq = 1; seq <= 6; ++seq) make(seq);
  write(kallsyms_file("0f7c", "0123456789abcdef"), "symbols");
  start();
  EXPECT_FALSE(has(name_of(2).data_file()));
  EXPECT_TRUE(has(name_of(3).data_file()));
  const auto rows = [this] {
    Answer listed;
    service_->list(into(listed));
    settle();
    return parse_rows(**listed).value();
  };
  ASSERT_EQ(rows().size(), 4U);
  EXPECT_EQ(rows()[0].id, "3");
  EXPECT_FALSE(has(kallsyms_file("0f7c", "0123456789abcdef"))) << "no snapshot names them";
  config_.max_files = 2;
  config_.max_snapshot_bytes = 12345;
  EXPECT_EQ(service_->make_room("spike", 0).value(), 0U);
  const std::size_t kept = rows().size();
  ASSERT_GT(kept, 2U);
  service_->configure(config_);
  settle();
  EXPECT_EQ(rows().size(), kept) << "a reload deletes nothing";
  std::vector<std::string> due;
  const auto find_due = [&](std::chrono::milliseconds most) {
    const std::size_t before = due.size();
    service_->find_due(most, [&due](std::string text) { due.push_back(std::move(text)); });
    EXPECT_TRUE(run_until([&] { return due.size() > before; }));
    return due.back();
  };
  EXPECT_THAT(find_due(kPatience), AllOf(testing::StartsWith(fmt::format("{} snapshot", kept - 2)),
                                         HasSubstr("the next snapshot, or the hourly check, will delete ")));
  EXPECT_EQ(rows().size(), kept);
  hang_disk();
  EXPECT_EQ(find_due(1ms), "") << "a disk that does not answer";
  resume_disk();
  settle();
  EXPECT_EQ(due.size(), 2U) << "each is answered once";
  service_->keep_budget();
  settle();
  EXPECT_EQ(rows().size(), 2U);
  EXPECT_EQ(find_due(kPatience), "");
  // The warnings are those of the new limits.
  const auto warnings = [this] {
    service_->refresh_use();
    settle();
    return service_->use().warnings;
  };
  config_.max_use = SizeOrShare{.bytes = 1};
  service_->configure(config_);
  EXPECT_NE(find_due(kPatience), "");
  EXPECT_THAT(warnings(), testing::Contains(HasSubstr("store.max_use is small")));
  config_.max_use = SizeOrShare{.bytes = 1U << 30U};
  service_->configure(config_);
  EXPECT_EQ(find_due(kPatience), "");
  EXPECT_THAT(warnings(), testing::IsEmpty());
  EXPECT_EQ(service_->make_room("spike", 0).value(), 12345U);
}

// They count for max_use. In an earlier version they stayed until the next hour.
TEST_F(StoreServiceTest, SymbolsGoWithTheLastSnapshotThatNeedsThem) {
  const std::string old = kallsyms_file("0a", "00000000000000aa"), now = kallsyms_file("0b", "00000000000000bb");
  config_.keep_first = config_.keep_last = 0;
  config_.max_use = SizeOrShare{.bytes = 3U << 20U};
  config_.max_files = 4;
  for (std::uint64_t seq = 1; seq <= 2; ++seq) make(seq, old);
  for (std::uint64_t seq = 3; seq <= 4; ++seq) make(seq, now);
  write(old, std::string(2U << 20U, 'o'));
  write(now, std::string(1U << 20U, 'n'));
  start();
  EXPECT_FALSE(has(name_of(2).data_file())) << "all together have more than 3M";
  EXPECT_TRUE(has(name_of(3).data_file())) << "the rest has 1M";
  EXPECT_FALSE(has(old));
  EXPECT_TRUE(has(now));
  make(1, old);
  make(2, now);
  write(old, "symbols");
  EXPECT_TRUE(service_->make_room("spike", 0));
  EXPECT_FALSE(has(name_of(1).data_file())) << "the next one would be the fifth";
  EXPECT_FALSE(has(old));
  EXPECT_TRUE(has(now));
}

// Another file system was mounted on it: here, a directory took its name.
TEST_F(StoreServiceTest, AnotherDirectoryIsTakenOverWithHigherNumbers) {
  make(7);
  start();
  EXPECT_TRUE(service_->make_room("spike", 0));
  make(41);
  fs::rename(folder_, folder_ + "-before");
  fs::create_directory(folder_);
  EXPECT_TRUE(service_->make_room("spike", 0));
  settle();
  EXPECT_EQ(moved_, 1);
  EXPECT_THAT(service_->moved_warning(), AllOf(HasSubstr(folder_ + " is another directory than before"),
                                               HasSubstr("up to number 41 are in the other one")));
  EXPECT_THAT(service_->state_warnings(), testing::ElementsAre(service_->moved_warning()));
  EXPECT_EQ(Catalogue(folder_).next_seq().value(), 42U);
  EXPECT_TRUE(service_->make_room("spike", 0));
  settle();
  EXPECT_EQ(moved_, 1) << "it is the one now";
  // Back again: its own number is lower than that of the other one.
  fs::rename(folder_, folder_ + "-between");
  fs::rename(folder_ + "-before", folder_);
  EXPECT_TRUE(service_->make_part_room(0));
  settle();
  EXPECT_EQ(moved_, 2);
  EXPECT_EQ(service_->moved_warning(), "") << "it is the first one again";
  EXPECT_THAT(service_->state_warnings(), testing::IsEmpty());
  EXPECT_EQ(Catalogue(folder_).next_seq().value(), 43U);
}

// In an earlier version each snapshot was lost until somebody made the directory.
TEST_F(StoreServiceTest, ADirectoryThatIsGoneIsMadeAgain) {
  make(7);
  start();
  EXPECT_TRUE(service_->make_room("spike", 0));
  fs::rename(folder_, folder_ + "-before");
  EXPECT_TRUE(service_->make_room("spike", 0));
  settle();
  EXPECT_EQ(moved_, 1);
  ASSERT_TRUE(fs::is_directory(folder_));
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all | fs::perms::group_all)
      << "the broker writes to it";
  EXPECT_EQ(Catalogue(folder_).next_seq().value(), 8U);
  // It cannot be made: something else has the name.
  fs::remove_all(folder_);
  fs::create_symlink(state_ + "/nowhere", folder_);
  const auto refused = service_->make_part_room(0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), ESTALE);
  EXPECT_THAT(refused.error().what,
              AllOf(HasSubstr(folder_ + " does not exist any more"), HasSubstr("systemd-tmpfiles --create")));
  fs::remove(folder_);
  fs::rename(folder_ + "-before", folder_);
}

TEST_F(StoreServiceTest, AnotherStateDirectoryWithoutSnapshotsIsTakenAsAtStart) {
  int taken = 0;
  start([&]() -> Result<StateFolder> {
    ++taken;
    fs::create_directory(folder_);
    std::ofstream(state_ + "/flightd.lock").flush();
    return StateFolder{.lock = UniqueFd(::open((state_ + "/flightd.lock").c_str(), O_RDONLY | O_CLOEXEC)),
                       .warnings = {}};
  });
  ASSERT_TRUE(service_->make_room("spike", 0));
  const std::string before = state_ + "-before";
  fs::rename(state_, before);
  fs::create_directory(state_);
  EXPECT_TRUE(service_->make_room("spike", 0));
  EXPECT_EQ(taken, 2);
  settle();
  EXPECT_EQ(moved_, 1);
  fs::remove_all(before);
}

// A hostile or broken .seq of a file system that is mounted over the store for a while.
TEST_F(StoreServiceTest, AForeignNumberDoesNotReachTheStore) {
  make(7);
  start();
  EXPECT_TRUE(service_->make_room("spike", 0));
  for (const std::uint64_t foreign : {UINT64_MAX, kMaxSeq, kMaxForeignSeq + 1}) {
    fs::rename(folder_, folder_ + "-real");
    fs::create_directory(folder_);
    write(".seq", fmt::format("{}\n", foreign));
    EXPECT_TRUE(service_->make_room("spike", 0));
    fs::rename(folder_, fmt::format("{}-{}", folder_, foreign));
    fs::rename(folder_ + "-real", folder_);
    EXPECT_TRUE(service_->make_room("spike", 0));
    settle();
    EXPECT_EQ(Catalogue(folder_).last_seq().value(), 7U) << foreign;
  }
  EXPECT_EQ(Catalogue(folder_).next_seq().value(), 8U);
}

TEST_F(StoreServiceTest, LeftoversAreRemovedWhenTheStoreIsUsedAndReportedUntilThen) {
  const std::string name = partial_name(1);
  fs::create_directory(folder_ + "/" + name);
  write(name + "/other", "so that it cannot be removed");
  remove_unfinished(folder_, name);
  start();
  const auto warnings = [this] {
    service_->refresh_use();
    settle();
    return service_->use().warnings;
  };
  EXPECT_THAT(warnings(), testing::Contains(AllOf(HasSubstr("degraded (disk)"), HasSubstr(folder_ + "/" + name))));
  fs::remove(folder_ + "/" + name + "/other");
  EXPECT_TRUE(service_->make_room("spike", 0));
  EXPECT_FALSE(has(name));
  EXPECT_THAT(warnings(), testing::Not(testing::Contains(HasSubstr(name))));
}

TEST(HeldStore, KnowsAStickyDirectoryOfAnotherUser) {
  struct stat folder {};
  folder.st_uid = 0;
  folder.st_mode = S_IFDIR | 0777;
  EXPECT_EQ(sticky_trouble(folder, 33), "");
  folder.st_mode |= S_ISVTX;
  EXPECT_THAT(sticky_trouble(folder, 33), AllOf(HasSubstr("mode 1777"), HasSubstr("user 0")));
  EXPECT_EQ(sticky_trouble(folder, 0), "");
  folder.st_uid = 33;
  EXPECT_EQ(sticky_trouble(folder, 33), "");
}

TEST_F(StoreServiceTest, AnotherStateDirectoryIsLockedOrRefused) {
  std::vector<Result<StateFolder>> answers;
  answers.emplace_back(fail(std::errc::permission_denied, "it belongs to root"));
  answers.emplace_back(StateFolder{});
  int taken = 0;
  start([&]() -> Result<StateFolder> {
    ++taken;
    if (taken > 1 && !answers.empty()) {
      auto answer = std::move(answers.front());
      answers.erase(answers.begin());
      return answer;
    }
    std::ofstream(state_ + "/flightd.lock").flush();
    return StateFolder{.lock = UniqueFd(::open((state_ + "/flightd.lock").c_str(), O_RDONLY | O_CLOEXEC)),
                       .warnings = {}};
  });
  ASSERT_TRUE(service_->make_room("spike", 0));
  EXPECT_EQ(taken, 1);
  // Only snapshots/ is another one: the lock is that of the directory above it.
  fs::rename(folder_, folder_ + "-before");
  fs::create_directory(folder_);
  EXPECT_TRUE(service_->make_room("spike", 0));
  EXPECT_EQ(taken, 1);
  const std::string before = state_ + "-before";
  fs::rename(state_, before);
  fs::create_directories(folder_);
  const auto refused = service_->make_room("spike", 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), ESTALE);
  EXPECT_THAT(refused.error().what, AllOf(HasSubstr(folder_ + " is another directory"), HasSubstr("belongs to root"),
                                          HasSubstr("systemd-tmpfiles --create flightd.conf")));
  EXPECT_TRUE(service_->make_room("spike", 0)) << "it was given to flightd";
  EXPECT_EQ(taken, 3);
  settle();
  EXPECT_EQ(moved_, 2);
  fs::remove_all(before);
}

TEST_F(StoreServiceTest, ADryVacuumRemovesNothing) {
  const SnapshotName name = make(1);
  fs::remove(folder_ + "/" + name.data_file());  // only a vacuum by request removes the rest
  start();
  Answer dry, wet;
  service_->vacuum(true, kNoProgress, into(dry));
  settle();
  EXPECT_TRUE(has(name.sidecar_file()));
  service_->vacuum(false, kNoProgress, into(wet));
  settle();
  EXPECT_FALSE(has(name.sidecar_file()));
  ASSERT_TRUE(dry && *dry) << error_of(dry);
  ASSERT_TRUE(wet && *wet) << error_of(wet);
  EXPECT_EQ(**dry, **wet);
  EXPECT_THAT(**dry, HasSubstr("\"1\""));
}

TEST_F(StoreServiceTest, AVacuumReportsEachPercentOnce) {
  for (std::uint64_t seq = 1; seq <= 150; ++seq) fs::remove(folder_ + "/" + make(seq).data_file());
  make(200);
  start();
  std::vector<unsigned> percents;
  Answer answer;
  service_->vacuum(
      false,
      [&](std::string_view step, unsigned percent) {
        EXPECT_EQ(step, "deleting");
        EXPECT_FALSE(answer) << "before the result";
        percents.push_back(percent);
      },
      into(answer));
  settle();
  ASSERT_TRUE(answer && *answer) << error_of(answer);
  ASSERT_EQ(percents.size(), 101U) << "0 to 100";
  EXPECT_TRUE(std::is_sorted(percents.begin(), percents.end()));
  EXPECT_EQ(percents.back(), 100U);
}

TEST_F(StoreServiceTest, AFullDiskRefusesTheSnapshot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M,nr_inodes=10"), 0);
  mounted_ = true;
  for (int i = 0; std::ofstream(folder_ + fmt::format("/other-{}", i)); ++i) ASSERT_LT(i, 100);
  start();
  const auto room = service_->make_room("spike", 1U << 20U);
  ASSERT_FALSE(room);
  EXPECT_TRUE(is_full(room.error().errno_value()));
}

// In an earlier version each firing on such a disk cost some of the older snapshots, and none was written.
TEST_F(StoreServiceTest, IfASnapshotFailsInSpiteOfItNoMoreRoomIsMade) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=1M"), 0);
  mounted_ = true;
  config_.max_use = SizeOrShare{.bytes = 1U << 30U};
  for (std::uint64_t seq = 1; seq <= 8; ++seq) make(seq);
  start();
  int others = 0;
  const auto fill = [&] { write(fmt::format("other-{}", ++others), std::string(2U << 20U, 'x')); };
  const auto count = [&] {
    std::size_t out = 0;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == ".data") ++out;
    return out;
  };
  fill();
  EXPECT_TRUE(service_->make_room("spike", 1U << 20U));
  const std::size_t left = count();
  EXPECT_LT(left, 8U);
  fill();  // others took it
  service_->writing_ended(fail(std::errc::no_space_on_device, "the write failed").value());
  EXPECT_FALSE(service_->make_room("spike", 1U << 20U));
  EXPECT_FALSE(service_->make_more_room("spike", 1));
  EXPECT_EQ(count(), left);
  service_->writing_ended(fail(std::errc::no_space_on_device, "the write failed").value());
  EXPECT_FALSE(service_->make_room("spike", 1U << 20U));
  EXPECT_EQ(count(), left) << "however often it is tried";
  service_->writing_ended(std::nullopt);
  EXPECT_TRUE(service_->make_room("spike", 1U << 20U)) << "one was written";
  EXPECT_LT(count(), left);
  settle();
}

// A quota, which statvfs(3) does not know: only the write fails.
TEST_F(StoreServiceTest, OneRetryMakesRoomUntilASnapshotIsWritten) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=16M"), 0);
  mounted_ = true;
  config_.max_use = SizeOrShare{.bytes = 1U << 30U};
  for (std::uint64_t seq = 1; seq <= 16; ++seq) make(seq);
  start();
  const auto count = [&] {
    std::size_t out = 0;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().extension() == ".data") ++out;
    return out;
  };
  EXPECT_TRUE(service_->make_room("spike", 1));
  EXPECT_TRUE(service_->make_more_room("spike", 1));
  const std::size_t left = count();
  EXPECT_LT(left, 16U);
  service_->writing_ended(fail(std::errc::io_error, "the disk is broken, not full").value());
  EXPECT_TRUE(service_->make_room("spike", 1));
  EXPECT_FALSE(service_->make_more_room("spike", 1)) << "the last one was not written in spite of it";
  EXPECT_EQ(count(), left);
  EXPECT_TRUE(service_->make_more_part_room(1)) << "a recording was written all the time";
  service_->writing_ended(std::nullopt);
  EXPECT_TRUE(service_->make_room("spike", 1));
  EXPECT_TRUE(service_->make_more_room("spike", 1)) << "one was written";
  EXPECT_LT(count(), left);
  settle();
}

TEST_F(StoreServiceTest, ASnapshotDoesNotWaitLongForTheStoresThread) {
  config_.max_snapshot_bytes = 777;
  times_.room_wait = 20ms;
  start();
  hang_disk();
  auto room = std::async(std::launch::async, [this] { return service_->make_room("spike", 1U << 20U); });
  ASSERT_EQ(room.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(room.get().value(), 777U);
}

TEST_F(StoreServiceTest, TheNewestSnapshotIsFoundAfterARestart) {
  start();
  int found = 0;
  service_->find_newest([&](const Sidecar&) { ++found; });
  settle();
  EXPECT_EQ(found, 0);
  make(3);
  make(9);
  std::string id;
  service_->find_newest([&](const Sidecar& sidecar) { id = sidecar.id; });
  settle();
  EXPECT_EQ(id, "9");
}

TEST_F(StoreServiceTest, OfTheTriggersCountersTheLastIsSaved) {
  start();
  EXPECT_EQ(service_->trigger_state().read(), "");
  hang_disk();
  for (int i = 0; i < 3; ++i) service_->trigger_state().save(fmt::format("state {}", i));
  EXPECT_EQ(saved(), "") << "the caller waited for the disk";
  resume_disk();
  settle();
  EXPECT_EQ(service_->trigger_state().read(), "state 2");
  service_->trigger_state().save("state 3");
  service_.reset();  // waits for it
  EXPECT_EQ(saved(), "state 3");
}

TEST_F(StoreServiceTest, AnUnsavedTriggerStateIsReported) {
  start();
  fs::create_directories(state_ + "/triggers.state/in-the-way");
  service_->trigger_state().save("state 1");
  settle();
  EXPECT_THAT(service_->trigger_state().trouble(), HasSubstr("cannot be saved"));
  fs::remove_all(state_ + "/triggers.state");
  service_->trigger_state().save("state 2");
  settle();
  EXPECT_EQ(service_->trigger_state().trouble(), "");
  EXPECT_EQ(saved(), "state 2");
}

// In an earlier version a trigger that was disabled while the disk was full was enabled after the next restart.
TEST_F(StoreServiceTest, AnUnsavedTriggerStateIsSavedLater) {
  start();
  fs::create_directories(state_ + "/triggers.state/in-the-way");
  service_->trigger_state().save("state 1");
  settle();
  for (int i = 0; i < 3; ++i) {
    run_loop(50ms);
    settle();
  }
  EXPECT_THAT(service_->trigger_state().trouble(), HasSubstr("cannot be saved"));
  fs::remove_all(state_ + "/triggers.state");
  for (int i = 0; i < 200 && saved() != "state 1"; ++i) {
    run_loop(50ms);
    settle();
  }
  EXPECT_EQ(saved(), "state 1");
  EXPECT_EQ(service_->trigger_state().trouble(), "");
}

// An earlier flightd of this boot saw the right time; the clock jumped before this one started.
TEST_F(StoreServiceTest, TheNextFlightdKnowsThatTheClockRanAhead) {
  constexpr WallTime kOneDay = 24h;
  for (std::uint64_t seq = 1; seq <= 3; ++seq) {
    const SnapshotName name{.host = "box", .time = wall_now() - 35 * kOneDay, .trigger = "spike", .seq = seq};
    write(name.data_file(), "data");
    write(name.sidecar_file(), "{}");
  }
  const auto count = [this] {
    return std::count_if(fs::directory_iterator(folder_), {},
                         [](const auto& file) { return file.path().extension() == ".data"; });
  };
  const nanoseconds since_boot(static_cast<std::int64_t>(boottime_now()));
  const auto save = [&](nanoseconds ahead) {
    ClockRecord seen;
    seen.look("boot", wall_now() - ahead, since_boot);
    std::ofstream(state_ + "/clock.state") << to_json(seen);
  };
  config_.max_age = 30 * kOneDay;
  save(40 * kOneDay);
  start();
  EXPECT_EQ(count(), 3);
  const auto saved = parse_clock_record(read_file(state_ + "/clock.state").value_or(""));
  ASSERT_TRUE(saved) << saved.error().what;
  ASSERT_TRUE(saved->ahead) << "the next one is to know it, too";
  EXPECT_GT(saved->ahead->by, 39 * kOneDay);
  EXPECT_GE(saved->ahead->at, since_boot);
  service_.reset();
  start();
  EXPECT_EQ(count(), 3);
  service_->refresh_use();
  settle();
  ASSERT_EQ(service_->use().warnings.size(), 1U);
  EXPECT_THAT(service_->use().warnings[0], HasSubstr("2 snapshots"));
  Answer answer;
  service_->vacuum(false, kNoProgress, into(answer));
  settle();
  ASSERT_TRUE(answer && *answer) << error_of(answer);
  EXPECT_THAT(**answer, AllOf(HasSubstr("max_age"), HasSubstr("because you ask")));
  EXPECT_EQ(count(), 1);
}

// The first vacuum reads it, and removes what is of no use.
TEST_F(StoreServiceTest, ADamagedKeepFreeStateIsNotKept) {
  for (const std::string& text : {std::string("rubbish"), std::string(8192, ' ')}) {
    std::ofstream(state_ + "/keep-free.state") << text;
    start();
    EXPECT_FALSE(fs::exists(state_ + "/keep-free.state")) << text.size();
    service_.reset();
  }
}

TEST_F(StoreServiceTest, TheEndWaitsForTheDisk) {
  const SnapshotName name = make(1);
  start();
  hang_disk();
  service_->pin("1", true, [](const CallResult<std::string>&) {});
  resume_disk();
  service_.reset();
  EXPECT_TRUE(has(name.pin_file()));
}

// The disk is missing at start: no answer of it is an error that ends flightd, nothing is written, and the snapshot
// that is taken after it came finds it.
TEST_F(StoreServiceTest, AStoreThatIsMissingAtStartIsUsedWhenItComes) {
  make(1);
  write("flight-box-leftover.partial", "");
  std::ofstream(state_ + "/triggers.state") << "counters";
  std::atomic<bool> there = false;
  start([&there]() -> Result<StateFolder> {
    if (!there) return sys_error(EIO, "open directory STATE");
    return StateFolder{.lock = {}, .warnings = {"it has no locks"}};
  });
  const auto opened = service_->open(std::chrono::seconds(kPatience));
  ASSERT_TRUE(opened) << opened.error().what;
  EXPECT_EQ(*opened, "");
  EXPECT_FALSE(service_->usable());
  EXPECT_THAT(service_->trouble_text(), testing::StartsWith("degraded (disk)"));
  EXPECT_THAT(service_->trouble_text(), HasSubstr("open directory STATE"));
  const auto room = service_->make_room("spike", 1 << 20);
  ASSERT_FALSE(room);
  EXPECT_EQ(room.error().errno_value(), EIO);
  Answer removed, pinned, vacuumed;
  service_->remove("1", into(removed));
  service_->pin("1", true, into(pinned));
  service_->vacuum(false, kNoProgress, into(vacuumed));
  service_->trigger_state().save("newer counters");
  settle();
  for (const Answer& answer : {removed, pinned, vacuumed})
    EXPECT_THAT(error_of(answer), testing::AllOf(HasSubstr("WriteFailed"), HasSubstr("open directory STATE")));
  EXPECT_TRUE(has("flight-box-leftover.partial"));
  EXPECT_EQ(saved(), "counters") << "they were never read";

  there = true;
  EXPECT_TRUE(service_->make_room("spike", 1 << 20));
  settle();
  EXPECT_TRUE(service_->usable());
  EXPECT_EQ(service_->trouble_text(), "");
  EXPECT_THAT(service_->state_warnings(), testing::ElementsAre("it has no locks"));
  EXPECT_THAT(opened_late_, testing::ElementsAre("counters"));
  EXPECT_FALSE(has("flight-box-leftover.partial"));
  service_->trigger_state().save("newer counters");
  settle();
  EXPECT_EQ(saved(), "newer counters");
}

TEST_F(StoreServiceTest, AStoreThatComesLaterIsTakenAlsoWithoutASnapshot) {
  std::ofstream(state_ + "/triggers.state") << "counters";
  times_.take_again = 5ms;
  start([this] { return take_if_there(); });
  ASSERT_TRUE(service_->open(std::chrono::seconds(kPatience)));
  ASSERT_TRUE(run_until([this] { return attempts_ >= 3; }));
  EXPECT_FALSE(service_->usable());
  EXPECT_THAT(service_->trouble_text(), HasSubstr("open directory STATE"));
  there_ = true;
  ASSERT_TRUE(run_until([this] { return !opened_late_.empty(); }));
  EXPECT_TRUE(service_->usable());
  EXPECT_EQ(service_->trouble_text(), "");
  EXPECT_THAT(opened_late_, testing::ElementsAre("counters"));
}

// What others write into it, or what no vacuum before could delete.
TEST_F(StoreServiceTest, TheBudgetIsKeptEveryHour) {
  times_.vacuum_every = 5ms;
  config_.keep_first = config_.keep_last = 0;
  config_.max_files = 1;
  start();
  hang_disk();  // the vacuum of the start is over, and none sees a file that is being written
  const SnapshotName first = make(1), second = make(2);
  resume_disk();
  EXPECT_TRUE(run_until([&] { return !has(first.data_file()); }));
  EXPECT_TRUE(has(second.data_file())) << "the newest one";
  hang_disk();
  make(3);
  resume_disk();
  EXPECT_TRUE(run_until([&] { return !has(second.data_file()); })) << "and an hour later again";
}

TEST_F(StoreServiceTest, AFileSystemThatCannotSyncIsAWarningWhileItIsSo) {
  start();
  service_->snapshot_synced(true);
  EXPECT_THAT(service_->state_warnings(), testing::IsEmpty());
  for (int i = 0; i < 2; ++i) {
    service_->snapshot_synced(false);
    EXPECT_THAT(service_->state_warnings(), testing::ElementsAre(HasSubstr("cannot be synced")));
  }
  service_->snapshot_synced(true);
  EXPECT_THAT(service_->state_warnings(), testing::IsEmpty());
}

TEST_F(StoreServiceTest, AStoreThatIsMissingIsAnEmptyOne) {
  start([]() -> Result<StateFolder> { return sys_error(ENOENT, "no disk"); });
  ASSERT_TRUE(service_->open(std::chrono::seconds(kPatience)));
  fs::remove_all(folder_);
  Answer listed;
  service_->list(into(listed));
  settle();
  ASSERT_TRUE(listed && *listed) << error_of(listed);
  EXPECT_EQ(**listed, "[]");
  Answer described;
  service_->describe("1", into(described));
  settle();
  EXPECT_THAT(error_of(described), HasSubstr("no disk"));
}

TEST_F(StoreServiceTest, AnotherOnesStoreForbidsTheStart) {
  start([]() -> Result<StateFolder> { return fail(std::errc::file_exists, "it belongs to user 7"); });
  const auto opened = service_->open(std::chrono::seconds(kPatience));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().what, "it belongs to user 7");
}

// A disk that does not answer at start delays it no longer than it may.
TEST_F(StoreServiceTest, AHangingDiskDoesNotDelayTheStart) {
  std::ofstream(state_ + "/triggers.state") << "counters";
  start([]() -> Result<StateFolder> { return StateFolder{}; });
  hang_disk();
  const auto opened = service_->open(10ms);
  ASSERT_TRUE(opened);
  EXPECT_FALSE(service_->usable());
  EXPECT_THAT(service_->trouble_text(), HasSubstr("has not answered"));
  resume_disk();
  settle();
  EXPECT_TRUE(service_->usable());
  EXPECT_EQ(service_->trouble_text(), "");
  EXPECT_THAT(opened_late_, testing::ElementsAre("counters"));
}

}  // namespace
}  // namespace flight::daemon
