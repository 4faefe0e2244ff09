// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/config.hpp"

namespace flight {

std::string_view to_string(CaptureMode mode) { return mode == CaptureMode::live ? "live" : "pause"; }

}  // namespace flight
