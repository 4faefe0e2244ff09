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
// The same page, shortened to `most` lines, the worst findings first. A note is shortened to the finding and the
// advice. Findings that do not fit are listed by name. Findings that are ok are only counted.
[[nodiscard]] std::string doctor_brief(const Findings& findings, const Screen& screen, std::size_t most);

}  // namespace flight::ctl
