// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/keep_free_state.hpp"

#include <cerrno>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/store/keep_free_watch.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/store/folder.hpp"

namespace flight::daemon {

std::string KeepFreeState::load() {
  loaded_ = true;
  const SpareDescriptors::Use use;
  const auto folder = Folder::open(state_dir_);
  auto text =
      folder ? folder->read(kFile, KeepFreeWatch::kMaxTextBytes) : Result<std::string>(propagate(folder.error()));
  if (text) {
    saved_ = *text;
    return std::move(*text);
  }
  if (text.error().errno_value() == ENOENT) return "";
  saved_.reset();
  log::warn("{}; whether deletions for keep_free had an effect is not known", text.error().what);
  return "";
}

void KeepFreeState::save(std::string text) {
  if (state_dir_.empty() || saved_ == text) return;
  const SpareDescriptors::Use use;
  const auto folder = Folder::open(state_dir_);
  auto done = folder ? Result<void>() : Result<void>(propagate(folder.error()));
  if (folder && text.empty())
    done = folder->unlink(kFile).map([](bool /*existed*/) {});
  else if (folder)
    done = folder->replace(kFile, fmt::format("{}.partial", kFile), text).map([](const Unsynced& /*synced*/) {});
  if (!done && !failed_)
    log::warn("{}; after a restart flightd may delete snapshots for keep_free once more, without effect",
              done.error().what);
  failed_ = !done;
  if (done) saved_ = std::move(text);
}

}  // namespace flight::daemon
