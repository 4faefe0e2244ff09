// SPDX-License-Identifier: Apache-2.0
// class Daemon, the running flightd: its threads, its event loop, its signals, its end.
//
// The threads are listed in ARCHITECTURE.md. This class owns the event loop, which serves the control socket and
// signals and never waits. The objects that it owns start the other threads.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/control/router.hpp"
#include "daemon/control/server.hpp"
#include "daemon/control/status_service.hpp"
#include "daemon/control/trigger_api.hpp"
#include "daemon/notify/event_hub.hpp"
#include "daemon/notify/journal.hpp"
#include "daemon/notify/status_notifier.hpp"
#include "daemon/notify/watchdog.hpp"
#include "daemon/privileges.hpp"
#include "daemon/recorder/attached.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/recorder/recording_switch.hpp"
#include "daemon/recorder/trigger_thread.hpp"
#include "daemon/recordings/recordings.hpp"
#include "daemon/reload.hpp"
#include "daemon/snapshots/broker_loss.hpp"
#include "daemon/snapshots/freeze_thread.hpp"
#include "daemon/snapshots/snapshot_api.hpp"
#include "daemon/snapshots/worker.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/task_thread.hpp"
#include "libcore/config/config.hpp"
#include "libcore/config/config_reader.hpp"
#include "libcore/snapshot/file_facts.hpp"

namespace flight::daemon {

class Daemon {
 public:
  struct Setup {
    Config config;
    std::vector<PlannedWorker> workers;
    std::string state_dir, runtime_dir;
    std::function<Result<StateFolder>()> take_state;
    Identity identity;
    BrokerClient broker;
    std::shared_ptr<Attached> attached;
    std::unique_ptr<FreezeThread> freezer;
    UniqueFd control_socket;                  // already listening; invalid: flightd creates its own
    std::unique_ptr<SpareDescriptors> spare;  // their numbers are given back for each snapshot
    UniqueFd signals;  // signalfd(2): SIGTERM, SIGINT, SIGUSR2, SIGHUP, blocked before threads were started
    std::vector<std::string> command_line;
    std::vector<std::string> warnings, notes;
    std::shared_ptr<ConfigReader> config_reader;  // as in Start
    std::string broker_socket;  // of a broker whose successor listens there; empty: the broker is flightd's child
    std::string refusal;        // why nothing is recorded yet: `broker` is not connected, `attached` has no rings
  };
  // Starts all threads of the daemon.
  [[nodiscard]] static Result<std::unique_ptr<Daemon>> open(Setup setup);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon() { end_threads(); }

  // Runs until SIGTERM or the loss of the broker; returns the exit status.
  [[nodiscard]] int run();

 private:
  explicit Daemon(Setup setup);
  [[nodiscard]] Result<void> start();
  [[nodiscard]] BesideRings share_memory();
  [[nodiscard]] Result<void> start_recorder();
  [[nodiscard]] Result<void> start_store();
  [[nodiscard]] Result<void> start_triggers();
  [[nodiscard]] Result<void> start_recordings();
  [[nodiscard]] Result<void> start_snapshots();
  [[nodiscard]] Result<void> start_control();
  void serve();
  void end_threads();
  void wait_for_signal();
  void take_signal();
  // A new configuration is in force: passes it to all objects that use it.
  void on_config(const Config& config);
  void want_histories(const Config& config);
  void stop_on(const std::string& signal);
  void stop(std::string why);
  void notify_changed(const Attached& attached);
  void report_replaced(EventTime lost_ns);
  void keep_spare();
  void use_store(std::string saved_triggers);  // it could not be used at start
  void end_without_broker(const std::string& why);

  Setup setup_;
  const std::string folder_;  // of the snapshots
  HostFacts host_;
  boost::asio::io_context loop_{1};
  boost::asio::posix::stream_descriptor signals_{loop_};
  std::unique_ptr<Journal> journal_;
  StatusNotifier status_{loop_, [this] { return status_service_->line_facts(); }};
  EventHub events_{[this](JournalEntry entry) { journal_->report(std::move(entry)); }, [this] { status_.notify(); }};
  std::unique_ptr<RecorderThread> recorder_;
  std::unique_ptr<StoreService> store_;
  std::unique_ptr<TriggerThread> triggers_;
  boost::asio::steady_timer spare_again_{loop_};
  std::unique_ptr<Recordings> recordings_;
  std::optional<Recordings::Abandoned> abandoned_;  // of a disk that does not answer: flightd exits beside them
  std::unique_ptr<SnapshotWorker> worker_;
  std::unique_ptr<SnapshotApi> snapshots_;
  std::unique_ptr<BrokerLoss> broker_loss_;
  std::unique_ptr<RecordingSwitch> recording_;
  std::unique_ptr<TriggerApi> trigger_api_;
  std::unique_ptr<Reloader> reloader_;
  std::unique_ptr<StatusService> status_service_;
  std::unique_ptr<ControlRouter> router_;
  std::unique_ptr<ControlServer> server_;
  Watchdog watchdog_{loop_, [this] { return triggers_->passes(); }};
  std::unique_ptr<TaskThread> stopper_;
  std::string saved_triggers_;  // triggers.state, until the triggers start
  int exit_status_ = 0;
  bool last_asked_ = false;  // the on_stop snapshot
  bool stopping_ = false;
};

}  // namespace flight::daemon
