// SPDX-License-Identifier: Apache-2.0
// The metrics of triggers: the name in the configuration, whether it is a share or a number of tasks, and its file in
// /proc. This is the only table of them; the sampler measures them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace flight {

enum class Metric : std::uint8_t {
  cpu_busy,      // all CPUs together: neither idle nor waiting for I/O; stolen time counts as busy
  cpu_used,      // the same without stolen time: what ran here
  cpu_hottest,   // the busiest CPU
  cpu_lopsided,  // the busiest CPU minus the mean of the others; unknown with fewer than two CPUs
  cpu_system,
  cpu_irq,  // interrupts and soft interrupts
  cpu_steal,
  cpu_iowait,
  tasks_running,  // running or waiting for a CPU, without the sampler itself
  tasks_blocked,  // waiting for I/O
  psi_cpu_some,   // the share of time in which some tasks, or all tasks, waited for it
  psi_cpu_full,
  psi_memory_some,
  psi_memory_full,
  psi_io_some,
  psi_io_full,
};

enum class MetricSource : std::uint8_t { stat, loadavg, pressure_cpu, pressure_memory, pressure_io };
inline constexpr std::size_t kMetricSources = 5;

struct MetricInfo {
  Metric metric;
  std::string_view name;
  bool share;  // percent, 0 to 100; otherwise a number of tasks
  MetricSource source;
};

inline constexpr std::array<MetricInfo, 16> kMetrics{{
    {Metric::cpu_busy, "cpu.busy", true, MetricSource::stat},
    {Metric::cpu_used, "cpu.used", true, MetricSource::stat},
    {Metric::cpu_hottest, "cpu.hottest", true, MetricSource::stat},
    {Metric::cpu_lopsided, "cpu.lopsided", true, MetricSource::stat},
    {Metric::cpu_system, "cpu.system", true, MetricSource::stat},
    {Metric::cpu_irq, "cpu.irq", true, MetricSource::stat},
    {Metric::cpu_steal, "cpu.steal", true, MetricSource::stat},
    {Metric::cpu_iowait, "cpu.iowait", true, MetricSource::stat},
    {Metric::tasks_running, "tasks.running", false, MetricSource::loadavg},
    {Metric::tasks_blocked, "tasks.blocked", false, MetricSource::stat},
    {Metric::psi_cpu_some, "psi.cpu.some", true, MetricSource::pressure_cpu},
    {Metric::psi_cpu_full, "psi.cpu.full", true, MetricSource::pressure_cpu},
    {Metric::psi_memory_some, "psi.memory.some", true, MetricSource::pressure_memory},
    {Metric::psi_memory_full, "psi.memory.full", true, MetricSource::pressure_memory},
    {Metric::psi_io_some, "psi.io.some", true, MetricSource::pressure_io},
    {Metric::psi_io_full, "psi.io.full", true, MetricSource::pressure_io},
}};

[[nodiscard]] constexpr std::size_t index_of(Metric metric) { return static_cast<std::size_t>(metric); }
[[nodiscard]] constexpr const MetricInfo& info_of(Metric metric) { return kMetrics.at(index_of(metric)); }

// The metric with that name; nullptr: there is none.
[[nodiscard]] constexpr const MetricInfo* find_metric(std::string_view name) {
  for (const MetricInfo& info : kMetrics)
    if (info.name == name) return &info;
  return nullptr;
}

}  // namespace flight
