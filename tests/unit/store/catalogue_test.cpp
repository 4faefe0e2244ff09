// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/catalogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libcore/base/files.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Store : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-store-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string at(const std::string& file) const { return folder_ + "/" + file; }
  void write(const std::string& file, const std::string& text) const { std::ofstream(at(file)) << text; }
  static SnapshotName name_of(std::uint64_t seq, const std::string& trigger = "manual",
                              const std::string& host = "web3") {
    return {.host = host,
            .time = std::chrono::milliseconds(1795144324123 + static_cast<std::int64_t>(seq)),
            .trigger = trigger,
            .seq = seq};
  }
  std::string sidecar_text(const SnapshotName& name) const {
    Sidecar sidecar = sample_sidecar();
    sidecar.id = fmt::format("{}", name.seq);
    sidecar.path = at(name.data_file());
    sidecar.reason = fmt::format("reason {}", name.seq);
    sidecar.samples = name.seq * 10;
    return to_json(sidecar);
  }
  void make(const SnapshotName& name) const {
    write(name.data_file(), "PERFILE2");
    write(name.sidecar_file(), sidecar_text(name));
  }
  static std::vector<std::string> ids(Catalogue& catalogue) {
    std::vector<std::string> ids;
    const auto rows = catalogue.list();
    if (!rows)
      ADD_FAILURE() << rows.error().what;
    else
      for (const CatalogueRow& row : *rows) ids.push_back(row.id);
    return ids;
  }
  std::string folder_;
};

// A recording that was killed: its part can be finished, and what has no journal cannot.
TEST_F(Store, PartsWithAJournalAreNoLeftovers) {
  for (const std::uint64_t seq : {7U, 9U})
    for (const PartFileKind kind : {PartFileKind::data, PartFileKind::journal, PartFileKind::sidecar})
      write(part_file(kind, seq), "x");
  write(part_file(PartFileKind::data, 8), "without a journal");
  write(part_file(PartFileKind::sidecar, 8), "x");
  write(part_file(PartFileKind::journal, 10), "without data");
  write(".flightd-0123456789abcdef.partial", "of a snapshot");
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.remove_partials(), 4U);
  EXPECT_EQ(catalogue.parts().value(), (std::vector<std::uint64_t>{7, 9}));
  for (const std::uint64_t seq : {7U, 9U})
    for (const PartFileKind kind : {PartFileKind::data, PartFileKind::journal, PartFileKind::sidecar})
      EXPECT_TRUE(fs::exists(at(part_file(kind, seq))));
  EXPECT_TRUE(ids(catalogue).empty()) << "none of it is a snapshot";
}

TEST_F(Store, ARowSaysWhichPartOfARecordingItIs) {
  const SnapshotName name = name_of(42, "record");
  Sidecar sidecar = sample_sidecar();
  sidecar.record = SidecarRecord{.first = "41", .part = 2, .ended = "asked"};
  write(name.data_file(), "PERFILE2");
  write(name.sidecar_file(), to_json(sidecar));
  Catalogue catalogue(folder_);
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows) << rows.error().what;
  ASSERT_TRUE(rows->front().record);
  const auto read = parse_rows(to_json(*rows));
  ASSERT_TRUE(read) << read.error().what;
  ASSERT_TRUE(read->front().record);
  EXPECT_EQ(read->front().record->first, "41");
  EXPECT_EQ(read->front().record->part, 2U);
  EXPECT_EQ(read->front().record->ended, "asked");
}

