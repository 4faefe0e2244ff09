// SPDX-License-Identifier: Apache-2.0
// zstd, one self-contained frame at a time. The only module that includes zstd.h.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"

struct ZSTD_CCtx_s;

namespace flight {

// One thread at a time; keeps its working memory between frames.
class Compressor {
 public:
  // level: 1 to 19.
  [[nodiscard]] static Result<Compressor> create(int level);
  // In `memory` of compressor_bytes() bytes, aligned as malloc(3) does, which must outlive it: it allocates nothing.
  [[nodiscard]] static Result<Compressor> create_in(std::span<std::byte> memory, int level);
  // Compresses into `out` as one frame with the content size; returns the frame's size. ENOSPC: `out` is too small,
  // its content is undefined.
  [[nodiscard]] Result<std::size_t> compress(std::span<const std::byte> input, std::span<std::byte> out);

 private:
  struct Free {
    bool owned = true;
    void operator()(ZSTD_CCtx_s* context) const;
  };
  Compressor(ZSTD_CCtx_s* context, bool owned) : context_(context, Free{owned}) {}
  [[nodiscard]] Result<void> set_up(int level);
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;
};

// What create_in() needs for inputs of at most `max_input_bytes`.
[[nodiscard]] Result<std::size_t> compressor_bytes(int level, std::size_t max_input_bytes);
// A buffer of this size is enough for any input of `input_bytes`.
[[nodiscard]] std::size_t compress_bound(std::size_t input_bytes);
// Compresses a whole buffer to one frame (kallsyms).
[[nodiscard]] Result<std::vector<std::byte>> compress_all(std::span<const std::byte> input, int level);
// Expands one frame; EFBIG if it would expand to more than `max_bytes`.
[[nodiscard]] Result<std::vector<std::byte>> expand(std::span<const std::byte> frame, std::size_t max_bytes);

}  // namespace flight
