// SPDX-License-Identifier: Apache-2.0
// Finishes the parts of recordings that are left (recovery.hpp), one after the other, at low priority, and tries again
// what did not succeed: soon where the broker or the disk does not answer, once an hour where the disk is full.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/recordings/recovery.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/task_thread.hpp"

namespace flight::daemon {

class RecoveryThread {
 public:
  static constexpr std::size_t kMostTries = 30;  // then the part is left to the next start; not if a disk is full
  using AgainAfter = std::function<std::chrono::milliseconds(const Error& error)>;
  // `host`: as in names. `again_after`: on the thread.
  RecoveryThread(boost::asio::io_context& loop, std::unique_ptr<TaskThread> thread, RecorderThread& recorder,
                 StoreService& store, std::string host, AgainAfter again_after = recover_again_after);
  RecoveryThread(const RecoveryThread&) = delete;
  RecoveryThread& operator=(const RecoveryThread&) = delete;
  ~RecoveryThread();  // stop(), and waits

  // Event loop. `why`: as in PartRecovery.
  void recover(const std::vector<std::uint64_t>& seqs, RecordingEnd why);
  // Any thread. What is under way ends after the next MiB, and nothing else begins.
  void stop() { stopping_ = true; }
  // Any thread but the event loop. False: the disk or the broker did not answer until then.
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point end);

 private:
  struct Job {
    std::uint64_t seq = 0;
    RecordingEnd why = RecordingEnd::killed;
    std::size_t tries = 0;
    std::chrono::steady_clock::time_point at{};  // not before
  };
  void run(std::vector<Job> jobs);
  // The thread. Returns those that are left.
  [[nodiscard]] std::vector<Job> work(std::vector<Job> jobs);
  [[nodiscard]] Result<void> make_room(std::uint64_t bytes);
  void again(std::vector<Job> left);

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  StoreService& store_;
  const std::string host_;
  const AgainAfter again_after_;
  boost::asio::steady_timer timer_;
  std::vector<Job> waiting_;  // event loop
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t busy_ = 0;  // so many runs are not over; under mutex_

  std::unique_ptr<TaskThread> thread_;  // last member: it must end before the objects that its tasks use
};

}  // namespace flight::daemon
