// SPDX-License-Identifier: Apache-2.0
// The message of a refused parameter, with the name of the option instead of the interface's name of the parameter.
#pragma once

#include <string>

#include "libcore/control/varlink.hpp"

namespace flight::ctl {

// "--reason has control characters …", not "'reason' has control characters …".
[[nodiscard]] std::string with_option_names(const CallError& error);

}  // namespace flight::ctl
