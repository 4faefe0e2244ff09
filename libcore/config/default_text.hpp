// SPDX-License-Identifier: Apache-2.0
// The texts of config/flightd.json and of the profile that it names, built in: what holds where no file is, so that a
// lost /usr/lib still records.
#pragma once

#include <string_view>

namespace flight {

inline constexpr const char* kBuiltInName = "built-in default";
[[nodiscard]] std::string_view built_in_config();
[[nodiscard]] std::string_view built_in_profile();  // config/profiles/default.json

}  // namespace flight
