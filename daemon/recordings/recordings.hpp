// SPDX-License-Identifier: Apache-2.0
// The recordings that are running, at most kMost; answers the control calls about them. Each has threads of its own
// (running_recording.hpp). Finishes the parts of an earlier flightd on a further thread. Event loop only, except where
// noted; each `done` is called once, on the event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/control/backend.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/recordings/running_recording.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/task_thread.hpp"
#include "libcore/config/config.hpp"
#include "libcore/snapshot/file_facts.hpp"

namespace flight::daemon {

class Recordings {
 public:
  static constexpr std::size_t kMost = 2;

  // `thread`: for recover().
  Recordings(boost::asio::io_context& loop, std::unique_ptr<TaskThread> thread, RecorderThread& recorder,
             StoreService& store, const HostFacts& host, const Config& config);
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;
  ~Recordings();  // end_all()

  // For the recordings that begin later.
  void configure(const Config& config);

  // As in ControlBackend.
  void record(const Caller& caller, RecordParameters parameters, ControlBackend::Follower follower,
              ControlBackend::Done done);
  void stop(const std::string& id, ControlBackend::Done done);

  // Any thread. The id of one that runs; empty: none does.
  [[nodiscard]] std::string running_id() const;
  // Any thread but the event loop, which must still run: ends all in order, and waits. No other one begins.
  void end_all();
  // Finishes these parts, whose flightd was killed; tries again if the broker or the disk does not answer.
  void recover(std::vector<std::uint64_t> seqs);

 private:
  struct Running {
    std::unique_ptr<RunningRecording> recording;
    ControlBackend::Follower follower;
    std::vector<ControlBackend::Done> waiting;  // the caller, and who stopped it
  };
  [[nodiscard]] RecordingOrder order_of(const Caller& caller, RecordParameters parameters) const;
  [[nodiscard]] RunningRecording::Callbacks callbacks_of(std::uint64_t number);
  void progressed(std::uint64_t number, const std::string& id, const std::optional<RecordProgress>& progress);
  void ended(std::uint64_t number, const Result<RecordResult>& result);
  [[nodiscard]] std::string running_ids() const;
  void recover_again(std::vector<std::uint64_t> seqs);

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  StoreService& store_;
  const HostFacts& host_;
  RecordConfig config_;
  int level_ = 1;
  boost::asio::steady_timer recover_timer_;
  std::size_t recover_tries_ = 0;
  std::uint64_t number_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Running> running_;  // under mutex_; changed on the event loop
  bool ending_ = false;                       // under mutex_

  std::unique_ptr<TaskThread> thread_;  // last member: it must end before the objects that its tasks use
};

}  // namespace flight::daemon
