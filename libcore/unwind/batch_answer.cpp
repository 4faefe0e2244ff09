// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/batch_answer.hpp"

#include <cstring>
#include <string_view>

namespace flight {

Result<BatchAnswer> BatchAnswer::parse(std::span<const std::byte> bytes, std::uint32_t samples) {
  const auto refused = [](std::string_view why) {
    return fail(std::errc::bad_message, "the unwinder's answer: {}", why);
  };
  AnswerHeader header;
  if (samples > kMaxBatchSamples || bytes.size() > most_answer_bytes(samples) || bytes.size() < sizeof header)
    return refused("its size is wrong");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kAnswerMagic || header.version != kBatchVersion) return refused("it is of another version");
  const std::size_t frames_at = sizeof header + samples * sizeof(AnswerSample);
  if (header.samples != samples || bytes.size() < frames_at || header.frames != (bytes.size() - frames_at) / 8 ||
      bytes.size() % 8 != 0)
    return refused("its parts do not fit");
  BatchAnswer out;
  out.samples_.resize(samples);
  if (samples > 0) std::memcpy(out.samples_.data(), bytes.data() + sizeof header, samples * sizeof(AnswerSample));
  out.frames_.resize(static_cast<std::size_t>(header.frames));
  if (!out.frames_.empty()) std::memcpy(out.frames_.data(), bytes.data() + frames_at, 8 * out.frames_.size());
  std::size_t next = 0;
  for (const AnswerSample& sample : out.samples_) {
    if (sample.status > static_cast<std::uint32_t>(UnwindStatus::too_deep)) return refused("it has an unknown status");
    if (sample.frames > kMaxUnwoundFrames || sample.frames > out.frames_.size() - next)
      return refused("a stack has too many frames");
    out.first_frame_.push_back(next);
    next += sample.frames;
  }
  if (next != out.frames_.size()) return refused("it has frames of no sample");
  return out;
}

BatchAnswer::Chain BatchAnswer::chain(std::uint32_t number, std::uint64_t pc,
                                      const std::function<bool(std::uint64_t)>& is_code) const {
  if (number >= samples_.size()) return {};
  const AnswerSample& sample = samples_[number];
  const auto pcs = std::span(frames_).subspan(first_frame_[number], sample.frames);
  if (pcs.empty() || pcs.front() != pc) return {};
  Chain out{.status = static_cast<UnwindStatus>(sample.status), .stopped_at = sample.stopped_at, .pcs = {pc}};
  for (const std::uint64_t caller : pcs.subspan(1))
    if (is_code(caller) || (caller != 0 && is_code(caller - 1)))
      out.pcs.push_back(caller);
    else
      ++out.refused;
  return out;
}

}  // namespace flight
