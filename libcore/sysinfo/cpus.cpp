// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/cpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "libcore/base/directory.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/sysinfo/proc_stat.hpp"

namespace flight {
namespace {

constexpr int kMaxCpus = 65536;
constexpr std::uint32_t kMaxNodes = 4096;
constexpr std::size_t kMaxPmus = 4096;
constexpr std::size_t kMaxSysfsBytes = 1U << 20U;
constexpr std::size_t kMaxStatBytes = 4U << 20U;  // 8,192 CPUs have 1 MB, and a line has all interrupts

std::string line_of(const std::string& path) {
  auto text = read_kernel_file(path, kMaxSysfsBytes);
  if (!text) return {};
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return std::move(*text);
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A missing file and -1 (arm64's die_id) both mean that there is none: 0.
std::uint32_t number_in(const std::string& path) { return number_of<std::uint32_t>(line_of(path)).value_or(0); }

// "Node 0 MemTotal:       16384000 kB"
std::uint64_t meminfo_kb(std::string_view text, std::string_view key) {
  std::size_t at = text.find(key);
  if (at == std::string_view::npos) return 0;
  at = text.find_first_not_of(' ', at + key.size());
  if (at == std::string_view::npos) return 0;
  const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
  return number_of<std::uint64_t>(text.substr(at, end - at)).value_or(0);
}

}  // namespace

Result<std::vector<int>> parse_cpu_list(std::string_view text) {
  const auto refuse = [&text](std::string_view part) {
    return fail(std::errc::invalid_argument,
                "CPU list \"{}\": \"{}\" is neither a CPU nor a range of CPUs below {} such as \"0-3\"",
                text.substr(0, 200), part.substr(0, 40), kMaxCpus);
  };
  std::vector<int> cpus;
  std::string_view rest = text;
  while (!rest.empty() && (rest.back() == '\n' || rest.back() == ' ')) rest.remove_suffix(1);
  bool more = !rest.empty();  // an empty list has no CPU: "offline" on most machines
  while (more) {
    const std::size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    const std::string_view part = rest.substr(0, comma);
    rest = more ? rest.substr(comma + 1) : std::string_view{};
    const std::size_t dash = part.find('-');
    const auto first = number_of<int>(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_of<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= kMaxCpus) return refuse(part);
    // A hostile list of many overlapping ranges must not grow without bound.
    if (cpus.size() > static_cast<std::size_t>(kMaxCpus)) return refuse(part);
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

std::string format_cpu_list(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

namespace {

// A container's server may show its own CPUs in place of the kernel's. Then the lists of the NUMA nodes still have the
// kernel's.
std::vector<int> cpus_of_nodes(const std::string& root) {
  std::vector<int> out;
  for (const NumaNode& node : numa_nodes(root)) {
    const auto cpus = parse_cpu_list(node.cpu_list);
    if (cpus) out.insert(out.end(), cpus->begin(), cpus->end());
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Without NUMA there are no nodes: those present that are not offline. Many that cannot go offline have no such file.
std::vector<int> cpus_not_offline(const std::string& root) {
  const std::string folder = root + "/sys/devices/system/cpu/";
  auto cpus = parse_cpu_list(line_of(folder + "present"));
  if (!cpus) return {};
  std::erase_if(*cpus, [&](int cpu) { return line_of(fmt::format("{}cpu{}/online", folder, cpu)) == "0"; });
  return std::move(*cpus);
}

// Without sysfs, as in a chroot, or where a server covers all of it: the kernel has a line for each online CPU there.
std::vector<int> cpus_of_stat(const std::string& root) {
  std::vector<int> out;
  const auto text = read_kernel_file(root + "/proc/stat", kMaxStatBytes);
  if (!text) return out;
  ProcStat stat;
  parse_proc_stat(*text, stat);
  for (const CpuTicks& cpu : stat.cpus) out.push_back(cpu.cpu);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Result<std::vector<int>> online_cpus(const std::string& root) {
  const std::string path = root + "/sys/devices/system/cpu/online";
  auto text = read_kernel_file(path, kMaxSysfsBytes);
  if (!text && text.error().errno_value() == EREMOTE)
    for (const auto& cpus : {cpus_of_nodes(root), cpus_not_offline(root)})
      if (!cpus.empty()) return cpus;
  if (!text)
    if (auto cpus = cpus_of_stat(root); !cpus.empty()) return cpus;
  if (!text) return wrap(text.error(), "read the list of online CPUs");
  auto cpus = parse_cpu_list(*text);
  if (!cpus) return wrap(cpus.error(), "{}", path);
  if (cpus->empty()) return fail(std::errc::no_such_device, "{} lists no CPU", path);
  return cpus;
}

std::vector<int> nohz_full_cpus(const std::string& sysfs) {
  auto cpus = parse_cpu_list(line_of(sysfs + "/devices/system/cpu/nohz_full"));
  return cpus ? std::move(*cpus) : std::vector<int>();  // "(null)" without nohz_full=
}

std::uint32_t available_cpus(const std::string& root) {
  for (const char* file : {"possible", "present", "online"}) {
    const auto cpus = parse_cpu_list(line_of(root + "/sys/devices/system/cpu/" + file));
    if (cpus && !cpus->empty()) return static_cast<std::uint32_t>(cpus->back()) + 1;
  }
  const auto online = online_cpus(root);
  return online ? static_cast<std::uint32_t>(online->back()) + 1 : 1;
}

CpuTopology cpu_topology(const std::string& root) {
  CpuTopology topology;
  topology.cpus.resize(available_cpus(root));
  for (std::size_t cpu = 0; cpu < topology.cpus.size(); ++cpu) {
    const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/", root, cpu);
    CpuTopology::Cpu& entry = topology.cpus[cpu];
    entry.core_siblings = line_of(folder + "core_siblings_list");
    if (entry.core_siblings.empty()) entry.core_siblings = line_of(folder + "package_cpus_list");
    if (entry.core_siblings.empty()) continue;  // offline: sysfs has no topology for it
    entry.thread_siblings = line_of(folder + "thread_siblings_list");
    if (entry.thread_siblings.empty()) entry.thread_siblings = line_of(folder + "core_cpus_list");
    entry.die_siblings = line_of(folder + "die_cpus_list");
    entry.core_id = number_in(folder + "core_id");
    entry.package_id = number_in(folder + "physical_package_id");
    entry.die_id = number_in(folder + "die_id");
  }
  return topology;
}

std::vector<NumaNode> numa_nodes(const std::string& root) {
  std::vector<NumaNode> nodes;
  const std::string folder = root + "/sys/devices/system/node/";
  const auto numbers = parse_cpu_list(line_of(folder + "online"));  // the same syntax
  if (!numbers) return nodes;
  for (const int number : *numbers) {
    if (nodes.size() == kMaxNodes) break;
    const std::string node = fmt::format("{}node{}/", folder, number);
    const std::string meminfo = line_of(node + "meminfo");
    if (meminfo.empty()) continue;
    nodes.push_back({static_cast<std::uint32_t>(number), meminfo_kb(meminfo, "MemTotal:"),
                     meminfo_kb(meminfo, "MemFree:"), line_of(node + "cpulist")});
  }
  return nodes;
}

std::vector<std::pair<std::uint32_t, std::string>> pmus(const std::string& root) {
  std::vector<std::pair<std::uint32_t, std::string>> found;
  const std::string folder = root + "/sys/bus/event_source/devices";
  auto devices = open_kernel_folder(folder);
  if (!devices) return found;
  static_cast<void>(devices->each([&](const Directory::Entry& entry) {
    const auto type = number_of<std::uint32_t>(line_of(fmt::format("{}/{}/type", folder, entry.name)));
    if (type) found.emplace_back(*type, entry.name);
    return found.size() < kMaxPmus;
  }));
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace flight
