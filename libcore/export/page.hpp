// SPDX-License-Identifier: Apache-2.0
// One HTML file that shows a snapshot, or two that are compared: viewer/dist/page.html with the profile in it. Nothing
// of a snapshot stands in it but as base64, so that no name of a process or a file can become HTML.
#pragma once

#include <span>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/export/page_payload.hpp"

namespace flight {

// One side, or two: now and before. `write` is called with some KiB at a time.
[[nodiscard]] Result<void> write_page(std::span<const PageSide> sides, const WritePage& write);

// viewer/dist/page.html, and what write_page() replaces in it.
[[nodiscard]] std::string_view page_html();
inline constexpr std::string_view kPagePayload = "%PAYLOAD%";

}  // namespace flight
