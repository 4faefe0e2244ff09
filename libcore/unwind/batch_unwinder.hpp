// SPDX-License-Identifier: Apache-2.0
// The unwinder's side of a batch (batch.hpp): unwinds its samples and writes the answer. Its one rule: whatever the
// bytes are, it reads within them, writes within the answer's memory, and takes a time that the limits of batch.hpp
// bound. It opens nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "libcore/base/result.hpp"
#include "libcore/unwind/batch.hpp"
#include "libcore/unwind/unwinder.hpp"

namespace flight {

class BatchUnwinder {
 public:
  // `tables`: by their numbers in the batch; null where there is none. Returns the bytes of the answer, the first ones
  // of `answer`. EBADMSG: `batch` is none, or contradicts itself; ENOSPC: `answer` is too small (most_answer_bytes()).
  [[nodiscard]] Result<std::size_t> unwind(std::span<const std::byte> batch, std::span<const UnwindTable* const> tables,
                                           std::span<std::byte> answer);

 private:
  [[nodiscard]] Unwinder& unwinder_for(Machine machine, std::uint64_t code_mask);

  std::optional<Unwinder> unwinder_;  // with the rules that earlier batches needed
  Machine machine_ = Machine::x86_64;
  std::uint64_t code_mask_ = 0;
};

}  // namespace flight
