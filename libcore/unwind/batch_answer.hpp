// SPDX-License-Identifier: Apache-2.0
// flightd's side of an answer (batch.hpp). It is input from a process that reads what others made, and may have been
// taken over: it is copied before it is looked at, and a chain is accepted only if it begins with what ran; of the
// callers, those that are in an executable mapping of the process. So a false answer can name code of the sampled
// process that did not call, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/unwind/batch.hpp"

namespace flight {

class BatchAnswer {
 public:
  // EBADMSG: it is no answer to a batch of so many samples.
  [[nodiscard]] static Result<BatchAnswer> parse(std::span<const std::byte> bytes, std::uint32_t samples);

  struct Chain {
    UnwindStatus status = UnwindStatus::no_cfi;
    std::uint64_t stopped_at = 0;
    std::vector<std::uint64_t> pcs;  // innermost first; empty: it was not accepted, or nothing was found
    std::uint32_t refused = 0;       // callers that are no code
  };
  // `pc`: the sample's. `is_code`: whether an address is in an executable mapping of the process at that time.
  [[nodiscard]] Chain chain(std::uint32_t number, std::uint64_t pc,
                            const std::function<bool(std::uint64_t address)>& is_code) const;
  [[nodiscard]] std::uint32_t samples() const { return static_cast<std::uint32_t>(samples_.size()); }

 private:
  std::vector<AnswerSample> samples_;
  std::vector<std::size_t> first_frame_;  // of each sample
  std::vector<std::uint64_t> frames_;
};

}  // namespace flight
