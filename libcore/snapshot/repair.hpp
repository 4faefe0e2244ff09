// SPDX-License-Identifier: Apache-2.0
// A sidecar for a snapshot that has lost its own, made of the file itself: a poorer one, which says so. Who asked for
// it and what was lost is known to nobody any more.
#pragma once

#include <string>

#include "libcore/base/result.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// Reads all of the file, in `folder`. EBADMSG and the like: it is no snapshot's file, or a broken one.
[[nodiscard]] Result<Sidecar> sidecar_from_file(const std::string& folder, const SnapshotName& name);

}  // namespace flight
