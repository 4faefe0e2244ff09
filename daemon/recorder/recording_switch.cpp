// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/recording_switch.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/log/log.hpp"

namespace flight::daemon {

namespace asio = boost::asio;

void RecordingSwitch::set(bool recording, const std::string& who, ControlBackend::Done done) {
  recorder_.set_recording(recording, who, [this, recording, who, done = std::move(done)](const Result<void>& result) {
    asio::post(loop_, [this, recording, who, done, result] {
      if (!result)
        return done(tl::unexpected(write_failed(
            result.error().errno_value(), "",
            fmt::format("recording could not be {}: {}", recording ? "resumed" : "paused", result.error().what))));
      switched(recording, who);
      done("{}");
    });
  });
}

void RecordingSwitch::switched(bool recording, const std::string& who) {
  triggers_.set_recording(recording);
  if (std::exchange(on_, recording) == recording) return;
  log::at(recording ? log::Level::info : log::Level::warn, "recording {} by {}", recording ? "resumed" : "paused", who);
  events_.recording_switched(recording, who);
}

}  // namespace flight::daemon
