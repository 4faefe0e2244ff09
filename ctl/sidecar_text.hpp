// SPDX-License-Identifier: Apache-2.0
// A sidecar as text: the summary after a snapshot, and texts that the page of `flightctl info` also uses.
#pragma once

#include <string>

#include "ctl/screen.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

// id, path, top, the next command to type, window, samples, size, ratio, blackout, lost; then the warnings. The path is
// never wrapped. `host`: as typed behind -H; empty: this machine.
[[nodiscard]] std::string summary_text(const Sidecar& sidecar, const Screen& screen, const std::string& host);

// The same, shortened to `most` lines if possible: of the warnings and notes the first lines, and how to see all.
[[nodiscard]] std::string summary_brief(const Sidecar& sidecar, const Screen& screen, const std::string& host,
                                        std::size_t most);
// The end of a shortened page: how to see all of it.
[[nodiscard]] std::string whole_page_text(const Sidecar& sidecar, const Screen& screen);

[[nodiscard]] std::string window_text(const SidecarWindow& window);
[[nodiscard]] std::string size_text(const Sidecar& sidecar);
[[nodiscard]] std::string micros_text(double us);
[[nodiscard]] std::string lost_text(const Sidecar& sidecar);
// Warnings about names, to print before all named rows; empty if there are none.
[[nodiscard]] std::string names_text(const Sidecar& sidecar, const Screen& screen);
// The errors, the other warnings and the notes.
[[nodiscard]] std::string warnings_text(const Sidecar& sidecar, const Screen& screen);

}  // namespace flight::ctl
