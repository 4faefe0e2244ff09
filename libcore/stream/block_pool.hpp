// SPDX-License-Identifier: Apache-2.0
// The memory between the workers, which compress, and the thread that writes: a fixed number of pages. A block takes
// whole pages, which need not follow each other, and gives them back when it is destroyed. Nothing is allocated beyond
// it: where no page is free, the disk is too slow, and the caller makes a hole.
//
//   pages   [ a ][ free ][ b ][ a ][ free ][ b ] …      next: 0 → 3, 2 → 5, 1 → 4
//
// The pages of a block belong to the block alone; the list of free ones is under a mutex. The pool must outlive its
// blocks. Pages are touched when they are first used, and kept from then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"

namespace flight {

class BlockPool;

// Bytes in the pool. One thread at a time, which may be another one than the one that kept them.
class PooledBytes {
 public:
  PooledBytes(PooledBytes&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), first_(other.first_), last_(other.last_), size_(other.size_) {}
  PooledBytes& operator=(PooledBytes&& other) noexcept;
  PooledBytes(const PooledBytes&) = delete;
  PooledBytes& operator=(const PooledBytes&) = delete;
  ~PooledBytes() { release(); }

  [[nodiscard]] std::size_t size() const { return size_; }
  void append_to(std::vector<std::byte>& out) const;

 private:
  friend class BlockPool;
  PooledBytes(BlockPool& pool, std::uint32_t first, std::uint32_t last, std::size_t size)
      : pool_(&pool), first_(first), last_(last), size_(size) {}
  void release() noexcept;

  BlockPool* pool_;             // none: moved away
  std::uint32_t first_, last_;  // pages
  std::size_t size_;
};

class BlockPool {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  // Rounded up to whole pages; at least one, at most 2^32 - 1 of them.
  [[nodiscard]] static Result<std::unique_ptr<BlockPool>> create(std::size_t bytes);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // Any thread. Copies both, one behind the other; together at least one byte. nullopt: not enough pages are free.
  [[nodiscard]] std::optional<PooledBytes> keep(std::span<const std::byte> head, std::span<const std::byte> body);
  // Any thread; what other threads take and give back changes it.
  [[nodiscard]] std::size_t free_bytes() const;
  [[nodiscard]] std::size_t size_bytes() const { return next_.size() * kPageBytes; }

 private:
  friend class PooledBytes;
  BlockPool(Mapping memory, std::size_t pages);
  [[nodiscard]] std::span<std::byte> page(std::uint32_t number) const {
    return memory_.bytes().subspan(number * kPageBytes, kPageBytes);
  }
  void give_back(std::uint32_t first, std::uint32_t last, std::size_t pages) noexcept;

  Mapping memory_;  // a page's bytes: those of its block's owner
  // By page: the next one of its block, or of the free ones. An element belongs to the owner of its page.
  std::vector<std::uint32_t> next_;
  mutable std::mutex mutex_;
  std::uint32_t free_first_ = 0;  // under mutex_, as is the element of each free page in next_
  std::size_t free_pages_;        // under mutex_
};

}  // namespace flight
