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
    // On the broker thread, which may wait for a disk. The broker refuses the same configurations as flightd.
    std::string bad_config;
    if (!found)
      if (const auto config = Reloader::load(setup_.config_file); !config) bad_config = config.error().text();
    asio::post(loop_, [this, found, bad_config] {
      if (stopping_) return;
      if (!bad_config.empty()) {
        // While flightd runs, the rings exist, and the next broker adopts the stored events.
        log::error("flightd-broker cannot start, because the configuration is wrong: {}; waiting until it is corrected",
                   bad_config);
        return find_next_broker();
      }
      if (!found && !recorder_->refusal().empty()) {
        log::error("nothing is recorded: {}; trying again", found.error().what);
        return wait_for_recording(found.error().what, 0);
      }
      if (!found) return end_without_broker(found.error().what);
      worker_->broker_is_back();
      events_.broker_recovered(*found ? "the next flightd-broker adopted the recording without a gap"
                                      : "attached to the next flightd-broker: recording continues");
    });
  });
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
  // Without any answer for so long, flightd ends: systemd starts the broker when it starts flightd.
  constexpr std::size_t kMostUnanswered = 8;
  recorder_->reconnect(std::chrono::seconds(0), [this, why, tries](const Result<bool>& found) {
    asio::post(loop_, [this, why, tries, found] {
      if (stopping_) return;
      if (found) {
        worker_->broker_is_back();
        return events_.broker_recovered("recording has begun: flightd-broker answers now");
      }
      const bool answered = !recorder_->refusal().empty();
      if (!answered && tries >= kMostUnanswered) return end_without_broker(found.error().what);
      if (found.error().what != why) log::error("nothing is recorded: {}; trying again", found.error().what);
      // Each answer begins a new count of those that are missing.
      wait_for_recording(found.error().what, answered ? std::min<std::size_t>(tries + 1, 3) : tries + 1);
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
