// SPDX-License-Identifier: Apache-2.0
// When the recorder thread requests the next scan, for which flightd-broker reads all of /proc. A program that keeps
// overflowing the sideband rings must not make it do so all the time, so the interval doubles with each scan that
// follows soon. All times are a clock's that does not go back. Recorder thread.
#pragma once

#include "libcore/base/clock.hpp"

namespace flight::daemon {

class ScanPace {
 public:
  static constexpr EventTime kSoonNs = 1'000'000'000;       // the first interval
  static constexpr EventTime kAfterLossNs = 5'000'000'000;  // the longest one after lost records
  static constexpr EventTime kLateNs = 30'000'000'000;      // the longest one for what the last scan could not read
  static constexpr EventTime kQuietNs = 60'000'000'000;     // without a scan; then the first interval applies again

  struct Need {
    bool loss = false;            // records were lost; false: only for what the last scan could not read
    bool snapshot_waits = false;  // the scan comes sooner, but not for one snapshot after the other
  };
  // Whether a scan is due that is needed now. True: the caller requests one, and the next interval is longer.
  [[nodiscard]] bool take_turn(EventTime now_ns, const Need& need);
  // A scan was requested, for whatever reason.
  void requested(EventTime now_ns) { requested_ns_ = now_ns; }

 private:
  EventTime requested_ns_ = 0;
  EventTime hurried_ns_ = 0;  // when a scan came sooner, because a snapshot waited
  EventTime loss_wait_ns_ = kSoonNs, rest_wait_ns_ = kSoonNs;
};

}  // namespace flight::daemon
