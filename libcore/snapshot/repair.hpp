// SPDX-License-Identifier: Apache-2.0
// Makes a sidecar for a snapshot whose own is missing, from the data file. It has fewer facts, and a warning says so:
// the requester and the losses are unknown.
#pragma once

#include <functional>
#include <string>

#include "libcore/base/result.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// Reads the whole file in `folder`. EBADMSG and other errors: it is not a snapshot, or it is damaged.
[[nodiscard]] Result<Sidecar> sidecar_from_file(const std::string& folder, const SnapshotName& name);

// Whether the file or data directory is that of this sidecar: complete, of its size, and with its samples. It is read
// as a whole: on a file system that cannot sync, a name may survive a power failure, and the contents not. `stop`:
// asked at each record; true: ECANCELED.
[[nodiscard]] Result<bool> is_data_of(const Sidecar& sidecar, const std::string& path,
                                      const std::function<bool()>& stop);

}  // namespace flight
