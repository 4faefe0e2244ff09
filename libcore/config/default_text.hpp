// SPDX-License-Identifier: Apache-2.0
// The built-in texts of config/flightd.json and of its profile. They apply if no file exists, so that flightd records
// even without /usr/lib.
#pragma once

#include <string_view>

namespace flight {

inline constexpr const char* kBuiltInName = "built-in default";
[[nodiscard]] std::string_view built_in_config();
[[nodiscard]] std::string_view built_in_profile();  // config/profiles/default.json

}  // namespace flight
