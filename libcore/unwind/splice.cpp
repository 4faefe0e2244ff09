// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/splice.hpp"

#include <algorithm>

namespace flight {
namespace {

// The number of equal frames before both ends, the last ones included.
std::size_t agreement(std::span<const std::uint64_t> ours, std::span<const std::uint64_t> theirs) {
  const std::size_t most = std::min(ours.size(), theirs.size());
  std::size_t equal = 0;
  while (equal < most && ours[ours.size() - 1 - equal] == theirs[theirs.size() - 1 - equal]) ++equal;
  return equal;
}

}  // namespace

void splice(Unwound& unwound, std::span<std::uint64_t> pcs, std::span<const std::uint64_t> kernel,
            const CodeMap& code) {
  if (unwound.status != UnwindStatus::truncated || unwound.frames == 0 || unwound.frames > pcs.size()) return;
  // The kernel's limit is kernel.perf_event_max_stack; frames beyond ours are ignored.
  kernel = kernel.first(std::min(kernel.size(), 4 * kMaxUnwoundFrames));
  std::size_t best = 0, best_agreement = 0;
  for (std::size_t end = 1; end <= kernel.size(); ++end) {
    const std::size_t equal = agreement(pcs.first(unwound.frames), kernel.first(end));
    if (equal > best_agreement) {
      best = end;
      best_agreement = equal;
    }
  }
  if (best_agreement == 0) return;
  const std::uint32_t frames_before = unwound.frames;
  for (const std::uint64_t pc : kernel.subspan(best)) {
    if (unwound.frames == pcs.size()) break;
    if (code.find(pc - 1) != nullptr) pcs[unwound.frames++] = pc;
  }
  if (unwound.frames == frames_before) return;
  unwound.status = UnwindStatus::spliced;
  unwound.stopped_at = pcs[unwound.frames - 1];
}

}  // namespace flight