TEST_F(Store, ARowHasNameAndSidecar) {
  make(name_of(42, "cpu-spike"));
  Catalogue catalogue(folder_);
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows) << rows.error().what;
  ASSERT_EQ(rows->size(), 1U);
  const CatalogueRow& row = rows->front();
  EXPECT_EQ(row.id, "42");
  EXPECT_EQ(row.path, at(name_of(42, "cpu-spike").data_file()));
  EXPECT_EQ(row.time, "2026-11-20T03:12:04.165Z");
  EXPECT_EQ(row.trigger, "cpu-spike");
  EXPECT_EQ(row.reason, "reason 42");
  EXPECT_EQ(row.size_bytes, 100U);
  EXPECT_EQ(row.samples, 420U);
  EXPECT_EQ(row.seconds, 2.5);
  EXPECT_FALSE(row.pinned);
  EXPECT_EQ(row.state, SnapshotState::present);
}

TEST_F(Store, PathsAreAbsoluteWhereTheFolderIsNot) {
  make(name_of(1));
  const fs::path before = fs::current_path();
  fs::current_path("/tmp");
  Catalogue catalogue(fs::path(folder_).filename().string());
  const auto rows = catalogue.list();
  fs::current_path(before);
  ASSERT_TRUE(rows) << rows.error().what;
  EXPECT_EQ(rows->at(0).path, at(name_of(1).data_file()));
}

TEST_F(Store, OldestFirstByNumberNotByName) {
  for (const std::uint64_t seq : {10, 9, 100, 2}) make(name_of(seq));
  Catalogue catalogue(folder_);
  EXPECT_EQ(ids(catalogue), (std::vector<std::string>{"2", "9", "10", "100"}));
}

TEST_F(Store, MissingAndOrphan) {
  make(name_of(1));
  make(name_of(2));
  make(name_of(3));
  fs::remove(at(name_of(1).data_file()));
  fs::remove(at(name_of(2).sidecar_file()));
  write(name_of(3).sidecar_file(), "garbage");
  Catalogue catalogue(folder_);
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ(rows->at(0).state, SnapshotState::missing);
  EXPECT_EQ(rows->at(0).reason, "reason 1");
  EXPECT_EQ(rows->at(1).state, SnapshotState::orphan);
  EXPECT_EQ(rows->at(1).size_bytes, 8U);
  EXPECT_EQ(rows->at(2).state, SnapshotState::orphan);
}

// A sidecar is read up to what is not needed, or to its end; the first piece has 16 KiB.
TEST_F(Store, SidecarsOfAnySizeAreRead) {
  auto folder = Folder::open(folder_);
  ASSERT_TRUE(folder);
  constexpr std::size_t kPiece = 16U << 10U;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kPiece - 1, kPiece, kPiece + 1, 3 * kPiece}) {
    const std::string text(size, 'x');
    write("file", text);
    EXPECT_EQ(folder->read_until("file", "END", 1U << 20U).value_or("?"), text) << size;
  }
  std::string text = "begin END" + std::string(3 * kPiece, 'x');
  write("file", text);
  text.resize(kPiece);
  EXPECT_EQ(folder->read_until("file", "END", 1U << 20U).value_or("?"), text);
  EXPECT_FALSE(folder->read_until("file", "none", kPiece)) << "it is larger";
}

// Shows that a second list() opens no sidecar: their text has changed (in the same inode), and the rows have not.
TEST_F(Store, ASecondListReadsNoSidecar) {
  for (std::uint64_t seq = 1; seq <= 5; ++seq) make(name_of(seq));
  Catalogue catalogue(folder_);
  const auto first = catalogue.list();
  ASSERT_TRUE(first);
  for (std::uint64_t seq = 1; seq <= 5; ++seq) write(name_of(seq).sidecar_file(), "another text");
  const auto second = catalogue.list();
  ASSERT_TRUE(second);
  EXPECT_EQ(to_json(*first), to_json(*second));
  EXPECT_EQ(catalogue.list_json(), to_json(*first));
  EXPECT_EQ(Catalogue(folder_).list()->at(0).state, SnapshotState::orphan) << "a new catalogue does read them";
}

