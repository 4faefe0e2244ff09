// SPDX-License-Identifier: Apache-2.0
// Which flightd this is. In a file of its own, so that another version compiles one file anew.
#pragma once

#include <string_view>

namespace flight {

// As meson.build has it: "0.1.0". Ends with a NUL. Any thread.
extern const std::string_view kVersion;

}  // namespace flight
