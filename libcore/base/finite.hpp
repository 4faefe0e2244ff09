// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

namespace flight {

// JSON has no infinity and no NaN, and many readers cannot handle null instead of a number.
[[nodiscard]] inline double finite(double value) { return std::isfinite(value) ? value : 0; }

}  // namespace flight
