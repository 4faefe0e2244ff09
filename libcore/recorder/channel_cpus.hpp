// SPDX-License-Identifier: Apache-2.0
// Which of this machine's CPUs a channel records: its `cpus` in the configuration, which machines of different sizes
// may share. A list with none of the machine's CPUs is an error. If the machine lacks only some of them, that is a
// warning: the recording begins wherever that is possible. Offline CPUs belong to the machine, too.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"

namespace flight {

struct ChannelCpus {
  std::vector<int> here;  // the CPUs of this machine that it records, ascending; empty: all of them
  std::string warning;    // names those that the machine does not have; empty: it has all that are listed
};
// By the possible CPUs in `sysfs`. If they cannot be read, every listed CPU is taken for one of this machine.
[[nodiscard]] Result<ChannelCpus> channel_cpus(const Config& config, const ChannelConfig& channel,
                                               const std::string& sysfs);
// The warnings of all channels; an error if one of them records nothing here.
[[nodiscard]] Result<std::vector<std::string>> check_channel_cpus(const Config& config,
                                                                  const std::string& sysfs = "/sys");

// Those of `cpus` that are in `here`; all of them if `here` is empty.
[[nodiscard]] std::vector<int> those_recorded(const std::vector<int>& here, const std::vector<int>& cpus);
// The most rings that the channel can have while `cpu_count` CPUs are online.
[[nodiscard]] std::size_t most_rings(const std::vector<int>& here, std::size_t cpu_count);

}  // namespace flight
