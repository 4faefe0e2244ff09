// SPDX-License-Identifier: Apache-2.0
#include "libcore/compress/zstd.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <random>

namespace flight {
namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count) {
  std::mt19937 random(7);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes repetitive_bytes(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i / 64 % 7);
  return bytes;
}

TEST(Zstd, RoundTripAtEveryLevelAndSize) {
  for (const int level : {1, 3, 19}) {
    auto compressor = Compressor::create(level);
    ASSERT_TRUE(compressor) << compressor.error().what;
    for (const std::size_t count : {std::size_t{1}, std::size_t{8}, std::size_t{4096}, std::size_t{300'000}}) {
      for (const Bytes& input : {repetitive_bytes(count), random_bytes(count)}) {
        Bytes out(compress_bound(count));
        const auto bytes = compressor->compress(input, out);
        ASSERT_TRUE(bytes) << bytes.error().what;
        out.resize(*bytes);
        const auto back = expand(out, count);
        ASSERT_TRUE(back) << back.error().what;
        EXPECT_EQ(*back, input);
      }
    }
  }
}

// The same frames, from memory that is as small as promised, in any order of sizes.
TEST(Zstd, MemoryOfTheCallerIsEnoughAtEveryLevelAndSize) {
  constexpr std::size_t kMost = (512U + 64U) << 10U;
  for (int level = 1; level <= 19; ++level) {
    const auto needed = compressor_bytes(level, kMost);
    ASSERT_TRUE(needed) << needed.error().what;
    std::vector<std::max_align_t> memory(*needed / sizeof(std::max_align_t) + 1);
    auto compressor = Compressor::create_in(std::as_writable_bytes(std::span(memory)).first(*needed), level);
    ASSERT_TRUE(compressor) << compressor.error().what;
    auto own = Compressor::create(level);
    for (const std::size_t count : {kMost, std::size_t{1}, std::size_t{16} << 10U, std::size_t{128} << 10U,
                                    std::size_t{200'000}, std::size_t{256} << 10U, std::size_t{300'000}}) {
      SCOPED_TRACE(fmt::format("level {}, {} bytes", level, count));
      const Bytes input = repetitive_bytes(count);
      Bytes out(compress_bound(count)), expected(out.size());
      const auto bytes = compressor->compress(input, out);
      ASSERT_TRUE(bytes) << bytes.error().what;
      EXPECT_EQ(*bytes, *own->compress(input, expected));
      EXPECT_EQ(out, expected);
    }
  }
}

TEST(Zstd, LevelsOutsideOfTheRangeAreRefused) {
  for (const int level : {-1, 0, 20, 1000}) {
    const auto compressor = Compressor::create(level);
    ASSERT_FALSE(compressor);
    EXPECT_EQ(compressor.error().errno_value(), EINVAL);
    EXPECT_NE(compressor.error().what.find("use 1 to 19"), std::string::npos) << compressor.error().what;
  }
}

TEST(Zstd, AFrameSaysItsContentSizeAndHasNoChecksum) {
  const auto frame = compress_all(repetitive_bytes(70'000), 1);
  ASSERT_TRUE(frame);
  ASSERT_GE(frame->size(), 9U);
  // RFC 8878, 3.1.1: magic, then the frame header descriptor: content size flag (7-6), single segment (5), checksum
  // (2).
  EXPECT_EQ(frame->at(0), std::byte{0x28});
  EXPECT_EQ(frame->at(1), std::byte{0xb5});
  EXPECT_EQ(frame->at(2), std::byte{0x2f});
  EXPECT_EQ(frame->at(3), std::byte{0xfd});
  const auto descriptor = std::to_integer<unsigned>(frame->at(4));
  EXPECT_NE(descriptor >> 5U, 0U) << "no content size";
  EXPECT_EQ(descriptor & 4U, 0U) << "a checksum";
}

TEST(Zstd, IncompressibleInputGrowsByLessThanTheBound) {
  // The writer of COMPRESSED records relies on this: a random block of 65300 bytes still fits into one record.
  const auto frame = compress_all(random_bytes(65'300), 1);
  ASSERT_TRUE(frame);
  EXPECT_GT(frame->size(), 65'300U);
  EXPECT_LE(frame->size(), 65'527U);
  EXPECT_LE(frame->size(), compress_bound(65'300));
}

TEST(Zstd, TooSmallAnOutputIsENOSPCAndTheCompressorGoesOn) {
  auto compressor = Compressor::create(1);
  ASSERT_TRUE(compressor);
  const Bytes input = random_bytes(10'000);
  Bytes out(compress_bound(input.size()));
  for (const std::size_t room : {std::size_t{0}, std::size_t{1}, std::size_t{17}, std::size_t{9'999}}) {
    const auto bytes = compressor->compress(input, std::span(out).first(room));
    ASSERT_FALSE(bytes) << room;
    EXPECT_EQ(bytes.error().errno_value(), ENOSPC) << bytes.error().what;
  }
  const auto bytes = compressor->compress(input, out);
  ASSERT_TRUE(bytes) << bytes.error().what;
  const auto back = expand(std::span(out).first(*bytes), input.size());
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, input);
}

TEST(Zstd, FramesOfOneCompressorDoNotNeedEachOther) {
  auto compressor = Compressor::create(3);
  ASSERT_TRUE(compressor);
  const Bytes input = repetitive_bytes(50'000);
  Bytes first(compress_bound(input.size())), second(first.size());
  const auto first_bytes = compressor->compress(input, first);
  const auto second_bytes = compressor->compress(input, second);
  ASSERT_TRUE(first_bytes && second_bytes);
  first.resize(*first_bytes);
  second.resize(*second_bytes);
  EXPECT_EQ(first, second);
  EXPECT_EQ(*expand(second, input.size()), input);
}

TEST(Zstd, AFrameHasNoMoreMemoryThanItNeeds) {
  const auto frame = compress_all(std::vector<std::byte>(1U << 20U), 1);
  ASSERT_TRUE(frame) << frame.error().what;
  EXPECT_LT(frame->capacity(), 2 * frame->size());
}

TEST(Zstd, ExpandKeepsToItsBound) {
  const auto frame = compress_all(Bytes(1U << 20U), 1);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(expand(*frame, 1U << 20U));
  const auto refused = expand(*frame, (1U << 20U) - 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EFBIG);
}

TEST(Zstd, ExpandTakesExactlyOneWholeFrame) {
  const Bytes input = repetitive_bytes(5'000);
  const auto frame = compress_all(input, 1);
  ASSERT_TRUE(frame);
  for (std::size_t cut = 0; cut < frame->size(); ++cut)
    EXPECT_FALSE(expand(std::span(*frame).first(cut), 1U << 20U)) << cut;
  Bytes twice = *frame;
  twice.insert(twice.end(), frame->begin(), frame->end());
  EXPECT_FALSE(expand(twice, 1U << 20U));
  Bytes padded = *frame;
  padded.resize(padded.size() + 3);
  EXPECT_FALSE(expand(padded, 1U << 20U));
}

TEST(Zstd, FramesWithFlippedBitsNeverExpandBeyondTheBound) {
  const auto frame = compress_all(repetitive_bytes(2'000), 1);
  ASSERT_TRUE(frame);
  for (std::size_t bit = 0; bit < frame->size() * 8; ++bit) {
    Bytes flipped = *frame;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const auto back = expand(flipped, 4'000);
    if (back) {
      EXPECT_LE(back->size(), 4'000U);
    }
  }
}

}  // namespace
}  // namespace flight
