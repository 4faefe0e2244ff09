// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/change.hpp"

#include <gtest/gtest.h>

#include <random>

namespace flight {
namespace {

constexpr std::uint64_t kPeriodNs = 10'000'000;

StackValues of_samples(std::uint64_t before, std::uint64_t now) {
  return {.all = {.samples = before + now, .weight = (before + now) * kPeriodNs},
          .before = {.samples = before, .weight = before * kPeriodNs},
          .now = {.samples = now, .weight = now * kPeriodNs}};
}

StackScales over(double before_seconds, double now_seconds) {
  return {.now = 1e-9 / now_seconds, .before = 1e-9 / before_seconds};
}

TEST(Change, IsInCpusWhateverTheStretches) {
  EXPECT_NEAR(change_of(of_samples(1000, 400), over(10, 4)), 0, 1e-9);
  EXPECT_NEAR(change_of(of_samples(1000, 400), over(10, 2)), 1, 1e-9);
  EXPECT_NEAR(change_of(of_samples(200, 0), over(10, 2)), -0.2, 1e-9);
}

// 4 * sqrt(n1 / T1^2 + n2 / T2^2) samples a second, each of 0.01 CPUs.
TEST(Change, IsNoiseBelowFourDeviations) {
  const StackScales scales = over(10, 5);
  // 100 in 10 s and 150 in 5 s: 0.2 CPUs more, and four deviations are 0.106.
  EXPECT_FALSE(is_noise(of_samples(100, 150), scales));
  // 100 and 80: 0.06 more, of 0.082.
  EXPECT_TRUE(is_noise(of_samples(100, 80), scales));
  EXPECT_TRUE(is_noise(of_samples(100, 30), scales));
  // 100 and 10: 0.08 less, of 0.047.
  EXPECT_FALSE(is_noise(of_samples(100, 10), scales));
}

TEST(Change, ALittleIsAlwaysNoise) {
  const StackScales scales = over(1000, 1000);
  EXPECT_TRUE(is_noise(of_samples(0, 1900), scales)) << "0.019 CPUs";
  EXPECT_FALSE(is_noise(of_samples(0, 2100), scales)) << "0.021 CPUs";
  EXPECT_TRUE(is_noise(of_samples(0, 0), scales));
  EXPECT_TRUE(is_noise(of_samples(5, 5), {.now = 0, .before = 0}));
}

// The same load twice, of many paths, in stretches of unequal length.
TEST(Change, TheSameLoadIsNoise) {
  std::mt19937 random(7);
  int changed = 0;
  for (int path = 0; path < 5000; ++path) {
    const double rate = std::uniform_real_distribution<>(1, 400)(random);
    std::poisson_distribution<std::uint64_t> before(rate * 3), now(rate);
    if (!is_noise(of_samples(before(random), now(random)), over(3, 1))) ++changed;
  }
  EXPECT_LE(changed, 8) << "one or two are to be expected, as few samples have no normal distribution";
}

}  // namespace
}  // namespace flight
