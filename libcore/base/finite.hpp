// SPDX-License-Identifier: Apache-2.0
// Numbers for JSON, and for texts that are made of numbers in JSON: what was computed can be infinite or no number, for
// instance after a division by 0.
#pragma once

#include <cmath>

namespace flight {

// JSON has no infinity and no NaN, and many readers cannot handle null instead of a number.
[[nodiscard]] inline double finite(double value) { return std::isfinite(value) ? value : 0; }

}  // namespace flight
