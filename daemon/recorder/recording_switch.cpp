// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/recording_switch.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <memory>
#include <utility>

#include "daemon/log/log.hpp"

namespace flight::daemon {

namespace asio = boost::asio;

// Who asked gets one answer: the broker's, or that there is none yet.
struct RecordingSwitch::Asked {
  Asked(asio::io_context& loop, ControlBackend::Done call) : late(loop), done(std::move(call)) {}
  void answer(CallResult<std::string> result) {
    late.cancel();
    if (const auto call = std::exchange(done, nullptr)) call(std::move(result));
  }
  asio::steady_timer late;
  ControlBackend::Done done;
};

void RecordingSwitch::set(bool recording, const std::string& who, ControlBackend::Done done) {
  const auto asked = std::make_shared<Asked>(loop_, std::move(done));
  const std::string_view change = recording ? "resumed" : "paused";
  asked->late.expires_after(says_so_after_);
  asked->late.async_wait([this, asked, change](boost::system::error_code error) {
    if (error) return;
    asked->answer(tl::unexpected(write_failed(
        ETIMEDOUT, "",
        fmt::format("flightd-broker has not answered for {} s: recording is {} if it still does, and `flightctl "
                    "status` shows whether; it was stopped, or it hangs",
                    std::chrono::duration_cast<std::chrono::seconds>(says_so_after_).count(), change))));
  });
  recorder_.set_recording(recording, who, [this, recording, change, who, asked](const Result<void>& result) {
    asio::post(loop_, [this, recording, change, who, asked, result] {
      if (!result)
        return asked->answer(
            tl::unexpected(write_failed(result.error().errno_value(), "",
                                        fmt::format("recording could not be {}: {}", change, result.error().what))));
      switched(recording, who);
      asked->answer("{}");
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