TEST_F(Store, ASecondListSeesAllChanges) {
  for (std::uint64_t seq = 1; seq <= 4; ++seq) make(name_of(seq));
  Catalogue catalogue(folder_);
  // The text is kept, too, and a change in the rows is one in it.
  const auto expect_same = [&](const char* after) {
    EXPECT_EQ(catalogue.list_json(), to_json(*Catalogue(folder_).list())) << after;
    EXPECT_EQ(catalogue.list_json(), to_json(*catalogue.list())) << after;
  };
  EXPECT_EQ(ids(catalogue).size(), 4U);
  expect_same("the first list");
  fs::remove(at(name_of(1).data_file()));
  fs::remove(at(name_of(1).sidecar_file()));
  fs::remove(at(name_of(2).data_file()));
  make(name_of(5));
  write("new", sidecar_text(name_of(30)));  // reason 30
  fs::rename(at("new"), at(name_of(3).sidecar_file()));
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 4U);
  EXPECT_EQ(rows->at(0).state, SnapshotState::missing);
  EXPECT_EQ(rows->at(1).reason, "reason 30");
  EXPECT_EQ(rows->at(2).reason, "reason 4");
  EXPECT_EQ(rows->at(3).id, "5");
  write(name_of(2).data_file(), "back again");
  EXPECT_EQ(catalogue.list()->at(0).state, SnapshotState::present);
  expect_same("files came and went");
  write(name_of(4).pin_file(), "");
  expect_same("a pin");
  make(name_of(6));
  expect_same("one more");
  fs::remove(at(name_of(6).data_file()));
  fs::remove(at(name_of(6).sidecar_file()));
  expect_same("one less");
  fs::remove_all(folder_);
  fs::create_directory(folder_);
  EXPECT_EQ(catalogue.list_json(), "[]");
}

class ManyRows : public Store {
 protected:
  void expect_rows(std::uint64_t count) const {
    for (std::uint64_t seq = 1; seq <= count; ++seq) {
      write(name_of(seq).data_file(), "");
      write(name_of(seq).sidecar_file(),
            fmt::format(
                R"({{"id": "{0}", "path": "/p", "trigger": "manual", "reason": "reason {0}", "samples": {0}0}})", seq));
    }
    Catalogue catalogue(folder_);
    for (int round = 0; round < 2; ++round) {
      const auto rows = catalogue.list();
      ASSERT_TRUE(rows);
      ASSERT_EQ(rows->size(), count);
      for (std::uint64_t seq = 1; seq <= count; ++seq) {
        const CatalogueRow& row = rows->at(seq - 1);
        ASSERT_EQ(row.id, fmt::format("{}", seq));
        ASSERT_EQ(row.samples, seq * 10);
        ASSERT_EQ(row.reason, fmt::format("reason {}", seq));
      }
    }
    for (std::uint64_t seq = 1; seq <= 20; ++seq) ASSERT_TRUE(catalogue.remove(fmt::format("{}", seq)));
    EXPECT_EQ(ids(catalogue).size(), count - 20);
    EXPECT_EQ(*catalogue.next_seq(), count + 1);
  }
};
using ManyRowsLong = ManyRows;

TEST_F(ManyRows, FiveHundred) { expect_rows(500); }
TEST_F(ManyRowsLong, TwoThousand) { expect_rows(2000); }

TEST_F(Store, DescribeIsTheSidecarsText) {
  make(name_of(9));
  make(name_of(10));
  const Catalogue catalogue(folder_);
  EXPECT_EQ(*catalogue.describe("9"), sidecar_text(name_of(9)));
  EXPECT_EQ(*catalogue.describe("latest"), sidecar_text(name_of(10)));
}

TEST_F(Store, UnknownIdsHaveDistinctErrors) {
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.describe("latest").error().errno_value(), ENOENT);
  make(name_of(9));
  EXPECT_EQ(catalogue.describe("7").error().errno_value(), ENOENT);
  EXPECT_THAT(catalogue.describe("7").error().what, HasSubstr("no snapshot 7"));
  EXPECT_EQ(catalogue.remove("7").error().errno_value(), ENOENT);
  fs::remove(at(name_of(9).sidecar_file()));
  EXPECT_EQ(catalogue.describe("9").error().errno_value(), ENODATA);
  EXPECT_THAT(catalogue.describe("9").error().what, HasSubstr(name_of(9).data_file()));
}

