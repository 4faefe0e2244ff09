// SPDX-License-Identifier: Apache-2.0
// What a program inherits from the one that started it and must not take for granted: a parent may ignore or block
// signals, limit the size of files, or have any umask, and execve(2) keeps all of that. Call it first thing in main().
#pragma once

namespace flight {

enum class ProgramKind {
  service,  // runs until it is stopped; the files it makes have the modes that it names
  command   // runs for a person or a script, whose umask, limits and SIGPIPE are kept
};

// SIGCHLD: default, as waitpid(2) fails if it is ignored. SIGXFSZ: ignored, so that write(2) fails with EFBIG at
// RLIMIT_FSIZE. A service: SIGPIPE ignored, a umask that leaves the owner's bits (those of others may be taken, as by
// UMask=), RLIMIT_CPU, _FSIZE, _NOFILE, _MEMLOCK, _NPROC, _RTPRIO and _RTTIME up to the hard limit, no timer
// (alarm(2)), and the machine's own uname(2), whatever setarch(8) has set. A command: no signal blocked. Both: stacks
// of the usual size, for threads also above the hard limit (with 64 KiB for the main thread, which may not be raised,
// the process ends with status 1 and a message); and a fixed number of heaps for all threads, so that malloc(3) waits
// for no FUSE server: one heap if RLIMIT_AS limits the address space, or if a server's file system is mounted over
// /proc/sys. One mounted over /proc itself must answer (proc_check.hpp).
void settle_inherited_state(ProgramKind kind);

// Undoes it for a program that this one executes: SIGXFSZ as usual. Async-signal-safe.
void restore_for_exec();

}  // namespace flight
