// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/start_report.hpp"

#include "daemon/log/log.hpp"
#include "libcore/base/columns.hpp"
#include "libcore/base/retry.hpp"
#include "libcore/base/service_manager.hpp"

namespace flight::daemon {
namespace {

constexpr std::size_t kMostReasonColumns = 300;  // of the status line

}  // namespace

void StartReport::report(const std::string& why) {
  const bool is_new = why != why_;
  if (is_new) log::error("flightd cannot start: {}; trying again", why);
  why_ = why;
  if (is_new || !sent_) sent_ = send(is_new);
}

void StartReport::repeat() {
  if (!sent_) sent_ = send(false);
  static_cast<void>(notify_service_manager("WATCHDOG=1", kNotifySoon));
}

bool StartReport::send(bool warn) {
  const auto sent = notify_service_manager(std::string(ready_ ? "" : "READY=1\n") + "STATUS=recording: no (" +
                                               printable_cut(why_, kMostReasonColumns) + "); trying again",
                                           kNotifySoon);
  ready_ = ready_ || sent.has_value();
  if (!sent && warn) log::warn("{}", sent.error().what);
  return sent.has_value();
}

std::chrono::seconds StartReport::next_wait() { return retry_after(tries_++); }

}  // namespace flight::daemon