TEST_F(Store, WhatIsNoIdIsRefused) {
  make(name_of(9));
  Catalogue catalogue(folder_);
  for (const std::string id : {"", "09", "+9", " 9", "9 ", "9.json", "../9", "/etc/passwd", "Latest", "9/../9",
                               "18446744073709551616", "999999999999999999999999"}) {
    EXPECT_FALSE(catalogue.describe(id)) << id;
    EXPECT_EQ(catalogue.remove(id).error().errno_value(), EINVAL) << id;
  }
  EXPECT_FALSE(catalogue.describe(std::string("9\0", 2)));
  EXPECT_EQ(ids(catalogue).size(), 1U);
}

TEST_F(Store, RemoveTakesBothFilesAndNothingElse) {
  make(name_of(9));
  make(name_of(10));
  Catalogue catalogue(folder_);
  EXPECT_TRUE(catalogue.remove("9"));
  EXPECT_FALSE(fs::exists(at(name_of(9).data_file())));
  EXPECT_FALSE(fs::exists(at(name_of(9).sidecar_file())));
  EXPECT_TRUE(fs::exists(at(name_of(10).data_file())));
  EXPECT_EQ(ids(catalogue), (std::vector<std::string>{"10"}));
  fs::remove(at(name_of(10).data_file()));
  EXPECT_TRUE(catalogue.remove("10")) << "what is missing can be removed, too";
  EXPECT_TRUE(ids(catalogue).empty());
}

TEST_F(Store, ACopyOfTheSameNumberDoesNotHideTheSnapshot) {
  make(name_of(9));
  write(name_of(9, "manual", "other").data_file(), "a copy without a sidecar");
  Catalogue catalogue(folder_);
  EXPECT_EQ(ids(catalogue).size(), 2U);
  EXPECT_EQ(*catalogue.describe("9"), sidecar_text(name_of(9)));
}

TEST_F(Store, ForeignFilesSurvive) {
  const std::vector<std::string> foreign{"README",
                                         "perf.data",
                                         "flight-web3.perf.data",
                                         "flight-web3-20261120T031204.123Z-manual-9.perf.data.bak",
                                         "flight-web3-20261320T031204.123Z-manual-9.perf.data",
                                         "mine.partial",
                                         "notflight-1.partial",
                                         "flight.partial",
                                         "flight-1.partial.keep",
                                         "kallsyms-x y.zst"};
  for (const std::string& file : foreign) write(file, "mine");
  fs::create_directory(at("flight-folder.partial"));
  fs::create_directory(at(name_of(8).data_file()));
  make(name_of(9));
  Catalogue catalogue(folder_);
  EXPECT_EQ(ids(catalogue), (std::vector<std::string>{"9"}));
  EXPECT_EQ(catalogue.remove("8").error().errno_value(), ENOENT);
  EXPECT_TRUE(catalogue.remove("9"));
  EXPECT_EQ(catalogue.remove_partials(), 0U);
  EXPECT_EQ(*catalogue.next_seq(), 1U);
  for (const std::string& file : foreign) EXPECT_EQ(*read_file(at(file)), "mine") << file;
  EXPECT_TRUE(fs::exists(at("flight-folder.partial")));
  EXPECT_TRUE(fs::exists(at(name_of(8).data_file())));
}

