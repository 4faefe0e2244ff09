// SPDX-License-Identifier: Apache-2.0
// One empty file from the broker, for a snapshot or a part of a recording.
#pragma once

#include <chrono>
#include <string>

#include "daemon/recorder/recorder_thread.hpp"

namespace flight::daemon {

// `folder`: of the store. `spare`: as of RecorderThread::file(). If the broker makes no more files because there are
// too many unfinished ones (EBUSY), flightd removes its leftovers and asks again. If they cannot be removed, the error
// has the reason, its errno and the path. Any thread that may wait for the disk.
[[nodiscard]] Result<PartialFile> ask_broker_file(RecorderThread& recorder, const std::string& folder,
                                                  std::chrono::seconds wait, bool spare);

}  // namespace flight::daemon
