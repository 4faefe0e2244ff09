// SPDX-License-Identifier: Apache-2.0
// The recorder thread: flightd's only user of the wall, only poller of the sideband rings, only owner of the ledger.
// A 100 ms tick drains the sideband into the ledger; once a second it notes the rings' heads. Everybody else hands it a
// task.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/attached.hpp"
#include "daemon/history.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/client.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/sideband/ledger.hpp"

namespace flight {

class RecorderThread {
 public:
  using Lost = std::function<void(Error)>;

  // `broker_lost` is called once, on the recorder thread, when the wall breaks. `attached` must outlive the thread.
  [[nodiscard]] static Result<std::unique_ptr<RecorderThread>> start(BrokerClient broker, Attached& attached,
                                                                     Lost broker_lost);
  RecorderThread(const RecorderThread&) = delete;
  RecorderThread& operator=(const RecorderThread&) = delete;
  ~RecorderThread();

  // The following may be called on any thread but the recorder's own. Each waits for its answer on the recorder thread,
  // which can take as long as a scan of /proc (0.3 s with 5,000 processes): never from the event loop.
  [[nodiscard]] Result<Counts> counts();
  [[nodiscard]] LedgerExport export_window(EventTime begin_ns, EventTime end_ns,
                                           std::unordered_set<std::uint32_t> pids);

  // On the snapshot worker's thread only. The recorder goes on while the disk makes the file; ETIMEDOUT after
  // kFileWait: the file, should it come after all, is the next call's.
  [[nodiscard]] Result<PartialFile> file();

  // While held, nothing that a frozen image may still need is folded away.
  void hold_fold(bool held) { fold_held_ = held; }
  // No record is held that is older, as of the last second.
  [[nodiscard]] EventTime oldest_held_ns() const { return oldest_held_ns_; }
  // How far back the busiest ring reaches, as of the last second; UINT64_MAX: none has overwritten anything yet.
  [[nodiscard]] EventTime shortest_history_ns() const { return shortest_history_ns_; }
  [[nodiscard]] bool broker_gone() const { return broker_gone_; }
  // What the walk of a snapshot measured; for the rate of events that sample.
  void note_record_bytes(const std::string& channel, double bytes);

  // Fills in what the recorder knows: rings, channels, broker, warnings. `done` is called on the recorder thread.
  void status(std::function<void(Status)> done);

 private:
  RecorderThread(BrokerClient broker, Attached& attached, Lost broker_lost, UniqueFd wake);
  void post(std::function<void()> task);
  template <typename Call>
  auto ask(Call call) -> decltype(call());
  void run();
  void wait_for_work(EventTime until_ns);
  void run_tasks();
  void drain();
  void scan();
  void note_heads(EventTime now_ns);
  void check_broker();
  void deliver_file();
  void fill(Status& status);
  void fill_channels(Status& status, EventTime now_ns, const Counts* now, const Counts& before);

  BrokerClient broker_;
  Attached& attached_;
  Lost broker_lost_;
  UniqueFd wake_;
  Ledger ledger_;
  RecordBuffer drained_;
  std::vector<History> histories_;  // of attached_.rings
  EventTime last_scan_ns_ = 0;
  std::atomic<bool> broker_gone_ = false;
  std::optional<std::promise<Result<PartialFile>>> file_wanted_;
  std::future<Result<PartialFile>> file_under_way_;  // the snapshot worker's
  Counts last_counts_;                               // of the last status, for rates
  std::atomic<bool> fold_held_ = false;
  std::atomic<EventTime> oldest_held_ns_ = 0;
  std::atomic<EventTime> shortest_history_ns_ = UINT64_MAX;

  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
  std::map<std::string, double> record_bytes_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace flight
