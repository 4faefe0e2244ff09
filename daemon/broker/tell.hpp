// SPDX-License-Identifier: Apache-2.0
// What the broker says of its recording to people: in its log, and to `systemctl status`. Not to flightd: that reads
// the manifest.
#pragma once

#include "libcore/broker/protocol.hpp"

namespace flight {

// Once for each set of rings, with its warnings.
void log_recording(const Manifest& manifest);
// systemd's STATUS=; nothing where it is not systemd that started us. `client`: the socket of the flightd that is
// served; -1: there is none.
void tell_status(const Manifest& manifest, int client);
// For systemd's watchdog, four times in the time that it allows; nothing where there is none. On the main thread only,
// at least once a second.
void tell_alive();

}  // namespace flight