TEST_F(Store, SymbolicLinksAreNotFollowed) {
  write("secret", sidecar_text(name_of(7)));
  fs::create_symlink(at("secret"), at(name_of(7).sidecar_file()));
  write(name_of(7).data_file(), "data");
  fs::create_symlink(at("secret"), at(name_of(8).data_file()));
  Catalogue catalogue(folder_);
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->at(0).state, SnapshotState::orphan);
  EXPECT_TRUE(rows->at(0).reason.empty());
  EXPECT_EQ(catalogue.describe("7").error().errno_value(), ENODATA);
  EXPECT_EQ(catalogue.describe("8").error().errno_value(), ENOENT);
}

TEST_F(Store, AMissingFolderIsReported) {
  Catalogue gone(folder_ + "/gone");
  EXPECT_THAT(gone.list().error().what, HasSubstr("/gone"));
  EXPECT_FALSE(gone.next_seq());
  EXPECT_EQ(gone.remove_partials(), 0U);
  EXPECT_EQ(gone.usage().snapshots, 0U);
}

TEST_F(Store, NumbersRiseAndAreNeverUsedTwice) {
  Catalogue catalogue(folder_);
  EXPECT_EQ(*catalogue.next_seq(), 1U);
  EXPECT_EQ(*catalogue.next_seq(), 2U);
  make(name_of(10));
  EXPECT_EQ(*catalogue.next_seq(), 11U);
  EXPECT_TRUE(catalogue.remove("10"));
  EXPECT_EQ(*Catalogue(folder_).next_seq(), 12U);
  write(name_of(20).sidecar_file(), "only a sidecar");
  EXPECT_EQ(*catalogue.next_seq(), 21U);
  EXPECT_EQ(*read_file(at(".seq")), "21\n");
  write(part_file(PartFileKind::data, 30), "a part that is not finished, and .seq is that of an older backup");
  EXPECT_EQ(*catalogue.next_seq(), 31U);
}

TEST_F(Store, GarbageInTheNumbersFileIsOverwritten) {
  make(name_of(5));
  std::uint64_t expected = 6;
  for (const std::string& garbage : {std::string(), std::string("x"), std::string("-3\n"), std::string(1000, '9'),
                                     std::string("\0\0\0\0", 4), std::string("12 \n"), std::string("007\n")}) {
    write(".seq", garbage);
    Catalogue catalogue(folder_);
    const auto seq = catalogue.next_seq();
    ASSERT_TRUE(seq) << seq.error().what;
    EXPECT_EQ(*seq, expected);
  }
}

TEST_F(Store, ALinkInPlaceOfTheNumbersFileIsReplacedNotWrittenThrough) {
  write("victim", "99\n");
  fs::create_symlink(at("victim"), at(".seq"));
  fs::create_symlink(at("victim"), at(".flight-seq.partial"));
  EXPECT_EQ(*Catalogue(folder_).next_seq(), 1U);
  EXPECT_EQ(*read_file(at("victim")), "99\n");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(at(".seq"))));
}

TEST_F(Store, TheLastNumberIsAnErrorNotWrappedAround) {
  write(".seq", fmt::format("{}\n", kMaxSeq));
  const auto seq = Catalogue(folder_).next_seq();
  ASSERT_FALSE(seq);
  EXPECT_EQ(seq.error().errno_value(), EOVERFLOW);
  EXPECT_THAT(seq.error().what, HasSubstr(at(".seq") + " has the largest possible number"));
}

// In an earlier version one such file, copied there by somebody, let each snapshot fail.
TEST_F(Store, AForeignNumberInANameDoesNotUseUpAllOthers) {
  make(name_of(5));
  for (const std::uint64_t foreign :
       {kMaxForeignSeq + 1, kMaxSeq - 1, kMaxSeq, std::uint64_t{INT64_MAX}, std::uint64_t{UINT64_MAX}}) {
    SnapshotName name = name_of(1);
    name.seq = foreign;
    write(name.data_file(), "PERFILE2");
  }
  write(part_file(PartFileKind::data, UINT64_MAX), "");
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.last_seq().value(), 5U);
  EXPECT_EQ(catalogue.next_seq().value(), 6U);
  EXPECT_EQ(catalogue.next_seq().value(), 7U);
  make(name_of(kMaxForeignSeq));
  EXPECT_EQ(catalogue.next_seq().value(), kMaxForeignSeq + 1);
  EXPECT_EQ(Catalogue(folder_).next_seq().value(), kMaxForeignSeq + 2) << ".seq has it";
}

