// SPDX-License-Identifier: Apache-2.0
// flightd's side of a batch (batch.hpp): writes samples into the shared memory until it is full. The copies of stacks
// go there and nowhere else; whoever owns the memory wipes it after the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libcore/unwind/batch.hpp"
#include "libcore/unwind/machine.hpp"

namespace flight {

class BatchWriter {
 public:
  struct Sample {
    std::uint32_t space = 0;
    std::span<const std::byte> registers;  // of PERF_SAMPLE_REGS_USER
    std::span<const std::byte> kernel;     // the program's part of the callchain, u64 each, innermost first
    std::span<const std::byte> stack;      // the valid bytes of PERF_SAMPLE_STACK_USER
    std::uint32_t most_frames = kMaxUnwoundFrames;
  };

  // `memory` is borrowed; of it at most kMaxBatchBytes are used. `register_mask`: attr.sample_regs_user. `code_mask`:
  // as for Unwinder. `tables`: how many come with the batch.
  BatchWriter(std::span<std::byte> memory, Machine machine, std::uint64_t register_mask, std::uint64_t code_mask,
              std::uint32_t tables);

  // The executable mappings of a process at one time, in the order in which they were made: where two overlap, the
  // later one counts. Returns the space's number. nullopt: the batch is full, or there are more than kMaxCodeMappings.
  [[nodiscard]] std::optional<std::uint32_t> add_space(std::span<const BatchMapping> mappings);
  // False: the batch is full, or the sample's parts have other sizes than the batch allows.
  [[nodiscard]] bool add_sample(const Sample& sample);
  [[nodiscard]] std::size_t samples() const { return samples_.size(); }
  // Completes it. The batch: the part of the memory that was used. Add nothing after it.
  [[nodiscard]] std::span<const std::byte> finish();

 private:
  [[nodiscard]] bool fits(std::size_t more) const;
  void put_data(std::span<const std::byte> bytes);

  std::span<std::byte> memory_;
  BatchHeader header_;
  std::vector<BatchMapping> mappings_;
  std::vector<BatchSample> samples_;
  std::vector<std::uint32_t> spaces_;
};

}  // namespace flight
