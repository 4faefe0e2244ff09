// SPDX-License-Identifier: Apache-2.0
// A reply's document as a sealed memfd: the same memfd while the content is the same. A client can keep every
// descriptor, and the memory is charged to the broker. A new memfd for each request would let the client use up the
// memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {

class Document {
 public:
  // `name`: of the memfd; must be static.
  explicit Document(const char* name) : name_(name) {}
  // Owned by this object, valid until the next call.
  [[nodiscard]] Result<int> of(std::span<const std::byte> bytes);
  // The minimum interval for a content that always differs because it has a time. flightd requests the counts and the
  // kernel's names for each snapshot.
  static constexpr std::chrono::milliseconds kNewEvery{20};

 private:
  const char* name_;
  std::vector<std::byte> bytes_;
  UniqueFd memfd_;
};

}  // namespace flight::broker
