// SPDX-License-Identifier: Apache-2.0
// A memory cgroup of a limited size (cgroups(7), version 1 or 2), so that memory can be short only for the test.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tests/e2e/command.hpp"

namespace flight {

class MemoryGroup {
 public:
  // nullopt if this machine does not permit it.
  [[nodiscard]] static std::optional<MemoryGroup> create(std::uint64_t bytes);
  MemoryGroup(MemoryGroup&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  ~MemoryGroup();  // waits for its processes to end

  // What its processes use now.
  [[nodiscard]] std::uint64_t used_bytes() const;
  [[nodiscard]] std::uint64_t most_used_bytes() const;  // 0: Linux before 5.19 with version 2 does not know
  [[nodiscard]] bool limit(std::uint64_t bytes) const;
  // The command prefix that runs a command inside the group.
  [[nodiscard]] Arguments enter() const;

 private:
  explicit MemoryGroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace flight
