// SPDX-License-Identifier: Apache-2.0
// The pager through which perf prints a report at a terminal. perf starts it by a shell: if the program does not exist,
// the report is lost, and perf does not say which setting named it.
#pragma once

#include <string>

namespace flight::ctl {

// "$PAGER is 'most', and there is no program 'most'", of the variable that perf uses: $PERF_PAGER or, if it is not set,
// $PAGER. Empty: there is nothing wrong with it, or it is more for a shell than a program and its options.
[[nodiscard]] std::string missing_pager();

}  // namespace flight::ctl
