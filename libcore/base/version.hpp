// SPDX-License-Identifier: Apache-2.0
// The version of flightd, in a separate file, so that a new version recompiles only one file.
#pragma once

#include <string_view>

namespace flight {

// From meson.build, for example "0.2.0". Ends with a NUL. Any thread.
extern const std::string_view kVersion;

}  // namespace flight
