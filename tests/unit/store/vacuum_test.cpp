// SPDX-License-Identifier: Apache-2.0
// The inventory of a real directory, and its content after deletions.
#include "libcore/store/vacuum.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

namespace flight {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Vacuum : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-vacuum-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string at(const std::string& file) const { return folder_ + "/" + file; }
  void write(const std::string& file, std::size_t bytes = 10) const {
    std::ofstream(at(file)) << std::string(bytes, 'x');
  }
  static SnapshotName name_of(std::uint64_t seq) {
    return {.host = "web3", .time = std::chrono::hours(480'000 + seq), .trigger = "manual", .seq = seq};
  }
  void make(std::uint64_t seq, std::size_t bytes = 10) const {
    write(name_of(seq).data_file(), bytes);
    write(name_of(seq).sidecar_file());
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }
  [[nodiscard]] Inventory inventory() const {
    auto found = take_inventory(folder_);
    EXPECT_TRUE(found) << found.error().what;
    return found ? std::move(*found) : Inventory{};
  }
  static VacuumPlan all_of(const Inventory& inventory) {
    VacuumPlan plan;
    for (std::size_t i = 0; i < inventory.names.size(); ++i)
      plan.victims.push_back({.index = i, .reason = VacuumReason::max_files});
    return plan;
  }
  std::string folder_;
};

TEST_F(Vacuum, TheInventoryCountsBlocksOfAllFiles) {
  make(1, 100'000);
  make(2);
  write(name_of(1).pin_file(), 5000);
  fs::resize_file(at(name_of(2).data_file()), 1U << 30U);  // sparse
  write(kallsyms_file("0f7c"), 50'000);
  write("foreign", 1U << 20U);
  const auto blocks = [&](const std::string& file) {
    struct stat status {};
    EXPECT_EQ(::stat(at(file).c_str(), &status), 0) << file;
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  };
  const Inventory found = inventory();
  ASSERT_EQ(found.snapshots.size(), 2U);
  const std::size_t first = found.snapshots[0].seq == 1 ? 0 : 1;
  EXPECT_EQ(found.snapshots[first].disk_bytes,
            blocks(name_of(1).data_file()) + blocks(name_of(1).sidecar_file()) + blocks(name_of(1).pin_file()));
  EXPECT_TRUE(found.snapshots[first].pinned);
  EXPECT_FALSE(found.snapshots[1 - first].pinned);
  EXPECT_LT(found.snapshots[1 - first].disk_bytes, 1U << 20U);
  EXPECT_EQ(found.symbols, std::vector<std::string>{kallsyms_file("0f7c")});
  EXPECT_EQ(found.disk_bytes(),
            found.snapshots[0].disk_bytes + found.snapshots[1].disk_bytes + blocks(kallsyms_file("0f7c")));
}

TEST_F(Vacuum, WhatHasAnotherLinkIsNotCountedAsFreed) {
  for (const std::uint64_t seq : {1, 2, 3}) make(seq, 100'000);
  fs::create_hard_link(at(name_of(1).data_file()), at("backup"));
  fs::create_hard_link(at(name_of(2).data_file()), at("backup2"));
  fs::create_hard_link(at(name_of(2).sidecar_file()), at("backup3"));
  const Inventory found = inventory();
  ASSERT_EQ(found.snapshots.size(), 3U);
  for (const StoredSnapshot& snapshot : found.snapshots) {
    EXPECT_EQ(snapshot.inodes, snapshot.seq == 1 ? 1U : snapshot.seq == 2 ? 0U : 2U) << snapshot.seq;
    EXPECT_GE(snapshot.disk_bytes, 100'000U);
    EXPECT_EQ(snapshot.freed_bytes == snapshot.disk_bytes, snapshot.seq == 3) << snapshot.seq;
    EXPECT_EQ(snapshot.freed_bytes == 0, snapshot.seq == 2) << snapshot.seq;
  }
}

TEST_F(Vacuum, OnlyTheVictimsFilesGo) {
  for (const std::uint64_t seq : {1, 2, 3}) make(seq);
  write(name_of(2).pin_file());
  fs::remove(at(name_of(3).data_file()));
  const Inventory found = inventory();
  VacuumPlan plan;
  for (std::size_t i = 0; i < 3; ++i)
    if (found.snapshots[i].seq != 1) plan.victims.push_back({.index = i, .reason = VacuumReason::max_age});
  const auto foretold = predict_vacuum(folder_, found, plan);
  EXPECT_EQ(files().size(), 6U) << "foretelling deletes nothing";
  const VacuumDone done = vacuum(folder_, found, plan);
  EXPECT_EQ(done.error, std::nullopt) << done.error->what;
  EXPECT_EQ(to_json(done.removed), to_json(foretold));
  ASSERT_EQ(done.removed.size(), 2U);
  EXPECT_THAT(files(), ElementsAre(name_of(1).sidecar_file(), name_of(1).data_file()));
}

// Look-alikes, links and foreign files, with a plan that deletes everything.
TEST_F(Vacuum, ForeignFilesSurvive) {
  make(7);
  const std::string data = name_of(8).data_file();
  const std::vector<std::string> others{"notes.txt",
                                        "core.1234",
                                        "perf.data",
                                        "flight-web3.perf.data",
                                        data + ".bak",
                                        data + "~",
                                        "x" + data,
                                        "." + data,
                                        "Flight" + data.substr(6),
                                        "flight-web3-20261320T031204.123Z-manual-8.perf.data",
                                        "flight-web3-20261120T031204.123Z-manual-08.perf.data",
                                        "flight-web3-20261120T031204.123Z-Manual-8.perf.data",
                                        "flight-web3-20261120T031204.123Z-manual-8.perf.dat",
                                        "flight-web3-20261120T031204Z-manual-8.json",
                                        "kallsyms-.zst",
                                        "kallsyms"};
  for (const std::string& file : others) write(file);
  fs::create_directory(at(name_of(9).data_file()));
  fs::create_symlink("/etc/hostname", at(name_of(10).data_file()));
  write("target");
  fs::create_symlink(at("target"), at(name_of(7).pin_file()));  // not a pin, and not flightd's to remove
  const Inventory found = inventory();
  ASSERT_EQ(found.names.size(), 1U);
  EXPECT_FALSE(found.snapshots[0].pinned);
  const VacuumDone done = vacuum(folder_, found, all_of(found));
  EXPECT_EQ(done.removed.size(), 1U);
  for (const std::string& file : others) EXPECT_TRUE(fs::exists(at(file))) << file;
  EXPECT_TRUE(fs::is_directory(at(name_of(9).data_file())));
  EXPECT_TRUE(fs::is_symlink(at(name_of(10).data_file())));
  EXPECT_TRUE(fs::is_symlink(at(name_of(7).pin_file())));
  EXPECT_TRUE(fs::exists(at("target")));
  EXPECT_EQ(files().size(), others.size() + 4);
}

TEST_F(Vacuum, WhatIsLinkedElsewhereStaysThere) {
  make(1);
  fs::create_hard_link(at(name_of(1).data_file()), at("backup"));
  const Inventory found = inventory();
  EXPECT_EQ(vacuum(folder_, found, all_of(found)).removed.size(), 1U);
  EXPECT_THAT(files(), ElementsAre("backup"));
}

TEST_F(Vacuum, ASidecarWhoseDataCameBackStays) {
  make(1);
  fs::rename(at(name_of(1).data_file()), at("elsewhere"));
  const Inventory found = inventory();
  ASSERT_FALSE(found.snapshots.at(0).data);
  fs::rename(at("elsewhere"), at(name_of(1).data_file()));
  const VacuumDone done = vacuum(folder_, found, all_of(found));
  EXPECT_TRUE(done.removed.empty());
  EXPECT_EQ(done.error, std::nullopt);
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(Vacuum, OneThatCannotGoDoesNotKeepTheOthers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a file that cannot be removed";
  make(1);
  make(2);
  const std::string stuck = at(name_of(1).data_file());
  if (std::system(("chattr +i " + stuck + " 2>/dev/null").c_str()) != 0) {
    // On a file system without that flag a read-only bind mount has the same effect.
    ASSERT_EQ(std::system(("mount --bind " + stuck + " " + stuck).c_str()), 0);
  }
  const Inventory found = inventory();
  const VacuumDone done = vacuum(folder_, found, all_of(found));
  static_cast<void>(std::system(("chattr -i " + stuck + " 2>/dev/null; umount " + stuck + " 2>/dev/null").c_str()));
  ASSERT_EQ(done.removed.size(), 1U);
  EXPECT_EQ(done.removed[0].id, "2");
  ASSERT_TRUE(done.error);
  EXPECT_THAT(done.error->what, HasSubstr(name_of(1).data_file()));
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(Vacuum, NoFolderIsAnError) {
  EXPECT_FALSE(take_inventory(folder_ + "/none"));
  make(1);
  const Inventory found = inventory();
  EXPECT_TRUE(vacuum(folder_ + "/none", found, all_of(found)).error);
}

TEST(Vacuumed, ReadsWhatItWrote) {
  const std::vector<VacuumedSnapshot> rows{{"1", "/s/a", VacuumReason::keep_free, 4096},
                                           {"2", "/s/b", VacuumReason::missing, 0}};
  const std::string text = to_json(rows);
  EXPECT_EQ(text, R"([{"id":"1","path":"/s/a","reason":"keep_free","bytes":4096},)"
                  R"({"id":"2","path":"/s/b","reason":"missing","bytes":0}])");
  const auto read = parse_vacuumed(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json(*read), text);
  EXPECT_FALSE(parse_vacuumed(R"([{"id":"1","reason":"boredom"}])"));
  EXPECT_FALSE(parse_vacuumed("{}"));
}

}  // namespace
}  // namespace flight
