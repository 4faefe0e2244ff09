// SPDX-License-Identifier: Apache-2.0
// The state of one scan, and what its threads do. ProcessScan and the threads share it, and a thread that hangs may
// outlive the scan. Only scan.cpp and scan_job.cpp use it.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/broker/scan/maps_readers.hpp"
#include "daemon/broker/scan/scan.hpp"
#include "daemon/broker/scan/scan_misses.hpp"

namespace flight::broker {

struct ProcessScan::Job {
  using Clock = std::chrono::steady_clock;
  // All scans share these readers.
  static std::shared_ptr<MapsReaders> shared_readers() {
    static const auto kReaders = std::make_shared<MapsReaders>();
    return kReaders;
  }

  enum class Progress { listed, named, reading, done };
  struct Entry {
    ProcessStat stat;  // the parts read so far; the pid is always known
    Progress progress = Progress::listed;
    EventTime read_ns = 0;
    RecordBuffer threads;  // and the executable, while its mappings are being read
  };
  struct Order {
    std::size_t index = 0;
    bool mappings = true;           // false: only the threads,
    ScanMiss why = ScanMiss::late;  // for this reason
  };

  Trailer trailer;
  ScanLimits limits;
  ScanReads reads;
  std::function<void()> wake;
  std::size_t thread_count = 0;
  Clock::time_point begun = Clock::now();
  std::shared_ptr<MapsReaders> readers = shared_readers();

  std::mutex mutex;
  std::condition_variable changed;
  bool listed = false, named = false, taken = false;
  SymbolRecords known_symbols;  // of an earlier scan
  bool cgroups_cut = false;
  std::string cgroups_unread;  // why some are missing
  bool has_symbols = false;    // they are known, were read, or could not be
  Result<void> list_error;
  std::vector<Entry> entries;
  struct User {
    std::deque<std::size_t> left;  // named processes whose threads or mappings are still to be read
    std::size_t bytes = 0;         // of the processes that have been read
  };
  std::map<uid_t, User> users;
  uid_t last_user = 0;
  std::size_t unread = 0, bytes = 0;
  Clock::time_point newest;  // the begin of the latest read

  UniqueFd memfd;
  std::size_t memfd_bytes = 0;
  Result<void> written;
  ScanAnswer answer;
  std::uint64_t processes_written = 0;  // to the memfd
  ScanMisses misses;

  void run(void (Job::*part)());
  void list();
  void name_all();
  void list_the_cgroups();
  void read_symbols();
  void work();
  std::optional<Order> pick();
  std::optional<Order> pick_of(bool within_share, bool& waits);
  [[nodiscard]] bool has_left() const {
    return std::any_of(users.begin(), users.end(), [](const auto& user) { return !user.second.left.empty(); });
  }
  void read_one(const Order& order, std::unique_lock<std::mutex>& lock);
  void settle();
  void write_process(const Entry& entry, std::span<const std::byte> rest, std::uint32_t mark);
  void write(std::span<const std::byte> records);
  void miss(const Entry& entry, ScanMiss reason) { misses.add(reason, entry.stat.pid, entry.stat.comm); }
  [[nodiscard]] bool done(Clock::time_point now) const;
  [[nodiscard]] Trailer trailer_of(const Entry& entry) const {
    Trailer out = trailer;
    out.pid = out.tid = entry.stat.pid;
    if (entry.read_ns != 0) out.time_ns = entry.read_ns;
    return out;
  }
};

}  // namespace flight::broker
