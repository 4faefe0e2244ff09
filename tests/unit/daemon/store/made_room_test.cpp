// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/made_room.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace flight::daemon {
namespace {

const Error kDiskIsFull = sys_error(ENOSPC, "write the data").value();
const Error kDiskIsBroken = sys_error(EIO, "write the data").value();

TEST(MadeRoom, ItIsInVainIfTheDiskIsFullNevertheless) {
  MadeRoom room;
  room.begin();
  room.note_made();
  EXPECT_FALSE(room.in_vain());
  EXPECT_TRUE(room.end(kDiskIsFull));
  EXPECT_TRUE(room.in_vain());
  EXPECT_TRUE(room.retry_in_vain());
  room.begin();
  room.note_made();
  EXPECT_FALSE(room.end(kDiskIsFull)) << "that is known";
  EXPECT_FALSE(room.end(std::nullopt));
  EXPECT_FALSE(room.in_vain()) << "one was written";
  EXPECT_FALSE(room.retry_in_vain());
}

TEST(MadeRoom, OnlyWhatWasMadeForTheFailedSnapshotCounts) {
  MadeRoom room;
  room.begin();
  EXPECT_FALSE(room.end(kDiskIsFull)) << "nothing was deleted for it";
  room.note_made();
  room.begin();
  EXPECT_FALSE(room.end(kDiskIsFull)) << "nothing was deleted for this one";
  room.begin();
  room.note_made();
  EXPECT_FALSE(room.end(kDiskIsBroken)) << "room does not help against that";
  EXPECT_FALSE(room.end(kDiskIsFull)) << "it was made for the one before";
  EXPECT_FALSE(room.in_vain());
}

TEST(MadeRoom, OneRetryUntilASnapshotIsWritten) {
  MadeRoom room;
  room.begin();
  EXPECT_FALSE(room.retry_in_vain());
  room.note_made();
  room.note_retry();
  EXPECT_TRUE(room.retry_in_vain());
  EXPECT_FALSE(room.end(kDiskIsBroken));
  room.begin();
  EXPECT_FALSE(room.in_vain());
  EXPECT_TRUE(room.retry_in_vain());
  EXPECT_FALSE(room.end(std::nullopt));
  EXPECT_FALSE(room.retry_in_vain());
}

}  // namespace
}  // namespace flight::daemon