// The snapshot's own files may have taken the last inodes.
TEST_F(Store, WithoutAnInodeTheNumberIsWrittenIntoItsFile) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  ASSERT_EQ(::mount("none", folder_.c_str(), "tmpfs", 0, "size=1M,nr_inodes=10"), 0);
  const auto fill = [this] {
    for (int i = 0; std::ofstream(at(fmt::format("other-{}", i))); ++i) ASSERT_LT(i, 100);
  };
  {
    write(".seq", "9\n and what a damaged file may have");
    fill();
    Catalogue catalogue(folder_);
    EXPECT_EQ(catalogue.next_seq().value(), 10U);
    EXPECT_EQ(*read_file(at(".seq")), "10\n");
    EXPECT_FALSE(catalogue.damaged_seq());
    // Nobody else's file is written.
    fs::remove(at("other-1"));  // tmpfs counts a link as an inode
    fs::create_hard_link(at(".seq"), at("other-name"));
    fill();
    EXPECT_EQ(catalogue.next_seq().value(), 11U);
    ASSERT_TRUE(catalogue.damaged_seq());
    EXPECT_THAT(catalogue.damaged_seq()->what, HasSubstr("no space, or no inode"));
    EXPECT_EQ(*read_file(at("other-name")), "10\n");
    EXPECT_EQ(catalogue.next_seq().value(), 12U);
    fs::remove(at("other-name"));
    fs::remove(at(".seq"));
    fill();
    EXPECT_EQ(catalogue.next_seq().value(), 13U) << "without the file";
    fs::remove(at("other-0"));
    EXPECT_EQ(catalogue.next_seq().value(), 14U);
    EXPECT_FALSE(catalogue.damaged_seq());
    EXPECT_EQ(*read_file(at(".seq")), "14\n");
  }
  EXPECT_EQ(::umount(folder_.c_str()), 0);
}

// In an earlier version each snapshot failed.
TEST_F(Store, ADirectoryInPlaceOfTheNumbersFileIsReportedAndNumbersGoOn) {
  make(name_of(5));
  fs::create_directory(at(".seq"));
  write(".seq/file", "of somebody");
  Catalogue snapshots(folder_), parts(folder_);
  EXPECT_EQ(snapshots.next_seq().value(), 6U);
  ASSERT_TRUE(snapshots.damaged_seq());
  EXPECT_THAT(snapshots.damaged_seq()->what, HasSubstr(at(".seq") + " is a directory"));
  EXPECT_EQ(parts.next_seq().value(), 7U) << "the first one is not in any name yet";
  EXPECT_EQ(snapshots.next_seq().value(), 8U);
  ASSERT_TRUE(parts.raise_seq(3));
  EXPECT_EQ(parts.next_seq().value(), 9U);
  EXPECT_TRUE(fs::exists(at(".seq/file")));
  fs::remove_all(at(".seq"));
  EXPECT_EQ(snapshots.next_seq().value(), 10U);
  EXPECT_FALSE(snapshots.damaged_seq());
  EXPECT_EQ(*read_file(at(".seq")), "10\n");
}

TEST_F(Store, PartialsOfEarlierLivesAreRemoved) {
  for (const char* file :
       {"flight-a.partial", ".flight-x7.partial", ".flightd-kallsyms.partial", ".flight-seq.partial"})
    write(file, "half");
  write("other.partial", "foreign");
  write(".hidden.partial", "foreign");
  fs::create_symlink("/etc/passwd", at("flight-link.partial"));
  make(name_of(1));
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.remove_partials(), 4U);
  EXPECT_EQ(catalogue.remove_partials(), 0U);
  EXPECT_TRUE(fs::exists(at("other.partial")));
  EXPECT_TRUE(fs::exists(at(".hidden.partial")));
  EXPECT_TRUE(fs::is_symlink(at("flight-link.partial")));
  EXPECT_EQ(ids(catalogue).size(), 1U);
}

