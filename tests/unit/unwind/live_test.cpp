// SPDX-License-Identifier: Apache-2.0
// Real samples of this thread deep in calls without frame pointers: each unwind reaches the entry, and has the frames
// that backtrace(3) and libdwfl find.
#include <execinfo.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <thread>

#include "libcore/unwind/splice.hpp"
#include "libcore/unwind/unwinder.hpp"
#include "tests/unit/unwind/deep_calls.hpp"
#include "tests/unit/unwind/libdwfl.hpp"
#include "tests/unit/unwind/live_samples.hpp"

namespace flight::test {
namespace {

using Pcs = std::vector<std::uint64_t>;

struct Bottom {
  const LiveSamples* samples = nullptr;
  Pcs callers;  // of the function at the bottom, by backtrace(3)
};

// Its own frame differs in each sample; its callers do not. A sanitizer's backtrace() puts a frame of its own before
// them.
[[gnu::noinline]] void at_bottom(void* context) {
  auto& bottom = *static_cast<Bottom*>(context);
  void* addresses[200];
  const int count = ::backtrace(addresses, 200);
  void* const* const first = std::find(addresses, addresses + count, __builtin_return_address(0));
  for (void* const* i = first; i != addresses + count; ++i)
    bottom.callers.push_back(reinterpret_cast<std::uint64_t>(*i));
  bottom.samples->enable(true);
  static_cast<void>(compute(200));
  bottom.samples->enable(false);
}

Unwound unwind(Unwinder& unwinder, const LiveSample& sample, const CodeMap& map, Pcs& pcs) {
  pcs.assign(kMaxUnwoundFrames, 0);
  const Unwound unwound = unwinder.unwind(sample.registers, sample.copy(), map, pcs);
  pcs.resize(unwound.frames);
  return unwound;
}

std::string text_of(const Pcs& pcs) {
  std::string text;
  for (const std::uint64_t pc : pcs) text += fmt::format(" {:x}", pc);
  return text;
}

bool ends_with(const Pcs& pcs, const Pcs& end) {
  return pcs.size() >= end.size() && std::equal(end.rbegin(), end.rend(), pcs.rbegin());
}

// libdw ignores that an epilogue has popped a register, and stops where the register is needed.
void expect_same(const Pcs& ours, const Pcs& theirs) {
  EXPECT_TRUE(ours.size() >= theirs.size() && std::equal(theirs.begin(), theirs.end(), ours.begin()))
      << "ours  " << text_of(ours) << "\ntheirs" << text_of(theirs);
}

// Samples at the bottom: all complete, all with the callers that backtrace(3) found, all equal to libdwfl's.
void expect_whole(const LiveSamples& samples, const Bottom& bottom) {
  const ProcessCode code;
  Unwinder unwinder(kThisMachine);
  Libdwfl libdwfl;
  const auto taken = samples.take();
  EXPECT_GE(taken.size(), 20U);
  std::size_t inside = 0, equal = 0;
  for (const LiveSample& sample : taken) {
    Pcs pcs;
    const Unwound unwound = unwind(unwinder, sample, code.map(), pcs);
    ASSERT_EQ(unwound.status, UnwindStatus::complete) << text_of(pcs);
    inside += ends_with(pcs, bottom.callers) ? 1 : 0;
    const Pcs theirs = libdwfl.unwind(sample);
    expect_same(pcs, theirs);
    equal += pcs == theirs ? 1 : 0;
  }
  EXPECT_GE(equal * 10, taken.size() * 9);
  // Some lie in enable(), before or after the frames of the bottom.
  EXPECT_GE(inside + 2, taken.size());
}

TEST(LiveUnwind, DeepCallsReachTheEntry) {
  const LiveSamples samples(32768);
  if (!samples.why_not().empty()) GTEST_SKIP() << samples.why_not();
  Bottom bottom{&samples, {}};
  static_cast<void>(call_deep(40, at_bottom, &bottom));
  EXPECT_GT(bottom.callers.size(), 60U);
  expect_whole(samples, bottom);
}

TEST(LiveUnwind, AThreadsStackReachesItsEntry) {
  std::string why_not;
  std::thread([&] {
    const LiveSamples samples(32768);
    why_not = samples.why_not();
    if (!why_not.empty()) return;
    Bottom bottom{&samples, {}};
    static_cast<void>(call_deep(20, at_bottom, &bottom));
    expect_whole(samples, bottom);
  }).join();
  if (!why_not.empty()) GTEST_SKIP() << why_not;
}

Bottom* signals_bottom;
void on_signal(int /*number*/) { at_bottom(signals_bottom); }
void raise_signal(void* /*context*/) { static_cast<void>(::raise(SIGUSR2)); }

TEST(LiveUnwind, ThroughASignalsFrame) {
  const LiveSamples samples(32768);
  if (!samples.why_not().empty()) GTEST_SKIP() << samples.why_not();
  Bottom bottom{&samples, {}};
  signals_bottom = &bottom;
  struct sigaction action {};
  action.sa_handler = on_signal;
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR2, &action, &before), 0);
  static_cast<void>(call_deep(20, raise_signal, nullptr));
  ASSERT_EQ(::sigaction(SIGUSR2, &before, nullptr), 0);
  EXPECT_GT(bottom.callers.size(), 20U);
  expect_whole(samples, bottom);
}

