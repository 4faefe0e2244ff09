// SPDX-License-Identifier: Apache-2.0
// A perf.data file of anybody's: header, attrs, features, records, and what its compressed records expand to.
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/features.hpp"
#include "libcore/perfdata/reader.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr std::size_t kMaxExpanded = 64U << 20U;  // of one file: a frame of 30 bytes may hold 128 MiB, over and over

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto reader = flight::FileReader::parse(flight::fuzz::Input(data, size).bytes());
  if (!reader) return 0;
  for (const auto& [bit, contents] : reader->features()) static_cast<void>(reader->string_feature(bit));
  std::size_t expanded = 0;
  volatile std::size_t sum = 0;
  const auto visit = [&](std::span<const std::byte> record) -> flight::Result<void> {
    sum = sum + std::to_integer<std::size_t>(record.back());
    return {};
  };
  static_cast<void>(reader->for_each_record(
      visit, [&](std::span<const std::byte> frame, std::size_t max_bytes) -> flight::Result<std::vector<std::byte>> {
        auto records = flight::expand(frame, max_bytes);
        if (records && (expanded += records->size()) > kMaxExpanded)
          return flight::fail(std::errc::file_too_large, "enough of it");
        return records;
      }));
  return 0;
}
