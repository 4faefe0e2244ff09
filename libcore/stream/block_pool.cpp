// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/block_pool.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <numeric>

namespace flight {
namespace {

std::size_t pages_of(std::size_t bytes) { return (bytes + BlockPool::kPageBytes - 1) / BlockPool::kPageBytes; }

}  // namespace

PooledBytes& PooledBytes::operator=(PooledBytes&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::exchange(other.pool_, nullptr);
    first_ = other.first_;
    last_ = other.last_;
    size_ = other.size_;
  }
  return *this;
}

void PooledBytes::release() noexcept {
  if (pool_ == nullptr) return;
  std::exchange(pool_, nullptr)->give_back(first_, last_, pages_of(size_));
}

void PooledBytes::append_to(std::vector<std::byte>& out) const {
  assert(pool_ != nullptr);
  std::size_t left = size_;
  for (std::uint32_t at = first_; left > 0; at = pool_->next_[at]) {
    const auto bytes = pool_->page(at).first(std::min(left, BlockPool::kPageBytes));
    out.insert(out.end(), bytes.begin(), bytes.end());
    left -= bytes.size();
  }
}

Result<std::unique_ptr<BlockPool>> BlockPool::create(std::size_t bytes) {
  const std::size_t pages = std::max<std::size_t>(pages_of(bytes), 1);
  if (pages >= std::numeric_limits<std::uint32_t>::max())
    return fail(std::errc::invalid_argument, "{} bytes are too many for the blocks of a recording", bytes);
  auto memory = Mapping::create(pages * kPageBytes);
  if (!memory) return wrap(memory.error(), "the blocks of a recording");
  return std::unique_ptr<BlockPool>(new BlockPool(std::move(*memory), pages));
}

BlockPool::BlockPool(Mapping memory, std::size_t pages) : memory_(std::move(memory)), next_(pages), free_pages_(pages) {
  std::iota(next_.begin(), next_.end(), std::uint32_t{1});  // the last one's is never followed
}

BlockPool::~BlockPool() { assert(free_pages_ == next_.size() && "a block outlives its pool"); }

std::optional<PooledBytes> BlockPool::keep(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::size_t size = head.size() + body.size();
  assert(size > 0);
  const std::size_t pages = pages_of(size);
  std::uint32_t first = 0, last = 0;
  {
    const std::lock_guard lock(mutex_);
    if (pages > free_pages_) return std::nullopt;
    first = last = free_first_;
    for (std::size_t i = 1; i < pages; ++i) last = next_[last];
    free_first_ = next_[last];
    free_pages_ -= pages;
  }
  std::uint32_t at = first;
  std::size_t used = 0;  // of page `at`
  for (std::span<const std::byte> from : {head, body}) {
    while (!from.empty()) {
      if (used == kPageBytes) {
        at = next_[at];
        used = 0;
      }
      const std::size_t some = std::min(from.size(), kPageBytes - used);
      std::memcpy(page(at).data() + used, from.data(), some);
      from = from.subspan(some);
      used += some;
    }
  }
  return PooledBytes(*this, first, last, size);
}

void BlockPool::give_back(std::uint32_t first, std::uint32_t last, std::size_t pages) noexcept {
  const std::lock_guard lock(mutex_);
  next_[last] = free_first_;
  free_first_ = first;
  free_pages_ += pages;
}

std::size_t BlockPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return free_pages_ * kPageBytes;
}

}  // namespace flight
