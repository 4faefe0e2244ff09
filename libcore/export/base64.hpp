// SPDX-License-Identifier: Apache-2.0
// Writes bytes as base64 (RFC 4648, section 4), without line breaks, piece by piece.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

class Base64Writer {
 public:
  using Write = std::function<Result<void>(std::span<const std::byte> text)>;

  explicit Base64Writer(Write write) : write_(std::move(write)) {}
  [[nodiscard]] Result<void> add(std::span<const std::byte> bytes);
  // Call it once, at the end.
  [[nodiscard]] Result<void> finish();

 private:
  void append(std::span<const std::byte> group);  // of one to three bytes

  Write write_;
  std::vector<std::byte> rest_;  // less than three bytes
  std::string text_;
};

}  // namespace flight
