// SPDX-License-Identifier: Apache-2.0
// The broker thread: flightd's only user of the broker protocol. It waits for the broker's replies, so that a broker
// that hangs delays only those that need its reply, and neither the sideband nor a status. It attaches again when the
// broker reports changed rings, and to the next broker when one died. A successor with the same recording replaces it
// silently, and unanswered requests are repeated.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "daemon/recorder/attached.hpp"
#include "daemon/recorder/kernel_symbols.hpp"
#include "libcore/base/task_queue.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/base/waiting_clock.hpp"
#include "libcore/broker/client.hpp"

namespace flight::daemon {

class BrokerThread {
 public:
  struct Callbacks {
    // The broker and its recording are lost since `lost_ns`; called once per broker.
    std::function<void(Error, EventTime lost_ns)> lost;
    std::function<void(EventTime lost_ns)> replaced;  // another broker has the same recording, without a gap
    std::function<void(const Attached&)> changed;
    std::function<void(Error)> warn;  // the old set of rings stays in use
  };
  // All callbacks run on the broker thread. `path`: the broker's socket, where its successor will listen; empty: there
  // is no successor. `refusal`: why no broker is attached yet (`broker` is not connected, `attached` has no rings);
  // empty: one is. `clock`: of what is tried again; the times that this class returns are those of records.
  [[nodiscard]] static Result<std::unique_ptr<BrokerThread>> start(
      BrokerClient broker, std::shared_ptr<Attached> attached, std::string path, Callbacks callbacks,
      std::string refusal = {}, const WaitingClock& clock = WaitingClock::monotonic());
  BrokerThread(const BrokerThread&) = delete;
  BrokerThread& operator=(const BrokerThread&) = delete;
  ~BrokerThread();

  // Any thread. The newest set of rings.
  [[nodiscard]] std::shared_ptr<Attached> attached() const;
  // Any thread but the broker thread; each waits for its reply, up to kAnswerTimeout. Changes that the broker made
  // before the reply are in attached() when these return.
  [[nodiscard]] Result<Counts> counts();
  [[nodiscard]] Result<Mapping> processes();
  // At most `wait`: ETIMEDOUT. The broker still gets the request.
  [[nodiscard]] Result<Counts> counts(std::chrono::milliseconds wait);
  [[nodiscard]] Result<KnownFiles> build_ids(std::chrono::milliseconds wait);
  // Any thread; never during a freeze. Requests the current kernel maps and symbols from the broker; kernel() returns
  // them when the reply is there, also a late one.
  [[nodiscard]] std::future<Result<void>> refresh_kernel();
  // Any thread. The last reply; never nullptr.
  [[nodiscard]] std::shared_ptr<const KernelSymbols> kernel() const;
  // Any thread. Why kernel addresses may have no names; empty: they have names.
  [[nodiscard]] std::string kernel_warning() const;
  // Any thread. The processes whose mappings the last scan lacks; empty: it is complete.
  [[nodiscard]] std::string scan_warning() const;
  // Any thread. Why attached() is not the broker's newest set of rings; empty: it is. Tried again every kAttachAgain.
  [[nodiscard]] std::string attach_warning() const;
  static constexpr std::chrono::seconds kAttachAgain{2};
  // Any thread but the broker thread and those that never wait; one after the other. Other requests continue while the
  // disk creates the file. After `wait` ETIMEDOUT, or kBrokerSilent if the broker answers nothing else either: if the
  // file comes later, the next call returns it; it is of the kind that was requested first.
  static constexpr std::chrono::seconds kFileWait{30};  // systemd replaces a broker that is silent for that long
  static constexpr std::errc kBrokerSilent = std::errc::stream_timeout;
  [[nodiscard]] Result<PartialFile> file(std::chrono::seconds wait, bool spare = false);
  // Any thread; `done` is called on the broker thread.
  void counts(std::function<void(Result<Counts>)> done);
  void processes(std::function<void(Result<Mapping>)> done);
  // Disables or enables all events: all of them, or (an error) none. Applies to the next broker as well.
  void set_recording(bool recording, std::function<void(Result<void>)> done);

  // The broker reads its configuration again: all of it is applied, or (an error) nothing changed. True if rings were
  // closed or opened; attached() then has the new set, or attach_warning() says why not.
  void reload(std::function<void(Result<bool>)> done);

