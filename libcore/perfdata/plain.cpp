// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/plain.hpp"

#include <functional>
#include <vector>

namespace flight {
namespace {

// `read` visits the records. `compressed`: some of them are COMPRESSED ones.
Result<void> rewrite(const FileReader& from, int fd, bool compressed,
                     const std::function<Result<void>(const FileReader::Visit&)>& read) {
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
  if (auto done = read(take); !done) return done;
  if (auto rest = flush(); !rest) return rest;
  std::vector<EncodedFeature> features;
  for (const auto& [bit, bytes] : from.features())
    if (bit != kFeatureDirFormat && (compressed || bit != kFeatureCompressed))
      features.push_back({.bit = bit, .bytes = bytes});
  return writer->finish_encoded(features);
}

}  // namespace

Result<void> write_plain(const FileReader& from, const FileReader::Expand& expand, int fd) {
  return rewrite(from, fd, false, [&](const FileReader::Visit& visit) { return from.for_each_record(visit, expand); });
}

Result<void> write_joined(const FileReader& from, int fd) {
  return rewrite(from, fd, true, [&](const FileReader::Visit& visit) { return from.for_each_stored_record(visit); });
}

}  // namespace flight
