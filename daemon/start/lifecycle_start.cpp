// SPDX-License-Identifier: Apache-2.0
// Creates the daemon's threads and the objects that use them, each after the objects that it needs: recorder, store,
// triggers, snapshots, control.
#include <boost/asio/post.hpp>

#include "daemon/lifecycle.hpp"
#include "daemon/log/log.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/config/memory_share.hpp"
#include "libcore/sysinfo/host.hpp"
#include "libcore/sysinfo/memory_limit.hpp"

namespace flight::daemon {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kStoreWait(3);  // then recording begins without the store
constexpr std::chrono::seconds kDueWait(2);    // then a reload does not say what the store will delete

}  // namespace

Daemon::Daemon(Setup setup)
    : setup_(std::move(setup)), folder_(setup_.state_dir + "/snapshots"), host_(HostFacts::read(setup_.command_line)) {}

Result<std::unique_ptr<Daemon>> Daemon::open(Setup setup) {
  std::unique_ptr<Daemon> out(new Daemon(std::move(setup)));
  if (auto started = out->start(); !started) return propagate(started.error());
  return out;
}

Result<void> Daemon::start() {
  auto journal = Journal::start();
  if (!journal) return propagate(journal.error());
  journal_ = std::move(*journal);
  auto stopper = TaskThread::start("stop");
  if (!stopper) return propagate(stopper.error());
  stopper_ = std::move(*stopper);
  if (auto started = start_recorder(); !started) return started;
  if (auto started = start_store(); !started) return started;
  if (auto started = start_triggers(); !started) return started;
  if (auto started = start_recordings(); !started) return started;
  if (auto started = start_snapshots(); !started) return started;
  if (auto started = start_control(); !started) return started;
  signals_.assign(setup_.signals.release());
  return {};
}

// The rings are the broker's, and no cgroup is charged for them; what flightd knows about processes is charged to its
// own.
BesideRings Daemon::share_memory() {
  const std::uint64_t max_bytes = setup_.config.memory_max.of(HostInfo::read().total_memory_kb * 1024);
  std::string unread;
  const auto limit = memory_limit("", &unread);
  if (!unread.empty())
    setup_.warnings.push_back("a memory limit of flightd's cgroup is not known, and flightd cannot heed it: " + unread);
  const BesideRings beside = beside_rings(max_bytes, limit ? limit->bytes : BesideRings::kNoCgroupLimit);
  if (beside.bound != MemoryBound::cgroup) return beside;
  const std::uint64_t least = tracker_bytes(kLeastBesideRingsBytes);
  const std::string text =
      fmt::format("{} of the cgroup {} is {}: flightd keeps at most {} about processes, not {}", limit->file,
                  printable(limit->cgroup), format_bytes(limit->bytes), format_bytes(tracker_bytes(beside.bytes)),
                  format_bytes(tracker_bytes(beside_rings_bytes(max_bytes))));
  if (limit->bytes / 4 >= least)
    setup_.notes.push_back(text);
  else
    setup_.warnings.push_back(text +
                              "; that is more than a quarter of the limit: raise it (MemoryMax= of the unit), "
                              "or the kernel may kill flightd");
  return beside;
}

Result<void> Daemon::start_recorder() {
  const BrokerThread::Callbacks callbacks{
      .lost =
          [this](const Error& error, EventTime lost_ns) {
            asio::post(loop_, [this, what = error.what, lost_ns] { broker_loss_->lose(what, lost_ns); });
          },
      .replaced = [this](EventTime lost_ns) { asio::post(loop_, [this, lost_ns] { report_replaced(lost_ns); }); },
      .changed = [this](const Attached& attached) { notify_changed(attached); },
      .warn = [](const Error& error) { log::warn("{}", error.what); }};
  const BesideRings beside = share_memory();
  // If the broker is flightd's child, its rings end with it, so a checkpoint is useless.
  std::optional<CheckpointFile> checkpoint;
  if (!setup_.broker_socket.empty())
    checkpoint.emplace(setup_.runtime_dir, setup_.attached->manifest.boot_id, CheckpointLimits::of(beside.bytes));
  auto recorder = RecorderThread::start(std::move(setup_.broker), setup_.attached, setup_.broker_socket, callbacks,
                                        std::move(checkpoint), beside, setup_.refusal);
  if (!recorder) return propagate(recorder.error());
  recorder_ = std::move(*recorder);
  want_histories(setup_.config);
  return {};
}

