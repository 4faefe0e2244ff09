// SPDX-License-Identifier: Apache-2.0
// The findings of `flightctl doctor` as text: one line each, "warn  psi: off (…). To do: …", and at the end their
// number.
#pragma once

#include <string>

#include "ctl/doctor/assess.hpp"
#include "ctl/screen.hpp"

namespace flight::ctl {

// `wrapped`: for the width of the screen; otherwise each finding is one line, for scripts.
[[nodiscard]] std::string doctor_page(const Findings& findings, const Screen& screen, bool wrapped);
// What of it fits into `most` lines: the worst first, of the notes only what was found and what to do; of those that
// have no room only the names, and of those that are ok only the number.
[[nodiscard]] std::string doctor_brief(const Findings& findings, const Screen& screen, std::size_t most);

}  // namespace flight::ctl
