// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/change.hpp"

#include <algorithm>
#include <cmath>

namespace flight {
namespace {

// The number of samples has the variance of a Poisson distribution, which is the number itself.
double variance_of(const StackValue& value, double scale) {
  if (value.samples == 0) return 0;
  const double scaled = static_cast<double>(value.weight) * scale;
  return scaled * scaled / static_cast<double>(value.samples);
}

}  // namespace

double change_of(const StackValues& values, const StackScales& scales) {
  return static_cast<double>(values.now.weight) * scales.now -
         static_cast<double>(values.before.weight) * scales.before;
}

bool is_noise(const StackValues& values, const StackScales& scales) {
  const double deviation = std::sqrt(variance_of(values.now, scales.now) + variance_of(values.before, scales.before));
  return std::abs(change_of(values, scales)) < std::max(kNoiseLeast, kNoiseDeviations * deviation);
}

}  // namespace flight
