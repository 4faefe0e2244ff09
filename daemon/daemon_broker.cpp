// SPDX-License-Identifier: Apache-2.0
// What flightd does when its broker is gone: tell it, save what the rings hold, look for the next one, or end.
#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include "daemon/daemon.hpp"

namespace flight {

namespace asio = boost::asio;

void Daemon::lose_broker(const std::string& why, EventTime lost_ns) {
  if (stopping_) return;
  // Where systemd keeps the events, they may go on; only the next broker can tell.
  const std::string when =
      fmt::format("nothing is recorded after {}{}", to_rfc3339(ClockPair::now().wall_at(lost_ns)),
                  setup_.broker_socket.empty() ? "" : ", unless the next broker says that it went on");
  journal_.tell(
      degraded_entry("broker", fmt::format("flightd-broker is gone ({}): {}; saving what the rings hold", why, when)));
  status_.tell();
  auto request = SnapshotRequest::of_flightd(kBrokerLost, "flightd-broker is gone: " + when);
  service_->submit(std::move(request), [this](const Result<Sidecar>&) {
    if (stopping_) return;
    if (setup_.broker_socket.empty()) return end_without_broker("it was our own child");
    find_next_broker();
  });
}

void Daemon::find_next_broker() {
  recorder_->reconnect([this](const Result<bool>& found) {
    // On the wall thread, which may wait for a disk. A broker refuses what we would refuse.
    std::string bad_config;
    if (!found)
      if (const auto config = Reloader::load(setup_.config_file); !config) bad_config = config.error().text();
    asio::post(loop_, [this, found, bad_config] {
      if (stopping_) return;
      if (!bad_config.empty()) {
        // As long as we live the rings do, and the next broker takes over what systemd kept.
        spdlog::error("no flightd-broker comes, as the configuration is wrong: {}; waiting until it is mended",
                      bad_config);
        return find_next_broker();
      }
      if (!found) return end_without_broker(found.error().what);
      worker_->broker_is_back();
      journal_.tell(
          recovered_entry("broker", *found ? "the next flightd-broker took over the recording, which did not stop"
                                           : "attached to the next flightd-broker: the recording goes on"));
      status_.tell();
    });
  });
}

void Daemon::end_without_broker(const std::string& why) {
  if (stopping_) return;
  spdlog::error("there is no flightd-broker any more ({}): ending. Restart flightd.", why);
  exit_status_ = 1;
  stop("the broker is gone");
}

void Daemon::tell_replaced(EventTime lost_ns) {
  spdlog::info("flightd-broker ended at {}, and the next one took over its recording, which did not pause",
               to_rfc3339(ClockPair::now().wall_at(lost_ns)));
  status_.tell();
}

}  // namespace flight
