// SPDX-License-Identifier: Apache-2.0
// What flightd asks of the unwinder and what it gets: many samples at once, in memory that both have mapped.
//
//   batch    BatchHeader │ data │ M × BatchMapping │ N × BatchSample │ S × u32: how many of the mappings each space has
//   data     of each sample, from a multiple of 8 on: its registers, the program's part of the kernel's callchain (u64
//            each), the copied stack
//   answer   AnswerHeader │ N × AnswerSample │ the frames of all samples, one after the other (u64 each)
//
// A space is the code of one process at one time. Tables come beside the batch; a mapping has the number of its own.
// Both sides are of one machine and one build, so numbers are as they are in memory. Neither side believes the other:
// flightd is attacked through its clients, the unwinder by the samples and the tables. Each reads every number once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "libcore/unwind/unwinder.hpp"

namespace flight {

inline constexpr std::array<char, 8> kBatchMagic = {'F', 'L', 'S', 'T', 'A', 'C', 'K', 'S'};
inline constexpr std::array<char, 8> kAnswerMagic = {'F', 'L', 'C', 'H', 'A', 'I', 'N', 'S'};
inline constexpr std::uint32_t kBatchVersion = 1;

inline constexpr std::size_t kMaxBatchBytes = 64U << 20U;
inline constexpr std::uint32_t kMaxBatchSamples = 4096, kMaxBatchSpaces = 4096, kMaxBatchTables = 8192;
inline constexpr std::uint32_t kMaxBatchMappings = 4 * kMaxCodeMappings;  // of all spaces
inline constexpr std::uint32_t kMaxKernelFrames = 8192;                   // a sample has less than 64 KiB
inline constexpr std::uint32_t kNoBatchTable = 0xffffffff;

struct BatchHeader {
  std::array<char, 8> magic = kBatchMagic;
  std::uint32_t version = kBatchVersion;
  std::uint16_t machine = 0, reserved = 0;
  std::uint64_t register_mask = 0;  // sample_regs_user of all samples
  std::uint64_t code_mask = 0;      // as for Unwinder
  std::uint64_t data_bytes = 0;     // a multiple of 8
  std::uint32_t mappings = 0, samples = 0, spaces = 0, tables = 0;
};
static_assert(sizeof(BatchHeader) == 56);

struct BatchMapping {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t file_offset = 0;        // of `begin`
  std::uint32_t table = kNoBatchTable;  // kNoBatchTable: JIT code, or a file without a table yet
  std::uint32_t is_file = 0;
};
static_assert(sizeof(BatchMapping) == 32);

struct BatchSample {
  std::uint64_t data_at = 0;  // from the beginning of the data
  std::uint32_t space = 0;
  std::uint32_t kernel_frames = 0, stack_bytes = 0;
  std::uint32_t most_frames = 0;  // that are wanted
};
static_assert(sizeof(BatchSample) == 24);

struct AnswerHeader {
  std::array<char, 8> magic = kAnswerMagic;
  std::uint32_t version = kBatchVersion;
  std::uint32_t samples = 0;
  std::uint64_t frames = 0;  // of all samples
};
static_assert(sizeof(AnswerHeader) == 24);

struct AnswerSample {
  std::uint64_t stopped_at = 0;
  std::uint32_t frames = 0, frame_pointer_steps = 0;
  std::uint32_t status = 0;  // UnwindStatus
  std::uint32_t reserved = 0;
};
static_assert(sizeof(AnswerSample) == 24);

// Enough for the answer to a batch of so many samples.
[[nodiscard]] constexpr std::size_t most_answer_bytes(std::size_t samples) {
  return sizeof(AnswerHeader) + samples * (sizeof(AnswerSample) + kMaxUnwoundFrames * sizeof(std::uint64_t));
}

[[nodiscard]] constexpr std::size_t padded_to_8(std::size_t bytes) { return (bytes + 7) & ~std::size_t{7}; }

}  // namespace flight
