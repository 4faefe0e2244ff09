// SPDX-License-Identifier: Apache-2.0
// Handles the time in which no broker records for flightd: after the broker was lost, or if there was none at the
// start.
//
//   lose() ──▶ snapshot `broker-lost` of what the rings hold ──▶ looks for the next broker, for 30 s ──▶ waits
//                                                                                                         │   ▲
//   wait_for_recording(), try_now() ─────────────────────────────▶ tries again, after 1, 2, 5, 10 s … ◀───┘───┘
//
// flightd does not exit: the rings exist as long as it runs, and the next broker may adopt the stored events. If the
// broker was flightd's child, there is no next broker, and flightd exits after the snapshot. All functions are called
// on the event loop. This object must outlive the recorder's threads, because they post calls of lose() to the loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "daemon/notify/event_hub.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/snapshots/snapshot_api.hpp"
#include "daemon/snapshots/worker.hpp"
#include "libcore/base/retry.hpp"

namespace flight::daemon {

class BrokerLoss {
 public:
  using RetryAfter = std::function<std::chrono::milliseconds(std::size_t failed)>;
  // `end`: called after the snapshot if there is no next broker; empty: one may come. `retry`: how long to wait after
  // so many attempts that failed.
  BrokerLoss(boost::asio::io_context& loop, RecorderThread& recorder, SnapshotWorker& worker, SnapshotApi& snapshots,
             EventHub& events, std::function<void()> end, RetryAfter retry = retry_after);
  BrokerLoss(const BrokerLoss&) = delete;
  BrokerLoss& operator=(const BrokerLoss&) = delete;

  // `why`: the error of its connection.
  void lose(const std::string& why, EventTime lost_ns);
  // Nothing is recorded, and `why` was reported.
  void wait_for_recording(const std::string& why) { wait(why, 0); }
  // An attempt for which it waits is made at once.
  void try_now() { timer_.cancel(); }
  // flightd ends: nothing is tried any more.
  void stop() { stopping_ = true; }

 private:
  void find_next();
  void wait(const std::string& why, std::size_t tries);
  void try_again(const std::string& why, std::size_t tries);
  [[nodiscard]] std::string why_gone(const Error& error) const;

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  SnapshotWorker& worker_;
  SnapshotApi& snapshots_;
  EventHub& events_;
  const std::function<void()> end_;
  const RetryAfter retry_;
  boost::asio::steady_timer timer_{loop_};
  bool stopping_ = false;
};

}  // namespace flight::daemon
