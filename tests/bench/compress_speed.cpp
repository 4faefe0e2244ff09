// SPDX-License-Identifier: Apache-2.0
// How fast one worker compresses: the records of a file in chunks of kMinChunkBytes, a frame each, the best of five
// runs.
//
//   compress_speed FILE RAW   prints MB/s (10^6); writes the unpacked records to RAW
#include <cstdio>
#include <fstream>

#include "libcore/base/clock.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "libcore/snapshot/data_stream.hpp"

namespace {

double seconds(flight::Compressor& compressor, std::span<const std::byte> raw) {
  std::vector<std::byte> out(flight::kMaxCompressedPayload);
  const auto begin_ns = flight::monotonic_now();
  for (std::size_t at = 0; at < raw.size(); at += flight::kMinChunkBytes)
    static_cast<void>(compressor.compress(raw.subspan(at, std::min(flight::kMinChunkBytes, raw.size() - at)), out));
  return static_cast<double>(flight::monotonic_now() - begin_ns) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const auto reader = argc == 3 ? flight::FileReader::open(argv[1])
                                : flight::fail(std::errc::invalid_argument, "usage: compress_speed FILE RAW");
  auto compressor = flight::Compressor::create(1);
  if (!reader || !compressor) {
    std::fprintf(stderr, "compress_speed: %s\n", (reader ? compressor.error() : reader.error()).what.c_str());
    return 1;
  }
  std::vector<std::byte> raw;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> flight::Result<void> {
        raw.insert(raw.end(), record.begin(), record.end());
        return {};
      },
      flight::expand);
  if (!read) {
    std::fprintf(stderr, "compress_speed: %s\n", read.error().what.c_str());
    return 1;
  }
  std::ofstream(argv[2], std::ios::binary)
      .write(reinterpret_cast<const char*>(raw.data()), static_cast<std::streamsize>(raw.size()));
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, seconds(*compressor, raw));
  std::printf("%.1f\n", static_cast<double>(raw.size()) / best / 1e6);
  return 0;
}
