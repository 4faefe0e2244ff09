// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/byte_cursor.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/unwind/byte_writer.hpp"

namespace flight::test {
namespace {

TEST(ByteCursor, ReadsWhatAWriterWrote) {
  Bytes bytes;
  const std::int64_t numbers[] = {0,
                                  1,
                                  -1,
                                  63,
                                  64,
                                  -64,
                                  -65,
                                  127,
                                  128,
                                  -129,
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min()};
  for (const auto number : numbers) {
    append_sleb(bytes, number);
    append_uleb(bytes, static_cast<std::uint64_t>(number));
    append(bytes, number);
  }
  ByteCursor cursor(bytes);
  for (const auto number : numbers) {
    EXPECT_EQ(cursor.take_sleb(), number);
    EXPECT_EQ(cursor.take_uleb(), static_cast<std::uint64_t>(number));
    EXPECT_EQ(cursor.take<std::int64_t>(), number);
  }
  EXPECT_TRUE(cursor.ok());
  EXPECT_TRUE(cursor.at_end());
}

TEST(ByteCursor, IsSpoiledByAReadBeyondTheEnd) {
  const Bytes bytes = bytes_of({1, 2, 3});
  ByteCursor cursor(bytes);
  EXPECT_EQ(cursor.take<std::uint32_t>(), 0U);
  EXPECT_FALSE(cursor.ok());
  EXPECT_EQ(cursor.take<std::uint8_t>(), 0U);  // after an error nothing is read, even if it would fit
  EXPECT_TRUE(cursor.at_end());

  ByteCursor bytes_beyond(bytes);
  EXPECT_TRUE(bytes_beyond.take_bytes(4).empty());
  EXPECT_FALSE(bytes_beyond.ok());
  ByteCursor seek_beyond(bytes);
  seek_beyond.seek(3);
  EXPECT_TRUE(seek_beyond.ok());
  seek_beyond.seek(4);
  EXPECT_FALSE(seek_beyond.ok());
}

TEST(ByteCursor, RefusesALeb128WithoutEnd) {
  const Bytes cut_bytes = bytes_of({0x80, 0x80});
  ByteCursor cut(cut_bytes);
  EXPECT_EQ(cut.take_uleb(), 0U);
  EXPECT_FALSE(cut.ok());
  const Bytes bytes(40, std::byte{0xff});
  ByteCursor endless(bytes);
  EXPECT_EQ(endless.take_sleb(), 0);
  EXPECT_FALSE(endless.ok());
}

}  // namespace
}  // namespace flight::test