// Samples anywhere in the calls: prologues, epilogues, libc.
TEST(LiveUnwind, AgreesWithLibdwflEverywhere) {
  const LiveSamples samples(32768, 200'000);
  const auto unwinder =
      std::make_unique<Unwinder>(kThisMachine);  // on the heap: larger than the copied part of the stack
  if (!samples.why_not().empty()) GTEST_SKIP() << samples.why_not();
  samples.enable(true);
  const auto end = thread_time() + std::chrono::milliseconds(300);
  const auto nothing = [](void*) {};
  for (unsigned depth = 1; thread_time() < end; depth = depth % 40 + 1) {
    static_cast<void>(call_deep(depth, nothing, nullptr));
    static_cast<void>(std::to_string(static_cast<double>(depth) / 7));
  }
  samples.enable(false);
  const ProcessCode code;
  Libdwfl libdwfl;
  std::size_t equal = 0, count = 0;
  for (const LiveSample& sample : samples.take()) {
    Pcs pcs;
    EXPECT_EQ(unwind(*unwinder, sample, code.map(), pcs).status, UnwindStatus::complete) << text_of(pcs);
    const Pcs theirs = libdwfl.unwind(sample);
    equal += pcs == theirs ? 1 : 0;
    expect_same(pcs, theirs);
    ++count;
  }
  EXPECT_GE(count, 100U);
  EXPECT_GE(equal * 10, count * 8);
  std::printf("%zu of %zu samples are equal\n", equal, count);
}

TEST(LiveUnwind, ATruncatedStackGivesTheInnermostFrames) {
  const LiveSamples samples(32768);
  if (!samples.why_not().empty()) GTEST_SKIP() << samples.why_not();
  Bottom bottom{&samples, {}};
  static_cast<void>(call_deep(40, at_bottom, &bottom));
  const ProcessCode code;
  Unwinder unwinder(kThisMachine);
  auto taken = samples.take();
  ASSERT_FALSE(taken.empty());
  for (LiveSample& sample : taken) {
    Pcs whole;
    static_cast<void>(unwind(unwinder, sample, code.map(), whole));
    Pcs before;
    for (const std::size_t bytes : {0U, 8U, 100U, 1000U, 2000U, 3000U}) {
      LiveSample cut = sample;
      cut.stack.resize(std::min(bytes, cut.stack.size()));
      Pcs pcs;
      const Unwound unwound = unwind(unwinder, cut, code.map(), pcs);
      ASSERT_EQ(unwound.status, UnwindStatus::truncated) << bytes;
      ASSERT_LT(pcs.size(), whole.size());
      ASSERT_TRUE(std::equal(pcs.begin(), pcs.end(), whole.begin()));
      ASSERT_GE(pcs.size(), before.size());
      before = pcs;

      // The deeper frames, from a walk that sees the whole stack.
      Unwound spliced_unwound = unwound;
      pcs.resize(kMaxUnwoundFrames);
      splice(spliced_unwound, pcs, whole, code.map());
      pcs.resize(spliced_unwound.frames);
      ASSERT_EQ(spliced_unwound.status, UnwindStatus::spliced);
      ASSERT_EQ(pcs, whole);
    }
  }
}

}  // namespace
}  // namespace flight::test
