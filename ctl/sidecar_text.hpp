// SPDX-License-Identifier: Apache-2.0
// A sidecar in words: the summary after a snapshot, and the page of `flightctl info`.
#pragma once

#include <string>

#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

// id, path, window, samples, size, ratio, blackout, lost.
[[nodiscard]] std::string summary_text(const Sidecar& sidecar);
// Everything a person wants to know, and what to type next.
[[nodiscard]] std::string info_text(const Sidecar& sidecar);

}  // namespace flight::ctl
