// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/top.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "libcore/sysinfo/unit_name.hpp"

namespace flight {
namespace {

constexpr std::size_t kScratchBytes = 65536;

// One process that had a pid; its newest name.
struct Life {
  EventTime begin_ns = 0;
  std::string comm;
};
struct Names {
  std::unordered_map<std::uint32_t, std::vector<Life>> lives;  // by pid, oldest first
  std::unordered_map<std::uint64_t, std::string> cgroups;      // by id

  // Of the process that had `pid` at `time_ns`.
  [[nodiscard]] std::size_t life_at(std::uint32_t pid, EventTime time_ns) const {
    const std::vector<Life>& all = lives.at(pid);
    const auto after = std::upper_bound(all.begin(), all.end(), time_ns,
                                        [](EventTime time, const Life& life) { return time < life.begin_ns; });
    return after == all.begin() ? 0 : static_cast<std::size_t>(after - all.begin()) - 1;
  }
  [[nodiscard]] bool taken_again(std::uint32_t pid) const {
    const auto found = lives.find(pid);
    return found != lives.end() && found->second.size() > 1;
  }
};

void note(Names& names, std::span<const std::byte> record, bool in_window) {
  if (const auto comm = parse_comm(record); comm && comm->pid == comm->tid) {
    std::vector<Life>& lives = names.lives[comm->pid];
    if (lives.empty()) lives.emplace_back();
    lives.back().comm = comm->name;
  } else if (const auto cgroup = parse_cgroup(record)) {
    names.cgroups[cgroup->id] = cgroup->path;
  } else if (const auto task = parse_task(record);
             task && in_window && task->pid == task->tid && load<std::uint32_t>(record.data()) == PERF_RECORD_FORK) {
    const auto parent = names.lives.find(task->ppid);
    std::string inherited = parent != names.lives.end() ? parent->second.back().comm : "";
    names.lives[task->pid].push_back({task->time_ns, std::move(inherited)});
  }
}

Names names_of(const LedgerExport& sideband) {
  Names out;
  for (const auto* records : {&sideband.prologue, &sideband.log}) {
    std::span<const std::byte> rest(*records);
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      note(out, record, records == &sideband.log);
      rest = rest.subspan(record.size());
    }
  }
  return out;
}

// How many CPUs one sample of a ring stands for; 0: it cannot tell.
struct Worth {
  double before = 0, now = 0;
};

struct Sum {
  RingSelection::Count window, before, now;
  double cpu_before = 0, cpu_now = 0;
  std::uint64_t cgroup = 0;
  std::map<int, std::uint64_t> cpus, sampled_cpus;  // samples on each

  void add(const RingSelection::Tally& tally, int cpu, const Worth& worth) {
    const auto count = [](RingSelection::Count& to, const RingSelection::Count& more) {
      to.samples += more.samples;
      to.sampled += more.sampled;
    };
    count(window, tally.window);
    count(before, tally.before);
    count(now, tally.now);
    cpu_before += static_cast<double>(tally.before.sampled) * worth.before;
    cpu_now += static_cast<double>(tally.now.sampled) * worth.now;
    if (tally.cgroup != 0) cgroup = tally.cgroup;
    if (tally.window.samples > 0) cpus[cpu] += tally.window.samples;
    if (tally.window.sampled > 0) sampled_cpus[cpu] += tally.window.sampled;
  }
};
using Sums = std::map<std::pair<std::uint32_t, std::size_t>, Sum>;  // by pid and life

// The pids that were taken again, sample by sample.
void add_lives(const RingSelection& ring, int cpu, const Worth& worth, const SidecarCompared& compared,
               const EventTable& events, const std::vector<bool>& samples_cpu, const Names& names, Sums& sums) {
  std::array<std::byte, kScratchBytes> scratch{};
  for (std::size_t i = ring.first; i < ring.last; ++i) {
    const RecordRef& ref = ring.walk.records[i];
    if (ref.type != PERF_RECORD_SAMPLE) continue;
    const auto record = record_bytes(ring.image, ref, scratch);
    const auto key = record_key(record, events);
    const auto fields = key ? sample_fields(record, events.layout(key->event)) : std::nullopt;
    if (!fields || !names.taken_again(fields->pid)) continue;
    RingSelection::Tally one;
    one.cgroup = fields->cgroup;
    one.add(compared, ref.time_ns, samples_cpu[key->event]);
    sums[{fields->pid, names.life_at(fields->pid, ref.time_ns)}].add(one, cpu, worth);
  }
}

// The frequency of the one event whose samples are shares of CPU time to the sample: cpu-clock's timer goes on at its
// own rate whatever runs. A hardware counter's rate is led towards the frequency in a CPU's busy time and its idle time
// (perf_adjust_period() in kernel/events/core.c), and two events' samples would be added up. 0: there is no such event.
std::uint64_t clock_frequency(const Manifest& manifest) {
  std::uint64_t out = 0;
  for (const ManifestEvent& event : manifest.events) {
    if (event.attr.freq == 0) continue;
    const bool clock = event.attr.type == PERF_TYPE_SOFTWARE && event.attr.config == PERF_COUNT_SW_CPU_CLOCK &&
                       event.attr.exclude_user == 0 && event.attr.exclude_kernel == 0;
    if (!clock || out != 0) return 0;
    out = event.attr.sample_freq;
  }
  return out;
}

// A stretch of a ring that holds only some of it, or nothing at all, still tells what it holds.
Worth worth_of(const RingSelection& ring, const SidecarCompared& compared, std::uint64_t frequency) {
  const auto of = [&](EventTime begin_ns, EventTime end_ns) {
    begin_ns = std::max(begin_ns, ring.covers_from_ns);
    if (frequency == 0 || begin_ns >= end_ns) return 0.0;
    return 1e9 / static_cast<double>(frequency) / static_cast<double>(end_ns - begin_ns);
  };
  return {.before = of(compared.before_begin_ns, compared.now_begin_ns),
          .now = of(compared.now_begin_ns, compared.now_end_ns)};
}

// Whose samples count: those of events with a frequency, where there are any.
class Counting {
 public:
  explicit Counting(const Sums& sums) {
    for (const auto& [key, sum] : sums) by_sampled_ = by_sampled_ || sum.window.sampled > 0;
    for (const auto& [key, sum] : sums) {
      all_ += of(sum.window);
      all_before_ += of(sum.before);
      all_now_ += of(sum.now);
    }
  }
  [[nodiscard]] std::uint64_t of(const RingSelection::Count& count) const {
    return by_sampled_ ? count.sampled : count.samples;
  }
  // Where it ran, but for a stray moment on another CPU: that one program was on one CPU is the point.
  [[nodiscard]] std::vector<int> cpus(const Sum& sum) const {
    constexpr std::uint64_t kStray = 50;  // one in so many of its samples
    std::vector<int> out;
    for (const auto& [cpu, samples] : by_sampled_ ? sum.sampled_cpus : sum.cpus)
      if (samples * kStray >= of(sum.window)) out.push_back(cpu);
    return out;
  }
  void fill_shares(SidecarTop& row, const Sum& sum) const {
    row.share = static_cast<double>(row.samples) / static_cast<double>(all_);
    const auto share = [&](const RingSelection::Count& count, std::uint64_t all) -> std::optional<double> {
      if (all == 0) return std::nullopt;
      return static_cast<double>(of(count)) / static_cast<double>(all);
    };
    row.share_before = share(sum.before, all_before_);
    row.share_now = share(sum.now, all_now_);
  }