TEST_F(Store, TheSymbolsAreThoseThatTheSidecarNames) {
  const std::string old = kallsyms_file("0f7c"), first = kallsyms_file("0f7c", "00000000000000aa"),
                    second = kallsyms_file("0f7c", "00000000000000bb");
  for (const std::string& file : {old, first, second}) write(file, file);
  const auto snapshot = [&](std::uint64_t seq, std::optional<std::string> kallsyms) {
    const SnapshotName name = name_of(seq);
    write(name.data_file(), "data");
    Sidecar sidecar = parse_sidecar(sidecar_text(name)).value();
    sidecar.boot_id = "0f7c";
    sidecar.kallsyms = std::move(kallsyms);
    write(name.sidecar_file(), to_json(sidecar));
  };
  snapshot(1, std::nullopt);  // of flightd 0.1
  snapshot(2, first);
  snapshot(3, second);
  snapshot(4, "");  // they could not be read, but this does not mean another boot
  snapshot(5, "../../../etc/passwd");
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.open_kallsyms("1")->name, old);
  EXPECT_EQ(catalogue.open_kallsyms("2")->name, first);
  EXPECT_EQ(catalogue.open_kallsyms("3")->name, second);
  EXPECT_EQ(catalogue.open_kallsyms("4").error().errno_value(), ENODATA);
  EXPECT_EQ(catalogue.open_kallsyms("5").error().errno_value(), ENODATA);
  const auto rows = catalogue.list().value();
  std::vector<std::string> named;
  for (const CatalogueRow& row : rows) named.push_back(row.kallsyms);
  EXPECT_EQ(named, (std::vector<std::string>{old, first, second, "", ""}));
}

TEST_F(Store, NumbersAreRaisedAndNeverLowered) {
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.last_seq().value(), 0U);
  make(name_of(5));
  EXPECT_EQ(catalogue.last_seq().value(), 5U) << "by its name";
  ASSERT_TRUE(catalogue.raise_seq(3));
  EXPECT_EQ(catalogue.next_seq().value(), 6U);
  ASSERT_TRUE(catalogue.raise_seq(41));
  ASSERT_TRUE(catalogue.raise_seq(7));
  EXPECT_EQ(catalogue.last_seq().value(), 41U);
  EXPECT_EQ(Catalogue(folder_).next_seq().value(), 42U) << "for each catalogue";
  EXPECT_EQ(catalogue.next_seq().value(), 43U);
  EXPECT_FALSE(Catalogue(folder_ + "/none").last_seq());
}

// A file system that is mounted over the store can have any number, by accident or on purpose.
TEST_F(Store, ANumberThatNobodyHasGivenIsNotFollowed) {
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.next_seq().value(), 1U);
  for (const std::uint64_t foreign : {kMaxForeignSeq + 1, kMaxSeq, UINT64_MAX}) {
    const auto raised = catalogue.raise_seq(foreign);
    ASSERT_FALSE(raised);
    EXPECT_EQ(raised.error().errno_value(), EOVERFLOW);
    EXPECT_THAT(raised.error().what, HasSubstr(std::to_string(foreign)));
  }
  EXPECT_EQ(catalogue.next_seq().value(), 2U);
  ASSERT_TRUE(catalogue.raise_seq(kMaxForeignSeq));
  EXPECT_EQ(catalogue.next_seq().value(), kMaxForeignSeq + 1) << "there are a thousand million times as many left";
  EXPECT_EQ(catalogue.next_seq().value(), kMaxForeignSeq + 2);
}

