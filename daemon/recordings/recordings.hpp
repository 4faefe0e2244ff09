// SPDX-License-Identifier: Apache-2.0
// The recordings that are running, at most kMost; answers the control calls about them. Each has threads of its own
// (running_recording.hpp). What is left of parts is finished on a further thread (recovery_thread.hpp). Event loop
// only, except where noted; each `done` is called once, on the event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/control/backend.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/recordings/recovery_thread.hpp"
#include "daemon/recordings/running_recording.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/task_thread.hpp"
#include "libcore/base/waiting_clock.hpp"
#include "libcore/config/config.hpp"
#include "libcore/snapshot/file_facts.hpp"

namespace flight::daemon {

class Recordings {
 public:
  static constexpr std::size_t kMost = 2;

  // `thread`: for recover(). `clock`: of the recordings' waits.
  Recordings(boost::asio::io_context& loop, std::unique_ptr<TaskThread> thread, RecorderThread& recorder,
             StoreService& store, const HostFacts& host, const Config& config,
             const WaitingClock& clock = WaitingClock::monotonic());
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;
  ~Recordings();  // ends all, and waits

  // For the recordings that begin later.
  void configure(const Config& config);

  // As in ControlBackend.
  void record(const Caller& caller, RecordParameters parameters, ControlBackend::Follower follower,
              ControlBackend::Done done);
  void stop(const std::string& id, ControlBackend::Done done);

  // A recording that flightd makes by itself, for a trigger; nobody follows it. If the trigger's last one still runs,
  // that one goes on for so long from now instead. `begun`: as RunningRecording's; `done`: as of record().
  struct OfTrigger {
    std::string trigger, reason;
    EventTime since_ns = 0;  // what the rings hold of the time since then comes first
    EventTime for_ns = 0;
  };
  void record(const OfTrigger& wanted, std::function<void(const std::string& id)> begun, ControlBackend::Done done);
  // Any thread. The id of one that runs; empty: none does.
  [[nodiscard]] std::string running_id() const;
  // Any thread. For the status: each that runs, who began it, and its size.
  [[nodiscard]] std::vector<std::string> notes() const;
  // Any thread but the event loop, which must still run: ends all in order, and waits. No other one begins. False:
  // after `most` the disk or the broker has not answered.
  [[nodiscard]] bool end_all(std::chrono::seconds most);
  // Then: answers those that wait for the end, with an error. The threads of what is returned still run: it may be
  // destroyed only after the disk has answered, and before the objects that they use.
  using Abandoned = std::vector<std::unique_ptr<RunningRecording>>;
  [[nodiscard]] Abandoned abandon();
  // Finishes these parts, whose flightd was killed.
  void recover(const std::vector<std::uint64_t>& seqs) { recovery_.recover(seqs, RecordingEnd::killed); }

 private:
  struct Running {
    std::unique_ptr<RunningRecording> recording;
    ControlBackend::Follower follower;
    std::vector<ControlBackend::Done> waiting;  // the caller, and who stopped it
    std::string who;
    RecordProgress last{};
    std::string trigger{};  // empty: a person's
  };
  // With the settings of the configuration.
  [[nodiscard]] RecordingOrder new_order() const;
  [[nodiscard]] RecordingOrder order_of(const Caller& caller, RecordParameters parameters) const;
  // An error: it was not started, and `running` is as before; otherwise moved from.
  [[nodiscard]] CallResult<void> start(RecordingOrder order, Running& running);
  [[nodiscard]] bool prolong(const OfTrigger& wanted, const ControlBackend::Done& done);
  [[nodiscard]] RunningRecording::Callbacks callbacks_of(std::uint64_t number);
  void progressed(std::uint64_t number, const std::string& id, const std::optional<RecordProgress>& progress);
  void ended(std::uint64_t number, const RecordingOutcome& outcome);
  [[nodiscard]] std::string running_ids() const;

  boost::asio::io_context& loop_;
  RecorderThread& recorder_;
  StoreService& store_;
  const HostFacts& host_;
  const WaitingClock& clock_;
  RecordConfig config_;
  int level_ = 1;
  std::uint64_t number_ = 0;
  const std::shared_ptr<const void> own_ = std::make_shared<int>(0);  // the client of triggers' recordings

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Running> running_;  // under mutex_; changed on the event loop
  bool ending_ = false;                       // under mutex_

  RecoveryThread recovery_;  // last member: it must end before the objects that its tasks use
};

}  // namespace flight::daemon
