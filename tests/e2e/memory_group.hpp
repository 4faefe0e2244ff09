// SPDX-License-Identifier: Apache-2.0
// A memory cgroup of a limited size (cgroups(7), version 1 or 2), so that memory can be short for a test alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tests/e2e/command.hpp"

namespace flight {

class MemoryGroup {
 public:
  // nullopt: this machine lets us make none.
  [[nodiscard]] static std::optional<MemoryGroup> create(std::uint64_t bytes);
  MemoryGroup(MemoryGroup&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  ~MemoryGroup();  // waits for its processes to end

  // What to put before a command so that it runs inside.
  [[nodiscard]] Arguments enter() const;

 private:
  explicit MemoryGroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace flight
