// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/file_facts.hpp"
#include "libcore/base/version.hpp"
#include "libcore/snapshot/user_copies.hpp"
#include "libcore/sysinfo/pid_namespace.hpp"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

namespace flight {
namespace {

CpuTopologyFeature topology_feature(const CpuTopology& topology) {
  CpuTopologyFeature out;
  std::set<std::string> seen_cores, seen_threads, seen_dies;
  for (const CpuTopology::Cpu& cpu : topology.cpus) {
    out.cpus.push_back({.core_id = cpu.core_id, .socket_id = cpu.package_id, .die_id = cpu.die_id});
    if (!cpu.core_siblings.empty() && seen_cores.insert(cpu.core_siblings).second)
      out.core_siblings.push_back(cpu.core_siblings);
    if (!cpu.thread_siblings.empty() && seen_threads.insert(cpu.thread_siblings).second)
      out.thread_siblings.push_back(cpu.thread_siblings);
    if (!cpu.die_siblings.empty() && seen_dies.insert(cpu.die_siblings).second)
      out.die_siblings.push_back(cpu.die_siblings);
  }
  return out;
}

TracingData tracing_data(const Manifest& manifest) {
  TracingData out{.header_page = manifest.header_page, .header_event = manifest.header_event, .systems = {}};
  std::map<std::string, std::vector<std::string>> systems;
  for (const auto& [name, format] : manifest.tracepoint_formats)
    systems[name.substr(0, name.find(':'))].push_back(format);
  for (auto& [name, formats] : systems) out.systems.push_back({.name = name, .formats = std::move(formats)});
  return out;
}

// What cannot be read now, as without a descriptor, stays as it was.
template <typename Facts>
void renew(Facts& facts, Facts now) {
  if (!now.empty()) facts = std::move(now);
}

void read_what_changes(HostFacts& facts) {
  renew(facts.host.hostname, current_hostname());
  if (const std::uint64_t kb = total_memory_kb(); kb != 0) facts.host.total_memory_kb = kb;
  renew(facts.numa, numa_nodes());
  renew(facts.pmus, pmus());
  const auto online = online_cpus();
  if (facts.topology.cpus.empty() || (online && *online != facts.online))
    renew(facts.topology.cpus, cpu_topology().cpus);
  if (!online && facts.cpus_online != 0) return;
  facts.online = online ? *online : std::vector<int>();
  facts.cpus_available = std::max(available_cpus(), static_cast<std::uint32_t>(facts.online.size()));
  facts.cpus_online = online ? static_cast<std::uint32_t>(online->size()) : facts.cpus_available;
}

}  // namespace

HostFacts HostFacts::read(std::vector<std::string> command_line) {
  HostFacts out;
  out.host = HostInfo::read();
  out.command_line = std::move(command_line);
  out.own_pid_namespace = in_own_pid_namespace().value_or(false);
  read_what_changes(out);
  return out;
}

HostFacts HostFacts::again() const {
  HostFacts out = *this;
  read_what_changes(out);
  return out;
}

std::vector<FileEvent> file_events(const Manifest& manifest) {
  std::vector<FileEvent> out;
  for (const ManifestEvent& event : manifest.events) {
    FileEvent& file = out.emplace_back(FileEvent{.attr = lowest_attr(manifest, event), .name = event.name, .ids = {}});
    remove_user_copies(file.attr);
    for (const ManifestId& id : event.ids) file.ids.push_back(id.id);
  }
  return out;
}

void sort_for_readers(std::vector<FileEvent>& events) {
  if (events.empty()) return;
  std::rotate(events.begin(), events.begin() + 1, events.end());
  std::stable_partition(events.begin(), events.end(), [](const FileEvent& event) {
    return event.attr.type != PERF_TYPE_SOFTWARE || event.attr.config != PERF_COUNT_SW_DUMMY;
  });
}

Features file_features(const HostFacts& facts, const Manifest& manifest, const std::vector<KernelMap>& kernel_maps,
                       const std::vector<TrackerExport::UserBuildId>& user_build_ids, const ClockPair& clock) {
  Features out;
  if (!manifest.tracepoint_formats.empty()) out.tracing_data = tracing_data(manifest);
  for (const KernelMap& map : kernel_maps) {
    if (map.build_id.empty()) continue;
    // The kernel's own entry has the name without the reference symbol.
    out.build_ids.push_back(
        {.kernel = true, .id = map.build_id, .name = map.is_kernel() ? "[kernel.kallsyms]" : map.name});
  }
  for (const auto& [id, name] : user_build_ids)
    out.build_ids.push_back({.kernel = false, .id = {id.bytes.begin(), id.bytes.begin() + id.size}, .name = name});
  out.hostname = facts.host.hostname;
  out.os_release = facts.host.os_release;
  out.version = "flightd " + std::string(kVersion);
  out.arch = facts.host.arch;
  out.cpu_description = facts.host.cpu_description;
  out.cpu_id = facts.host.cpu_id;
  out.cpus_available = facts.cpus_available;
  out.cpus_online = facts.cpus_online;
  out.total_memory_kb = facts.host.total_memory_kb;
  out.command_line = facts.command_line;
  out.cpu_topology = topology_feature(facts.topology);
  for (const NumaNode& node : facts.numa)
    out.numa.push_back(
        {.node = node.node, .total_kb = node.total_kb, .free_kb = node.free_kb, .cpu_list = node.cpu_list});
  out.pmus = facts.pmus;
  timespec resolution{};
  ::clock_getres(CLOCK_MONOTONIC, &resolution);
  out.clock_resolution_ns = static_cast<std::uint64_t>(std::max(resolution.tv_nsec, 1L));
  out.clock_data = {.clockid = CLOCK_MONOTONIC,
                    .wall_ns = static_cast<std::uint64_t>(clock.wall.count()),
                    .clockid_ns = clock.monotonic_ns};
  return out;
}

void append_outside(RecordBuffer& out) {
  append_comm(out, {.pid = 0, .tid = 0, .name = kOutsideOrIdle}, Trailer{});
  append_comm(out, {.pid = UINT32_MAX, .tid = UINT32_MAX, .name = kOutsideName}, Trailer{});
}

void append_exiting(RecordBuffer& out) {
  append_comm(out, {.pid = UINT32_MAX, .tid = UINT32_MAX, .name = kExitingName}, Trailer{});
}

void append_kernel_maps(RecordBuffer& out, const std::vector<KernelMap>& maps) {
  for (const KernelMap& map : maps)
    append_kernel_mmap(out, map.address, map.bytes, map.page_offset, map.name, Trailer{});
}

}  // namespace flight
