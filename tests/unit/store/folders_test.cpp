// SPDX-License-Identifier: Apache-2.0
// Snapshots whose data is a data directory: listed, counted, pinned, deleted and sent as the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libcore/base/files.hpp"
#include "libcore/store/catalogue.hpp"
#include "libcore/store/vacuum.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class StoredFolders : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-folders-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string at(const std::string& file) const { return folder_ + "/" + file; }
  void write(const std::string& file, std::string_view text) const { std::ofstream(at(file)) << text; }
  static SnapshotName name_of(std::uint64_t seq) {
    return {.host = "web3", .time = std::chrono::hours(480'000 + seq), .trigger = "record", .seq = seq};
  }
  void make_folder(const std::string& name) const {
    fs::create_directory(at(name));
    write(name + "/data", "PERFILE2");
    write(name + "/data.0", std::string(1000, '0'));
    write(name + "/data.1", "");
  }
  void make(std::uint64_t seq) const {
    make_folder(name_of(seq).data_file());
    Sidecar sidecar = sample_sidecar();
    sidecar.id = fmt::format("{}", seq);
    write(name_of(seq).sidecar_file(), to_json(sidecar));
  }
  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  std::string folder_;
};

TEST_F(StoredFolders, AreListedAndPinnedAndRemoved) {
  make(1);
  make(2);
  Catalogue catalogue(folder_);
  auto rows = catalogue.list();
  ASSERT_TRUE(rows) << rows.error().what;
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ(rows->at(0).state, SnapshotState::present);
  EXPECT_EQ(rows->at(0).path, at(name_of(1).data_file()));
  ASSERT_TRUE(catalogue.pin("1", true));
  EXPECT_TRUE(catalogue.list()->at(0).pinned);
  EXPECT_EQ(catalogue.usage().snapshots, 2U);
  EXPECT_EQ(*catalogue.next_seq(), 3U);
  ASSERT_TRUE(catalogue.remove("1"));
  ASSERT_TRUE(catalogue.remove("latest"));
  EXPECT_THAT(left(), ElementsAre(".seq"));
}

TEST_F(StoredFolders, CountTheBlocksOfAllFiles) {
  make(1);
  std::uint64_t blocks = 0;
  for (const std::string& file : {name_of(1).data_file(), name_of(1).data_file() + "/data",
                                  name_of(1).data_file() + "/data.0", name_of(1).sidecar_file()}) {
    struct stat status {};
    ASSERT_EQ(::stat(at(file).c_str(), &status), 0) << file;
    blocks += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  EXPECT_EQ(Catalogue(folder_).usage().bytes, blocks);
  auto found = take_inventory(folder_);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->snapshots.size(), 1U);
  EXPECT_EQ(found->snapshots[0].disk_bytes, blocks);
  EXPECT_EQ(found->snapshots[0].freed_bytes, blocks);
  EXPECT_EQ(found->snapshots[0].inodes, 5U) << "three files, their directory and the sidecar";
  EXPECT_TRUE(found->snapshots[0].data);
  // A backup of hard links: deleting it frees only the sidecar.
  fs::create_hard_link(at(name_of(1).data_file() + "/data.0"), at("backup"));
  found = take_inventory(folder_);
  ASSERT_TRUE(found);
  EXPECT_LT(found->snapshots[0].freed_bytes, blocks);
  EXPECT_EQ(found->snapshots[0].inodes, 1U);
  fs::remove(at(name_of(1).sidecar_file()));
  EXPECT_EQ(Catalogue(folder_).list()->at(0).size_bytes, 1008U) << "without a sidecar the files say it";
}

TEST_F(StoredFolders, AreVacuumed) {
  make(1);
  make(2);
  const auto found = take_inventory(folder_);
  ASSERT_TRUE(found);
  VacuumPlan plan;
  for (std::size_t i = 0; i < found->names.size(); ++i)
    plan.victims.push_back({.index = i, .reason = VacuumReason::max_files});
  const VacuumDone done = vacuum(folder_, *found, plan);
  EXPECT_EQ(done.error, std::nullopt) << done.error->what;
  EXPECT_EQ(done.removed.size(), 2U);
  EXPECT_TRUE(left().empty());
}

// What somebody else put into it stays, and so does the rest.
TEST_F(StoredFolders, WithAForeignFileTheyStay) {
  make(1);
  write(name_of(1).data_file() + "/notes", "mine");
  const auto removed = Catalogue(folder_).remove("1");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().errno_value(), ENOTEMPTY);
  EXPECT_THAT(removed.error().what, HasSubstr("notes"));
  EXPECT_EQ(read_file(at(name_of(1).data_file() + "/data")).value_or(""), "PERFILE2");
  fs::remove(at(name_of(1).data_file() + "/notes"));
  EXPECT_TRUE(Catalogue(folder_).remove("1"));
  EXPECT_TRUE(left().empty());
}

