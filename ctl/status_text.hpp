// SPDX-License-Identifier: Apache-2.0
// The screen of `flightctl status`, on 80 columns.
#pragma once

#include <string>

#include "ctl/screen.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/control/messages.hpp"

namespace flight::ctl {

// `now` is needed for the age of the last snapshot.
[[nodiscard]] std::string status_text(const Status& status, WallTime now, const Screen& screen = Screen());

}  // namespace flight::ctl