TEST_F(Store, AnImpossibleNumberInTheNumbersFileIsReplacedAndReported) {
  make(name_of(5));
  write(".seq", "18446744073709551615\n");
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.last_seq().value(), 5U);
  EXPECT_EQ(catalogue.next_seq().value(), 6U);
  ASSERT_TRUE(catalogue.damaged_seq());
  EXPECT_THAT(catalogue.damaged_seq()->what, HasSubstr(folder_ + "/.seq has the number 18446744073709551615"));
  EXPECT_EQ(catalogue.next_seq().value(), 7U);
  EXPECT_FALSE(catalogue.damaged_seq());
}

// The directory that had the name in between gave huge numbers; they are not remembered for the real one.
TEST_F(Store, HugeNumbersOfTheDirectoryBeforeAreNotRemembered) {
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.next_seq().value(), 1U);
  write(".seq", fmt::format("{}\n", kMaxSeq - 2));
  EXPECT_EQ(catalogue.next_seq().value(), kMaxSeq - 1);
  write(".seq", "1\n");
  EXPECT_EQ(catalogue.next_seq().value(), 2U);
}

TEST_F(Store, UsageIsWhatTheDiskGives) {
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.usage().bytes, 0U);
  make(name_of(1));
  make(name_of(2));
  fs::remove(at(name_of(2).data_file()));  // its sidecar still uses space
  write(kallsyms_file("0f7c"), std::string(20000, 'k'));
  write("foreign", std::string(1U << 20U, 'f'));
  // A sparse file: st_size would say 1 GiB.
  fs::resize_file(at(name_of(1).data_file()), 1U << 30U);
  std::uint64_t expected = 0;
  for (const std::string& file :
       {name_of(1).data_file(), name_of(1).sidecar_file(), name_of(2).sidecar_file(), kallsyms_file("0f7c")}) {
    struct stat status {};
    ASSERT_EQ(::stat(at(file).c_str(), &status), 0);
    expected += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  EXPECT_EQ(catalogue.usage().bytes, expected);
  EXPECT_LT(catalogue.usage().bytes, 1U << 20U);
  EXPECT_EQ(catalogue.usage().snapshots, 1U);
}

TEST(Rows, ReadWhatTheyWrote) {
  const std::vector<CatalogueRow> rows{
      {"1", "/s/a", "2026-11-20T03:12:04.123Z", "manual", "why \xff", 5, 6, 2.5, true, SnapshotState::missing},
      {"2", "/s/b", "t", "oom", "", 0, 0, 0, false, SnapshotState::orphan}};
  const std::string text = to_json(rows);
  EXPECT_EQ(
      text,
      R"([{"id":"1","path":"/s/a","time":"2026-11-20T03:12:04.123Z","trigger":"manual","reason":"why )"
      "\xef\xbf\xbd"
      R"(","size_bytes":5,"samples":6,"seconds":2.5,"pinned":true,"state":"missing"},)"
      R"({"id":"2","path":"/s/b","time":"t","trigger":"oom","reason":"","size_bytes":0,"samples":0,"seconds":0.0,"pinned":false,"state":"orphan"}])");
  const auto read = parse_rows(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json(*read), text);
  EXPECT_EQ(to_json(std::vector<CatalogueRow>{}), "[]");
  EXPECT_TRUE(parse_rows("[]")->empty());
}

TEST(Rows, WrongOnesAreRefused) {
  for (const char* text : {"", "{}", "[5]", "[{}]", R"([{"id": 5}])", R"([{"id": "5", "state": "lost"}])",
                           R"([{"id": "5", "samples": -1}])", R"([{"id": "5"}, {"id": "6", "pinned": 1}])"})
    EXPECT_FALSE(parse_rows(text)) << text;
  EXPECT_THAT(parse_rows(R"([{"id": "5"}, {"id": "6", "pinned": 1}])").error().what, HasSubstr("[1].pinned"));
}

}  // namespace
}  // namespace flight
