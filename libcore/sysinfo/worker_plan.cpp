// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/worker_plan.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "libcore/base/kernel_file.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

using Workers = std::vector<PlannedWorker>;

std::vector<int> those_in(const std::vector<int>& cpus, const std::vector<int>& online) {
  std::vector<int> out;
  std::set_intersection(cpus.begin(), cpus.end(), online.begin(), online.end(), std::back_inserter(out));
  return out;
}

// One worker for each group; if there are more groups than workers, a worker has several.
Workers workers_of(const std::vector<std::string>& cpu_lists, const std::vector<int>& online) {
  Workers out;
  std::size_t next = 0;
  for (const std::string& list : cpu_lists) {
    const auto cpus = parse_cpu_list(list);
    const std::vector<int> here = cpus ? those_in(*cpus, online) : std::vector<int>{};
    if (here.empty()) continue;
    if (out.size() < kMaxWorkers) out.emplace_back();
    PlannedWorker& worker = out[next++ % kMaxWorkers];
    worker.serves.insert(worker.serves.end(), here.begin(), here.end());
    worker.runs_on = worker.serves;
  }
  if (out.empty()) out.emplace_back();  // sysfs lists no groups: one worker for all
  return out;
}

std::vector<std::string> groups_of(std::string_view word, const std::vector<int>& online, const std::string& root) {
  std::vector<std::string> lists;
  if (word == "numa") {
    for (const NumaNode& node : numa_nodes(root)) lists.push_back(node.cpu_list);
    return lists;
  }
  const CpuTopology topology = cpu_topology(root);
  for (const int cpu : online) {
    if (static_cast<std::size_t>(cpu) >= topology.cpus.size()) continue;
    const CpuTopology::Cpu& place = topology.cpus[static_cast<std::size_t>(cpu)];
    const std::string& list = word == "core" ? place.thread_siblings : place.core_siblings;
    if (std::find(lists.begin(), lists.end(), list) == lists.end()) lists.push_back(list);
  }
  return lists;
}

// An offline CPU belongs to this machine, too: its mask must not keep flightd from starting.
std::vector<int> present_cpus(const std::vector<int>& online, const std::string& root) {
  constexpr std::size_t kMaxBytes = 65536;
  const auto text = read_kernel_file(root + "/sys/devices/system/cpu/present", kMaxBytes);
  auto cpus = text ? parse_cpu_list(*text) : std::vector<int>{};
  return cpus && !cpus->empty() ? *cpus : online;
}

Result<std::vector<int>> cpus_here(std::string_view list, std::string_view mask, const std::vector<int>& present) {
  auto cpus = parse_cpu_list(list);
  if (!cpus) return wrap(cpus.error(), "mask \"{}\"", mask);
  auto here = those_in(*cpus, present);
  if (here.empty())
    return fail(std::errc::no_such_device, "mask \"{}\": this machine has none of the CPUs {}; use some of {}", mask,
                list, format_cpu_list(present));
  return here;
}

Result<Workers> workers_of_masks(std::string_view masks, const std::vector<int>& present) {
  Workers out;
  for (bool more = true; more;) {
    const std::size_t colon = masks.find(':');
    const std::string_view mask = masks.substr(0, colon);
    more = colon != std::string_view::npos;
    masks.remove_prefix(more ? colon + 1 : masks.size());
    const std::size_t slash = mask.find('/');
    if (slash == std::string_view::npos || out.size() == kMaxWorkers)
      return fail(std::errc::invalid_argument,
                  "\"{}\" is not a mask \"CPUs/affinity\", or there are more than {} masks", mask, kMaxWorkers);
    auto serves = cpus_here(mask.substr(0, slash), mask, present);
    if (!serves) return propagate(serves.error());
    auto runs_on = cpus_here(mask.substr(slash + 1), mask, present);
    if (!runs_on) return propagate(runs_on.error());
    out.push_back({std::move(*serves), std::move(*runs_on)});
  }
  return out;
}

}  // namespace

Result<std::vector<PlannedWorker>> plan_workers(std::string_view words, const std::string& root) {
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(words.data(), words.data() + words.size(), number);
  if (error == std::errc{} && stop == words.data() + words.size())
    return Workers(std::clamp<std::size_t>(number, 1, kMaxWorkers));
  const auto online = online_cpus(root);
  if (!online) return propagate(online.error());
  if (words == "cpu") return Workers(std::clamp<std::size_t>(online->size(), 1, kMaxWorkers));
  if (words == "core" || words == "package" || words == "numa")
    return workers_of(groups_of(words, *online, root), *online);
  return workers_of_masks(words, present_cpus(*online, root));
}

}  // namespace flight
