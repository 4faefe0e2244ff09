// SPDX-License-Identifier: Apache-2.0
// Another directory has the name of the store: a file system was mounted there, or taken away.
#include <boost/asio/post.hpp>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/store/store_service.hpp"

namespace flight::daemon {

// Takes over a directory that has replaced the store. Otherwise snapshots would go into a directory that is not locked,
// and their numbers would begin again.
Result<void> StoreService::follow_folder() {
  if (!held_.holds()) held_.hold(folder());
  if (!held_.is_another(folder())) return {};
  const auto last = held_.last_seq();
  const std::string& state_dir = trigger_state_.folder();
  if (take_ && !leads_to(fmt::format("{}/{}", state_dir, kLockName), lock_)) {
    auto taken = take_();
    if (!taken)
      return propagate(
          {.code = std::error_code(ESTALE, std::generic_category()),
           .what = fmt::format("{} is another directory than before (a file system was mounted there, or taken away), "
                               "and cannot be used: {}; `systemd-tmpfiles --create flightd.conf` makes and gives its "
                               "directories",
                               folder(), taken.error().what)});
    lock_ = std::move(taken->lock);
    for (const std::string& warning : taken->warnings) log::warn("{}", warning);
    const std::lock_guard lock(mutex_);
    state_warnings_ = std::move(taken->warnings);
  }
  held_.hold(folder());
  if (last)
    if (auto raised = catalogue_.raise_seq(*last); !raised) log::warn("{}", raised.error().what);
  log::warn(
      "{} is another directory than before: a file system was mounted there, or taken away. Snapshots go to it "
      "from now on{}; those before are in the other one",
      folder(), last ? fmt::format(", with numbers from {} on", *last + 1) : "");
  boost::asio::post(loop_, [this] {
    refresh_use();
    moved_();
  });
  return {};
}

}  // namespace flight::daemon
