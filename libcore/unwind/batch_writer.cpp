// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/batch_writer.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace flight {

BatchWriter::BatchWriter(std::span<std::byte> memory, Machine machine, std::uint64_t register_mask,
                         std::uint64_t code_mask, std::uint32_t tables)
    : memory_(memory.first(std::min(memory.size(), kMaxBatchBytes))) {
  assert(memory.size() >= sizeof(BatchHeader) && tables <= kMaxBatchTables);
  header_.machine = static_cast<std::uint16_t>(machine);
  header_.register_mask = register_mask;
  header_.code_mask = code_mask;
  header_.tables = tables;
}

bool BatchWriter::fits(std::size_t more) const {
  const std::size_t used = sizeof(BatchHeader) + static_cast<std::size_t>(header_.data_bytes) +
                           mappings_.size() * sizeof(BatchMapping) + samples_.size() * sizeof(BatchSample) +
                           spaces_.size() * sizeof(std::uint32_t);
  return more <= memory_.size() - used;
}

std::optional<std::uint32_t> BatchWriter::add_space(std::span<const BatchMapping> mappings) {
  if (mappings.size() > kMaxCodeMappings || mappings.size() > kMaxBatchMappings - mappings_.size()) return std::nullopt;
  if (spaces_.size() == kMaxBatchSpaces || !fits(mappings.size_bytes() + sizeof(std::uint32_t))) return std::nullopt;
  mappings_.insert(mappings_.end(), mappings.begin(), mappings.end());
  spaces_.push_back(static_cast<std::uint32_t>(mappings.size()));
  return static_cast<std::uint32_t>(spaces_.size() - 1);
}

void BatchWriter::put_data(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  std::byte* const at = memory_.data() + sizeof(BatchHeader) + header_.data_bytes;
  std::memcpy(at, bytes.data(), bytes.size());
  std::memset(at + bytes.size(), 0, padded_to_8(bytes.size()) - bytes.size());
  header_.data_bytes += padded_to_8(bytes.size());
}

bool BatchWriter::add_sample(const Sample& sample) {
  const std::size_t register_bytes = 8 * static_cast<std::size_t>(std::popcount(header_.register_mask));
  const std::size_t kernel_frames = sample.kernel.size() / 8;
  const bool allowed = sample.space < spaces_.size() && sample.registers.size() == register_bytes &&
                       sample.kernel.size() % 8 == 0 && kernel_frames <= kMaxKernelFrames;
  if (!allowed || samples_.size() == kMaxBatchSamples || sample.stack.size() > kMaxBatchBytes) return false;
  if (!fits(sizeof(BatchSample) + register_bytes + sample.kernel.size() + padded_to_8(sample.stack.size())))
    return false;
  samples_.push_back({.data_at = header_.data_bytes,
                      .space = sample.space,
                      .kernel_frames = static_cast<std::uint32_t>(kernel_frames),
                      .stack_bytes = static_cast<std::uint32_t>(sample.stack.size()),
                      .most_frames = sample.most_frames});
  put_data(sample.registers);
  put_data(sample.kernel);
  put_data(sample.stack);
  return true;
}

std::span<const std::byte> BatchWriter::finish() {
  std::size_t at = sizeof(BatchHeader) + static_cast<std::size_t>(header_.data_bytes);
  const auto put = [&](std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(memory_.data() + at, bytes.data(), bytes.size());
    at += bytes.size();
  };
  put(std::as_bytes(std::span(mappings_)));
  put(std::as_bytes(std::span(samples_)));
  put(std::as_bytes(std::span(spaces_)));
  header_.mappings = static_cast<std::uint32_t>(mappings_.size());
  header_.samples = static_cast<std::uint32_t>(samples_.size());
  header_.spaces = static_cast<std::uint32_t>(spaces_.size());
  std::memcpy(memory_.data(), &header_, sizeof header_);
  return memory_.first(at);
}

}  // namespace flight
