// SPDX-License-Identifier: Apache-2.0
// The broker's reply to `kernel`: the address ranges of the kernel and its modules, and since when they exist.
//
//   | KernelNamesHeader 72 | warning, to 8 bytes | entry | entry | …
//   entry: | KernelMapEntry 72 | name, to 8 bytes |
//
// A module that is loaded again has another map. `begin_ns` is a time at which it was not loaded yet, and `end_ns` one
// at which it was unloaded; a sample outside of this range does not belong to it. Both are close to the real times,
// because the kernel reports each load and unload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::size_t kMaxKernelMaps = 20000;
inline constexpr std::size_t kMaxKernelNamesBytes = 16U << 20U;
inline constexpr std::size_t kModulesDigestBytes = 16;

struct KernelMap {
  // perf's name: "[kernel.kallsyms]_text" (the map and its reference symbol), a module's file, otherwise "[module]".
  std::string name;
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t page_offset = 0;       // kernel: the reference symbol's address; modules: 0
  std::vector<std::uint8_t> build_id;  // empty: unknown
  EventTime begin_ns = 0;              // 0: it was loaded before the broker's first read
  EventTime end_ns = 0;                // 0: it is still loaded

  [[nodiscard]] bool is_kernel() const { return name.starts_with("[kernel.kallsyms]"); }
};

enum class Kallsyms : std::uint32_t {
  none,       // the broker could not read it: see the warning
  unchanged,  // the same as in the last reply to this client
  sent,       // with this reply
};

struct KernelNames {
  std::vector<KernelMap> maps;  // the kernel's first
  EventTime since_ns = 0;       // unloaded modules are known from this time on
  EventTime looked_ns = 0;      // the time of the read
  std::uint64_t forgotten = 0;  // dropped unloaded modules; since_ns is after their end
  std::string digest;           // of the loaded modules: two texts of kallsyms with the same digest are interchangeable
  Kallsyms kallsyms = Kallsyms::none;
  std::string warning;  // empty: everything was read
};

[[nodiscard]] std::vector<std::byte> encode(const KernelNames& names);
// Input from the other side of the broker protocol. EBADMSG: ranges that wrap, times in the wrong order, names that
// perf does not use, or a digest that cannot be part of a file name.
[[nodiscard]] Result<KernelNames> parse_kernel_names(std::span<const std::byte> bytes);

}  // namespace flight