Result<void> Daemon::start_store() {
  auto thread = TaskThread::start("store");
  if (!thread) return propagate(thread.error());
  store_ = std::make_unique<StoreService>(
      loop_, std::move(*thread),
      StoreService::Setup{.folder = folder_,
                          .state_dir = setup_.state_dir,
                          .boot_id = setup_.attached->manifest.boot_id,
                          .config = setup_.config.store,
                          .take_state = std::move(setup_.take_state),
                          .opened_late = [this](std::string saved) { use_store(std::move(saved)); },
                          .moved =
                              [this] {
                                if (worker_) worker_->folder_changed();
                              }},
      [this] { events_.status_changed(); });
  auto saved = store_->open(kStoreWait);
  if (!saved) return propagate(saved.error());
  saved_triggers_ = std::move(*saved);
  if (!store_->usable()) events_.store_missing(store_->trouble_text() + "; trying again");
  return {};
}

void Daemon::use_store(std::string saved_triggers) {
  triggers_->restore(std::move(saved_triggers),
                     [](const std::string& why) { log::warn("{}: the earlier trigger counters are lost", why); });
  snapshots_->learn_last();
  recordings_->recover(store_->take_left_parts());
  events_.store_opened(folder_);
}

Result<void> Daemon::start_triggers() {
  TriggerThread::Setup setup{.triggers = setup_.config.triggers,
                             .guard = setup_.config.storm_guard,
                             .saved = std::move(saved_triggers_),
                             .boot_id = setup_.attached->manifest.boot_id,
                             .attached = [this] { return recorder_->attached(); },
                             .look_at_clock = [this] { recorder_->clock().look(); }};
  // Tasks that it posts run in run(), when all objects exist.
  const TriggerThread::Callbacks callbacks{
      .fire =
          [this](Decision decision) {
            asio::post(loop_, [this, decision = std::move(decision)] { trigger_api_->take(decision); });
          },
      .suppressed =
          [this](SuppressedWindow window) {
            asio::post(loop_, [this, window = std::move(window)] { events_.triggers_suppressed(window); });
          },
      .keep = [this](std::string state) { store_->trigger_state().save(std::move(state)); }};
  auto triggers = TriggerThread::start(std::move(setup), callbacks);
  if (!triggers) return propagate(triggers.error());
  triggers_ = std::move(*triggers);
  if (const std::string& why = triggers_->saved_error(); !why.empty())
    log::warn("{}: the trigger counters start at zero", why);
  return {};
}

// Not within 5 s after a snapshot: the store is cleaned up, and symbols are written. What is saved without a snapshot,
// such as the triggers' state, may have used some.
void Daemon::keep_spare() {
  constexpr std::chrono::seconds kEvery(5);
  spare_again_.expires_after(kEvery);
  spare_again_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    static_cast<void>(setup_.spare->take());
    keep_spare();
  });
}

Result<void> Daemon::start_recordings() {
  auto thread = TaskThread::start("recordings");
  if (!thread) return propagate(thread.error());
  recordings_ = std::make_unique<Recordings>(loop_, std::move(*thread), *recorder_, *store_, host_, setup_.config);
  if (store_->usable()) recordings_->recover(store_->take_left_parts());
  return {};
}

