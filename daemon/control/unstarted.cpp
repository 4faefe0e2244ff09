// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/unstarted.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "libcore/base/version.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight::daemon {

CallError UnstartedBackend::refusal() const {
  return write_failed(EAGAIN, "", fmt::format("flightd has not started: {}; trying again", reason_));
}

void UnstartedBackend::get_status(Done done) {
  Status status;
  status.version = kVersion;
  const ProcessUsage self = own_usage();
  status.uptime_seconds = self.uptime_seconds;
  status.flightd = {.pid = ::getpid(),
                    .cpu_seconds = self.cpu_seconds,
                    .rss_bytes = self.rss_bytes,
                    .uptime_seconds = self.uptime_seconds};
  status.errors.push_back(fmt::format("nothing is recorded: flightd has not started: {}; trying again", reason_));
  done(to_json(status));
}

void UnstartedBackend::monitor(Listener listener) {
  clients_.add(std::move(listener), {.event = std::string(kMonitoring), .message = reason_, .recording = false});
}

}  // namespace flight::daemon
