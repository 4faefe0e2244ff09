// SPDX-License-Identifier: Apache-2.0
// The time zone of local times. The C library reads its file at the first localtime_r(3), which the first line of a log
// calls: /etc/localtime, or one below /usr/share/zoneinfo that $TZ names. If that file hangs, so does the caller, and
// no signal ends it. So the file is judged first. Call it first thing in main(): it changes the environment.
#pragma once

#include <string>

namespace flight {

// Reads the file now, and localtime_r(3) reads it no more (localtime(3), strftime(3) and mktime(3) would). If it is on
// a file system that waits for a server, local times are UTC, also in the programs that this one starts: returns why,
// for a message. Empty: the file was read, or there is none.
[[nodiscard]] std::string settle_time_zone();

}  // namespace flight
