// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ctl/sched_text.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kLetters = 26, kMostNamed = 8, kMostCells = 70, kHeadColumns = 12;
constexpr std::size_t kOthers = kLetters, kUnknown = kLetters + 1, kIdle = kLetters + 2, kSigns = kLetters + 3;

char sign_of(std::size_t number) {
  if (number < kLetters) return static_cast<char>('A' + number);
  return number == kOthers ? '+' : number == kUnknown ? '?' : '.';
}

// Who ran most has the first letter.
class Signs {
 public:
  explicit Signs(const std::vector<SchedRan>& ran) {
    std::map<std::uint32_t, std::uint64_t> sums;
    for (const SchedRan& one : ran)
      if (one.thread != SchedWaits::kNobody) sums[one.thread] += one.end_ns - one.begin_ns;
    for (const auto& [thread, ns] : sums) order_.emplace_back(ns, thread);
    std::sort(order_.begin(), order_.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    for (std::size_t i = 0; i < order_.size() && i < kLetters; ++i) numbers_[order_[i].second] = i;
  }
  [[nodiscard]] std::size_t of(std::uint32_t thread) const {
    if (thread == SchedWaits::kNobody) return kUnknown;
    const auto found = numbers_.find(thread);
    return found == numbers_.end() ? kOthers : found->second;
  }
  // ns and thread, the most first.
  [[nodiscard]] const std::vector<std::pair<std::uint64_t, std::uint32_t>>& order() const { return order_; }

 private:
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order_;
  std::map<std::uint32_t, std::size_t> numbers_;
};

struct Cells {
  EventTime begin_ns = 0;
  std::uint64_t cell_ns = 1;
  std::size_t count = 0;
};

// For each cell the sign of who had most of it.
std::string signs_of_cpu(const std::vector<SchedRan>& ran, std::uint32_t cpu, const Signs& signs, const Cells& cells) {
  std::vector<std::array<std::uint64_t, kSigns>> sums(cells.count);
  for (auto& sum : sums) sum[kIdle] = cells.cell_ns;
  for (const SchedRan& one : ran) {
    if (one.cpu != cpu) continue;
    for (EventTime at = one.begin_ns; at < one.end_ns;) {
      const auto cell = static_cast<std::size_t>((at - cells.begin_ns) / cells.cell_ns);
      if (cell >= cells.count) break;
      const EventTime next = std::min(one.end_ns, cells.begin_ns + (cell + 1) * cells.cell_ns);
      sums[cell].at(signs.of(one.thread)) += next - at;
      sums[cell][kIdle] -= std::min(sums[cell][kIdle], next - at);
      at = next;
    }
  }
  std::string out;
  for (const auto& sum : sums)
    out += sign_of(static_cast<std::size_t>(std::max_element(sum.begin(), sum.end()) - sum.begin()));
  return out;
}

// The busiest, by number.
std::vector<std::uint32_t> busiest_cpus(const std::vector<SchedRan>& ran, std::size_t most) {
  std::map<std::uint32_t, std::uint64_t> sums;
  for (const SchedRan& one : ran) sums[one.cpu] += one.end_ns - one.begin_ns;
  std::vector<std::uint32_t> out;
  for (const auto& [cpu, ns] : sums) out.push_back(cpu);
  std::stable_sort(out.begin(), out.end(), [&sums](std::uint32_t a, std::uint32_t b) { return sums[a] > sums[b]; });
  if (out.size() > most) out.resize(most);
  std::sort(out.begin(), out.end());
  return out;
}

std::string legend_of(const SchedProfile& profile, const Signs& signs) {
  std::string out;
  for (std::size_t i = 0; i < signs.order().size() && i < kMostNamed; ++i)
    out += fmt::format("{} {} {}, ", sign_of(i), thread_text(profile, signs.order()[i].second),
                       ns_text(signs.order()[i].first));
  return out + ". idle, + others, ? not known";
}

}  // namespace

std::string cpu_lanes_text(const SchedProfile& profile, const ClockHistory& clock, const Screen& screen,
                           std::size_t most_cpus) {
  const std::vector<SchedRan>& ran = profile.lanes.all_ran();
  const EventTime begin_ns = profile.lanes.ran_begin_ns();
  if (ran.empty() || profile.shown.end_ns <= begin_ns) return "";
  const std::uint64_t all_ns = profile.shown.end_ns - begin_ns;
  const std::size_t count = std::min(kMostCells, screen.width() > 2 * kHeadColumns ? screen.width() - kHeadColumns : 1);
  const Cells cells{.begin_ns = begin_ns, .cell_ns = all_ns / count + 1, .count = count};
  const Signs signs(ran);
  std::string out =
      "\n" + screen.wrapped(fmt::format("who ran on each CPU from {} on, a cell is {}:", moment_text(clock, begin_ns),
                                        ns_text(cells.cell_ns)),
                            0);
  const std::vector<std::uint32_t> cpus = busiest_cpus(ran, most_cpus);
  for (const std::uint32_t cpu : cpus)
    out += fmt::format("  CPU {:<4} {}\n", cpu, signs_of_cpu(ran, cpu, signs, cells));
  const auto known = static_cast<std::size_t>(
      std::count_if(profile.cpus.begin(), profile.cpus.end(), [](const SchedCpu& cpu) { return cpu.known; }));
  if (known > cpus.size())
    out += screen.wrapped(fmt::format("{} not shown: less busy", counted(known - cpus.size(), "CPU")), 2);
  return out + screen.wrapped(legend_of(profile, signs), 2);
}

}  // namespace flight::ctl
