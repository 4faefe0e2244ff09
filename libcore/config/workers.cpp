// SPDX-License-Identifier: Apache-2.0
// Checks lists of CPUs as far as possible without the machine's CPUs: `snapshot.workers`, `record.workers`
// (perf-record(1), --threads) and `cpus` of a channel (perf-record(1), -C).
#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>

#include "libcore/config/check.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxCpus = 8192;
constexpr std::size_t kMaxWorkers = 64;
using CpuSet = std::bitset<kMaxCpus>;

// Parses all of `text` as a number.
std::optional<std::size_t> number_of(std::string_view text) {
  std::size_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// Calls `fault` for each piece between separators; returns the first result that is not empty.
template <typename Fault>
std::string first_fault(std::string_view text, char separator, const Fault& fault) {
  for (;;) {
    const std::size_t end = text.find(separator);
    if (std::string found = fault(text.substr(0, end)); !found.empty() || end == std::string_view::npos) return found;
    text.remove_prefix(end + 1);
  }
}

// Calls `take` with each CPU of "0-3,8": CPU numbers and rising ranges. `take` returns a fault, or nothing.
template <typename Take>
std::string list_fault(std::string_view list, const Take& take) {
  return first_fault(list, ',', [&](std::string_view range) -> std::string {
    const std::size_t dash = range.find('-');
    const auto first = number_of(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_of(range.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kMaxCpus)
      return fmt::format("'{}' is neither a CPU nor a range of CPUs such as 0-3", excerpt(range));
    for (std::size_t cpu = *first; cpu <= *last; ++cpu)
      if (std::string fault = take(cpu); !fault.empty()) return fault;
    return {};
  });
}

// None of its CPUs may be in `taken`.
std::string mask_fault(std::string_view list, std::string_view what, CpuSet& taken) {
  CpuSet own;
  std::string fault = list_fault(list, [&](std::size_t cpu) {
    own.set(cpu);
    return std::string();
  });
  if (!fault.empty()) return fault;
  if (const CpuSet twice = own & taken; twice.any())
    return fmt::format("CPU {} is in {} of two masks, which must not overlap", twice._Find_first(), what);
  taken |= own;
  return {};
}

}  // namespace

std::string workers_fault(std::string_view words) {
  constexpr std::array<std::string_view, 4> kWords{"cpu", "core", "package", "numa"};
  if (std::find(kWords.begin(), kWords.end(), words) != kWords.end()) return {};
  if (const auto workers = number_of(words))
    return *workers >= 1 && *workers <= kMaxWorkers ? std::string()
                                                    : fmt::format("{} workers are not allowed", *workers);
  if (words.find('/') == std::string_view::npos) return fmt::format("'{}' is not a set of workers", excerpt(words));
  if (static_cast<std::size_t>(std::count(words.begin(), words.end(), ':')) >= kMaxWorkers)
    return fmt::format("more than {} masks", kMaxWorkers);
  CpuSet served;
  CpuSet used;
  return first_fault(words, ':', [&](std::string_view mask) -> std::string {
    const std::size_t slash = mask.find('/');
    if (slash == std::string_view::npos) return fmt::format("the mask '{}' has no '/': CPUs/AFFINITY", excerpt(mask));
    std::string fault = mask_fault(mask.substr(0, slash), "the CPUs", served);
    return fault.empty() ? mask_fault(mask.substr(slash + 1), "the affinities", used) : fault;
  });
}

std::string cpu_list_fault(std::string_view list, std::vector<int>& cpus) {
  CpuSet listed;
  std::string fault = list_fault(list, [&](std::size_t cpu) {
    if (listed.test(cpu)) return fmt::format("CPU {} is listed twice", cpu);
    listed.set(cpu);
    return std::string();
  });
  if (!fault.empty()) return fault;
  cpus.clear();
  for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu)
    if (listed.test(cpu)) cpus.push_back(static_cast<int>(cpu));
  return {};
}

}  // namespace flight
