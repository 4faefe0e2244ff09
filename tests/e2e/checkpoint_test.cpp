// SPDX-License-Identifier: Apache-2.0
// A checkpoint that cannot be read, cannot be written or is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/own_broker.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class Checkpoint : public OwnBroker {
 protected:
  Checkpoint() { config_ = stacks_config(997, "1M"); }

  TestDaemon daemon_{folder_};
};
using CheckpointLong = Checkpoint;

// An invalid file at the checkpoint's path does no harm, and is reported.
TEST_F(Checkpoint, AnInvalidOneIsReportedAndReplaced) {
  std::ofstream(checkpoint()) << std::string(100'000, 'x');
  ASSERT_EQ(chown(checkpoint().c_str(), kClientId, kClientId), 0);
  ASSERT_EQ(chmod(checkpoint().c_str(), 0600), 0);
  ASSERT_TRUE(daemon_.start(config_, options_));
  EXPECT_THAT(daemon_.log(), HasSubstr("is not a checkpoint"));
  EXPECT_EQ(daemon_.status()["warnings"].dump().find("checkpoint"), std::string::npos) << "it has a good one now";
  replace(daemon_);
  EXPECT_EQ(daemon_.log().find("is not a checkpoint"), std::string::npos);
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(CheckpointLong, AFailedOneIsReportedAndRetried) {
  ASSERT_TRUE(std::filesystem::create_directory(checkpoint() + ".new"));  // in the way of the new file
  ASSERT_TRUE(daemon_.start(config_, options_));
  EXPECT_THAT(daemon_.log(), HasSubstr("have no names"));
  EXPECT_THAT(daemon_.status()["warnings"].dump(), HasSubstr("have no names"));
  std::filesystem::remove(checkpoint() + ".new");
  EXPECT_TRUE(
      wait_until([&] { return daemon_.status()["warnings"].dump().find("no names") == std::string::npos; }, 30s));
  EXPECT_TRUE(daemon_.goes_on());
  // If the checkpoint could not be written, the next flightd logs it.
  ASSERT_TRUE(std::filesystem::create_directory(checkpoint() + ".new"));
  replace(daemon_);
  std::filesystem::remove(checkpoint() + ".new");
  EXPECT_EQ(daemon_.log().find("could not save all its data"), std::string::npos);
  replace(daemon_);
  EXPECT_THAT(daemon_.log(), HasSubstr("could not save all its data"));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(CheckpointLong, AMissingOneIsReported) {
  ASSERT_TRUE(daemon_.start(config_, options_));
  EXPECT_EQ(daemon_.log().find("events have been recorded for"), std::string::npos) << "it is the first";
  ASSERT_TRUE(wait_until([&] { return daemon_.status()["uptime_seconds"] > 10.5; }, 30s)) << "longer than a start";
  daemon_.process().kill();
  ASSERT_TRUE(std::filesystem::remove(checkpoint()));
  ASSERT_TRUE(daemon_.start(config_, options_));
  EXPECT_THAT(daemon_.log(), HasSubstr("no data of an earlier flightd"));
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
