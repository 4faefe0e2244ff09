// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/scan_pace.hpp"

#include <algorithm>

namespace flight::daemon {

bool ScanPace::take_turn(EventTime now_ns, const Need& need) {
  const EventTime since_ns = now_ns - std::min(now_ns, requested_ns_);
  if (since_ns >= kQuietNs) loss_wait_ns_ = rest_wait_ns_ = kSoonNs;
  // Unread data of a process that hangs must not delay the scan after the next loss.
  EventTime& wait_ns = need.loss ? loss_wait_ns_ : rest_wait_ns_;
  const bool hurry = need.snapshot_waits && now_ns - std::min(now_ns, hurried_ns_) >= kAfterLossNs;
  if (since_ns < (hurry ? kSoonNs : wait_ns)) return false;
  if (since_ns < wait_ns) hurried_ns_ = now_ns;
  wait_ns = std::min(2 * wait_ns, need.loss ? kAfterLossNs : kLateNs);
  return true;
}

}  // namespace flight::daemon
