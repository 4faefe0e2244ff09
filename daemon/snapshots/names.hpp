// SPDX-License-Identifier: Apache-2.0
// Sources for names of addresses in a snapshot: the kernel's symbols and modules, and the build-ids of mapped files.
// Both come from the broker; the wait for each is short. Snapshot worker's thread, or its merge thread.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "daemon/recorder/recorder_thread.hpp"
#include "libcore/snapshot/known_files.hpp"

namespace flight::daemon {

// Waits at most 1 s for the reply of RecorderThread::refresh_kernel; without it, returns the previous data and a
// warning.
[[nodiscard]] std::shared_ptr<const KernelSymbols> take_kernel(RecorderThread& recorder,
                                                               std::future<Result<void>> answer,
                                                               std::vector<std::string>& warnings);
// Adds build-ids, for which it waits at most 300 ms, and notes or warnings about files without one. Without the
// broker's reply a file has device and inode from the tracker.
void name_files(RecorderThread& recorder, TrackerExport& window);
// The same with this reply. `each`: as of add_build_ids().
[[nodiscard]] Result<KnownFiles> ask_for_files(RecorderThread& recorder);
void name_files(RecorderThread& recorder, const Result<KnownFiles>& known, TrackerExport& window,
                const EachMapping& each = {});
// Only the warnings and notes about files without a build-id, with this reply.
struct FileMessages {
  std::vector<std::string> warnings, notes;
};
[[nodiscard]] FileMessages messages_of(RecorderThread& recorder, const Result<KnownFiles>& known,
                                       const NamedFiles& named);

}  // namespace flight::daemon
