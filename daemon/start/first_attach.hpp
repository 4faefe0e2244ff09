// SPDX-License-Identifier: Apache-2.0
// The first attach of a flightd. The broker may still serve the previous flightd, which is about to exit, and says that
// it is busy: then it is asked again for a while. Main thread, before the other threads exist.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "libcore/base/result.hpp"
#include "libcore/base/waiting_clock.hpp"
#include "libcore/broker/client.hpp"

namespace flight::daemon {

struct FirstAttach {
  std::optional<BrokerClient> broker;  // the one that answered with the attachment
  Result<Attachment> attachment;
  bool refused = false;  // it is an error, and the broker's own answer: it cannot record
};

inline constexpr std::chrono::seconds kBusyWait{5};
inline constexpr std::chrono::milliseconds kAskAgain{500};

// `find`: connects to the broker; its error is not tried again. `answer_within`: the limit for each answer to an
// attach; nullopt: that of all requests.
[[nodiscard]] FirstAttach attach_first(const std::function<Result<BrokerClient>()>& find,
                                       std::optional<std::chrono::seconds> answer_within,
                                       const WaitingClock& clock = WaitingClock::monotonic());

}  // namespace flight::daemon
