// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/block_pool.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <thread>

namespace flight {
namespace {

constexpr std::size_t kPoolBytes = 64U << 10U;

std::vector<std::byte> noise_of(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& byte : out) byte = static_cast<std::byte>(random() & 0xffU);
  return out;
}

std::vector<std::byte> content_of(const PooledBytes& bytes) {
  std::vector<std::byte> out;
  bytes.append_to(out);
  return out;
}

TEST(BlockPoolTest, KeepsWhatFitsAndNothingBeyond) {
  const auto pool = BlockPool::create(kPoolBytes).value();
  EXPECT_EQ(pool->size_bytes(), kPoolBytes);
  const auto small = noise_of(8, 1), large = noise_of(kPoolBytes - 2 * BlockPool::kPageBytes, 2);
  {
    const auto first = pool->keep(small, {});
    ASSERT_TRUE(first);
    EXPECT_EQ(pool->free_bytes(), kPoolBytes - BlockPool::kPageBytes) << "whole pages";
    const auto second = pool->keep({}, large);
    ASSERT_TRUE(second);
    EXPECT_EQ(pool->free_bytes(), BlockPool::kPageBytes);
    EXPECT_FALSE(pool->keep(small, noise_of(BlockPool::kPageBytes, 3)));
    EXPECT_EQ(pool->free_bytes(), BlockPool::kPageBytes) << "what does not fit takes nothing";
    EXPECT_EQ(content_of(*first), small);
    EXPECT_EQ(content_of(*second), large);
  }
  EXPECT_EQ(pool->free_bytes(), kPoolBytes);
}

TEST(BlockPoolTest, HeadAndBodyFollowEachOther) {
  const auto pool = BlockPool::create(kPoolBytes).value();
  for (const std::size_t head : {0U, 8U, 4095U, 4096U, 5000U})
    for (const std::size_t body : {1U, 4088U, 4096U, 20'000U}) {
      const auto first = noise_of(head, 4), second = noise_of(body, 5);
      const auto kept = pool->keep(first, second);
      ASSERT_TRUE(kept);
      EXPECT_EQ(kept->size(), head + body);
      auto both = first;
      both.insert(both.end(), second.begin(), second.end());
      EXPECT_EQ(content_of(*kept), both);
    }
  EXPECT_EQ(pool->free_bytes(), kPoolBytes);
}

TEST(BlockPoolTest, AMovedBlockGivesItsPagesBackOnce) {
  const auto pool = BlockPool::create(kPoolBytes).value();
  auto first = pool->keep(noise_of(9'000, 6), {});
  auto second = pool->keep(noise_of(100, 7), {});
  ASSERT_TRUE(first && second);
  *second = std::move(*first);
  EXPECT_EQ(content_of(*second), noise_of(9'000, 6));
  EXPECT_EQ(pool->free_bytes(), kPoolBytes - 3 * BlockPool::kPageBytes);
  first.reset();
  EXPECT_EQ(pool->free_bytes(), kPoolBytes - 3 * BlockPool::kPageBytes);
  second.reset();
  EXPECT_EQ(pool->free_bytes(), kPoolBytes);
}

// Blocks of several threads, in any order: nobody sees the bytes of another one.
TEST(BlockPoolTest, ThreadsShareIt) {
  const auto pool = BlockPool::create(1U << 20U).value();
  std::vector<std::thread> threads;
  for (unsigned thread = 1; thread <= 3; ++thread)
    threads.emplace_back([&pool, thread] {
      std::mt19937 random(thread);
      std::vector<std::pair<PooledBytes, unsigned>> kept;
      for (unsigned i = 0; i < 500; ++i) {
        const unsigned seed = thread * 1'000 + i;
        const std::size_t size = 1 + random() % 30'000;
        if (auto bytes = pool->keep({}, noise_of(size, seed))) kept.emplace_back(std::move(*bytes), seed);
        if (kept.size() < 8) continue;
        const std::size_t at = random() % kept.size();
        EXPECT_EQ(content_of(kept[at].first), noise_of(kept[at].first.size(), kept[at].second));
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(at));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->free_bytes(), 1U << 20U);
}

}  // namespace
}  // namespace flight
