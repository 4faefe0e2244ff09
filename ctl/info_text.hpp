// SPDX-License-Identifier: Apache-2.0
// The page of `flightctl info`: a report of one snapshot on 80 columns, the answer first.
#pragma once

#include <string>

#include "ctl/screen.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

// What fired and why, how its metric ran, who had the CPUs then and before; then window, coverage, losses, askers; what
// to type next.
[[nodiscard]] std::string info_text(const Sidecar& sidecar, const Screen& screen = Screen());

// Its parts; each begins with an empty line, or is empty where there is nothing to tell.
[[nodiscard]] std::string metric_part(const Sidecar& sidecar, const Screen& screen);
[[nodiscard]] std::string top_part(const Sidecar& sidecar, const Screen& screen);
[[nodiscard]] std::string rings_part(const Sidecar& sidecar, const Screen& screen);
[[nodiscard]] std::string holes_part(const Sidecar& sidecar, const Screen& screen);

}  // namespace flight::ctl
