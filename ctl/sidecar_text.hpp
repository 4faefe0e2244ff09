// SPDX-License-Identifier: Apache-2.0
// A sidecar in words: the summary after a snapshot, and the words that the page of `flightctl info` shares with it.
#pragma once

#include <string>

#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

// id, path, window, samples, size, ratio, blackout, lost, top; then the warnings. The path stays on its line.
[[nodiscard]] std::string summary_text(const Sidecar& sidecar);

[[nodiscard]] std::string window_text(const SidecarWindow& window);
[[nodiscard]] std::string size_text(const Sidecar& sidecar);
[[nodiscard]] std::string micros_text(double us);
[[nodiscard]] std::string lost_text(const Sidecar& sidecar);
// How the snapshot is less than it should be; empty, or with a line "warnings:" above and an empty one before it.
[[nodiscard]] std::string warnings_text(const Sidecar& sidecar);

}  // namespace flight::ctl
