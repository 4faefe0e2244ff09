// SPDX-License-Identifier: Apache-2.0
// A disk that fails while the snapshots are listed: an error, and not an empty store; or while a small file is read.
#include "tests/unit/base/failing_listings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "libcore/store/catalogue.hpp"
#include "libcore/store/vacuum.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

using test::with_failing_listings;
using test::with_failing_reads;
using testing::HasSubstr;

class FailingListings : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-failing-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ + "/" + name_.data_file()) << "PERFILE2";
    std::ofstream(folder_ + "/" + name_.sidecar_file()) << to_json(sample_sidecar());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  template <typename Call>
  void expect_error(Call call) {
    const auto outcome = with_failing_listings(call);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().errno_value(), EIO) << outcome.error().what;
    EXPECT_THAT(outcome.error().what, HasSubstr(folder_));
  }

  const SnapshotName name_{.host = "web3", .time = std::chrono::hours(480'000), .trigger = "manual", .seq = 42};
  std::string folder_;
};

TEST_F(FailingListings, TheSnapshotsAreNotGone) {
  Catalogue catalogue(folder_);
  expect_error([&] { return catalogue.list(); });
  expect_error([&] { return catalogue.list_json(); });
  expect_error([&] { return catalogue.orphans(); });
  for (const char* id : {"42", "latest"}) {
    expect_error([&] { return catalogue.describe(id); });
    expect_error([&] { return catalogue.open_data(id); });
    expect_error([&] { return catalogue.remove(id); });
  }
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows) << rows.error().what;
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->front().state, SnapshotState::present);
}

// The disk has no .seq: only the names in it show which numbers were used.
TEST_F(FailingListings, NoNumberIsUsedAgain) {
  Catalogue catalogue(folder_);
  expect_error([&] { return catalogue.next_seq(); });
  EXPECT_EQ(catalogue.next_seq().value(), 43U);
}

// A bad sector below .seq. In an earlier version no snapshot was written any more.
TEST_F(FailingListings, ANumberThatCannotBeReadIsThatOfTheNames) {
  std::ofstream(folder_ + "/" + kSeqFile) << "50\n";
  Catalogue catalogue(folder_);
  const auto seq = with_failing_reads([&] { return catalogue.next_seq(); });
  ASSERT_TRUE(seq) << seq.error().what;
  EXPECT_EQ(*seq, 43U);
  ASSERT_TRUE(catalogue.damaged_seq());
  EXPECT_EQ(catalogue.damaged_seq()->errno_value(), EIO);
  EXPECT_THAT(catalogue.damaged_seq()->what, HasSubstr(folder_ + "/.seq"));
  EXPECT_EQ(Catalogue(folder_).next_seq().value(), 44U) << "the file is a new one";
  EXPECT_EQ(catalogue.next_seq().value(), 45U);
  EXPECT_FALSE(catalogue.damaged_seq());
}

TEST_F(FailingListings, TheInventoryOfAVacuumIsNotEmpty) {
  expect_error([&] { return take_inventory(folder_); });
  EXPECT_EQ(take_inventory(folder_).value().snapshots.size(), 1U);
}

}  // namespace
}  // namespace flight
