// SPDX-License-Identifier: Apache-2.0
// A perf.data file in memory, written as flightd writes one, with records of a test's own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "libcore/perfdata/writer.hpp"

namespace flight::test {

inline constexpr std::uint64_t kSidebandId = 1, kClockId = 21, kSwitchId = 31;
inline constexpr std::uint64_t kSwitchPeriod = 7;

struct MadeSample {
  std::uint32_t pid = 10, tid = 10, cpu = 0;
  EventTime time_ns = 0;
  std::uint64_t ip = 0;
  bool kernel = false;
  std::vector<std::uint64_t> chain = {};
  std::uint64_t period = 1000, cgroup = 0;
};

template <typename T>
void append_raw(RecordBuffer& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

inline void set_size(RecordBuffer& out, std::size_t begin) {
  const auto size = static_cast<std::uint16_t>(out.size() - begin);
  std::memcpy(out.data() + begin + 6, &size, sizeof size);
}

inline void append_fixed(RecordBuffer& out, const MadeSample& sample, std::uint64_t id) {
  const auto misc = static_cast<std::uint16_t>(sample.kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
  append_raw(out, std::uint32_t{PERF_RECORD_SAMPLE});
  append_raw(out, misc);
  append_raw(out, std::uint16_t{0});
  append_raw(out, id);
  append_raw(out, sample.ip);
  append_raw(out, sample.pid);
  append_raw(out, sample.tid);
  append_raw(out, sample.time_ns);
  append_raw(out, sample.cpu);
  append_raw(out, std::uint32_t{0});
}

// Of the event cpu-clock.
inline void append_sample(RecordBuffer& out, const MadeSample& sample) {
  const std::size_t begin = out.size();
  append_fixed(out, sample, kClockId);
  append_raw(out, sample.period);
  append_raw(out, std::uint64_t{sample.chain.size()});
  for (const std::uint64_t address : sample.chain) append_raw(out, address);
  append_raw(out, sample.cgroup);
  set_size(out, begin);
}

// Of the event context-switches: without a period and a chain.
inline void append_switch(RecordBuffer& out, const MadeSample& sample) {
  const std::size_t begin = out.size();
  append_fixed(out, sample, kSwitchId);
  set_size(out, begin);
}

inline std::vector<FileEvent> made_events() {
  perf_event_attr sideband{};
  sideband.type = PERF_TYPE_SOFTWARE;
  sideband.config = PERF_COUNT_SW_DUMMY;
  sideband.sample_type = kSidebandSampleType;
  sideband.sample_id_all = 1;
  perf_event_attr clock = sideband, switches = sideband;
  clock.config = PERF_COUNT_SW_CPU_CLOCK;
  clock.sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_CGROUP;
  clock.freq = 1;
  clock.sample_freq = 99;
  switches.config = PERF_COUNT_SW_CONTEXT_SWITCHES;
  switches.sample_type |= PERF_SAMPLE_IP;
  switches.sample_period = kSwitchPeriod;
  return {{sideband, "flightd:sideband", {kSidebandId}},
          {clock, "cpu-clock", {kClockId}},
          {switches, "context-switches", {kSwitchId}}};
}

inline UniqueFd made_memfd() {
  auto fd = open_memfd("made");
  EXPECT_TRUE(fd);
  return fd ? std::move(*fd) : UniqueFd();
}

// The records as COMPRESSED ones.
inline RecordBuffer packed_records(std::span<const std::byte> records) {
  constexpr std::size_t kChunkBytes = 32U << 10U;
  RecordBuffer out, chunk;
  const auto end_chunk = [&] {
    const auto frame = compress_all(chunk, 1);
    EXPECT_TRUE(frame);
    if (frame) append_compressed(out, *frame);
    chunk.clear();
  };
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    chunk.insert(chunk.end(), record.begin(), record.end());
    records = records.subspan(record.size());
    if (chunk.size() >= kChunkBytes) end_chunk();
  }
  if (!chunk.empty()) end_chunk();
  return out;
}

struct MadeOptions {
  bool compressed = false;
  std::vector<RecordBuffer> bare = {};  // not empty: a data directory, with these as data.0 …
};

// Into an empty file; the bare files of a directory are not written.
inline void write_made_file(int fd, std::span<const std::byte> records, const MadeOptions& options = {}) {
  auto writer = FileWriter::create(fd, made_events());
  EXPECT_TRUE(writer);
  EXPECT_TRUE(
      writer->append(options.compressed ? packed_records(records) : RecordBuffer(records.begin(), records.end())));
  Features features{.hostname = "box", .version = "0.2.0", .arch = "x86_64", .cpus_available = 2, .cpus_online = 2};
  if (options.compressed) features.compressed = CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = 1U << 18U};
  features.directory = !options.bare.empty();
  EXPECT_TRUE(writer->finish(features));
}

inline FileReader made_file(std::span<const std::byte> records, const MadeOptions& options = {}) {
  UniqueFd fd = made_memfd();
  write_made_file(fd.get(), records, options);
  std::vector<UniqueFd> more;
  for (const RecordBuffer& bare : options.bare) {
    more.push_back(made_memfd());
    EXPECT_TRUE(write_all(more.back().get(), options.compressed ? packed_records(bare) : bare));
  }
  auto reader = options.bare.empty() ? FileReader::open(fmt::format("/proc/self/fd/{}", fd.get()))
                                     : FileReader::open_files(std::move(fd), std::move(more), "made");
  EXPECT_TRUE(reader) << reader.error().what;
  return std::move(*reader);
}

inline Trailer made_trailer(std::uint32_t pid, EventTime time_ns) { return {pid, pid, time_ns, 0, 0, kSidebandId}; }

}  // namespace flight::test
