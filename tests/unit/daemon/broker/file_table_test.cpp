// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/file_table.hpp"

#include <gtest/gtest.h>

namespace flight::broker {
namespace {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;

constexpr FileIdentity file(std::uint64_t inode, std::uint64_t generation = 0) {
  return {.major = 8, .minor = 1, .inode = inode, .generation = generation};
}
MappedFileFacts facts(std::uint8_t byte, std::string host_path = {}) {
  return {.build_id = std::vector<std::uint8_t>(20, byte), .host_path = std::move(host_path)};
}

class Table : public testing::Test {
 protected:
  void learn(FileTable& table, std::uint64_t inode, std::uint8_t byte) {
    ASSERT_TRUE(table.wants(file(inode), "/bin/x", now_));
    table.put(file(inode), "/bin/x", facts(byte));
  }
  FileTable::Time now_{1000s};
};

TEST_F(Table, AFileIsReadOnceAndLookedAtAgainLater) {
  FileTable table;
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_));
  EXPECT_FALSE(table.wants(file(1), "/bin/x", now_)) << "it is being read";
  table.put(file(1), "/bin/x", facts(7));
  EXPECT_FALSE(table.wants(file(1), "/bin/x", now_ + 9s));
  EXPECT_TRUE(table.wants(file(1, 3), "/bin/x", now_)) << "another generation is another file";
  const std::uint64_t version = table.version();
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_ + 10s));
  EXPECT_EQ(table.known().files.size(), 1U) << "known meanwhile";
  table.put(file(1), "/bin/x", facts(7));
  EXPECT_EQ(table.version(), version) << "nothing is new";
}

TEST_F(Table, AnUnreadableFileIsRetriedAndNotReported) {
  FileTable table;
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_));
  table.put_failed(file(1));
  EXPECT_TRUE(table.known().files.empty());
  EXPECT_FALSE(table.wants(file(1), "/bin/x", now_ + 100ms));
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_ + 500ms));
}

// The file was written in place, or its inode was used again: either build-id may be wrong for a sample.
TEST_F(Table, AnIdentityWithTwoBuildIdsHasNone) {
  FileTable table;
  learn(table, 1, 7);
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_ + 20s));
  table.put(file(1), "/bin/x", facts(8));
  EXPECT_TRUE(table.known().files.empty());
  EXPECT_FALSE(table.wants(file(1), "/bin/x", now_ + 100s)) << "for ever";
}

TEST_F(Table, TheLeastRecentlyMappedGoesFirst) {
  FileTable table(3);
  for (std::uint64_t inode = 1; inode <= 3; ++inode) learn(table, inode, 7);
  EXPECT_FALSE(table.wants(file(1), "/bin/x", now_ + 1s));
  const std::uint64_t version = table.version();
  learn(table, 4, 7);
  EXPECT_GT(table.version(), version);
  EXPECT_EQ(table.size(), 3U);
  const auto known = table.known();
  ASSERT_EQ(known.files.size(), 3U);
  EXPECT_EQ(known.files[0].file, file(4));
  EXPECT_EQ(known.files[1].file, file(1));
  EXPECT_EQ(known.files[2].file, file(3));
}

// A process with another root maps a file whose own name is already known.
TEST_F(Table, AnotherNameIsLookedAtAndRenamed) {
  FileTable table;
  ASSERT_TRUE(table.wants(file(1), "/srv/root/bin/x", now_));
  table.put(file(1), "/srv/root/bin/x", facts(7));
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_ + 1s));
  table.put(file(1), "/bin/x", facts(7, "/srv/root/bin/x"));
  auto known = table.known();
  ASSERT_EQ(known.files.size(), 1U);
  EXPECT_EQ(known.files[0].recorded_name, "/bin/x");
  EXPECT_EQ(known.files[0].host_path, "/srv/root/bin/x");
  // The first mapping again changes nothing.
  EXPECT_TRUE(table.wants(file(1), "/srv/root/bin/x", now_ + 2s));
  table.put(file(1), "/srv/root/bin/x", facts(7));
  EXPECT_EQ(table.known().files[0].host_path, "/srv/root/bin/x");
}

// A container's program has exited: the host's file of the same path must not be used in its place.
TEST_F(Table, AMisleadingNameIsReportedWithoutTheFile) {
  const MappedFileFacts misled{.build_id = {}, .host_path = "/bin/x (not the host's)", .was_read = false};
  FileTable table;
  ASSERT_TRUE(table.wants(file(1), "/bin/x", now_));
  const std::uint64_t version = table.version();
  table.put(file(1), "/bin/x", misled);
  EXPECT_GT(table.version(), version);
  auto known = table.known();
  ASSERT_EQ(known.files.size(), 1U);
  EXPECT_EQ(known.files[0].recorded_name, "/bin/x");
  EXPECT_EQ(known.files[0].host_path, "/bin/x (not the host's)");
  EXPECT_TRUE(known.files[0].build_id.empty());
  // It is tried again and reported meanwhile. If nothing changed, this is no change.
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_ + 500ms));
  EXPECT_EQ(table.known().files.size(), 1U);
  const std::uint64_t told = table.version();
  table.put(file(1), "/bin/x", misled);
  EXPECT_EQ(table.version(), told);
  // Another process of the container still runs.
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_ + 1s));
  table.put(file(1), "/bin/x", facts(7));
  known = table.known();
  ASSERT_EQ(known.files.size(), 1U);
  EXPECT_EQ(known.files[0].build_id.size(), 20U);
  EXPECT_TRUE(known.files[0].host_path.empty());
  // Known build-ids stay known.
  EXPECT_TRUE(table.wants(file(1), "/bin/x", now_ + 20s));
  table.put(file(1), "/bin/x", misled);
  EXPECT_EQ(table.known().files[0].build_id.size(), 20U);
}

TEST(KnownFilesText, ComesBackAsItWas) {
  KnownFiles known{.files = {{.file = file(1, 2), .build_id = {1, 2, 3}, .recorded_name = "/a", .host_path = "/b/a"},
                             {.file = file(9), .build_id = {}, .recorded_name = {}, .host_path = {}}},
                   .missed_bytes = 77,
                   .hung_processes = 3,
                   .unanswered = {{.major = 8, .minor = 1}, {.major = 0, .minor = 66}},
                   .served = {{.disk = {.major = 0, .minor = 70}, .type = "fuse.sshfs"}}};
  const auto bytes = encode(known);
  const auto parsed = parse_build_ids(bytes);
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->missed_bytes, 77U);
  EXPECT_EQ(parsed->unanswered, known.unanswered);
  EXPECT_EQ(parsed->served, known.served);
  EXPECT_EQ(parsed->hung_processes, 3U);
  ASSERT_EQ(parsed->files.size(), 2U);
  EXPECT_EQ(parsed->files[0].file, known.files[0].file);
  EXPECT_EQ(parsed->files[0].build_id, known.files[0].build_id);
  EXPECT_EQ(parsed->files[0].recorded_name, "/a");
  EXPECT_EQ(parsed->files[0].host_path, "/b/a");
  EXPECT_TRUE(parsed->files[1].build_id.empty());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(parse_build_ids(std::span(bytes).first(length))) << length;
}

}  // namespace
}  // namespace flight::broker
