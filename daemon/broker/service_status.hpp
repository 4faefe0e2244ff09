// SPDX-License-Identifier: Apache-2.0
// Reports the state of the recording in the log and in `systemctl status`. flightd reads the manifest instead. Main
// thread only. If PID 1 does not read within 100 ms, a notification is dropped, except READY=1, which is sent again:
// the recording never waits for it.
#pragma once

#include <string>

#include "libcore/broker/protocol.hpp"

namespace flight::broker {

// Call it once for each set of rings; it includes the warnings.
void log_recording(const Manifest& manifest);
// Sets systemd's STATUS=; no-op when not started by systemd. `client`: the socket of the current flightd; -1: none.
void notify_status(const Manifest& manifest, int client);
void notify_no_recording(const std::string& why);
// READY=1. While PID 1 does not read, nobody waits for it: notify_alive() sends it later.
void notify_ready();
// Notifies systemd's watchdog, four times per WatchdogSec=; no-op without one. Call it at least once a second.
void notify_alive();

}  // namespace flight::broker
