// SPDX-License-Identifier: Apache-2.0
// The feature sections of a perf.data file as plain values, and their encoding. Each encoder's layout is in
// tools/perf/Documentation/perf.data-file-format.txt; strings are a u32 length, then the text padded with zeros to 64.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace flight {

struct FileEvent;

// The HEADER_* numbers of the sections that flightd writes: their bits in the file's header.
enum FeatureBit : unsigned {
  kFeatureTracingData = 1,
  kFeatureBuildId = 2,
  kFeatureHostname = 3,
  kFeatureOsRelease = 4,
  kFeatureVersion = 5,
  kFeatureArch = 6,
  kFeatureCpus = 7,
  kFeatureCpuDescription = 8,
  kFeatureCpuId = 9,
  kFeatureTotalMemory = 10,
  kFeatureCommandLine = 11,
  kFeatureEventDescription = 12,
  kFeatureCpuTopology = 13,
  kFeatureNumaTopology = 14,
  kFeaturePmuMappings = 16,
  kFeatureSampleTime = 21,
  kFeatureClockId = 23,
  kFeatureDirFormat = 24,
  kFeatureCompressed = 27,
  kFeatureClockData = 29,
};

struct FileBuildId {
  bool kernel = false;           // cpumode KERNEL (kernel, modules), otherwise USER
  std::vector<std::uint8_t> id;  // 8 to 20 bytes
  std::string name;              // the name of the MMAP record it belongs to
};

struct TracingData {
  std::string header_page;   // tracefs events/header_page; must not be empty
  std::string header_event;  // tracefs events/header_event
  struct System {
    std::string name;
    std::vector<std::string> formats;  // texts of events/SYSTEM/EVENT/format
  };
  std::vector<System> systems;
};

struct CpuTopologyFeature {
  std::vector<std::string> core_siblings, thread_siblings, die_siblings;  // "0-3" lists, distinct
  struct Cpu {
    std::uint32_t core_id = 0, socket_id = 0, die_id = 0;
  };
  std::vector<Cpu> cpus;  // one for each available CPU (nr_cpus_available)
};

struct NumaNodeFeature {
  std::uint32_t node = 0;
  std::uint64_t total_kb = 0, free_kb = 0;
  std::string cpu_list;
};

struct CompressedFeature {
  std::uint32_t level = 1;
  std::uint32_t ratio = 1;       // uncompressed / compressed, rounded
  std::uint32_t mmap_bytes = 0;  // the maximum size to which one COMPRESSED record expands; a multiple of 4096
};

struct ClockDataFeature {
  std::uint32_t clockid = 1;  // CLOCK_MONOTONIC
  std::uint64_t wall_ns = 0;
  std::uint64_t clockid_ns = 0;
};

struct Features {
  std::optional<TracingData> tracing_data;
  std::vector<FileBuildId> build_ids;
  std::string hostname, os_release, version, arch, cpu_description, cpu_id;
  std::uint32_t cpus_available = 0, cpus_online = 0;
  std::uint64_t total_memory_kb = 0;
  std::vector<std::string> command_line;
  CpuTopologyFeature cpu_topology;
  std::vector<NumaNodeFeature> numa;
  std::vector<std::pair<std::uint32_t, std::string>> pmus;             // PMU_MAPPINGS: type, name
  std::optional<std::pair<std::uint64_t, std::uint64_t>> sample_time;  // first, last
  std::optional<CompressedFeature> compressed;
  std::uint64_t clock_resolution_ns = 1;
  bool directory = false;  // the file is `data` of a data directory
  ClockDataFeature clock_data;
};

struct EncodedFeature {
  unsigned bit = 0;  // HEADER_* number
  std::vector<std::byte> bytes;
};

// The content of BUILD_ID; that of several lists one after the other is that of one list.
[[nodiscard]] std::vector<std::byte> encode_build_ids(const std::vector<FileBuildId>& build_ids);
// All sections with content, by ascending bit. EVENT_DESC is made from `events`.
[[nodiscard]] std::vector<EncodedFeature> encode_features(const Features& features, std::span<const FileEvent> events);

}  // namespace flight
