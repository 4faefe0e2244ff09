// SPDX-License-Identifier: Apache-2.0
#include "libcore/compress/zstd.hpp"

// For contexts in memory of the caller: not stable API by zstd's rules, the same since zstd 1.3.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>

namespace flight {
namespace {

constexpr int kMaxLevel = 19;  // higher levels take hundreds of MiB

// zstd's own parameters of level 1 for a few hundred KiB have a small hash table, 2^13 or 2^14 entries. With 2^16
// entries (256 KiB, which fits into a core's cache) 10 MB of 4 kHz stacks in frames of 256 KiB take 1.019 times the
// size of one endless stream instead of 1.028, at the same speed. minMatch 6 is zstd's value up to 256 KiB; a larger
// input would lose it.
constexpr int kLevel1HashLog = 16, kLevel1MinMatch = 6;

Failure zstd_failure(std::size_t result, std::string_view what) {
  const ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
  std::errc error = std::errc::bad_message;
  if (code == ZSTD_error_dstSize_tooSmall) error = std::errc::no_space_on_device;
  if (code == ZSTD_error_memory_allocation) error = std::errc::not_enough_memory;
  return fail(error, "zstd cannot {}: {}", what, ZSTD_getErrorName(result));
}

Result<void> check_level(int level) {
  if (level >= 1 && level <= kMaxLevel) return {};
  return fail(std::errc::invalid_argument, "compression level {} does not exist: use 1 to {}", level, kMaxLevel);
}

}  // namespace

void Compressor::Free::operator()(ZSTD_CCtx_s* context) const {
  if (owned) ZSTD_freeCCtx(context);
}

Result<Compressor> Compressor::create(int level) {
  if (auto valid = check_level(level); !valid) return propagate(valid.error());
  Compressor compressor(ZSTD_createCCtx(), true);
  if (!compressor.context_) return fail(std::errc::not_enough_memory, "no memory for zstd at level {}", level);
  if (auto done = compressor.set_up(level); !done) return propagate(done.error());
  return compressor;
}

Result<Compressor> Compressor::create_in(std::span<std::byte> memory, int level) {
  if (auto valid = check_level(level); !valid) return propagate(valid.error());
  Compressor compressor(ZSTD_initStaticCCtx(memory.data(), memory.size()), false);
  if (!compressor.context_) return fail(std::errc::not_enough_memory, "{} bytes are too few for zstd", memory.size());
  if (auto done = compressor.set_up(level); !done) return propagate(done.error());
  return compressor;
}

Result<void> Compressor::set_up(int level) {
  const auto set = [&](ZSTD_cParameter parameter, int value) {
    return ZSTD_CCtx_setParameter(context_.get(), parameter, value);
  };
  for (const std::size_t result :
       {set(ZSTD_c_compressionLevel, level), set(ZSTD_c_contentSizeFlag, 1), set(ZSTD_c_checksumFlag, 0)})
    if (ZSTD_isError(result) != 0) return zstd_failure(result, "be set up");
  if (level == 1)
    for (const std::size_t result : {set(ZSTD_c_hashLog, kLevel1HashLog), set(ZSTD_c_minMatch, kLevel1MinMatch)})
      if (ZSTD_isError(result) != 0) return zstd_failure(result, "be set up");
  return {};
}

// zstd has four tables of parameters for each level, and takes one of them by the input's size. A larger input does not
// always need more.
Result<std::size_t> compressor_bytes(int level, std::size_t max_input_bytes) {
  if (auto valid = check_level(level); !valid) return propagate(valid.error());
  std::size_t out = 0;
  for (const std::size_t table_bytes :
       {std::size_t{16} << 10U, std::size_t{128} << 10U, std::size_t{256} << 10U, max_input_bytes}) {
    ZSTD_compressionParameters parameters = ZSTD_getCParams(level, std::min(table_bytes, max_input_bytes), 0);
    if (level == 1) {
      parameters.hashLog = kLevel1HashLog;
      parameters.minMatch = kLevel1MinMatch;
    }
    const std::size_t bytes = ZSTD_estimateCCtxSize_usingCParams(parameters);
    if (ZSTD_isError(bytes) != 0) return zstd_failure(bytes, "say what memory it needs");
    out = std::max(out, bytes);
  }
  return out;
}

Result<std::size_t> Compressor::compress(std::span<const std::byte> input, std::span<std::byte> out) {
  // It begins a new frame also after a failed call.
  const std::size_t result = ZSTD_compress2(context_.get(), out.data(), out.size(), input.data(), input.size());
  if (ZSTD_isError(result) != 0) return zstd_failure(result, "compress");
  return result;
}

std::size_t compress_bound(std::size_t input_bytes) { return ZSTD_compressBound(input_bytes); }

Result<std::vector<std::byte>> compress_all(std::span<const std::byte> input, int level) {
  auto compressor = Compressor::create(level);
  if (!compressor) return propagate(compressor.error());
  // The bound is larger than the input: what the frame does not need is not touched, and not kept.
  const std::size_t bound = compress_bound(input.size());
  const auto room = std::make_unique_for_overwrite<std::byte[]>(bound);
  const std::span<std::byte> whole(room.get(), bound);
  const auto bytes = compressor->compress(input, whole);
  if (!bytes) return propagate(bytes.error());
  const auto frame = whole.first(*bytes);
  return std::vector<std::byte>(frame.begin(), frame.end());
}

Result<std::vector<std::byte>> expand(std::span<const std::byte> frame, std::size_t max_bytes) {
  const std::size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data(), frame.size());
  if (ZSTD_isError(frame_bytes) != 0) return zstd_failure(frame_bytes, "expand");
  if (frame_bytes != frame.size())
    return fail(std::errc::bad_message, "{} bytes follow a zstd frame of {}", frame.size() - frame_bytes, frame_bytes);
  const unsigned long long content_bytes = ZSTD_getFrameContentSize(frame.data(), frame.size());
  // All frames of flightd contain it. Without it, the frame would decide how much memory is used.
  if (content_bytes == ZSTD_CONTENTSIZE_UNKNOWN || content_bytes == ZSTD_CONTENTSIZE_ERROR)
    return fail(std::errc::bad_message, "a zstd frame without its content size");
  if (content_bytes > max_bytes)
    return fail(std::errc::file_too_large, "a zstd frame would expand to {} bytes, at most {} are allowed",
                content_bytes, max_bytes);
  std::vector<std::byte> out(content_bytes);
  const std::size_t result = ZSTD_decompress(out.data(), out.size(), frame.data(), frame.size());
  if (ZSTD_isError(result) != 0) return zstd_failure(result, "expand");
  if (result != out.size())
    return fail(std::errc::bad_message, "a zstd frame declares {} bytes but expanded to {}", out.size(), result);
  return out;
}

}  // namespace flight
