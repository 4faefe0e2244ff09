// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/channel_cpus.hpp"

#include <algorithm>
#include <iterator>

#include "libcore/base/kernel_file.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

// Empty: not known.
std::vector<int> possible_cpus(const std::string& sysfs) {
  const auto text = read_kernel_file(sysfs + "/devices/system/cpu/possible");
  const auto cpus = text ? parse_cpu_list(*text) : Result<std::vector<int>>(std::vector<int>{});
  return cpus ? *cpus : std::vector<int>();
}

std::string named(const std::vector<int>& cpus) {
  return (cpus.size() == 1 ? "CPU " : "CPUs ") + format_cpu_list(cpus);
}

}  // namespace

Result<ChannelCpus> channel_cpus(const Config& config, const ChannelConfig& channel, const std::string& sysfs) {
  const std::vector<int> possible = possible_cpus(sysfs);
  if (channel.cpus.empty() || possible.empty()) return ChannelCpus{.here = channel.cpus, .warning = {}};
  ChannelCpus out;
  std::vector<int> unknown;
  std::set_intersection(channel.cpus.begin(), channel.cpus.end(), possible.begin(), possible.end(),
                        std::back_inserter(out.here));
  std::set_difference(channel.cpus.begin(), channel.cpus.end(), possible.begin(), possible.end(),
                      std::back_inserter(unknown));
  const std::string place = written_at(config, fmt::format("channels.{}.cpus", channel.name));
  if (out.here.empty())
    return fail(std::errc::invalid_argument,
                "{}channel '{}': this machine has none of the CPUs {} in its cpus; use some of {}, or omit cpus", place,
                channel.name, format_cpu_list(unknown), format_cpu_list(possible));
  if (!unknown.empty())
    out.warning = fmt::format("{}channel '{}': this machine does not have the {} in its cpus: only {} recorded", place,
                              channel.name, named(unknown), named(out.here) + (out.here.size() == 1 ? " is" : " are"));
  if (out.here == possible) out.here.clear();
  return out;
}

Result<std::vector<std::string>> check_channel_cpus(const Config& config, const std::string& sysfs) {
  std::vector<std::string> warnings;
  for (const ChannelConfig& channel : config.channels) {
    auto cpus = channel_cpus(config, channel, sysfs);
    if (!cpus) return propagate(cpus.error());
    if (!cpus->warning.empty()) warnings.push_back(std::move(cpus->warning));
  }
  return warnings;
}

std::vector<int> those_recorded(const std::vector<int>& here, const std::vector<int>& cpus) {
  if (here.empty()) return cpus;
  std::vector<int> out;
  for (const int cpu : cpus)
    if (std::binary_search(here.begin(), here.end(), cpu)) out.push_back(cpu);
  return out;
}

std::size_t most_rings(const std::vector<int>& here, std::size_t cpu_count) {
  return here.empty() ? cpu_count : std::min(here.size(), cpu_count);
}

}  // namespace flight
