// SPDX-License-Identifier: Apache-2.0
// Pins, and the data file as clients get it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libcore/base/files.hpp"
#include "libcore/store/catalogue.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;

class Pins : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-pins-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (std::uint64_t seq = 1; seq <= 3; ++seq) {
      const SnapshotName snapshot = name_of(seq);
      Sidecar sidecar = sample_sidecar();
      sidecar.id = fmt::format("{}", seq);
      write(snapshot.data_file(), fmt::format("PERFILE2 of {}", seq));
      write(snapshot.sidecar_file(), to_json(sidecar));
    }
  }
  void TearDown() override { fs::remove_all(folder_); }
  static SnapshotName name_of(std::uint64_t seq) {
    return {.host = "web3", .time = std::chrono::milliseconds(1795144324123), .trigger = "manual", .seq = seq};
  }
  [[nodiscard]] std::string at(const std::string& file) const { return folder_ + "/" + file; }
  void write(const std::string& file, const std::string& text) const { std::ofstream(at(file)) << text; }
  static std::vector<std::string> pinned(Catalogue& catalogue) {
    std::vector<std::string> ids;
    const auto rows = catalogue.list();
    for (const CatalogueRow& row : *rows)
      if (row.pinned) ids.push_back(row.id);
    return ids;
  }
  std::string folder_;
};

TEST_F(Pins, AreKeptInTheFolderAndGoWithTheSnapshot) {
  Catalogue catalogue(folder_);
  EXPECT_THAT(pinned(catalogue), testing::IsEmpty());
  ASSERT_TRUE(catalogue.pin("2", true));
  ASSERT_TRUE(catalogue.pin("2", true));
  ASSERT_TRUE(catalogue.pin("latest", true));
  EXPECT_THAT(pinned(catalogue), testing::ElementsAre("2", "3")) << "rows that are kept in memory change, too";
  Catalogue other(folder_);
  EXPECT_THAT(pinned(other), testing::ElementsAre("2", "3"));
  ASSERT_TRUE(other.pin("3", false));
  ASSERT_TRUE(other.pin("3", false));
  EXPECT_THAT(pinned(catalogue), testing::ElementsAre("2"));
  ASSERT_TRUE(catalogue.remove("2"));
  EXPECT_FALSE(fs::exists(at(name_of(2).pin_file())));
  EXPECT_THAT(pinned(catalogue), testing::IsEmpty());
  EXPECT_EQ(catalogue.list()->size(), 2U);
}

TEST_F(Pins, OfNothing) {
  Catalogue catalogue(folder_);
  EXPECT_EQ(catalogue.pin("7", true).error().errno_value(), ENOENT);
  for (const char* id : {"", "../1", "01", "1 ", "-1"})
    EXPECT_EQ(catalogue.pin(id, true).error().errno_value(), EINVAL);
  // A pin alone is no snapshot. It is removed at the next start; a pin of a foreign file is not.
  write(name_of(9).pin_file(), "");
  write("flight-mine.pinned", "");
  ASSERT_TRUE(catalogue.pin("1", true));
  EXPECT_EQ(catalogue.list()->size(), 3U);
  EXPECT_EQ(catalogue.remove("9").error().errno_value(), ENOENT);
  EXPECT_EQ(catalogue.next_seq().value(), 4U);
  EXPECT_EQ(catalogue.remove_partials(), 1U);
  EXPECT_FALSE(fs::exists(at(name_of(9).pin_file())));
  EXPECT_TRUE(fs::exists(at("flight-mine.pinned")));
  EXPECT_THAT(pinned(catalogue), testing::ElementsAre("1"));
  // A link at a pin's path is not a pin, and is not followed.
  write("elsewhere", "x");
  fs::create_symlink(at("elsewhere"), at(name_of(2).pin_file()));
  EXPECT_THAT(pinned(catalogue), testing::ElementsAre("1"));
  ASSERT_TRUE(catalogue.pin("2", true));
  EXPECT_THAT(pinned(catalogue), testing::ElementsAre("1", "2"));
  EXPECT_EQ(fs::file_size(at("elsewhere")), 1U);
}

TEST_F(Pins, DataIsHandedOut) {
  Catalogue catalogue(folder_);
  const auto data = catalogue.open_data("2");
  ASSERT_TRUE(data) << data.error().what;
  EXPECT_EQ(data->name, name_of(2).data_file());
  EXPECT_EQ(data->bytes, 13U);
  EXPECT_EQ(read_all(data->fd.get(), 100).value(), "PERFILE2 of 2");
  EXPECT_EQ(catalogue.open_data("latest")->name, name_of(3).data_file());
  fs::remove(at(name_of(1).data_file()));
  EXPECT_EQ(catalogue.open_data("1").error().errno_value(), ENODATA);
  EXPECT_EQ(catalogue.open_data("9").error().errno_value(), ENOENT);
  EXPECT_EQ(catalogue.open_data("../1").error().errno_value(), EINVAL);
  // A link to another file is not a file of the store.
  write("secret", "secret");
  fs::create_symlink(at("secret"), at(name_of(1).data_file()));
  EXPECT_FALSE(catalogue.open_data("1"));
}

}  // namespace
}  // namespace flight
