// SPDX-License-Identifier: Apache-2.0
// The end of the page of `flightctl info`: the paths of calls that changed most. The page must not take longer because
// of them: a large file is not read, nor one on another machine.
#pragma once

#include <string>

#include "ctl/commands.hpp"
#include "ctl/screen.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

struct ChangedPart {
  std::string text;        // begins with an empty line; empty: there is no time before
  bool has_paths = false;  // false: it says why there are none, and what shows them
};
[[nodiscard]] ChangedPart changed_part(const Common& common, const Sidecar& sidecar, const Screen& screen);

// A line for each path, of a profile with a time before; empty: all changes are noise.
[[nodiscard]] std::string changed_text(const Sidecar& sidecar, const SnapshotProfile& profile, const Screen& screen);

}  // namespace flight::ctl
