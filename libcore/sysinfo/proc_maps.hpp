// SPDX-License-Identifier: Apache-2.0
// The executable mappings of one process, in one of two ways; private to sysinfo.
//
//   query  PROCMAP_QUERY, Linux 6.11: only the wanted mappings, and the kernel reads the build-id
//   text   /proc/PID/maps, and the ELF file through /proc/PID/root, if it is still the mapped one
//
// The files belong to others: only regular ones are opened for reading, so that a fifo or a device in their place can
// neither block nor react; what does not fit is left without build-id.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "libcore/sysinfo/processes.hpp"

namespace flight {

inline constexpr std::size_t kMaxMappingsPerProcess = 65536;

enum class MapsSource { kBest, kText };

class MapsReader {
 public:
  explicit MapsReader(MapsSource source = MapsSource::kBest) : may_query_(source == MapsSource::kBest) {}

  // `task`: "/proc/PID", or "/proc/PID/task/TID" where the leader has exited; its "root" is the process' own root
  // folder. Empty: not allowed, gone, or a kernel thread.
  [[nodiscard]] std::vector<ProcessMapping> read(const std::string& task);
  // Whether the last read() asked by PROCMAP_QUERY.
  [[nodiscard]] bool queries() const { return may_query_; }

 private:
  struct FileKey {
    std::uint64_t device = 0, inode = 0;
    friend bool operator==(const FileKey&, const FileKey&) = default;
  };
  struct FileKeyHash {
    std::size_t operator()(const FileKey& key) const { return key.inode * 0x9e3779b97f4a7c15ULL ^ key.device; }
  };

  bool read_by_query(int maps_fd, std::vector<ProcessMapping>& out);
  void read_by_text(int maps_fd, const std::string& task, std::vector<ProcessMapping>& out);
  const std::vector<std::uint8_t>& build_id_of(const ProcessMapping& mapping, const std::string& task);

  bool may_query_;
  std::unordered_map<FileKey, std::vector<std::uint8_t>, FileKeyHash>
      build_ids_;  // of the text way: a file is read once
};

// for_each_process by one of the ways.
[[nodiscard]] Result<void> for_each_process_by(MapsSource source, const std::function<void(const ProcessInfo&)>& visit,
                                               const std::string& root);

}  // namespace flight
