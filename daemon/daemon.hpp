// SPDX-License-Identifier: Apache-2.0
// The running daemon: its threads, its event loop, its signals, its end.
//
//   event loop   control socket, signals; waits for nothing
//   recorder     the wall, the sideband, the ledger, a 100 ms tick
//   snapshot     one snapshot after the other; coordinates, does no work itself
//   freeze       SCHED_FIFO, one step
//   crew-N, merge, writer   low priority
//   store        reads and removes files for list, info, remove
//   journal      sends entries to journald, and waits for it
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/attached.hpp"
#include "daemon/control_server.hpp"
#include "daemon/freeze_thread.hpp"
#include "daemon/journal.hpp"
#include "daemon/privileges.hpp"
#include "daemon/recorder_thread.hpp"
#include "daemon/reloader.hpp"
#include "daemon/service.hpp"
#include "daemon/snapshot_worker.hpp"
#include "daemon/status_teller.hpp"
#include "daemon/watchdog.hpp"
#include "libcore/config/config.hpp"
#include "libcore/snapshot/file_facts.hpp"

namespace flight {

class Daemon {
 public:
  struct Setup {
    Config config;
    std::vector<CrewWorker> crew;
    std::string state_dir, runtime_dir;
    Identity identity;
    BrokerClient broker;
    std::shared_ptr<Attached> attached;
    std::unique_ptr<FreezeThread> freezer;
    UniqueFd control_socket;  // that listens already; not valid: flightd makes its own
    UniqueFd signals;         // signalfd(2): SIGTERM, SIGINT, SIGUSR2, SIGHUP, blocked before there were threads
    std::vector<std::string> command_line;
    std::vector<std::string> warnings;
    std::string config_file;    // --config; empty: the folders
    std::string broker_socket;  // of a broker that may come back; empty: it is our own child
  };
  [[nodiscard]] static Result<std::unique_ptr<Daemon>> open(Setup setup);

  // Until SIGTERM or the loss of the broker; the exit status.
  [[nodiscard]] int run();

 private:
  explicit Daemon(Setup setup);
  [[nodiscard]] Result<void> start();
  [[nodiscard]] Result<void> start_triggers();
  void wait_for_signal();
  void take_signal();
  // A new configuration is in force: everybody who has something of it gets it here.
  void on_config(const Config& config);
  void stop_on(const std::string& signal);
  void stop(std::string why);
  void tell(const Result<Sidecar>& result);
  void tell_changed(const Attached& attached);
  void tell_replaced(EventTime lost_ns);
  [[nodiscard]] StatusFacts status_facts() const;
  // Saves what the rings hold, then looks for the next broker, or ends.
  void lose_broker(const std::string& why, EventTime lost_ns);
  void find_next_broker();
  void end_without_broker(const std::string& why);

  Setup setup_;
  HostFacts host_;
  boost::asio::io_context loop_{1};
  boost::asio::posix::stream_descriptor signals_{loop_};
  Journal journal_;
  std::unique_ptr<RecorderThread> recorder_;
  std::unique_ptr<Reloader> reloader_;
  std::unique_ptr<SnapshotWorker> worker_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<TriggerThread> triggers_;
  std::unique_ptr<ControlServer> server_;
  StatusTeller status_{loop_, [this] { return status_facts(); }};
  Watchdog watchdog_{loop_, [this] { return triggers_->passes(); }};
  std::thread stopper_;
  int exit_status_ = 0;
  bool last_asked_ = false;  // the last snapshot, on_stop
  bool stopping_ = false;
  bool degraded_ = false;  // the disk, as it was told last
};

}  // namespace flight
