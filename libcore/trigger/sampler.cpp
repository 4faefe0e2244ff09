// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/sampler.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libcore/base/kernel_file.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight {
namespace {

constexpr std::array<std::string_view, kMetricSources> kPaths{"/stat", "/loadavg", "/pressure/cpu", "/pressure/memory",
                                                              "/pressure/io"};  // by MetricSource
constexpr std::array<std::string_view, 3> kResources{"cpu", "memory", "io"};
constexpr std::size_t kFirstPressure = static_cast<std::size_t>(MetricSource::pressure_cpu);
constexpr std::size_t kFirstBytes = 16U << 10U;
constexpr std::size_t kMaxBytes = 4U << 20U;  // /proc/stat of 8,192 CPUs has 1 MB, and a line of all interrupts

std::size_t index_of(MetricSource source) { return static_cast<std::size_t>(source); }

// Only these mean that the kernel has no such file, or that what it reports is off (psi=0: EOPNOTSUPP).
bool is_lacking(const Error& error) { return error.errno_value() == ENOENT || error.errno_value() == EOPNOTSUPP; }

}  // namespace

void Sampler::Source::fails(const Error& error) {
  if (!why.empty()) return;
  passing = !is_lacking(error);
  why = error.what;
  if (passing)
    why += descriptor_advice(error) + fmt::format("; flightd tries again every {} s", kSourceAgain.count());
  else if (path.find("/pressure/") != std::string::npos)
    why += "; this kernel has no pressure stall information, or it is off: boot with psi=1 to have it";
}

Sampler Sampler::open(const std::string& proc_root) {
  Sampler sampler;
  sampler.buffer_.resize(kFirstBytes);
  for (std::size_t i = 0; i < kPaths.size(); ++i) sampler.sources_.at(i).path = proc_root + std::string(kPaths.at(i));
  sampler.open_failed_sources();
  sampler.find_missing();
  return sampler;
}

// One whose read failed is opened anew as well: another file may be mounted over it now, or none any more. One that was
// opened before stays the kernel's.
void Sampler::open_failed_sources() {
  for (Source& source : sources_) {
    if (source.fd && source.why.empty()) continue;
    source.why.clear();
    auto fd = open_kernel_file(source.path);
    if (fd)
      source.fd = std::move(*fd);
    else if (!source.fd)
      source.fails(fd.error());
  }
}

void Sampler::look_again(EventTime now_ns) {
  if (now_ns < look_again_ns_) return;
  look_again_ns_ = now_ns + static_cast<EventTime>(std::chrono::nanoseconds(kSourceAgain).count());
  if (std::all_of(sources_.begin(), sources_.end(), [](const Source& source) { return source.why.empty(); })) return;
  open_failed_sources();
  std::vector<MissingMetric> before = std::exchange(missing_, {});
  find_missing();
  changed_ = changed_ || before != missing_;
}

// A file that can be opened may still fail to be read (psi=0 on the kernel's command line), or lack a line (5.10's cpu
// has no "full").
void Sampler::find_missing() {
  std::array<std::string, kMetrics.size()> why;
  std::array<bool, kMetrics.size()> passing{};
  const auto lacks = [&](Metric metric, const Source& source, std::string text) {
    const std::size_t i = flight::index_of(metric);
    if (!why.at(i).empty()) return;
    why.at(i) = source.why.empty() ? std::move(text) : source.why;
    passing.at(i) = !source.why.empty() && source.passing;
  };
  Source& stat = sources_[index_of(MetricSource::stat)];
  Source& loadavg = sources_[index_of(MetricSource::loadavg)];
  parse_proc_stat(text_of(stat), stat_);
  const auto running = parse_loadavg_running(text_of(loadavg));
  if (!running && !stat_.running)
    lacks(Metric::tasks_running, loadavg.why.empty() ? stat : loadavg,
          "neither /proc/loadavg nor /proc/stat reports it");
  for (std::size_t i = 0; i < kResources.size(); ++i) {
    Source& source = sources_.at(kFirstPressure + i);
    const PressureTotals totals = parse_pressure(text_of(source));
    const auto some = static_cast<Metric>(flight::index_of(Metric::psi_cpu_some) + 2 * i);
    const auto full = static_cast<Metric>(flight::index_of(some) + 1);
    if (!totals.some_us) lacks(some, source, source.path + " has no line 'some'");
    if (!totals.full_us) lacks(full, source, source.path + " has no line 'full'");
  }
  for (const MetricInfo& info : kMetrics) {
    if (info.source != MetricSource::stat) continue;
    const bool blocked = info.metric == Metric::tasks_blocked;
    if (blocked && !stat_.blocked) lacks(info.metric, stat, stat.path + " has no procs_blocked");
    if (!blocked && stat_.cpus.empty()) lacks(info.metric, stat, stat.path + " lists no CPU");
  }
  if (stat_.cpus.size() == 1)
    lacks(Metric::cpu_lopsided, stat, "this machine has one CPU, and the metric needs at least two");
  for (const MetricInfo& info : kMetrics) {
    const std::size_t i = flight::index_of(info.metric);
    if (!why.at(i).empty()) missing_.push_back({info.metric, std::move(why.at(i)), passing.at(i)});
  }
}

