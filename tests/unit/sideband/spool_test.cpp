// SPDX-License-Identifier: Apache-2.0
// What one flightd knew and the next one finds: the same, up to the last write, whatever came in between.
#include "libcore/sideband/spool.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "libcore/base/files.hpp"
#include "tests/unit/sideband/file_size_limit.hpp"
#include "tests/unit/sideband/random_lives.hpp"
#include "tests/unit/sideband/reader_model.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

constexpr EventTime kSecond = 1'000'000'000;
constexpr std::string_view kBoot = "3f1c0d3e-0f5d-4b0e-9a51-7f1f3c6c1a11";

class SpoolTest : public testing::Test {
 protected:
  SpoolTest() {
    std::string pattern = "/tmp/flight-spool.XXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  ~SpoolTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Spool spool(SpoolLimits limits = {}) const { return Spool(folder_, std::string(kBoot), limits); }
  [[nodiscard]] std::string path() const { return folder_ + "/" + std::string(Spool::kName); }
  [[nodiscard]] std::uintmax_t file_bytes() const { return std::filesystem::file_size(path()); }

  // As the recorder thread does it.
  void drain(Spool& spool, Ledger& ledger, std::span<const std::byte> records, EventTime now_ns = 0) {
    ASSERT_TRUE(spool.append(ledger, records));
    ledger.add(records);
    ASSERT_TRUE(spool.keep_up(ledger, now_ns));
  }
  // The ledger of the next flightd.
  [[nodiscard]] Ledger next() const {
    Ledger out;
    const auto left = spool().read();
    EXPECT_TRUE(left) << left.error().what;
    if (left) out.replay(std::as_bytes(std::span<const char>(left->records)), left->evicted);
    return out;
  }
  static ReaderModel read(const LedgerExport& window) {
    ReaderModel model;
    model.apply_all(window.prologue);
    model.apply_all(window.log);
    return model;
  }

  static std::string comm_of(const Ledger& ledger, std::uint32_t pid) {
    return ledger.comms_of(std::vector{ProcessAt{pid, kSecond}})[0];
  }

  std::string folder_;
};

Tape shell() {
  Tape tape;
  tape.fork(10, 1, 100);
  tape.exec(11, 100, "bash");
  tape.map(12, 100, 0x1000, 0x1000, "/bin/bash", 0xba);
  return tape;
}

// A ring's records are there again where flightd died before it gave their room back.
TEST_F(SpoolTest, WhateverLifeItIsTheStateAtAnyMomentIsThatOfAllRecordsBefore) {
  for (unsigned seed = 1; seed <= 15; ++seed) {
    RandomLives lives(seed, false);
    while (lives.events().size() < 1500) lives.step();
    const auto& events = lives.events();
    std::mt19937 random(seed + 1000);
    const SpoolLimits limits{.least_growth_bytes = 2000, .most_growth_bytes = 20'000};
    std::optional<Spool> kept(spool(limits));
    Ledger ledger;
    ASSERT_TRUE(kept->begin(ledger, 0));
    EventTime horizon = 0;
    for (std::size_t done = 0; done < events.size();) {
      const std::size_t to = std::min(events.size(), done + 1 + random() % 100);
      RecordBuffer batch = drained(events, done, to, random);
      const EventTime batch_from = events[done].time_ns;
      drain(*kept, ledger, batch);
      done = to;
      if (random() % 2 == 0) {
        horizon = std::max(horizon, events[random() % done].time_ns);
        ledger.fold(horizon);
      }
      if (random() % 4 == 0) {
        ledger = next();
        kept.emplace(spool(limits));
        ASSERT_TRUE(kept->begin(ledger, 0));
        // Nobody folds what the ring still holds.
        if (batch_from >= horizon) {
          ledger.drop_known(batch);
          EXPECT_TRUE(batch.empty());
          drain(*kept, ledger, batch);
        }
      }
      for (int probe = 0; probe < 3; ++probe) {
        const std::size_t last = random() % done;
        const bool exits = load<perf_event_header>(events[last].bytes.data()).type == PERF_RECORD_EXIT;
        const EventTime time = events[last].time_ns + (exits ? 1 : random() % 2);
        if (time < horizon) continue;
        ReaderModel expected;
        for (std::size_t i = 0; i <= last; ++i) expected.apply_all(events[i].bytes);
        ASSERT_EQ(read(ledger.export_window(time, time, everybody())).text(), expected.text())
            << "seed " << seed << " at " << time << " horizon " << horizon;
      }
    }
    ReaderModel all;
    for (const Event& event : events) all.apply_all(event.bytes);
    ledger.fold(lives.now() + 1);
    EXPECT_EQ(ledger.stats().processes, all.processes.size());
    EXPECT_EQ(ledger.stats().evicted, 0U);
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/" + std::string(Spool::kNewName)));
    struct stat info {};
    ASSERT_EQ(::stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777U, 0600U);
  }
}

TEST_F(SpoolTest, WhatComesAgainIsThereOnce) {
  Spool kept = spool();
  Ledger ledger;
  ASSERT_TRUE(kept.begin(ledger, 0));
  const RecordBuffer records = shell().take();
  drain(kept, ledger, records);
  Ledger again = next();
  EXPECT_TRUE(again.stats().stale) << "who ended meanwhile has to be asked for";
  Tape more;
  more.comm(12, 100, 100, "other");
  RecordBuffer drained = records;
  drained.insert(drained.end(), more.bytes().begin(), more.bytes().end());
  again.drop_known(drained);
  EXPECT_EQ(drained, more.bytes());
  EXPECT_EQ(again.export_window(0, kSecond, {100}).log, ledger.export_window(0, kSecond, {100}).log);
  EXPECT_EQ(again.stats().processes, 1U);
}

TEST_F(SpoolTest, TornAnywhereItIsReadUpToThere) {
  Spool kept = spool();
  Ledger ledger;
  ASSERT_TRUE(kept.begin(ledger, 0));
  const std::size_t header_bytes = file_bytes();
  const RecordBuffer records = shell().take();
  drain(kept, ledger, records);
  const std::string whole = *read_file(path());
  ASSERT_EQ(whole.size(), header_bytes + records.size());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << whole.substr(0, cut);
    const auto left = spool().read();
    ASSERT_EQ(left.has_value(), cut >= header_bytes) << cut;
    if (!left) continue;
    Ledger torn;
    torn.replay(std::as_bytes(std::span<const char>(left->records)), left->evicted);
    const RecordBuffer log = torn.export_window(0, kSecond, {}).log;
    std::size_t expected = 0;
    for (auto rest = std::span(records).first(cut - header_bytes); !next_record(rest).empty();) {
      expected += next_record(rest).size();
      rest = rest.subspan(next_record(rest).size());
    }
    ASSERT_EQ(log.size(), expected) << cut;
    ASSERT_TRUE(std::equal(log.begin(), log.end(), records.begin())) << cut;
  }
}

TEST_F(SpoolTest, OfAnotherBootOrLayoutIsNothing) {
  Spool kept = spool();
  Ledger ledger;
  ledger.add(shell().bytes());
  ASSERT_TRUE(kept.begin(ledger, 0));
  Spool other(folder_, "00000000-0f5d-4b0e-9a51-7f1f3c6c1a11");
  EXPECT_EQ(other.read()->records, "");
  EXPECT_NE(spool().read()->records, "");
  std::fstream(path(), std::ios::binary | std::ios::in | std::ios::out).seekp(24).write("x", 1);
  EXPECT_EQ(spool().read()->records, "");
}

TEST_F(SpoolTest, NothingThereIsNothing) {
  EXPECT_EQ(spool().read()->records, "");
  EXPECT_FALSE(spool().read()->found);
}

TEST_F(SpoolTest, WhatIsNotToBeTrustedIsRefusedAndReplaced) {
  Ledger ledger;
  ledger.add(shell().bytes());
  const auto refused = [this](std::string_view why) {
    const auto left = spool().read();
    ASSERT_FALSE(left);
    EXPECT_THAT(left.error().what, HasSubstr("names of processes that ended before")) << why;
    EXPECT_THAT(left.error().what, HasSubstr(std::string(why)));
    std::filesystem::remove(folder_ + "/elsewhere");
  };
  const auto begun = [&] {
    Spool kept = spool();
    ASSERT_TRUE(kept.begin(ledger, 0));
    ASSERT_NE(spool().read()->records, "") << "a good one";
  };
  begun();
  ASSERT_EQ(::rename(path().c_str(), (folder_ + "/elsewhere").c_str()), 0);
  ASSERT_EQ(::symlink("elsewhere", path().c_str()), 0);
  refused("symbolic link");
  begun();
  ASSERT_EQ(::unlink(path().c_str()), 0);
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  refused("no regular file");
  begun();
  ASSERT_EQ(::chmod(path().c_str(), 0620), 0);
  refused("writable for others");
  begun();
  ASSERT_EQ(::truncate(path().c_str(), static_cast<off_t>(Spool::kMaxFileBytes + 1)), 0);
  refused("more than a spool can have");
  begun();
  std::ofstream(path()) << std::string(1000, 'x');
  refused("no spool");
  begun();
  for (std::uint32_t i = 1; i < Spool::kMaxReadings; ++i) EXPECT_TRUE(spool().read()) << i;
  refused("flightd ended each time");
  begun();
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path().c_str(), 12345, 12345), 0);
  refused("belongs to user 12345");
  begun();
}

