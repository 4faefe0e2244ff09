// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/plain.hpp"

#include <vector>

namespace flight {

Result<void> write_plain(const FileReader& from, const FileReader::Expand& expand, int fd) {
  constexpr std::size_t kWriteBytes = 1U << 20U;
  auto writer = FileWriter::create(fd, from.events());
  if (!writer) return propagate(writer.error());
  std::vector<std::byte> pending;
  const auto flush = [&]() -> Result<void> {
    auto written = writer->append(pending);
    pending.clear();
    return written;
  };
  const auto take = [&](std::span<const std::byte> record) -> Result<void> {
    pending.insert(pending.end(), record.begin(), record.end());
    return pending.size() < kWriteBytes ? Result<void>{} : flush();
  };
  if (auto read = from.for_each_record(take, expand); !read) return read;
  if (auto rest = flush(); !rest) return rest;
  std::vector<EncodedFeature> features;
  for (const auto& [bit, bytes] : from.features())
    if (bit != kFeatureCompressed) features.push_back({.bit = bit, .bytes = bytes});
  return writer->finish_encoded(features);
}

}  // namespace flight
