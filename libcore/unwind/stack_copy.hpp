// SPDX-License-Identifier: Apache-2.0
// A thread's stack as PERF_SAMPLE_STACK_USER copied it, from the stack pointer upwards. Its one rule: only `dyn_size`
// of the record's bytes are the stack; the rest is old content of the ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace flight {

struct StackCopy {
  std::uint64_t base = 0;  // the address of the first byte
  std::span<const std::byte> bytes;

  // nullopt: not all of it was copied.
  [[nodiscard]] std::optional<std::uint64_t> read(std::uint64_t address) const {
    const std::uint64_t at = address - base;  // an address below the base wraps and is too large
    std::uint64_t value = 0;
    if (bytes.size() < sizeof value || at > bytes.size() - sizeof value) return std::nullopt;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }
};

}  // namespace flight
