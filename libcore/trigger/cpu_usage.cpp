// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/cpu_usage.hpp"

#include <algorithm>
#include <numeric>

namespace flight {
namespace {

constexpr std::uint64_t kMinTicks = 3;     // fewer are too few: one busy tick would be 100 %
constexpr std::uint64_t kJitterTicks = 2;  // the kernel rounds idle time; a column may seem to go back by this much
constexpr std::uint64_t kMaxLate = 4;      // this many times the expected span: the counters jumped
constexpr std::uint64_t kLateTicks = 20;

std::size_t column(CpuColumn name) { return static_cast<std::size_t>(name); }

template <typename Columns>
CpuShares shares_of(int cpu, const Columns& ticks) {
  const double sum = static_cast<double>(std::accumulate(ticks.begin(), ticks.end(), std::uint64_t{0}));
  const auto of = [&](CpuColumn name) { return 100.0 * static_cast<double>(ticks[column(name)]) / sum; };
  CpuShares out{.cpu = cpu};
  out.user = of(CpuColumn::user) + of(CpuColumn::nice);
  out.system = of(CpuColumn::system);
  out.irq = of(CpuColumn::irq) + of(CpuColumn::softirq);
  out.steal = of(CpuColumn::steal);
  out.iowait = of(CpuColumn::iowait);
  // Stolen time counts as busy: when the hypervisor gives a CPU less time, tasks wait and idle time shrinks. Counted as
  // idle, a saturated virtual machine would look half empty. cpu.steal shows the stolen share, and cpu.used
  // the rest.
  out.busy = std::clamp(100.0 - of(CpuColumn::idle) - out.iowait, 0.0, 100.0);
  return out;
}

}  // namespace

// The ticks since the CPU's base, which is then updated; nullopt if they cannot be used.
std::optional<CpuUsage::Columns> CpuUsage::advance(const CpuTicks& now, EventTime time_ns) {
  const auto number = static_cast<std::size_t>(now.cpu);
  if (number >= cpus_.size()) cpus_.resize(number + 1);
  Cpu& cpu = cpus_[number];
  const bool was_here = cpu.known && cpu.seen + 1 == measurements_;
  cpu.seen = measurements_;
  const auto restart = [&] {
    cpu.known = true;
    cpu.base = now;
    cpu.base_ns = time_ns;
    return std::nullopt;
  };
  if (!was_here || time_ns <= cpu.base_ns) return restart();

  const std::uint64_t expected = (time_ns - cpu.base_ns) / (1'000'000'000 / kTicksPerSecond);
  const std::uint64_t most = kMaxLate * expected + kLateTicks;
  Columns out{};
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t before = cpu.base.ticks.at(i), after = now.ticks.at(i);
    if (after < before && before - after > kJitterTicks && i != column(CpuColumn::iowait)) return restart();
    out.at(i) = after > before ? after - before : 0;
    if (out.at(i) > most) return restart();
    sum += out.at(i);
  }
  if (sum > most) return restart();
  if (sum < kMinTicks) return std::nullopt;  // the base stays: the next pass has more ticks
  static_cast<void>(restart());
  return out;
}

void CpuUsage::measure(const ProcStat& stat, MetricPass& pass) {
  ++measurements_;
  pass.cpus.clear();
  // The machine's shares are sums over the CPUs, not the first line of /proc/stat: that line includes offline CPUs, and
  // their idle time decreases when they return.
  Columns all{};
  for (const CpuTicks& now : stat.cpus) {
    const auto ticks = advance(now, pass.time_ns);
    if (!ticks) continue;
    pass.cpus.push_back(shares_of(now.cpu, *ticks));
    for (std::size_t i = 0; i < all.size(); ++i) all.at(i) += ticks->at(i);
  }
  if (pass.cpus.empty()) return;
  const CpuShares machine = shares_of(0, all);
  pass.of(Metric::cpu_busy) = machine.busy;
  pass.of(Metric::cpu_used) = std::max(machine.busy - machine.steal, 0.0);
  pass.of(Metric::cpu_system) = machine.system;
  pass.of(Metric::cpu_irq) = machine.irq;
  pass.of(Metric::cpu_steal) = machine.steal;
  pass.of(Metric::cpu_iowait) = machine.iowait;
  double hottest = 0, sum = 0;
  for (const CpuShares& cpu : pass.cpus) {
    hottest = std::max(hottest, cpu.busy);
    sum += cpu.busy;
  }
  pass.of(Metric::cpu_hottest) = hottest;
  const double others = static_cast<double>(pass.cpus.size()) - 1;
  if (others > 0) pass.of(Metric::cpu_lopsided) = std::clamp(hottest - (sum - hottest) / others, 0.0, 100.0);
}

}  // namespace flight