// In the place of a file that is gone, or of a sidecar and a pin, even if they look like a data directory.
TEST_F(StoredFolders, ForeignDirectoriesStay) {
  fs::create_directory(at(name_of(1).data_file()));
  write(name_of(1).sidecar_file(), to_json(sample_sidecar()));
  write(name_of(2).data_file(), "PERFILE2");
  make_folder(name_of(2).sidecar_file());
  make_folder(name_of(2).pin_file());
  const auto found = take_inventory(folder_);
  ASSERT_TRUE(found) << found.error().what;
  ASSERT_EQ(found->snapshots.size(), 2U);
  EXPECT_FALSE(found->snapshots[1].pinned);
  EXPECT_EQ(found->snapshots[1].inodes, 1U) << "of its data alone";
  Catalogue catalogue(folder_);
  EXPECT_FALSE(catalogue.remove("1"));
  EXPECT_TRUE(fs::is_directory(at(name_of(1).data_file())));
  ASSERT_TRUE(catalogue.remove("2"));
  ASSERT_TRUE(catalogue.left_behind());
  EXPECT_THAT(catalogue.left_behind()->what, HasSubstr(name_of(2).sidecar_file()));
  for (const std::string& name : {name_of(2).sidecar_file(), name_of(2).pin_file()})
    EXPECT_EQ(read_file(at(name + "/data")).value_or(""), "PERFILE2") << name;
}

TEST_F(StoredFolders, ThatAreUnfinishedGoAtTheNextStart) {
  make_folder(part_file(PartFileKind::data, 7));
  make_folder(part_file(PartFileKind::data, 8));
  write(part_file(PartFileKind::journal, 8), "a journal");
  make_folder(".flight-" + name_of(3).data_file() + ".partial");  // killed while it was removed
  fs::remove(at(".flight-" + name_of(3).data_file() + ".partial/data"));
  make_folder("mine.partial");
  Catalogue catalogue(folder_);
  EXPECT_THAT(*catalogue.parts(), ElementsAre(8U));
  EXPECT_EQ(*catalogue.next_seq(), 9U);
  EXPECT_EQ(catalogue.remove_partials(), 2U);
  EXPECT_THAT(left(), testing::UnorderedElementsAre(".seq", "mine.partial", part_file(PartFileKind::data, 8),
                                                    part_file(PartFileKind::journal, 8)));
}

TEST_F(StoredFolders, RemovalGoesOnAfterAnEarlierOne) {
  make(1);
  make_folder(".flight-" + name_of(1).data_file() + ".partial");
  ASSERT_TRUE(Catalogue(folder_).remove("1"));
  EXPECT_TRUE(left().empty());
}

TEST_F(StoredFolders, LinksInTheirPlaceAreNotFollowed) {
  make_folder("elsewhere");
  fs::create_directory_symlink(at("elsewhere"), at(name_of(1).data_file()));
  fs::create_directory(at(name_of(2).data_file()));
  fs::create_symlink(at("elsewhere") + "/data", at(name_of(2).data_file()) + "/data");
  Catalogue catalogue(folder_);
  EXPECT_TRUE(catalogue.list()->empty());
  EXPECT_EQ(catalogue.remove("1").error().errno_value(), ENOENT);
  EXPECT_TRUE(take_inventory(folder_)->names.empty());
}

