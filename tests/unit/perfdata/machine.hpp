// SPDX-License-Identifier: Apache-2.0
// Facts of this machine: this executable, its kernel, one tracepoint. In files made from them a verifier finds names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/perfdata/features.hpp"
#include "tests/unit/perfdata/records.hpp"

namespace flight::test {

// This executable: its executable segment as it is mapped, and its build-id.
struct Self {
  std::string path;
  std::uint64_t address = 0, bytes = 0, offset = 0;
  std::vector<std::uint8_t> build_id;

  [[nodiscard]] static Self find();
};

// 0 if kallsyms hides it.
struct Kernel {
  std::uint64_t text = 0, end = 0, schedule = 0;
  std::vector<std::uint8_t> build_id;

  [[nodiscard]] static Kernel find();
};

// sched:sched_switch as described by this kernel.
struct SchedSwitch {
  std::uint64_t id = 0;
  std::string format;
  TracingData tracing;

  // Mounts tracefs on /sys/kernel/tracing if it is not mounted.
  [[nodiscard]] static SchedSwitch find();
  [[nodiscard]] std::size_t offset(std::string_view field) const;
  [[nodiscard]] Bytes raw(std::string_view previous, std::uint32_t previous_pid, std::string_view next,
                          std::uint32_t next_pid) const;
};

}  // namespace flight::test
