// SPDX-License-Identifier: Apache-2.0
// The text of config/flightd.json, built in: what holds where no file is, so that a lost /usr/lib still records.
#pragma once

#include <string_view>

namespace flight {

inline constexpr const char* kBuiltInName = "built-in default";
[[nodiscard]] std::string_view built_in_config();

}  // namespace flight
