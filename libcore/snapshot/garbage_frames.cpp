// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/garbage_frames.hpp"

#include <linux/perf_event.h>

#include <cstring>

#include "libcore/perf/sample_parts.hpp"

namespace flight {
namespace {

constexpr auto kFirstContext = static_cast<std::uint64_t>(PERF_CONTEXT_MAX);  // from here on they are no addresses
constexpr auto kUserContext = static_cast<std::uint64_t>(PERF_CONTEXT_USER);

// The address behind a call; of a function that does not return, it can be the first one behind the mapping.
bool is_caller(CodeCache& code, std::size_t memory, std::uint64_t address) {
  const CodeStretch here = code.stretch_of(memory, address);
  return here.code || (address == here.first && address != 0 && code.stretch_of(memory, address - 1).code);
}

// Calls `visit(address, caller)` for each entry; `caller`: of a program, and not its first address.
template <typename Visit>
void for_each_frame(std::span<const std::byte> record, std::size_t chain, std::size_t frames, const Visit& visit) {
  bool user = false, first = false;
  for (std::size_t i = 0; i < frames; ++i) {
    const auto address = load<std::uint64_t>(record.data() + chain + 8 * i);
    const bool context = address >= kFirstContext;
    if (context) user = first = address == kUserContext;
    visit(address, user && !context && !first);
    if (!context) first = false;
  }
}

}  // namespace

GarbageFrames::GarbageFrames(const EventTable& events, const MappedCode* code) {
  if (code == nullptr) return;
  for (std::size_t i = 0; i < events.size(); ++i) {
    layouts_.push_back(RecordLayout::of(events.layout(i).sample_type & ~kUserCopies));
    any_ = any_ || (layouts_.back().sample_type & PERF_SAMPLE_CALLCHAIN) != 0;
  }
  if (!any_) return;
  code_.emplace(*code);
  shorter_.resize(kMaxRecordBytes);
}

std::span<const std::byte> GarbageFrames::drop(std::span<const std::byte> record, const std::optional<RecordKey>& key) {
  if (!any_ || !key || record.size() < kRecordHeaderBytes || record.size() > shorter_.size()) return record;
  if (load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE) return record;
  const RecordLayout& layout = layouts_[key->event];
  if ((layout.sample_type & PERF_SAMPLE_CALLCHAIN) == 0 || layout.tid < 0) return record;
  const auto parts = sample_parts(record, layout);
  if (!parts) return record;
  const auto frames = static_cast<std::size_t>(parts->frames);
  std::uint64_t callers = 0;
  for_each_frame(record, parts->chain, frames, [&](std::uint64_t, bool caller) { callers += caller ? 1 : 0; });
  if (callers == 0) return record;
  const auto pid = load<std::uint32_t>(record.data() + layout.tid);
  const std::size_t memory = code_->memory_of(pid, key->time_ns);
  if (memory == MappedCode::kUnknown) {
    ++stacks_.unchecked;
    return record;
  }
  ++stacks_.checked;
  stacks_.callers += callers;
  return without_garbage(record, parts->chain, frames, memory);
}

std::span<const std::byte> GarbageFrames::without_garbage(std::span<const std::byte> record, std::size_t chain,
                                                          std::size_t frames, std::size_t memory) {
  std::size_t end = chain;  // of the frames that are kept, in shorter_
  for_each_frame(record, chain, frames, [&](std::uint64_t address, bool caller) {
    if (caller && !is_caller(*code_, memory, address)) return;
    std::memcpy(shorter_.data() + end, &address, sizeof address);
    end += sizeof address;
  });
  const std::size_t old_end = chain + 8 * frames;
  if (end == old_end) return record;
  const std::uint64_t kept = (end - chain) / 8;
  stacks_.garbage_frames += frames - kept;
  const auto rest = record.subspan(old_end);
  const std::size_t size = end + rest.size();
  auto header = load<perf_event_header>(record.data());
  header.size = static_cast<__u16>(size);
  std::memcpy(shorter_.data(), record.data(), chain - 8);
  std::memcpy(shorter_.data(), &header, sizeof header);
  std::memcpy(shorter_.data() + chain - 8, &kept, sizeof kept);
  std::memcpy(shorter_.data() + end, rest.data(), rest.size());
  return std::span(shorter_).first(size);
}

}  // namespace flight
