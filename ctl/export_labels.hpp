// SPDX-License-Identifier: Apache-2.0
// The value of `flightctl export --labels`: "thread,tid,cpu".
#pragma once

#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/export/labelled_stacks.hpp"

namespace flight::ctl {

// EINVAL: it has another word.
[[nodiscard]] Result<ExtraLabels> parse_labels(std::string_view text);

}  // namespace flight::ctl
