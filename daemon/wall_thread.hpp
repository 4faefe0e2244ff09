// SPDX-License-Identifier: Apache-2.0
// The wall thread: flightd's only user of the wall. It waits for the broker's answers so that nobody else has to: a
// broker that hangs holds up whoever needs its answer, and neither the sideband nor a status. It attaches again when
// the broker says that the rings changed, and to the next broker when one died: one that took over the same recording
// takes its place unseen, and what was asked of the dead one is asked again.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/attached.hpp"
#include "daemon/task_queue.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/client.hpp"

namespace flight {

class WallThread {
 public:
  struct Told {
    // The broker is gone, since `lost_ns`, and its recording for all that is known; once for each broker.
    std::function<void(Error, EventTime lost_ns)> lost;
    std::function<void(EventTime lost_ns)> replaced;  // the broker is another, and the recording has not paused
    std::function<void(const Attached&)> changed;
    std::function<void(Error)> warn;  // the old set stays
  };
  // All of `told` is called on the wall thread. `path`: of the broker's socket, where the next one will listen; empty:
  // there will be no next one.
  [[nodiscard]] static Result<std::unique_ptr<WallThread>> start(BrokerClient broker,
                                                                 std::shared_ptr<Attached> attached, std::string path,
                                                                 Told told);
  WallThread(const WallThread&) = delete;
  WallThread& operator=(const WallThread&) = delete;
  ~WallThread();

  // Any thread. The newest set of rings.
  [[nodiscard]] std::shared_ptr<Attached> attached() const;
  // Any thread but this; each waits for its answer, up to kAnswerTimeout. What the broker changed before it answered
  // is in attached() when these return.
  [[nodiscard]] Result<Counts> counts();
  [[nodiscard]] Result<std::string> processes();
  // On the snapshot worker's thread only. The wall goes on while the disk makes the file; ETIMEDOUT after `wait`: the
  // file, should it come after all, is the next call's, and of the kind that the first one asked for.
  static constexpr std::chrono::seconds kFileWait{30};
  [[nodiscard]] Result<PartialFile> file(std::chrono::seconds wait, bool spare = false);
  // Any thread; `done` is called on the wall thread.
  void counts(std::function<void(Result<Counts>)> done);
  void processes(std::function<void(Result<std::string>)> done);
  // Switches all events off or on: all of them, or (an error) none. The next broker is told, too.
  void set_recording(bool recording, std::function<void(Result<void>)> done);

  // The broker reads its configuration again: all of it holds, or (an error) nothing changed. True where rings were
  // closed or opened; what it has now is in attached() by then.
  void reload(std::function<void(Result<bool>)> done);

  [[nodiscard]] bool gone() const { return gone_; }
  // When the last broker was lost; 0: none was yet.
  [[nodiscard]] EventTime lost_ns() const { return lost_ns_; }
  // When the request that has no answer yet was asked; 0: none.
  [[nodiscard]] EventTime asked_ns() const { return asked_ns_; }

  // After `lost`: looks for the next broker, for kReconnectFor at most. `done`: attached, or not; true: it has the
  // recording of the one before after all.
  void reconnect(std::function<void(Result<bool>)> done);
  // Breaks off what is waited for; nothing is told any more. Before the end.
  void cut();

 private:
  WallThread(BrokerClient broker, std::shared_ptr<Attached> attached, std::string path, Told told, UniqueFd wake)
      : broker_(std::move(broker)),
        path_(std::move(path)),
        told_(std::move(told)),
        tasks_(std::move(wake)),
        attached_(std::move(attached)) {}
  template <typename Call>
  auto timed(Call call) -> decltype(call());
  void run();
  void check_broker();
  void deliver_file();
  [[nodiscard]] Result<void> attach(BrokerClient& broker);
  [[nodiscard]] Result<void> publish(Attachment attachment);
  struct Next {
    BrokerClient broker;
    Attachment attachment;
  };
  [[nodiscard]] Result<Next> look_for_next(EventTime until_ns);
  [[nodiscard]] Result<void> take_next(Next next);
  [[nodiscard]] Result<void> find_same();

  BrokerClient broker_;
  std::string path_;
  Told told_;
  TaskQueue tasks_;
  std::atomic<bool> gone_ = false, cut_ = false;
  std::atomic<EventTime> asked_ns_ = 0, lost_ns_ = 0;
  bool recording_ = true;
  std::uint64_t replaced_ = 0;  // how often
  std::optional<std::promise<Result<PartialFile>>> file_wanted_;
  bool spare_wanted_ = false;
  std::future<Result<PartialFile>> file_under_way_;  // the snapshot worker's

  mutable std::mutex mutex_;  // of what follows, and of broker_ while it is replaced
  std::shared_ptr<Attached> attached_;
  int next_fd_ = -1;  // of the broker that is being asked whether it is the next
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flight
