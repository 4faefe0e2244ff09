// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/event_names.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <array>
#include <utility>

#include "libcore/perf/event_spec.hpp"

namespace flight {
namespace {

// PERF_COUNT_SW_CGROUP_SWITCHES is 5.13; older headers do not name it.
constexpr std::uint64_t kCgroupSwitches = 11;
constexpr std::array<GenericEvent, 31> kGeneric{{
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES},
    {"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"idle-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
    {"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"idle-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
    {"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES},
    {"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK},
    {"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK},
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    {"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
    {"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
    {"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN},
    {"min-flt", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ},
    {"maj-flt", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ},
    {"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS},
    {"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS},
    {"dummy", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY},
    {"bpf-output", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT},
    {"cgroup-switches", PERF_TYPE_SOFTWARE, kCgroupSwitches},
}};

// The tables of both distances have this size; real names are shorter than 64.
constexpr std::size_t kMaxMeasured = 128;

// Levenshtein's distance.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::array<std::size_t, kMaxMeasured + 1> row{};
  for (std::size_t j = 0; j <= right.size(); ++j) row.at(j) = j;
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::size_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
      diagonal = row.at(j + 1);
      row.at(j + 1) = std::min({replaced, diagonal + 1, row.at(j) + 1});
    }
  }
  return row.at(right.size());
}

std::size_t longest_common_substring(std::string_view left, std::string_view right) {
  std::array<std::size_t, kMaxMeasured + 1> row{};
  std::size_t longest = 0;
  for (const char letter : left) {
    for (std::size_t j = right.size(); j > 0; --j) {
      row.at(j) = letter == right[j - 1] ? row.at(j - 1) + 1 : 0;
      longest = std::max(longest, row.at(j));
    }
  }
  return longest;
}

// The distance of `candidate` from `name`: typing errors, or, for half-remembered names, the parts that differ.
std::size_t distance(std::string_view name, std::string_view candidate) {
  constexpr std::size_t kReporting = 4;  // shorter common parts are no evidence
  candidate = candidate.substr(0, kMaxMeasured);
  std::size_t best = edit_distance(name, candidate);
  const std::size_t colon = candidate.find(':');
  if (colon != std::string_view::npos && name.find(':') == std::string_view::npos)
    best = std::min(best, edit_distance(name, candidate.substr(colon + 1)) + 1);
  const std::size_t common = longest_common_substring(name, candidate);
  if (common >= kReporting && common * 2 >= name.size()) {
    const std::size_t surplus = candidate.size() - common;
    best = std::min(best, name.size() - common + 1 + surplus / 8);
  }
  return best;
}

}  // namespace

std::optional<GenericEvent> generic_event(std::string_view name) {
  const auto* const at =
      std::find_if(kGeneric.begin(), kGeneric.end(), [&](const GenericEvent& event) { return event.name == name; });
  return at == kGeneric.end() ? std::nullopt : std::optional(*at);
}

std::vector<std::string> generic_event_names() {
  std::vector<std::string> names;
  names.reserve(kGeneric.size());
  for (const GenericEvent& event : kGeneric) names.emplace_back(event.name);
  return names;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

std::string did_you_mean(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string text = names.size() == 1 ? "; the nearest is " : "; the nearest are ";
  for (std::size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return text;
}

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                       std::size_t most) {
  name = name.substr(0, kMaxMeasured);
  const std::size_t limit = std::max<std::size_t>(2, name.size() / 2);
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const std::string& candidate : candidates) {
    const std::size_t far = distance(name, candidate);
    if (far <= limit) near.emplace_back(far, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < near.size() && i < most; ++i) names.emplace_back(near[i].second);
  return names;
}

}  // namespace flight
