// SPDX-License-Identifier: Apache-2.0
// A log on a file system that waits for a server (mounts.hpp), as `flightd 2>LOG` in a home directory on sshfs. A
// thread that writes there, or a process that closes the file, cannot be ended while the server hangs, and would keep
// the locks and rings of flightd. So another process writes what it reads from a pipe, and can be left behind.
#pragma once

namespace flight {

// For a program that runs until it is stopped, before it has threads. If stderr is such a file, it is a pipe from now
// on; stdin and stdout, which are not used, become /dev/null. No-op for others, or if there is no task for the process.
void relay_output();

}  // namespace flight
