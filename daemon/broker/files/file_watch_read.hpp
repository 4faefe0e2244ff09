// SPDX-License-Identifier: Apache-2.0
// A task of FileWatch, whose files are read one after the other. Shared with the reading thread, which may outlive the
// watch.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/broker/files/file_watch.hpp"

namespace flight::broker {

struct FileWatch::Read {
  std::vector<MappedAt> files;
  std::vector<Result<MappedFileFacts>> facts;
  std::atomic<Clock::time_point> begun = Clock::time_point::max();  // of the file that is being read
  std::atomic<std::size_t> done = 0;                                // number of files that were read
  std::atomic<std::chrono::nanoseconds::rep> used_ns = 0;           // of a CPU, or the time that passed
  std::atomic<std::chrono::nanoseconds::rep> cpu_ns = 0;            // measured, of the helpers and the reading thread
  std::atomic<bool> ended = false;
  std::atomic<bool> process_answered = false;   // of the file that is being read: if it hangs now, its disk does
  std::atomic<bool> process_is_silent = false;  // the helper was killed, as the process did not answer
  // Used by the main thread only.
  bool given_up = false;       // it hangs; those behind the file are deferred
  bool kept_others = false;    // others are deferred because it hangs
  bool helper_failed = false;  // a file was not read because of that
  bool by_name = false;        // of MappedAt
  DeviceNumber disk;
  std::uint64_t number = 0;  // of the process in silent_: its pid, until that is another process's
  EventTime mapped_ns = 0;   // the newest mapping
  uid_t uid = 0;             // owner of the process
  uid_t owner = 0;           // the same, or kEndedOwner
  std::size_t collected = 0;
  std::size_t given_up_at = SIZE_MAX;
};

}  // namespace flight::broker
