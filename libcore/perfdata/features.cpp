// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/features.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "libcore/perfdata/format.hpp"
#include "libcore/perfdata/writer.hpp"

namespace flight {
namespace {

using Bytes = std::vector<std::byte>;

// The limit of a feature's text; the CPU list of the largest machine has a tenth of it.
constexpr std::size_t kMaxTextBytes = 256U << 10U;
constexpr std::size_t kTextAlignment = 64;
constexpr std::uint64_t kDirFormatVersion = 1;  // perf knows no other one
constexpr std::uint32_t kUnknownId = std::numeric_limits<std::uint32_t>::max();

std::uint32_t count_of(std::size_t count) { return static_cast<std::uint32_t>(count); }

// A u32 length, then that many bytes: the text, its NUL and zeros.
void append_string(Bytes& out, std::string_view text) {
  text = text.substr(0, kMaxTextBytes - 1);
  const std::size_t padded = (text.size() + kTextAlignment) / kTextAlignment * kTextAlignment;
  append_value(out, count_of(padded));
  append_text(out, text);
  out.resize(out.size() + padded - text.size());
}

void append_strings(Bytes& out, const std::vector<std::string>& texts) {
  append_value(out, count_of(texts.size()));
  for (const std::string& text : texts) append_string(out, text);
}

Bytes encode_string(std::string_view text) {
  Bytes out;
  if (!text.empty()) append_string(out, text);
  return out;
}

// The layout of trace.dat up to its data, version 0.6 (trace-cmd.dat.v6(5)): counts and sizes follow their names
// without padding. No ftrace formats, kallsyms, printk formats or command lines: perf needs none of them.
Bytes encode_tracing_data(const TracingData& tracing) {
  Bytes out;
  const auto append_sized = [&out](std::string_view text) {
    append_value(out, std::uint64_t{text.size()});
    append_text(out, text);
  };
  using namespace std::string_view_literals;
  append_text(out,
              "\x17\x08\x44tracing"
              "0.6\0"sv);
  append_value(out, std::uint8_t{0});  // little-endian
  append_value(out, std::uint8_t{sizeof(long)});
  append_value(out, std::uint32_t{4096});  // the page size of a trace.dat; unused here, but not 0
  append_text(out, "header_page\0"sv);
  append_sized(tracing.header_page);
  append_text(out, "header_event\0"sv);
  append_sized(tracing.header_event);
  append_value(out, std::uint32_t{0});  // ftrace's own formats
  append_value(out, count_of(tracing.systems.size()));
  for (const TracingData::System& system : tracing.systems) {
    append_text(out, system.name.c_str());
    append_value(out, std::uint8_t{0});
    append_value(out, count_of(system.formats.size()));
    for (const std::string& format : system.formats) append_sized(format);
  }
  append_value(out, std::uint32_t{0});  // kallsyms
  append_value(out, std::uint32_t{0});  // printk formats
  append_value(out, std::uint64_t{0});  // saved command lines
  return out;
}

// struct perf_record_header_build_id: header 8, s32 pid, u8 id[20], u8 id's size, u8 and u16 zero, name.
void append_build_id(Bytes& out, const FileBuildId& build_id) {
  constexpr std::uint16_t kSizeIsValid = 0x8000;  // PERF_RECORD_MISC_BUILD_ID_SIZE
  constexpr std::string_view kKernel = "[kernel.kallsyms]";
  constexpr std::size_t kFixedBytes = 36;
  constexpr std::size_t kMaxIdBytes = 20;      // perf compares at most this many bytes of an id
  constexpr std::size_t kMaxNameField = 4096;  // perf before 7.0 reads the name into PATH_MAX bytes, unchecked
  std::string_view name = build_id.name;
  // The kernel's map has its reference symbol in its name ("[kernel.kallsyms]_text"); the DSO has not.
  if (build_id.kernel && name.starts_with(kKernel)) name = kKernel;
  // Four zeros more than perf's own padding make the record a multiple of 8, which newer versions require.
  const std::size_t name_field = (name.size() + kTextAlignment) / kTextAlignment * kTextAlignment + 4;
  if (build_id.id.empty() || name.empty() || name_field > kMaxNameField) return;
  const std::size_t id_bytes = std::min(build_id.id.size(), kMaxIdBytes);
  const unsigned cpumode = build_id.kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER;

  append_value(out, std::uint32_t{0});
  append_value(out, static_cast<std::uint16_t>(cpumode | kSizeIsValid));
  append_value(out, static_cast<std::uint16_t>(kFixedBytes + name_field));
  append_value(out, std::int32_t{-1});  // the host, not a guest
  append_bytes(out, std::as_bytes(std::span(build_id.id.data(), id_bytes)));
  out.resize(out.size() + kMaxIdBytes - id_bytes);
  append_value(out, static_cast<std::uint8_t>(id_bytes));
  out.resize(out.size() + 3);
  append_text(out, name);
  out.resize(out.size() + name_field - name.size());
}

// A CPU may come online between the two reads: perf refuses more online CPUs than available ones.
std::uint32_t available_cpus(const Features& features) {
  return std::max(features.cpus_available, features.cpus_online);
}

Bytes encode_cpus(const Features& features) {
  Bytes out;
  if (available_cpus(features) == 0) return out;
  append_value(out, available_cpus(features));
  append_value(out, features.cpus_online);
  return out;
}

Bytes encode_events(std::span<const FileEvent> events) {
  Bytes out;
  if (events.empty()) return out;
  append_value(out, count_of(events.size()));
  append_value(out, kFileAttrBytes);
  for (const FileEvent& event : events) {
    append_attr(out, event.attr);
    append_value(out, count_of(event.ids.size()));
    append_string(out, event.name);
    append_bytes(out, std::as_bytes(std::span(event.ids)));
  }
  return out;
}

// perf reads as many entries as NRCPUS has. If the two do not agree, or a list is longer, perf would not read the
// later features.
Bytes encode_cpu_topology(const CpuTopologyFeature& topology, std::uint32_t available) {
  Bytes out;
  if (available == 0 || topology.cpus.size() != available || topology.core_siblings.size() > available ||
      topology.thread_siblings.size() > available || topology.die_siblings.size() > available)
    return out;
  append_strings(out, topology.core_siblings);
  append_strings(out, topology.thread_siblings);
  for (const CpuTopologyFeature::Cpu& cpu : topology.cpus) {
    append_value(out, cpu.core_id);
    // perf regards a file as broken if a socket number is larger than the number of CPUs; hypervisors number sockets
    // arbitrarily.
    append_value(out, cpu.socket_id > available ? kUnknownId : cpu.socket_id);
  }
  if (topology.die_siblings.empty()) return out;
  append_strings(out, topology.die_siblings);
  for (const CpuTopologyFeature::Cpu& cpu : topology.cpus) append_value(out, cpu.die_id);
  return out;
}

Bytes encode_numa(const std::vector<NumaNodeFeature>& nodes) {
  Bytes out;
  if (nodes.empty()) return out;
  append_value(out, count_of(nodes.size()));
  for (const NumaNodeFeature& node : nodes) {
    append_value(out, node.node);
    append_value(out, node.total_kb);
    append_value(out, node.free_kb);
    append_string(out, node.cpu_list);
  }
  return out;
}

Bytes encode_pmus(const std::vector<std::pair<std::uint32_t, std::string>>& pmus) {
  Bytes out;
  if (pmus.empty()) return out;
  append_value(out, count_of(pmus.size()));
  for (const auto& [type, name] : pmus) {
    append_value(out, type);
    append_string(out, name);
  }
  return out;
}

Bytes encode_compressed(const CompressedFeature& compressed) {
  constexpr std::uint32_t kVersion = 0;  // hotspot knows no other
  constexpr std::uint32_t kZstd = 1;
  constexpr std::uint32_t kPage = 4096;  // perf 7 refuses a size that is not a multiple of it
  Bytes out;
  append_value(out, kVersion);
  append_value(out, kZstd);
  append_value(out, compressed.level);
  append_value(out, std::max(compressed.ratio, 1U));
  append_value(out, std::max((compressed.mmap_bytes + (kPage - 1)) / kPage, 1U) * kPage);
  return out;
}

Bytes encode_clock_data(const ClockDataFeature& clock) {
  Bytes out;
  if (clock.wall_ns == 0) return out;
  append_value(out, std::uint32_t{1});  // version
  append_value(out, clock.clockid);
  append_value(out, clock.wall_ns);
  append_value(out, clock.clockid_ns);
  return out;
}

Bytes encode_u64(std::uint64_t value) {
  Bytes out;
  if (value != 0) append_value(out, value);
  return out;
}

}  // namespace

std::vector<std::byte> encode_build_ids(const std::vector<FileBuildId>& build_ids) {
  Bytes out;
  for (const FileBuildId& build_id : build_ids) append_build_id(out, build_id);
  return out;
}

std::vector<EncodedFeature> encode_features(const Features& features, std::span<const FileEvent> events) {
  std::vector<EncodedFeature> out;
  const auto add = [&out](FeatureBit bit, Bytes bytes) {
    if (!bytes.empty()) out.push_back({bit, std::move(bytes)});
  };
  if (features.tracing_data) add(kFeatureTracingData, encode_tracing_data(*features.tracing_data));
  add(kFeatureBuildId, encode_build_ids(features.build_ids));
  add(kFeatureHostname, encode_string(features.hostname));
  add(kFeatureOsRelease, encode_string(features.os_release));
  add(kFeatureVersion, encode_string(features.version));
  add(kFeatureArch, encode_string(features.arch));
  add(kFeatureCpus, encode_cpus(features));
  add(kFeatureCpuDescription, encode_string(features.cpu_description));
  add(kFeatureCpuId, encode_string(features.cpu_id));
  add(kFeatureTotalMemory, encode_u64(features.total_memory_kb));
  if (!features.command_line.empty()) {
    Bytes arguments;
    append_strings(arguments, features.command_line);
    add(kFeatureCommandLine, std::move(arguments));
  }
  add(kFeatureEventDescription, encode_events(events));
  add(kFeatureCpuTopology, encode_cpu_topology(features.cpu_topology, available_cpus(features)));
  add(kFeatureNumaTopology, encode_numa(features.numa));
  add(kFeaturePmuMappings, encode_pmus(features.pmus));
  if (features.sample_time) {
    Bytes range;
    append_value(range, features.sample_time->first);
    append_value(range, features.sample_time->second);
    add(kFeatureSampleTime, std::move(range));
  }
  add(kFeatureClockId, encode_u64(features.clock_resolution_ns));
  if (features.directory) add(kFeatureDirFormat, encode_u64(kDirFormatVersion));
  if (features.compressed) add(kFeatureCompressed, encode_compressed(*features.compressed));
  add(kFeatureClockData, encode_clock_data(features.clock_data));
  return out;
}

}  // namespace flight
