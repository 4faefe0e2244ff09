// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/gzip.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <random>
#include <string>

#include "libcore/export/exported_name.hpp"
#include "tests/unit/export/gunzipped.hpp"

namespace flight {
namespace {

std::string gzipped(const std::vector<std::string>& pieces) {
  std::string out;
  auto writer = GzipWriter::create([&out](std::span<const std::byte> bytes) -> Result<void> {
    EXPECT_LE(bytes.size(), 64U << 10U);
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  });
  EXPECT_TRUE(writer);
  for (const std::string& piece : pieces) EXPECT_TRUE(writer->add(piece));
  EXPECT_TRUE(writer->finish());
  return out;
}

TEST(Gzip, IsWhatWasWritten) {
  EXPECT_EQ(test::gunzipped(gzipped({})), "");
  EXPECT_EQ(test::gunzipped(gzipped({"a", "", "bc"})), "abc");
  std::mt19937 random(3);
  std::vector<std::string> pieces;
  std::string all;
  for (std::size_t bytes : {1U, 70'000U, 0U, 500'000U}) {
    std::string piece(bytes, '\0');
    for (char& c : piece) c = static_cast<char>(random());
    all += piece;
    pieces.push_back(std::move(piece));
  }
  EXPECT_EQ(test::gunzipped(gzipped(pieces)), all);
}

// No time and no name: the same input has the same bytes.
TEST(Gzip, IsReproducible) {
  const std::string one = gzipped({"abc"});
  EXPECT_EQ(one, gzipped({"a", "bc"}));
  EXPECT_EQ(one.substr(0, 8), std::string("\x1f\x8b\x08\0\0\0\0\0", 8));
}

TEST(Gzip, ReturnsWhyItCouldNotWrite) {
  auto writer =
      GzipWriter::create([](std::span<const std::byte>) -> Result<void> { return sys_error(ENOSPC, "write"); });
  ASSERT_TRUE(writer);
  auto done = writer->add("a");  // zlib may write the header at once
  if (done) done = writer->finish();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().errno_value(), ENOSPC);
}

TEST(ExportedName, IsPrintableAndNotTooLong) {
  EXPECT_EQ(exported_name("main"), "main");
  EXPECT_EQ(exported_name("</script>\x1b[2J\xff"), "</script>?[2J?");
  EXPECT_EQ(exported_name(std::string(kMostExportedBytes, 'x')).size(), kMostExportedBytes);
  EXPECT_EQ(exported_name(std::string(64U << 10U, 'x')), std::string(kMostExportedBytes, 'x') + "...");
  // Not within a character.
  const std::string euros = std::string(kMostExportedBytes - 1, 'x') + "\xe2\x82\xac";
  EXPECT_EQ(exported_name(euros), std::string(kMostExportedBytes - 1, 'x') + "...");
  EXPECT_EQ(exported_name(std::string(2 * kMostExportedBytes, '\x80')).substr(0, 3), "???");
}

}  // namespace
}  // namespace flight
