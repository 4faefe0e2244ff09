// SPDX-License-Identifier: Apache-2.0
// Writes a gzip file (RFC 1952) piece by piece: the same bytes for the same input, as it has no time and no name.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

struct z_stream_s;

namespace flight {

class GzipWriter {
 public:
  // Called with at most 64 KiB at a time.
  using Write = std::function<Result<void>(std::span<const std::byte> bytes)>;

  [[nodiscard]] static Result<GzipWriter> create(Write write);
  // After an error of `write`, which it returns, the file is not whole.
  [[nodiscard]] Result<void> add(std::string_view text);
  // Call it once, at the end.
  [[nodiscard]] Result<void> finish();

 private:
  struct EndStream {
    void operator()(z_stream_s* stream) const;
  };
  GzipWriter(std::unique_ptr<z_stream_s, EndStream> stream, Write write);
  [[nodiscard]] Result<void> deflate_all(int flush);

  std::unique_ptr<z_stream_s, EndStream> stream_;
  Write write_;
  std::vector<std::byte> out_;
};

}  // namespace flight