 private:
  bool by_sampled_ = false;
  std::uint64_t all_ = 0, all_before_ = 0, all_now_ = 0;
};

SidecarTop row_of(std::uint32_t pid, std::size_t life, const Sum& sum, const Counting& counting, const Names& names) {
  SidecarTop out;
  out.pid = pid;
  out.samples = counting.of(sum.window);
  counting.fill_shares(out, sum);
  out.cpus = counting.cpus(sum);
  if (const auto lives = names.lives.find(pid); lives != names.lives.end()) out.comm = lives->second[life].comm;
  if (out.comm.empty()) out.comm = pid == 0 ? "swapper" : fmt::format(":{}", pid);
  if (const auto path = names.cgroups.find(sum.cgroup); path != names.cgroups.end()) out.cgroup = path->second;
  out.unit = unit_of(out.cgroup);
  return out;
}

Sums sums_of(const Selection& selection, const Manifest& manifest, const std::vector<std::size_t>& channel_rings,
             const EventTable& events, const Names& names) {
  const std::vector<bool> samples_cpu = events_that_sample(manifest);
  const std::uint64_t frequency = clock_frequency(manifest);
  Sums out;
  for (std::size_t i = 0; i < selection.rings.size(); ++i) {
    const RingSelection& ring = selection.rings[i];
    const int cpu = manifest.rings[channel_rings[i]].cpu;
    const Worth worth = worth_of(ring, selection.compared, frequency);
    bool any_again = false;
    for (const auto& [pid, tally] : ring.tallies) {
      if (names.taken_again(pid)) {
        any_again = true;
      } else {
        out[{pid, 0}].add(tally, cpu, worth);
      }
    }
    if (any_again) add_lives(ring, cpu, worth, selection.compared, events, samples_cpu, names, out);
  }
  return out;
}

// The first `most` by the window's samples, and the first half as many each by what they did before and do now: who is
// new has few samples of a long window yet, and who is gone has none of its end.
std::vector<bool> choose(const std::vector<SidecarTop>& rows, std::size_t most) {
  std::vector<bool> chosen(rows.size());
  std::vector<std::size_t> order(rows.size());
  const auto take = [&](std::size_t count, auto value) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return value(rows[a]) > value(rows[b]); });
    for (std::size_t i = 0; i < std::min(count, order.size()); ++i)
      if (value(rows[order[i]]) > 0) chosen[order[i]] = true;
  };
  take(most, [](const SidecarTop& row) { return row.share; });
  take(most / 2, [](const SidecarTop& row) { return row.share_now.value_or(0); });
  take(most / 2, [](const SidecarTop& row) { return row.share_before.value_or(0); });
  return chosen;
}

}  // namespace

std::vector<SidecarTop> top_processes(const Selection& selection, const Manifest& manifest,
                                      const std::vector<std::size_t>& channel_rings, const EventTable& events,
                                      const LedgerExport& sideband, std::size_t most) {
  const Names names = names_of(sideband);
  const Sums sums = sums_of(selection, manifest, channel_rings, events, names);
  const Counting counting(sums);
  const SidecarCompared& compared = selection.compared;
  const bool by_clock = clock_frequency(manifest) != 0;
  std::vector<SidecarTop> rows;
  for (const auto& [key, sum] : sums) {
    if (counting.of(sum.window) == 0) continue;
    SidecarTop& row = rows.emplace_back(row_of(key.first, key.second, sum, counting, names));
    if (by_clock && compared.before_begin_ns < compared.now_begin_ns) row.cpu_before = sum.cpu_before;
    if (by_clock && compared.now_begin_ns < compared.now_end_ns) row.cpu_now = sum.cpu_now;
  }
  const std::vector<bool> chosen = choose(rows, most);
  std::vector<SidecarTop> out;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (chosen[i]) out.push_back(std::move(rows[i]));
  std::stable_sort(out.begin(), out.end(),
                   [](const SidecarTop& a, const SidecarTop& b) { return a.samples > b.samples; });
  return out;
}

}  // namespace flight
