// SPDX-License-Identifier: Apache-2.0
// The copy that a recovery makes of an unfinished part's data, a file or a directory, and finishes from its journal
// (recovery.hpp).
#pragma once

#include <string>

#include "daemon/recordings/part_store.hpp"
#include "daemon/recordings/recovery.hpp"
#include "libcore/base/result.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/stream/recover.hpp"

namespace flight::daemon {

// A copy of the part's data, whole and synced.
struct RecoveredCopy {
  std::string name;
  Recovered recovered;
};

// EBADMSG: nothing in the part can be used.
[[nodiscard]] Result<RecoveredCopy> recover_copy(PartStore& store, const Folder& folder, const PartRecovery& order);

}  // namespace flight::daemon