// Empty if the file cannot be read now. It is read at once: a text from two reads may be inconsistent.
std::string_view Sampler::text_of(Source& source) {
  while (source.fd) {
    const ssize_t count = ::pread(source.fd.get(), buffer_.data(), buffer_.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && source.why.empty()) source.fails(sys_error(errno, "read {}", source.path).value());
    if (count < 0) return {};
    const auto bytes = static_cast<std::size_t>(count);
    if (bytes < buffer_.size()) return {buffer_.data(), bytes};
    if (buffer_.size() >= kMaxBytes) return {};
    buffer_.resize(2 * buffer_.size());
  }
  return {};
}

// PSI's `total` is current at every read (psi_show() in kernel/sched/psi.c collects before it prints); its averages
// are updated only every 2 s. So the difference of `total` over the real duration of the pass is exact at 100 ms.
void Sampler::measure_pressure(std::size_t resource, MetricPass& pass) {
  const std::string_view text = text_of(sources_.at(kFirstPressure + resource));
  if (text.empty()) return;
  const PressureTotals now = parse_pressure(text);
  Pressure& before = pressure_.at(resource);
  const auto share = [&](std::optional<std::uint64_t> from, std::optional<std::uint64_t> to) -> std::optional<double> {
    if (!from || !to || *to < *from || pass.time_ns <= before.time_ns) return std::nullopt;
    const double stalled_ns = static_cast<double>(*to - *from) * 1000;
    return std::min(100.0, 100 * stalled_ns / static_cast<double>(pass.time_ns - before.time_ns));
  };
  const std::size_t some = flight::index_of(Metric::psi_cpu_some) + 2 * resource;
  pass.values.at(some) = share(before.totals.some_us, now.some_us);
  pass.values.at(some + 1) = share(before.totals.full_us, now.full_us);
  before = {now, pass.time_ns};
}

MetricPass Sampler::pass(EventTime now_ns) {
  look_again(now_ns);
  MetricPass pass{.time_ns = now_ns, .span_ns = last_ns_ == 0 || now_ns <= last_ns_ ? 0 : now_ns - last_ns_};
  last_ns_ = now_ns;
  // The tasks are counted first, because further reads may wake others. Both files contain the kernel's nr_running(),
  // which includes this thread.
  auto running = parse_loadavg_running(text_of(sources_[index_of(MetricSource::loadavg)]));
  parse_proc_stat(text_of(sources_[index_of(MetricSource::stat)]), stat_);
  if (!running) running = stat_.running;
  if (running) pass.of(Metric::tasks_running) = static_cast<double>(*running - std::min<std::uint64_t>(*running, 1));
  if (stat_.blocked) pass.of(Metric::tasks_blocked) = static_cast<double>(*stat_.blocked);
  cpu_usage_.measure(stat_, pass);
  for (std::size_t i = 0; i < kResources.size(); ++i) measure_pressure(i, pass);
  return pass;
}

}  // namespace flight
