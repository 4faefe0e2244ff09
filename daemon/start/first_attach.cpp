// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/first_attach.hpp"

#include <system_error>
#include <utility>

namespace flight::daemon {

FirstAttach attach_first(const std::function<Result<BrokerClient>()>& find,
                         std::optional<std::chrono::seconds> answer_within, const WaitingClock& clock) {
  const auto after = [&clock](std::chrono::nanoseconds time) {
    return clock.now() + static_cast<EventTime>(time.count());
  };
  const EventTime until_ns = after(kBusyWait);
  for (;;) {
    auto client = find();
    if (!client) return {.broker = std::nullopt, .attachment = propagate(client.error()), .refused = false};
    if (answer_within) client->answer_within(*answer_within);
    auto attachment = client->attach();
    client->answer_within(kAnswerTimeout);
    if (attachment) return {.broker = std::move(*client), .attachment = std::move(attachment), .refused = false};
    const std::error_code code = attachment.error().code;
    const bool busy = code == std::errc::device_or_resource_busy;
    if (!busy || clock.now() >= until_ns) {
      const bool refused = !busy && code != std::errc::connection_reset && code != std::errc::broken_pipe &&
                           code != std::errc::timed_out;
      return {.broker = std::nullopt, .attachment = std::move(attachment), .refused = refused};
    }
    clock.poll_until({}, after(kAskAgain));
  }
}

}  // namespace flight::daemon
