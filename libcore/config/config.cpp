// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/config.hpp"

namespace flight {

std::string_view to_string(CaptureMode mode) { return mode == CaptureMode::live ? "live" : "pause"; }

bool same_trigger(TriggerConfig one, const TriggerConfig& other) {
  one.shipped = other.shipped;
  one.place = other.place;
  return one == other;
}

}  // namespace flight
