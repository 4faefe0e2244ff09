// SPDX-License-Identifier: Apache-2.0
// The executable mappings of one process, in one of two ways; private to sysinfo. No file is opened.
//
//   query  PROCMAP_QUERY, Linux 6.11: only the wanted mappings
//   text   /proc/PID/maps
//
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libcore/sysinfo/processes.hpp"

namespace flight {

// One process can have 65,530 mappings, each with a path of 4 KiB: mappings beyond the limit are omitted, only for
// that process. A quarter is for the last files.
inline constexpr std::size_t kMaxMappingsPerProcess = 4096;
inline constexpr std::size_t kMaxMappingBytesPerProcess = 1U << 20U;

// The path of the executable, with " (deleted)" where the file is gone; empty: not permitted, exited, or a kernel
// thread. Waits for neither a lock of the process nor a file system. `task` as in MapsReader::read().
[[nodiscard]] std::string executable_of(const std::string& task);

enum class MapsSource { kBest, kText };

class MapsReader {
 public:
  explicit MapsReader(MapsSource source = MapsSource::kBest) : may_query_(source == MapsSource::kBest) {}

  // `task`: "/proc/PID", or "/proc/PID/task/TID" if the leader has exited; its "root" is the process' own root
  // directory. Empty: not permitted, exited, or a kernel thread.
  [[nodiscard]] ProcessMappings read(const std::string& task);
  // Whether the last read() used PROCMAP_QUERY.
  [[nodiscard]] bool queries() const { return may_query_; }

 private:
  class Kept;
  bool read_by_query(int maps_fd, Kept& out);
  static bool skip_nameless(int maps_fd, std::uint64_t& next);
  static void read_by_text(int maps_fd, Kept& out);
  static void mark_program(const std::string& task, ProcessMappings& out);

  bool may_query_;
};

// for_each_process with one of the sources.
[[nodiscard]] Result<void> for_each_process_by(MapsSource source, const std::function<void(const ProcessInfo&)>& visit,
                                               const std::string& root);

}  // namespace flight
