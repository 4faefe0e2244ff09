// SPDX-License-Identifier: Apache-2.0
// The change of a value from before to now, and whether it is noise: a sample is a matter of chance, so that the same
// load has other values each time. Both stretches of time may have any length.
#pragma once

#include "libcore/profile/stack_tree.hpp"

namespace flight {

// The value of a unit of weight: 1 / ns of the stretch for CPUs, 1 / weight of all for shares.
struct StackScales {
  double now = 1, before = 1;
};

// In CPUs, or as a part of all: this much is always noise.
inline constexpr double kNoiseLeast = 0.02;
// In standard deviations of the change. One in 16,000 is larger by chance.
inline constexpr double kNoiseDeviations = 4;

[[nodiscard]] double change_of(const StackValues& values, const StackScales& scales);

// The change is below kNoiseLeast, or below kNoiseDeviations. With samples of the same weight that is
// |n1/T1 - n2/T2| < 4 * sqrt(n1/T1^2 + n2/T2^2), in samples n and the time T that they stand for.
[[nodiscard]] bool is_noise(const StackValues& values, const StackScales& scales);

}  // namespace flight
