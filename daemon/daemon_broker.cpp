// SPDX-License-Identifier: Apache-2.0
// What flightd does after its broker died: report it, save the content of the rings, look for the next broker, or end.

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>

#include "daemon/daemon.hpp"
#include "daemon/log/log.hpp"

namespace flight::daemon {

namespace asio = boost::asio;

void Daemon::lose_broker(const std::string& why, EventTime lost_ns) {
  if (stopping_) return;
  // systemd's fd store may hold the events; only the next broker knows that.
  const std::string when =
      fmt::format("nothing is recorded after {}{}", recorder_->clock().text_at(lost_ns),
                  setup_.broker_socket.empty() ? "" : ", unless the next broker reports that recording continued");
  events_.broker_lost(fmt::format("flightd-broker is gone ({}): {}; saving the content of the rings", why, when));
  auto request = SnapshotRequest::of_flightd(kBrokerLost, "flightd-broker is gone: " + when);
  snapshots_->submit(std::move(request), [this](const Result<Sidecar>&) {
    if (stopping_) return;
    if (setup_.broker_socket.empty()) return end_without_broker("it was a child of this flightd");
    find_next_broker();
  });
}

void Daemon::find_next_broker() {
  recorder_->reconnect(BrokerThread::kReconnectFor, [this](const Result<bool>& found) {
    asio::post(loop_, [this, found] {
      if (stopping_) return;
      if (!found) {
        // flightd stays: the rings exist as long as it runs, and the next broker may adopt the stored events.
        const std::string why = why_gone(found.error());
        log::error("nothing is recorded: {}; trying again", why);
        return wait_for_recording(why, 0);
      }
      worker_->broker_is_back();
      events_.broker_recovered(*found ? "the next flightd-broker adopted the recording without a gap"
                                      : "attached to the next flightd-broker: recording continues");
    });
  });
}

// As the status shows it.
std::string Daemon::why_gone(const Error& error) const {
  std::string why = recorder_->refusal();
  return why.empty() ? error.what : why;
}

void Daemon::wait_for_recording(const std::string& why, std::size_t tries) {
  constexpr std::array kWaits{std::chrono::seconds(1), std::chrono::seconds(2), std::chrono::seconds(5),
                              std::chrono::seconds(10)};
  events_.status_changed();
  retry_.expires_after(kWaits.at(std::min(tries, kWaits.size() - 1)));
  // Also when a reload cancels it: then at once.
  retry_.async_wait([this, why, tries](boost::system::error_code) {
    if (!stopping_) try_again(why, tries);
  });
}

void Daemon::try_again(const std::string& why, std::size_t tries) {
  recorder_->reconnect(std::chrono::seconds(0), [this, why, tries](const Result<bool>& found) {
    asio::post(loop_, [this, why, tries, found] {
      if (stopping_) return;
      if (found) {
        worker_->broker_is_back();
        return events_.broker_recovered("recording has begun: flightd-broker answers now");
      }
      const std::string now = why_gone(found.error());
      if (now != why) log::error("nothing is recorded: {}; trying again", now);
      wait_for_recording(now, tries + 1);
    });
  });
}

void Daemon::end_without_broker(const std::string& why) {
  if (stopping_) return;
  log::error("no flightd-broker was found ({}): flightd stops. Restart flightd.", why);
  exit_status_ = 1;
  stop("the broker is gone");
}

void Daemon::report_replaced(EventTime lost_ns) {
  log::info("flightd-broker ended at {}; the next one adopted its recording without a gap",
            recorder_->clock().text_at(lost_ns));
  events_.status_changed();
}

}  // namespace flight::daemon
