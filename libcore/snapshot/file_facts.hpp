// SPDX-License-Identifier: Apache-2.0
// The facts in a file besides its records: the machine, the events, the build-ids. Constant facts are read once at
// start.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/broker/kernel_names.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/features.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight {

struct HostFacts {
  HostInfo host;
  CpuTopology topology;
  std::vector<NumaNode> numa;
  std::vector<std::pair<std::uint32_t, std::string>> pmus;
  std::uint32_t cpus_available = 0, cpus_online = 0;
  std::vector<int> online;  // CPUs
  std::vector<std::string> command_line;
  bool own_pid_namespace = false;  // flightd is in a container: processes outside have no pid here

  [[nodiscard]] static HostFacts read(std::vector<std::string> command_line);
  // As it is now: the name, memory, nodes, PMUs and CPUs of a machine change while flightd runs for months. What cannot
  // change is not read again, and the topology only if another CPU is online.
  [[nodiscard]] HostFacts again() const;
};

// In the manifest's order: the sideband's dummy is first. Files have no copies of registers and stacks.
[[nodiscard]] std::vector<FileEvent> file_events(const Manifest& manifest);
// As perf record does, the sideband's dummy last, and those of omitted events before it: samply takes the first event
// for what was sampled, and fails if it has no samples. Records that were generated have the id 0, that of the first
// event: all have the same trailer.
void sort_for_readers(std::vector<FileEvent>& events);

// All features except SAMPLE_TIME and COMPRESSED, which the pipeline knows only at its end. `clock`: the pair in force
// at the end of the window, for all records of the file.
[[nodiscard]] Features file_features(const HostFacts& facts, const Manifest& manifest,
                                     const std::vector<KernelMap>& kernel_maps,
                                     const std::vector<TrackerExport::UserBuildId>& user_build_ids,
                                     const ClockPair& clock);

// Appends the first records of the file: kernel and module maps.
void append_kernel_maps(RecordBuffer& out, const std::vector<KernelMap>& maps);
// Appends names for tasks outside this PID namespace, pid 0 and -1; before any other record. Tracepoints on an idle
// CPU have pid 0 as well.
void append_outside(RecordBuffer& out);
// Appends the name of tasks with the tid -1; before any other record. perf has one task of that number.
void append_exiting(RecordBuffer& out);

}  // namespace flight