  [[nodiscard]] bool gone() const { return gone_; }
  // Any thread. While gone(), why: the answer of a broker that runs and cannot record, or, after a reconnect() has
  // failed, why none answers; empty: it was lost a moment ago.
  [[nodiscard]] std::string refusal() const;
  // When the last broker was lost; 0: never.
  [[nodiscard]] EventTime lost_ns() const { return lost_ns_; }
  // When the unanswered request was sent; 0: there is none.
  [[nodiscard]] EventTime asked_ns() const { return asked_ns_; }

  // A broker that adopted the same recording is waited for this long. After that the recording is regarded as lost
  // (`lost`), and flightd saves the content of the rings.
  static constexpr std::chrono::seconds kSameFor{5};
  static constexpr std::chrono::milliseconds kReconnectEvery{50};
  // After `lost`: looks for the next broker, for at most this long; 0: once. `done`: attached, or an error; true: it
  // has the same recording after all.
  static constexpr std::chrono::seconds kReconnectFor{30};  // a broker that systemd restarts is back in a second
  void reconnect(std::chrono::seconds look_for, std::function<void(Result<bool>)> done);
  // Aborts all waits; no callback follows. Call it before the end.
  void cut();

 private:
  BrokerThread(BrokerClient broker, std::shared_ptr<Attached> attached, std::string path, Callbacks callbacks,
               const WaitingClock& clock, UniqueFd wake)
      : broker_(std::move(broker)),
        path_(std::move(path)),
        callbacks_(std::move(callbacks)),
        clock_(clock),
        tasks_(std::move(wake)),
        attached_(std::move(attached)) {}
  template <typename Call>
  auto timed(Call call) -> decltype(call());
  template <typename Call>
  auto ask_within(std::chrono::milliseconds wait, Call call) -> decltype(call());
  [[nodiscard]] Result<Mapping> ask_processes();
  [[nodiscard]] Result<void> ask_kernel();
  void run();
  void check_broker();
  void attach_again();
  [[nodiscard]] EventTime attach_due_ns() const;  // when run() calls it, by clock_; kNever: it is not due
  [[nodiscard]] EventTime after(std::chrono::nanoseconds time) const {
    return clock_.now() + static_cast<EventTime>(time.count());
  }
  void deliver_file();
  [[nodiscard]] Result<void> attach(BrokerClient& broker);
  [[nodiscard]] Result<void> publish(Attachment attachment);
  struct Next {
    BrokerClient broker;
    Attachment attachment;
  };
  // `answered`: the last one that was tried has refused.
  [[nodiscard]] Result<Next> look_for_next(EventTime until_ns, bool& answered);
  void note_refusal(std::string refusal);
  [[nodiscard]] Result<void> take_next(Next next);
  [[nodiscard]] Result<void> find_same();

  BrokerClient broker_;
  std::string path_;
  Callbacks callbacks_;
  const WaitingClock& clock_;
  TaskQueue tasks_;
  std::atomic<bool> gone_ = false, cut_ = false;
  std::atomic<EventTime> asked_ns_ = 0, lost_ns_ = 0;
  bool recording_ = true;
  std::uint64_t replaced_ = 0;     // number of replacements
  EventTime attach_again_ns_ = 0;  // by clock_; 0: attached() is the newest set
  std::optional<std::promise<Result<PartialFile>>> file_wanted_;
  bool spare_wanted_ = false;
  // Not a std::timed_mutex: ThreadSanitizer of GCC 12 does not know pthread_mutex_clocklock(3).
  std::mutex file_mutex_;
  std::condition_variable file_free_;
  bool file_asked_ = false;                          // under file_mutex_: a thread is in file()
  std::future<Result<PartialFile>> file_under_way_;  // of that thread

  mutable std::mutex mutex_;  // guards the following members, and broker_ while it is replaced
  std::shared_ptr<Attached> attached_;
  std::string scan_warning_, attach_warning_;
  std::shared_ptr<const KernelSymbols> kernel_ = std::make_shared<const KernelSymbols>();
  std::string kernel_warning_, refusal_;
  int next_fd_ = -1;                  // of a broker that may be the next
  std::condition_variable cut_wake_;  // cut_ is set: nothing is waited for
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flight::daemon
