// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/gzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

namespace flight {
namespace {

constexpr std::size_t kOutBytes = 64U << 10U;
constexpr std::size_t kMostInBytes = 1U << 30U;    // at a time: zlib counts in 32 bits
constexpr int kLevel = 6, kMemoryLevel = 8;        // zlib's defaults
constexpr int kWindowBits = 15, kGzipHeader = 16;  // added up; see deflateInit2 in zlib.h

}  // namespace

void GzipWriter::EndStream::operator()(z_stream_s* stream) const {
  ::deflateEnd(stream);
  delete stream;
}

GzipWriter::GzipWriter(std::unique_ptr<z_stream_s, EndStream> stream, Write write)
    : stream_(std::move(stream)), write_(std::move(write)), out_(kOutBytes) {}

Result<GzipWriter> GzipWriter::create(Write write) {
  std::unique_ptr<z_stream_s, EndStream> stream(new z_stream_s{});
  const int status = ::deflateInit2_(stream.get(), kLevel, Z_DEFLATED, kWindowBits + kGzipHeader, kMemoryLevel,
                                     Z_DEFAULT_STRATEGY, ZLIB_VERSION, static_cast<int>(sizeof(z_stream_s)));
  if (status != Z_OK) return fail(std::errc::not_enough_memory, "begin to compress: zlib's status is {}", status);
  return GzipWriter(std::move(stream), std::move(write));
}

Result<void> GzipWriter::add(std::string_view text) {
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, kMostInBytes);
    // zlib does not write to its input.
    stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream_->avail_in = static_cast<uInt>(piece.size());
    if (auto done = deflate_all(Z_NO_FLUSH); !done) return done;
    text.remove_prefix(piece.size());
  }
  return {};
}

Result<void> GzipWriter::finish() { return deflate_all(Z_FINISH); }

Result<void> GzipWriter::deflate_all(int flush) {
  do {
    stream_->next_out = reinterpret_cast<Bytef*>(out_.data());
    stream_->avail_out = static_cast<uInt>(out_.size());
    const int status = ::deflate(stream_.get(), flush);
    if (status == Z_STREAM_ERROR) return fail(std::errc::invalid_argument, "compress: zlib's status is {}", status);
    const std::size_t made = out_.size() - stream_->avail_out;
    if (made == 0) continue;
    if (auto written = write_(std::span(out_).first(made)); !written) return written;
  } while (stream_->avail_out == 0);
  return {};
}

}  // namespace flight
