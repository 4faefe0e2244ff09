// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/unwind/deep_calls.hpp"

#include <alloca.h>

#include <cmath>
#include <cstdlib>
#include <ctime>

namespace flight::test {
namespace {

struct Bottom {
  AtBottom at_bottom;
  void* context;
};
thread_local Bottom bottom;

[[gnu::noinline]] std::uint64_t plain(unsigned depth, std::uint64_t seed);

int compare(const void* a, const void* b) {
  if (bottom.at_bottom != nullptr) {
    const Bottom once = bottom;
    bottom.at_bottom = nullptr;
    once.at_bottom(once.context);
  }
  return static_cast<int>(*static_cast<const char*>(a)) - *static_cast<const char*>(b);
}

[[gnu::noinline]] std::uint64_t sorted(std::uint64_t seed) {
  char letters[4] = {'d', 'b', static_cast<char>(seed), 'a'};
  std::qsort(letters, sizeof letters, 1, compare);
  return static_cast<std::uint64_t>(letters[0]) + seed;
}

[[gnu::noinline]] std::uint64_t realigned(unsigned depth, std::uint64_t seed) {
  alignas(64) volatile std::uint64_t block[16];
  for (unsigned i = 0; i < 16; ++i) block[i] = seed + i;
  const std::uint64_t below = plain(depth - 1, block[seed % 16]);
  return below + block[below % 16];
}

[[gnu::noinline]] std::uint64_t variable(unsigned depth, std::uint64_t seed) {
  auto* bytes = static_cast<volatile unsigned char*>(alloca(16 + seed % 64));
  bytes[seed % 16] = static_cast<unsigned char>(seed);
  return plain(depth - 1, seed + 1) + bytes[seed % 16];
}

[[gnu::noinline]] std::uint64_t many(unsigned depth, std::uint64_t seed) {
  const std::uint64_t a = seed * 3, b = seed ^ 5, c = seed + 7, d = seed * 11, e = seed - 13, f = seed * 17;
  const std::uint64_t below = plain(depth - 1, a ^ b ^ c);
  return (below ^ a) + (below ^ b) + (below ^ c) + (below ^ d) + (below ^ e) + (below ^ f);
}

[[gnu::noinline]] std::uint64_t plain(unsigned depth, std::uint64_t seed) {
  if (depth == 0) return sorted(seed);
  switch (depth % 4) {
    case 0:
      return realigned(depth, seed) * 3;
    case 1:
      return variable(depth, seed) * 5;
    case 2:
      return many(depth, seed) * 7;
    default:
      return plain(depth - 1, seed * 9) + 1;
  }
}

[[gnu::noinline]] double leaf(double value, unsigned rounds) {
  for (unsigned i = 0; i < rounds; ++i) value = value * 0.99 + 1.0;
  return value;
}

}  // namespace

std::uint64_t call_deep(unsigned depth, AtBottom at_bottom, void* context) {
  bottom = {at_bottom, context};
  return plain(depth, depth) + 1;
}

std::chrono::nanoseconds thread_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

double compute(unsigned milliseconds) {
  const auto end = thread_time() + std::chrono::milliseconds(milliseconds);
  double value = 1;
  while (thread_time() < end) {
    for (int i = 0; i < 100; ++i) value = leaf(value, 50) + std::fmod(value, 3.7);
  }
  return value;
}

}  // namespace flight::test
