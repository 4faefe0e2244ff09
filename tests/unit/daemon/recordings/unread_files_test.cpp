// SPDX-License-Identifier: Apache-2.0
// Build-ids that are read when the records of their mappings have been written: which of them a part's list can have,
// and what is said of the others.
#include "daemon/recordings/unread_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace flight::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr FileIdentity unread_file(std::uint64_t inode, std::uint64_t generation = 5) {
  return {.major = 8, .minor = 1, .inode = inode, .generation = generation};
}

BuildId made_id(std::uint8_t byte) {
  BuildId out;
  out.bytes.fill(byte);
  out.size = static_cast<std::uint8_t>(out.bytes.size());
  return out;
}

class UnreadFilesTest : public testing::Test {
 protected:
  static constexpr EventTime kMappedNs = 100;

  void note_unread(std::uint64_t inode, std::string_view name, EventTime mapped_ns = kMappedNs) {
    files_.note({.file = unread_file(inode), .mapped_ns = mapped_ns, .recorded_name = name, .name = name});
  }
  void note_known(std::uint64_t inode, std::string_view name, const BuildId& id) {
    files_.note({.file = unread_file(inode),
                 .mapped_ns = kMappedNs,
                 .recorded_name = name,
                 .name = name,
                 .build_id = id,
                 .is_known = true});
  }
  // The broker has read this content by now.
  void read(std::uint64_t inode, std::uint8_t byte, EventTime from_ns = 0, EventTime to_ns = UINT64_MAX) {
    known_.files.push_back({.file = unread_file(inode),
                            .build_id = std::vector<std::uint8_t>(20, byte),
                            .from_ns = from_ns,
                            .to_ns = to_ns});
  }
  // The paths that the list has, each with the first byte of its build-id.
  [[nodiscard]] std::vector<std::string> listed() const {
    std::vector<std::string> out;
    for (const TrackerExport::UserBuildId& one : files_.look_again(known_).build_ids)
      out.push_back(fmt::format("{} {}", one.name, one.id.bytes[0]));
    return out;
  }

  UnreadFiles files_;
  KnownFiles known_;
};

TEST_F(UnreadFilesTest, WhatIsReadByNowIsListed) {
  EXPECT_TRUE(files_.empty());
  note_known(1, "/bin/one", made_id(1));
  EXPECT_TRUE(files_.empty());
  note_unread(2, "/bin/two");
  note_unread(3, "/bin/three");
  EXPECT_FALSE(files_.empty());
  read(2, 0x22);
  EXPECT_THAT(listed(), ElementsAre("/bin/two 34"));
  const NamedFiles named = files_.look_again(known_).named;
  EXPECT_EQ(named.with, 2U) << "and the one that was known at once";
  EXPECT_EQ(named.without, 1U);
}

// The reasons are those of a snapshot.
TEST_F(UnreadFilesTest, WhatIsMissingHasAReason) {
  note_unread(1, "/bin/one");
  note_unread(2, "/bin/two");
  note_unread(3, "/bin/three");
  known_.waiting.push_back({.file = numbers_of(unread_file(1))});
  read(2, 0x22, kMappedNs + 1);
  const UnreadFiles::Found found = files_.look_again(known_);
  EXPECT_THAT(found.build_ids, IsEmpty());
  EXPECT_EQ(found.named.without, 3U);
  EXPECT_EQ(found.named.waiting, 1U);
  EXPECT_EQ(found.named.changed, 1U);
}

// The record has what it was called then, and perf finds an entry by that.
TEST_F(UnreadFilesTest, TheListHasTheNameOfTheRecord) {
  files_.note(
      {.file = unread_file(1), .mapped_ns = kMappedNs, .recorded_name = "/inside", .name = "/inside (not verified)"});
  known_.files.push_back({.file = unread_file(1),
                          .build_id = std::vector<std::uint8_t>(20, 0x11),
                          .recorded_name = "/inside",
                          .host_path = "/srv/root/inside"});
  EXPECT_THAT(listed(), ElementsAre("/inside (not verified) 17"));
}

// No name is better than that of another file.
TEST_F(UnreadFilesTest, APathOfTwoFilesIsNotListed) {
  note_unread(1, "/lib/c");
  note_unread(2, "/lib/c");
  note_unread(3, "/lib/m");
  note_known(4, "/lib/m", made_id(4));
  read(1, 0x11), read(2, 0x22), read(3, 0x33);
  EXPECT_THAT(listed(), IsEmpty());
  const NamedFiles named = files_.look_again(known_).named;
  EXPECT_EQ(named.too_late, 3U);
  EXPECT_EQ(named.without, 3U);
  EXPECT_EQ(named.with, 1U);
}

TEST_F(UnreadFilesTest, APathOfTwoContentsIsNotListed) {
  // Overwritten between two mappings; and after the first one, which was known.
  note_unread(1, "/bin/one", 100);
  note_unread(1, "/bin/one", 200);
  note_unread(1, "/bin/one", 300);
  read(1, 0x11, 0, 150);
  read(1, 0x12, 160);
  note_known(2, "/bin/two", made_id(0x21));
  note_unread(2, "/bin/two", 200);
  read(2, 0x22, 160);
  EXPECT_THAT(listed(), IsEmpty());
  const NamedFiles named = files_.look_again(known_).named;
  EXPECT_EQ(named.too_late, 2U);
  EXPECT_EQ(named.without, 2U);
  EXPECT_EQ(named.with, 0U);
}

// A scan has no generation, and the kernel's record has it.
TEST_F(UnreadFilesTest, AFileWithoutAGenerationIsTheSame) {
  files_.note({.file = unread_file(1, 0), .mapped_ns = kMappedNs, .recorded_name = "/bin/one", .name = "/bin/one"});
  note_unread(1, "/bin/one", 200);
  read(1, 0x11);
  EXPECT_THAT(listed(), ElementsAre("/bin/one 17", "/bin/one 17")) << "the part lists it once";
  EXPECT_EQ(files_.look_again(known_).named.with, 1U);
}

TEST_F(UnreadFilesTest, TheyHaveALimit) {
  for (std::uint64_t i = 1; i <= UnreadFiles::kMaxFiles; ++i) note_unread(i, "/tmp/" + std::to_string(i));
  EXPECT_FALSE(files_.too_many());
  note_unread(1, "/tmp/1", 200);
  EXPECT_FALSE(files_.too_many()) << "it is remembered already";
  const std::uint64_t next = UnreadFiles::kMaxFiles + 1;
  note_unread(next, "/tmp/next");
  EXPECT_TRUE(files_.too_many());
  read(1, 0x11);
  read(next, 0x22);
  EXPECT_THAT(listed(), ElementsAre("/tmp/1 17"));
}

}  // namespace
}  // namespace flight::daemon
