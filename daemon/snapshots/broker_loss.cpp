// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/broker_loss.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/log/log.hpp"

namespace flight::daemon {

BrokerLoss::BrokerLoss(boost::asio::io_context& loop, RecorderThread& recorder, SnapshotWorker& worker,
                       SnapshotApi& snapshots, EventHub& events, std::function<void()> end, RetryAfter retry)
    : loop_(loop),
      recorder_(recorder),
      worker_(worker),
      snapshots_(snapshots),
      events_(events),
      end_(std::move(end)),
      retry_(std::move(retry)) {}

void BrokerLoss::lose(const std::string& why, EventTime lost_ns) {
  if (stopping_) return;
  // systemd's fd store may hold the events; only the next broker knows that.
  const std::string when = fmt::format("nothing is recorded after {}{}", recorder_.clock().text_at(lost_ns),
                                       end_ ? "" : ", unless the next broker reports that recording continued");
  events_.broker_lost(fmt::format("flightd-broker is gone ({}): {}; saving the content of the rings", why, when));
  auto request = SnapshotRequest::of_flightd(kBrokerLost, "flightd-broker is gone: " + when);
  snapshots_.submit(std::move(request), [this](const Result<Sidecar>&) {
    if (stopping_) return;
    if (end_) return end_();
    find_next();
  });
}

void BrokerLoss::find_next() {
  recorder_.reconnect(BrokerThread::kReconnectFor, [this](const Result<bool>& found) {
    boost::asio::post(loop_, [this, found] {
      if (stopping_) return;
      if (!found) {
        const std::string why = why_gone(found.error());
        log::error("nothing is recorded: {}; trying again", why);
        return wait(why, 0);
      }
      worker_.broker_is_back();
      events_.broker_recovered(*found ? "the next flightd-broker adopted the recording without a gap"
                                      : "attached to the next flightd-broker: recording continues");
    });
  });
}

// As the status shows it.
std::string BrokerLoss::why_gone(const Error& error) const {
  std::string why = recorder_.refusal();
  return why.empty() ? error.what : why;
}

void BrokerLoss::wait(const std::string& why, std::size_t tries) {
  events_.status_changed();
  timer_.expires_after(retry_(tries));
  // Also when try_now() cancels it: then at once.
  timer_.async_wait([this, why, tries](boost::system::error_code) {
    if (!stopping_) try_again(why, tries);
  });
}

void BrokerLoss::try_again(const std::string& why, std::size_t tries) {
  recorder_.reconnect(std::chrono::seconds(0), [this, why, tries](const Result<bool>& found) {
    boost::asio::post(loop_, [this, why, tries, found] {
      if (stopping_) return;
      if (found) {
        worker_.broker_is_back();
        return events_.broker_recovered("recording has begun: flightd-broker answers now");
      }
      const std::string now = why_gone(found.error());
      if (now != why) log::error("nothing is recorded: {}; trying again", now);
      wait(now, tries + 1);
    });
  });
}

}  // namespace flight::daemon
