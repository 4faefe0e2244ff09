// SPDX-License-Identifier: Apache-2.0
// The page of `flightctl info`: a report about one snapshot on 80 columns, the most important first.
#pragma once

#include <string>
#include <vector>

#include "ctl/screen.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

// The trigger and its reason, the metric's graph, the top CPU users then and before; then window, coverage, losses and
// requesters; at the end `changed` (info_changed.hpp) and the next commands to type.
[[nodiscard]] std::string info_text(const Sidecar& sidecar, const Screen& screen = Screen(),
                                    const std::string& changed = "");
// The same page, shortened to `most` lines of 80 columns: the answer, the busiest, the window, the losses, and the
// messages; at the end `changed`, if there is space for it, and the next commands to type.
[[nodiscard]] std::string info_brief(const Sidecar& sidecar, const Screen& screen, std::size_t most,
                                     const std::string& changed = "");

// Several snapshots, with as many lines of each as fit into `most` together: the snapshot, why, who, and the messages.
// Those for which there is no space are counted.
[[nodiscard]] std::string info_briefs(const std::vector<Sidecar>& sidecars, const Screen& screen, std::size_t most);

// "snapshot 42: oom on web3, 2026-11-20 03:12:04", and the losses.
[[nodiscard]] std::string title_text(const Sidecar& sidecar, const Screen& screen);
[[nodiscard]] std::string losses_text(const Sidecar& sidecar);

// The parts of the page. Each begins with an empty line, or is empty if there is nothing to show.
[[nodiscard]] std::string metric_part(const Sidecar& sidecar, const Screen& screen);
[[nodiscard]] std::string top_part(const Sidecar& sidecar, const Screen& screen);
// Only the first `most` rows of the first table.
[[nodiscard]] std::string busiest_part(const Sidecar& sidecar, const Screen& screen, std::size_t most);
[[nodiscard]] std::string forks_part(const Sidecar& sidecar, const Screen& screen);
[[nodiscard]] std::string rings_part(const Sidecar& sidecar, const Screen& screen);
[[nodiscard]] std::string holes_part(const Sidecar& sidecar, const Screen& screen);

}  // namespace flight::ctl
