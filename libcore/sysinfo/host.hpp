// SPDX-License-Identifier: Apache-2.0
// The facts about the machine that a perf.data file contains.
#pragma once

#include <cstdint>
#include <string>

namespace flight {

struct HostInfo {
  std::string hostname;         // uname -n
  std::string os_release;       // uname -r
  std::string arch;             // uname -m
  std::string cpu_description;  // "model name" of /proc/cpuinfo
  std::string cpu_id;           // "AuthenticAMD,26,2,1"; MIDR on arm64; may be empty
  std::string boot_id;          // /proc/sys/kernel/random/boot_id, with dashes
  std::uint64_t total_memory_kb = 0;

  [[nodiscard]] static HostInfo read(const std::string& root = "");
};

// uname -n now: it can change after the start, for example when a cloud image gets its name.
[[nodiscard]] std::string current_hostname();
// It changes with hotplug and balloons.
[[nodiscard]] std::uint64_t total_memory_kb(const std::string& root = "");

}  // namespace flight