std::string text_of(Pieces& pieces) {
  std::string out;
  std::array<char, 700> buffer{};  // no multiple of a tar's block
  for (std::size_t count = 0; (count = pieces.read(buffer)) > 0;) out.append(buffer.data(), count);
  return out;
}

std::string said_by(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen(command.c_str(), "re");
  EXPECT_NE(pipe, nullptr);
  std::array<char, 4096> part{};
  for (std::size_t count = 0; pipe != nullptr && (count = ::fread(part.data(), 1, part.size(), pipe)) > 0;)
    out.append(part.data(), count);
  if (pipe != nullptr) {
    EXPECT_EQ(::pclose(pipe), 0) << command;
  }
  return out;
}

TEST_F(StoredFolders, AreSentAsATar) {
  make(1);
  auto data = Catalogue(folder_).open_data("1");
  ASSERT_TRUE(data) << data.error().what;
  EXPECT_EQ(data->name, name_of(1).data_file() + ".tar");
  EXPECT_FALSE(data->tar.empty());
  ASSERT_TRUE(Catalogue(folder_).remove("1")) << "it is sent nevertheless";
  EXPECT_EQ(data->bytes, data->tar.bytes());
  const std::string tar = text_of(data->tar);
  EXPECT_EQ(tar.size(), data->bytes);
  EXPECT_EQ(data->tar.bytes(), 0U);
  write("it.tar", tar);
  const std::string folder = name_of(1).data_file();
  EXPECT_EQ(said_by("tar -tf " + at("it.tar")), folder + "/data\n" + folder + "/data.0\n" + folder + "/data.1\n");
  EXPECT_THAT(said_by("tar --numeric-owner -tvf " + at("it.tar")), HasSubstr("-rw-r-----"));
  fs::create_directory(at("out"));
  EXPECT_EQ(said_by("tar -C " + at("out") + " --no-same-owner -xf " + at("it.tar") + " 2>&1"), "");
  EXPECT_EQ(read_file(at("out/" + folder + "/data")).value_or(""), "PERFILE2");
  EXPECT_EQ(read_file(at("out/" + folder + "/data.0")).value_or(""), std::string(1000, '0'));
  EXPECT_EQ(fs::file_size(at("out/" + folder + "/data.1")), 0U);
}

TEST_F(StoredFolders, LongNamesAndLargeFilesFitIntoATar) {
  const SnapshotName longest{.host = std::string(64, 'h'),
                             .time = std::chrono::hours(480'000),
                             .trigger = std::string(32, 't'),
                             .seq = UINT64_MAX};
  make_folder("large");
  fs::resize_file(at("large/data.1"), std::uint64_t{9} << 30U);  // sparse
  const auto folder = Folder::open(folder_)->open_folder("large");
  ASSERT_TRUE(folder) << folder.error().what;
  auto tar = tar_of(*folder, longest);
  ASSERT_TRUE(tar) << tar.error().what;
  EXPECT_GT(tar->bytes(), std::uint64_t{9} << 30U);
  std::string begin(6 * 512, '\0');
  for (std::size_t have = 0; have < begin.size();) have += tar->read(std::span(begin).subspan(have));
  write("begin.tar", begin);
  // The rest is missing, which is why tar fails; it lists what it knows.
  const std::string listed = said_by("tar --numeric-owner -tvf " + at("begin.tar") + " 2>/dev/null || true");
  EXPECT_THAT(listed, HasSubstr("snapshot-18446744073709551615.perf.data/data.0"));
  EXPECT_THAT(listed, HasSubstr(" 9663676416 "));
}

TEST_F(StoredFolders, AFileThatBecameShorterEndsTheTar) {
  make(1);
  auto data = Catalogue(folder_).open_data("1");
  ASSERT_TRUE(data);
  fs::resize_file(at(name_of(1).data_file() + "/data.0"), 10);
  EXPECT_LT(text_of(data->tar).size(), data->bytes);
  EXPECT_GT(data->tar.bytes(), 0U);
}

}  // namespace
}  // namespace flight
