// SPDX-License-Identifier: Apache-2.0
// How small the data section of a perf.data file would be as perf writes it: all its records through one zstd -1 stream
// that is flushed every 64 KiB, a COMPRESSED record for each flush.
//
//   stream_size FILE    prints: data section of FILE, bytes unpacked, bytes as one flushed stream
#include <zstd.h>

#include <cstdio>
#include <vector>

#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/reader.hpp"

namespace {

constexpr std::size_t kFlushBytes = 64U << 10U;
constexpr std::size_t kRecordHeaderBytes = 8;

std::size_t flushed_stream_bytes(const std::vector<std::byte>& raw) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
  std::vector<std::byte> out(ZSTD_compressBound(kFlushBytes));
  std::size_t sum = 0;
  for (std::size_t at = 0; at < raw.size(); at += kFlushBytes) {
    ZSTD_inBuffer input{raw.data() + at, std::min(kFlushBytes, raw.size() - at), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    while (ZSTD_compressStream2(context, &output, &input, ZSTD_e_flush) != 0) {
      sum += output.pos;
      output.pos = 0;
    }
    sum += output.pos + kRecordHeaderBytes;
  }
  ZSTD_freeCCtx(context);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: stream_size FILE\n");
    return 2;
  }
  const auto reader = flight::FileReader::open(argv[1]);
  if (!reader) {
    std::fprintf(stderr, "stream_size: %s\n", reader.error().what.c_str());
    return 1;
  }
  std::vector<std::byte> raw;
  std::size_t data_bytes = 0;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> flight::Result<void> {
        raw.insert(raw.end(), record.begin(), record.end());
        return {};
      },
      [&](std::span<const std::byte> frame, std::size_t most) {
        data_bytes += frame.size() + kRecordHeaderBytes;
        return flight::expand(frame, most);
      });
  if (!read) {
    std::fprintf(stderr, "stream_size: %s\n", read.error().what.c_str());
    return 1;
  }
  std::printf("%zu %zu %zu\n", data_bytes, raw.size(), flushed_stream_bytes(raw));
  return 0;
}
