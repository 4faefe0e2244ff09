// SPDX-License-Identifier: Apache-2.0
// A name as it is written into an export: printable(), and not longer than viewers bear.
#pragma once

#include <string>
#include <string_view>

namespace flight {

inline constexpr std::size_t kMostExportedBytes = 1024;

[[nodiscard]] std::string exported_name(std::string_view name);

}  // namespace flight
