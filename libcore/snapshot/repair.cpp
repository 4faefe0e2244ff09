// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/repair.hpp"

#include <cstring>

#include "libcore/base/version.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perfdata/reader.hpp"

namespace flight {
namespace {

// The feature's value at `offset`; 0 if it is missing.
std::uint64_t value_at(const FileReader& reader, unsigned feature, std::size_t offset) {
  const auto found = reader.features().find(feature);
  std::uint64_t value = 0;
  if (found == reader.features().end() || found->second.size() < offset + sizeof value) return 0;
  std::memcpy(&value, found->second.data() + offset, sizeof value);
  return value;
}

// CLOCK_DATA: u32 version, u32 clock, u64 wall time, u64 this clock, both in ns.
ClockPair pair_of(const FileReader& reader) {
  constexpr std::size_t kWall = 8;
  constexpr std::size_t kMonotonic = 16;
  return {.wall = WallTime(static_cast<std::int64_t>(value_at(reader, kFeatureClockData, kWall))),
          .monotonic_ns = value_at(reader, kFeatureClockData, kMonotonic)};
}

}  // namespace

Result<Sidecar> sidecar_from_file(const std::string& folder, const SnapshotName& name) {
  Sidecar out;
  out.id = fmt::format("{}", name.seq);
  out.path = folder + "/" + name.data_file();
  const auto reader = FileReader::open(out.path);
  if (!reader) return wrap(reader.error(), "make a sidecar for snapshot {}", name.seq);
  auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        out.raw_bytes += record.size();
        perf_event_header header{};
        std::memcpy(&header, record.data(), sizeof header);
        if (header.type == PERF_RECORD_SAMPLE) ++out.samples;
        return {};
      },
      expand);
  if (!read) return wrap(read.error(), "make a sidecar for snapshot {} of {}", name.seq, out.path);
  out.host = name.host;
  out.kernel = reader->string_feature(kFeatureOsRelease);
  out.version = kVersion;
  out.trigger = name.trigger;
  out.capture = "pause";
  out.compression = reader->features().contains(kFeatureCompressed) ? "zstd" : "none";
  out.size_bytes = reader->file_bytes();
  out.window =
      SidecarWindow::of(value_at(*reader, kFeatureSampleTime, 0),
                        value_at(*reader, kFeatureSampleTime, sizeof(std::uint64_t)), ClockHistory(pair_of(*reader)));
  out.common_window = out.window;
  out.blackout.lost_exact = false;
  out.warnings.emplace_back(
      "its sidecar was missing, and this one was made from the data file: its request and reason, its rings, blackout "
      "and holes are unknown, its window is that of its samples, and times before a change of the clock are off by it");
  return out;
}

Result<bool> is_data_of(const Sidecar& sidecar, const std::string& path, const std::function<bool()>& stop) {
  const auto reader = FileReader::open(path);
  if (!reader || reader->file_bytes() != sidecar.size_bytes) return false;
  std::uint64_t samples = 0;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (stop && stop()) return fail(std::errc::operation_canceled, "flightd stops");
        if (load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE) ++samples;
        return {};
      },
      expand);
  if (!read && read.error().code == std::errc::operation_canceled) return propagate(read.error());
  return read && samples == sidecar.samples;
}

}  // namespace flight