Result<void> Daemon::start_snapshots() {
  if (const std::string& why = setup_.freezer->priority_error(); !why.empty()) setup_.warnings.push_back(why);
  SnapshotWorker::Callbacks callbacks{
      .begun =
          [this](const std::string& trigger) {
            setup_.spare->give();
            asio::post(loop_, [this, trigger] {
              spare_again_.cancel();
              events_.snapshot_begun(trigger);
            });
          },
      .ended =
          [this](const Result<Sidecar>& result) {
            store_->writing_ended(result ? std::optional<Error>() : std::optional<Error>(result.error()));
            asio::post(loop_, [this, result] {
              snapshots_->ended(result);
              keep_spare();
            });
          },
      .metrics = [this] { return triggers_->metrics(); },
      .make_room = [this](const std::string& trigger,
                          std::uint64_t most_bytes) { return store_->make_room(trigger, most_bytes); },
      .make_more_room = [this](const std::string& trigger,
                               std::uint64_t needed_bytes) { return store_->make_more_room(trigger, needed_bytes); },
      .synced = [this](bool synced) { store_->snapshot_synced(synced); },
      .symbols_kept = [this] { store_->keep_budget(); },
      .warn = [this](const Error& error) { asio::post(loop_, [what = error.what] { log::warn("{}", what); }); },
      .store_usable = [this] { return store_->usable(); },
      .recording_id = [this] { return recordings_->running_id(); },
      .store_warning = [this] { return store_->moved_warning(); }};
  auto worker = SnapshotWorker::start(*recorder_, *setup_.freezer, setup_.config.snapshot, host_, folder_,
                                      std::move(setup_.workers), std::move(callbacks));
  if (!worker) return propagate(worker.error());
  worker_ = std::move(*worker);
  for (const std::string& warning : worker_->worker_warnings()) setup_.warnings.push_back(warning);
  snapshots_ = std::make_unique<SnapshotApi>(loop_, *recorder_, *worker_, *store_, events_);
  std::function<void()> end;  // where the broker has no successor
  if (setup_.broker_socket.empty()) end = [this] { end_without_broker("it was a child of this flightd"); };
  broker_loss_ = std::make_unique<BrokerLoss>(loop_, *recorder_, *worker_, *snapshots_, events_, std::move(end));
  recording_ = std::make_unique<RecordingSwitch>(loop_, *recorder_, *triggers_, events_);
  keep_spare();
  trigger_api_ =
      std::make_unique<TriggerApi>(loop_, *triggers_, *snapshots_, *recorder_, *recording_, *recordings_, events_);
  return {};
}

Result<void> Daemon::start_control() {
  auto reading = TaskThread::start("reload");
  if (!reading) return propagate(reading.error());
  reloader_ = std::make_unique<Reloader>(
      loop_, *recorder_, events_, setup_.config_reader, setup_.config, std::move(*reading),
      [this](const Config& config) { on_config(config); }, [this] { broker_loss_->try_now(); },
      [this](std::function<void(std::string)> done) { store_->find_due(kDueWait, std::move(done)); });
  status_service_ = std::make_unique<StatusService>(loop_, *recorder_, *snapshots_, *store_, *reloader_, *triggers_,
                                                    *recordings_, setup_.warnings, setup_.notes);
  router_ = std::make_unique<ControlRouter>(*status_service_, *snapshots_, *store_, *trigger_api_, *recording_,
                                            *recordings_, *reloader_, events_);
  const ControlAccess access{.own_uid = setup_.identity.trusted_uid,
                             .group = setup_.identity.trusted_gid,
                             .trigger_group = setup_.identity.trigger_gid};
  auto server = setup_.control_socket
                    ? ControlServer::adopt(loop_, std::move(setup_.control_socket), *router_, access)
                    : ControlServer::open(loop_, setup_.runtime_dir + "/" + std::string(kInterface), *router_, access);
  if (!server) return propagate(server.error());
  server_ = std::move(*server);
  return {};
}

}  // namespace flight::daemon
