// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/broker_file.hpp"

#include <utility>

#include "libcore/store/leftovers.hpp"

namespace flight::daemon {
namespace {

// The reply can be a file of the other kind, which was requested earlier and came too late: then asks again.
Result<PartialFile> of_this_kind(RecorderThread& recorder, const std::string& folder, std::chrono::seconds wait,
                                 bool spare) {
  auto file = recorder.file(wait, spare);
  if (!file || file->spare == spare) return file;
  remove_unfinished(folder, file->name);
  return recorder.file(wait, spare);
}

}  // namespace

Result<PartialFile> ask_broker_file(RecorderThread& recorder, const std::string& folder, std::chrono::seconds wait,
                                    bool spare) {
  constexpr auto kTooMany = std::errc::device_or_resource_busy;
  auto file = of_this_kind(recorder, folder, wait, spare);
  if (file || file.error().code != kTooMany) return file;
  const auto stuck = remove_leftovers(folder);
  file = of_this_kind(recorder, folder, wait, spare);
  if (file || file.error().code != kTooMany || !stuck) return file;
  return propagate({.code = stuck->code, .what = fmt::format("{}; {}", file.error().what, stuck->what)});
}

}  // namespace flight::daemon
