// SPDX-License-Identifier: Apache-2.0
// A data file without a sidecar is an orphan and gets a new sidecar, made from the file: at start, hourly, on vacuum,
// and on request. Store thread only, because a disk may block.
#pragma once

#include <optional>
#include <string>

#include "libcore/store/catalogue.hpp"

namespace flight::daemon {

// `which`: the requested id, or "latest"; nullopt: every orphan. Reads at most kMaxRepairs files in one call, because
// each is read completely; later calls continue. Success and failure are logged.
inline constexpr std::size_t kMaxRepairs = 16;
void give_sidecars(Catalogue& catalogue, const std::optional<std::string>& which);

}  // namespace flight::daemon