TEST_F(SpoolTest, AStormStaysWithinItsBoundTheLongestDeadGoFirstAndAreCounted) {
  const SpoolLimits limits{.state_bytes = 200'000, .least_growth_bytes = 100'000, .most_growth_bytes = 100'000};
  constexpr std::size_t kLogBytes = 100'000;
  Ledger ledger({.log_bytes = kLogBytes, .state_bytes = 48U << 20U});
  Spool kept = spool(limits);
  ASSERT_TRUE(kept.begin(ledger, 0));
  drain(kept, ledger, shell().bytes());
  constexpr std::uint32_t kLives = 5000;
  std::size_t largest = 0;
  for (std::uint32_t i = 0; i < kLives; ++i) {
    Tape tape;
    const EventTime at = kSecond + i * 1'000'000ULL;
    tape.fork(at, 100, 1000 + i);
    tape.exec(at + 1, 1000 + i, "life" + std::to_string(i));
    tape.map(at + 2, 1000 + i, 0x5000, 0x1000, "/bin/life");
    tape.exit(at + 500'000, 1000 + i);
    drain(kept, ledger, tape.bytes());
    largest = std::max<std::size_t>(largest, file_bytes());
  }
  EXPECT_LT(largest, limits.state_bytes + limits.most_growth_bytes + kLogBytes + 10'000);
  EXPECT_EQ(ledger.stats().evicted, 0U) << "it is the spool's bound that is tried";
  const Ledger after = next();
  const LedgerStats stats = after.stats();
  EXPECT_GT(stats.evicted, 1000U);
  EXPECT_GT(stats.exited, 500U);
  EXPECT_EQ(stats.evicted + stats.exited, kLives);
  const ReaderModel model =
      read(after.export_window(6 * kSecond - 600'000, 6 * kSecond - 600'000, {100, 1000 + kLives - 1}));
  EXPECT_EQ(model.comm_of(1000 + kLives - 1, 1000 + kLives - 1), "life4999");
  EXPECT_EQ(model.map_at(1000 + kLives - 1, 0x5800), "/bin/life");
  EXPECT_EQ(model.comm_of(100, 100), "bash");
}

TEST_F(SpoolTest, WhoDidNotFitWhileItLivedIsWrittenWhenItEnds) {
  Ledger ledger;
  for (std::uint32_t pid = 100; pid < 600; ++pid) {
    Tape tape;
    tape.fork(pid, 1, pid);
    tape.exec(pid + 1, pid, "server" + std::to_string(pid));
    for (std::uint64_t i = 0; i < 20; ++i) tape.map(pid + 2 + i, pid, i * 0x4000, 0x2000, "/lib/a" + std::to_string(i));
    ledger.add(tape.bytes());
  }
  ledger.fold(kSecond);
  Spool kept = spool({.state_bytes = 20'000});
  ASSERT_TRUE(kept.begin(ledger, 0));
  ASSERT_LT(next().stats().processes, 50U);
  const std::size_t before = file_bytes();
  Tape end;
  for (std::uint32_t pid = 100; pid < 600; pid += 50) end.exit(2 * kSecond + pid, pid);
  drain(kept, ledger, end.bytes());
  EXPECT_LT(file_bytes(), before + 10 * 4000 + end.bytes().size());
  const Ledger after = next();
  for (std::uint32_t pid = 100; pid < 600; pid += 50) {
    const ReaderModel model = read(after.export_window(2 * kSecond, 2 * kSecond, {pid}));
    EXPECT_EQ(model.comm_of(pid, pid), "server" + std::to_string(pid));
    EXPECT_EQ(model.map_at(pid, 19 * 0x4000), "/lib/a19");
    EXPECT_EQ(read(after.export_window(3 * kSecond, 3 * kSecond, {pid})).comm_of(pid, pid), "") << "it has ended";
  }
}

// A server of many maps with many children: what they share is written once.
TEST_F(SpoolTest, ChildrenWithTheirParentsMapsTakeLittleRoom) {
  Ledger ledger;
  Tape tape = shell();
  for (std::uint64_t i = 0; i < 1000; ++i) tape.map(20 + i, 100, 0x100000 + i * 0x4000, 0x2000, "/lib/part");
  for (std::uint32_t pid = 1000; pid < 2000; ++pid) {
    tape.fork(kSecond + pid, 100, pid);
    tape.comm(kSecond + pid + 1, pid, pid, "child" + std::to_string(pid));
    tape.exit(2 * kSecond + pid, pid);
  }
  tape.fork(kSecond + 5000, 100, 3000);
  tape.map(kSecond + 5001, 3000, 0x100000, 0x2000, "/lib/own");
  ledger.add(tape.bytes());
  // Folded, so that it is the state that is written.
  ledger.fold(kSecond + 10'000);
  Spool kept = spool();
  ASSERT_TRUE(kept.begin(ledger, 0));
  EXPECT_LT(file_bytes(), 1'000'000U);
  const Ledger after = next();
  const ReaderModel model = read(after.export_window(kSecond + 10'000, kSecond + 10'000, {1000, 1999, 3000}));
  for (const std::uint32_t pid : {1000U, 1999U}) {
    EXPECT_EQ(model.comm_of(pid, pid), "child" + std::to_string(pid));
    EXPECT_EQ(model.map_at(pid, 0x100000), "/lib/part");
    EXPECT_EQ(model.map_at(pid, 0x100000 + 999 * 0x4000), "/lib/part");
  }
  EXPECT_EQ(model.map_at(3000, 0x100000), "/lib/own");
  EXPECT_EQ(model.map_at(3000, 0x104000), "/lib/part");
}

TEST_F(SpoolTest, CgroupsAndKernelSymbolsAreKept) {
  Ledger ledger;
  Tape tape;
  tape.cgroup(5, 77, "/system.slice/gone.service");
  tape.ksymbol(6, 0xffff0000, "bpf_prog_1");
  ledger.add(tape.bytes());
  ledger.fold(kSecond);
  Spool kept = spool();
  ASSERT_TRUE(kept.begin(ledger, 0));
  const ReaderModel model = read(next().export_window(kSecond, kSecond, {}));
  EXPECT_EQ(model.cgroups.at(77), "/system.slice/gone.service");
  EXPECT_EQ(model.ksymbols.at(0xffff0000), "bpf_prog_1");
}

TEST_F(SpoolTest, AFullDiskIsToldOnceAndMadeGoodLater) {
  const SpoolLimits limits{};
  Ledger ledger;
  Spool kept = spool(limits);
  ASSERT_TRUE(kept.begin(ledger, kSecond));
  {
    const FileSizeLimit full(300);
    Tape tape = shell();
    const auto told = kept.append(ledger, tape.bytes());
    ASSERT_FALSE(told);
    EXPECT_THAT(told.error().what, HasSubstr("have no names"));
    EXPECT_EQ(kept.trouble(), told.error().what);
    ledger.add(tape.bytes());
    EXPECT_TRUE(kept.append(ledger, Tape().bytes()));
    EXPECT_TRUE(kept.keep_up(ledger, kSecond + limits.retry_ns)) << "it is told once";
    EXPECT_NE(kept.trouble(), "");
    EXPECT_EQ(comm_of(next(), 100), "bash") << "what came before the disk was full";
    EXPECT_FALSE(spool().read()->complete);
  }
  EXPECT_TRUE(kept.keep_up(ledger, kSecond + 2 * limits.retry_ns - 1));
  EXPECT_NE(kept.trouble(), "") << "not yet";
  EXPECT_TRUE(kept.keep_up(ledger, kSecond + 2 * limits.retry_ns));
  EXPECT_EQ(kept.trouble(), "");
  EXPECT_TRUE(spool().read()->complete);
  EXPECT_EQ(read(next().export_window(20, kSecond, {100})).text(),
            read(ledger.export_window(20, kSecond, {100})).text());
  const FileSizeLimit full(10);
  Tape more;
  more.fork(kSecond, 100, 200);
  EXPECT_FALSE(kept.append(ledger, more.bytes())) << "told again, after a success";
}

TEST_F(SpoolTest, AFileOrFolderThatSomebodyRemovedIsMadeAgain) {
  Ledger ledger;
  Spool kept = spool();
  ASSERT_TRUE(kept.begin(ledger, 0));
  drain(kept, ledger, shell().bytes());
  ASSERT_EQ(::unlink(path().c_str()), 0);
  ASSERT_TRUE(kept.keep_up(ledger, 0));
  EXPECT_EQ(comm_of(next(), 100), "bash");
  std::filesystem::remove_all(folder_);
  const auto told = kept.keep_up(ledger, kSecond);
  ASSERT_FALSE(told);
  EXPECT_THAT(told.error().what, HasSubstr(folder_));
  ASSERT_EQ(::mkdir(folder_.c_str(), 0755), 0);
  ASSERT_TRUE(kept.keep_up(ledger, 60 * kSecond));
  EXPECT_EQ(kept.trouble(), "");
  EXPECT_EQ(comm_of(next(), 100), "bash");
}

}  // namespace
}  // namespace flight
