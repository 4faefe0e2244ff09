// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon.hpp"

#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <set>

#include "libcore/base/units.hpp"

namespace flight {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kCloseWait(2);

void want_histories(RecorderThread& recorder, const Config& config) {
  std::map<std::string, EventTime> wanted_ns;
  for (const ChannelConfig& channel : config.channels)
    wanted_ns[channel.name] = static_cast<EventTime>(channel.min_history.count());
  recorder.want_histories(std::move(wanted_ns));
}

}  // namespace

Daemon::Daemon(Setup setup) : setup_(std::move(setup)), host_(HostFacts::read(setup_.command_line)) {}

Result<std::unique_ptr<Daemon>> Daemon::open(Setup setup) {
  std::unique_ptr<Daemon> out(new Daemon(std::move(setup)));
  if (auto started = out->start(); !started) return pass(started.error());
  return out;
}

Result<void> Daemon::start() {
  const std::string folder = setup_.state_dir + "/snapshots";
  if (const std::size_t removed = Catalogue(folder).remove_partials(); removed > 0)
    spdlog::warn("removed {} unfinished files of an earlier life from {}", removed, folder);
  const WallThread::Told told{
      .lost =
          [this](const Error& error, EventTime lost_ns) {
            asio::post(loop_, [this, what = error.what, lost_ns] { lose_broker(what, lost_ns); });
          },
      .replaced = [this](EventTime lost_ns) { asio::post(loop_, [this, lost_ns] { tell_replaced(lost_ns); }); },
      .changed = [this](const Attached& attached) { tell_changed(attached); },
      .warn = [](const Error& error) { spdlog::warn("{}", error.what); }};
  // The rings of a broker of our own end with us.
  std::optional<Spool> spool;
  if (!setup_.broker_socket.empty()) spool.emplace(setup_.runtime_dir, setup_.attached->manifest.boot_id);
  auto recorder =
      RecorderThread::start(std::move(setup_.broker), setup_.attached, setup_.broker_socket, told, std::move(spool));
  if (!recorder) return pass(recorder.error());
  recorder_ = std::move(*recorder);
  if (const std::string& why = setup_.freezer->priority_error(); !why.empty()) setup_.warnings.push_back(why);
  worker_ = std::make_unique<SnapshotWorker>(
      *recorder_, *setup_.freezer, setup_.config.snapshot, host_, folder, std::move(setup_.crew),
      [this](const Error& error) { asio::post(loop_, [what = error.what] { spdlog::warn("{}", what); }); });
  for (const std::string& warning : worker_->crew_warnings()) setup_.warnings.push_back(warning);
  service_ = std::make_unique<Service>(loop_, *recorder_, *worker_, folder, setup_.config.store, setup_.warnings);
  reloader_ = std::make_unique<Reloader>(loop_, *recorder_, setup_.config_file, setup_.config);
  reloader_->on_config([this](const Config& config) { on_config(config); });
  service_->use(*reloader_);
  want_histories(*recorder_, setup_.config);
  service_->on_snapshot([this](const Result<Sidecar>& result) { tell(result); });
  service_->on_change([this] { status_.tell(); });
  service_->on_suppressed([this](const JournalEntry& entry) { journal_.tell(entry); });

  if (auto started = start_triggers(); !started) return started;

  const ControlAccess access{.own_uid = setup_.identity.trusted_uid,
                             .group = setup_.identity.trusted_gid,
                             .trigger_group = setup_.identity.trigger_gid};
  auto server = setup_.control_socket
                    ? ControlServer::adopt(loop_, std::move(setup_.control_socket), *service_, access)
                    : ControlServer::open(loop_, setup_.runtime_dir + "/" + std::string(kInterface), *service_, access);
  if (!server) return pass(server.error());
  server_ = std::move(*server);
  signals_.assign(setup_.signals.release());
  return {};
}

Result<void> Daemon::start_triggers() {
  TriggerThread::Setup setup{.triggers = setup_.config.triggers,
                             .guard = setup_.config.storm_guard,
                             .saved = Service::saved_triggers(setup_.state_dir),
                             .boot_id = setup_.attached->manifest.boot_id,
                             .attached = [this] { return recorder_->attached(); }};
  const TriggerThread::Told told{
      .fire =
          [this](Decision decision) {
            asio::post(loop_, [this, decision = std::move(decision)] { service_->take_for_trigger(decision); });
          },
      .suppressed =
          [this](SuppressedWindow window) {
            asio::post(loop_, [this, window = std::move(window)] { service_->tell_suppressed(window); });
          },
      .keep = [this](std::string state) { service_->keep_triggers(setup_.state_dir, std::move(state)); }};
  auto triggers = TriggerThread::start(std::move(setup), told);
  if (!triggers) return pass(triggers.error());
  triggers_ = std::move(*triggers);
  if (const std::string& why = triggers_->saved_error(); !why.empty())
    spdlog::warn("{}: the triggers' counters begin afresh", why);
  service_->use_triggers(*triggers_);
  worker_->watch_metrics([this] { return triggers_->metrics(); });
  return {};
}

int Daemon::run() {
  wait_for_signal();
  for (const std::string& warning : setup_.attached->manifest.warnings) spdlog::warn("{}", warning);
  for (const std::string& warning : setup_.warnings) spdlog::warn("{}", warning);
  if (!setup_.attached->staging.locked())
    spdlog::warn("staging is not locked in memory: {}; raise LimitMEMLOCK", setup_.attached->staging.lock_error());
  const auto& manifest = setup_.attached->manifest;
  const std::string recording =
      fmt::format("recording {} CPUs, {} rings of {} in all; control socket {}/{}", setup_.attached->sideband.size(),
                  manifest.rings.size(), format_bytes(setup_.attached->ring_bytes()), setup_.runtime_dir, kInterface);
  spdlog::info("{}", recording);
  setup_.attached.reset();  // the next set may come at any time
  status_.ready();
  watchdog_.begin();
  service_->refresh_store_use();
  loop_.run();

  if (stopper_.joinable()) stopper_.join();
  server_.reset();
  worker_.reset();
  triggers_->stop();
  recorder_.reset();  // before the service: its thread may still answer a status
  service_.reset();
  triggers_.reset();
  reloader_.reset();
  spdlog::info("ended");
  return exit_status_;
}

void Daemon::wait_for_signal() {
  signals_.async_wait(asio::posix::stream_descriptor::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    take_signal();
    if (!stopping_) wait_for_signal();
  });
}

void Daemon::take_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.native_handle(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  switch (info.ssi_signo) {
    case SIGUSR2:
      service_->take_by_signal(info.ssi_uid, static_cast<std::int32_t>(info.ssi_pid), [](const Result<Sidecar>&) {});
      return;
    case SIGHUP:
      service_->reload_for("SIGHUP", [](const CallResult<ReloadReport>&) {});
      return;
    default:
      stop_on(info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
  }
}

void Daemon::on_config(const Config& config) {
  worker_->configure(config.snapshot);
  service_->configure(config.store);
  triggers_->replace(config.triggers, config.storm_guard);
  want_histories(*recorder_, config);
  setup_.config = config;
}

// `snapshot.on_stop`: one last snapshot first. Who cannot wait says so again.
void Daemon::stop_on(const std::string& signal) {
  if (!setup_.config.snapshot.on_stop || std::exchange(last_asked_, true) || recorder_->broker_gone())
    return stop(signal);
  spdlog::info("{}: taking a last snapshot", signal);
  service_->submit(SnapshotRequest::of_flightd("stop", "flightd was told to stop by " + signal),
                   [this, signal](const Result<Sidecar>&) { stop(signal); });
}

// Ends cleanly: the snapshot under way is finished and its askers are answered, then the loop ends.
void Daemon::stop(std::string why) {
  if (stopping_) return;
  stopping_ = true;
  spdlog::info("{}: ending after the snapshot under way, if there is one", why);
  ::sd_notify(0, "STOPPING=1");
  stopper_ = std::thread([this] {
    worker_->stop();
    triggers_->stop();  // what it tells at its end is still heard
    asio::post(loop_, [this] {
      auto timer = std::make_shared<asio::steady_timer>(loop_, kCloseWait);
      timer->async_wait([this, timer](boost::system::error_code) { loop_.stop(); });
      server_->stop([this] { loop_.stop(); });
    });
  });
}

void Daemon::tell_changed(const Attached& attached) {
  spdlog::info("recording {} CPUs, {} rings of {} in all", attached.online_cpus(), attached.manifest.rings.size(),
               format_bytes(attached.ring_bytes()));
  for (const std::string& warning : attached.manifest.warnings) spdlog::warn("{}", warning);
}

void Daemon::tell(const Result<Sidecar>& result) {
  const bool was_degraded = std::exchange(degraded_, !service_->disk_trouble().empty());
  if (result) {
    if (was_degraded) journal_.tell(recovered_entry("disk", "the disk is good again: a snapshot was written"));
    journal_.tell(snapshot_entry(*result));
  } else if (result.error().code != std::errc::operation_canceled) {
    spdlog::error("a snapshot was lost: {}; {}", result.error().what,
                  recorder_->broker_gone() ? "nothing is recorded any more" : "the recording goes on");
    if (degraded_ && !was_degraded)
      journal_.tell(degraded_entry("disk", service_->disk_trouble() + "; until a snapshot can be written again"));
  }
  status_.tell();
}

StatusFacts Daemon::status_facts() const {
  const std::shared_ptr<Attached> attached = recorder_->attached();
  std::set<std::string_view> channels;
  for (const auto& ring : attached->rings) channels.insert(ring->info().channel);
  const EventTime now_ns = monotonic_now();
  const EventTime held_ns = now_ns - std::min(now_ns, recorder_->oldest_held_ns());
  StatusFacts out{.cpus = attached->online_cpus(),
                  .channels = channels.size(),
                  .held = std::chrono::nanoseconds(std::min(held_ns, recorder_->shortest_history_ns())),
                  .paused = recorder_->gaps().paused_since_ns() != UINT64_MAX,
                  .broker_gone = recorder_->broker_gone(),
                  .trouble = service_->disk_trouble(),
                  .last = std::nullopt,
                  .store_bytes = service_->store_use().usage.bytes,
                  .store_max_bytes = service_->store_use().max_bytes};
  if (const auto& last = service_->last_snapshot())
    out.last = {.ago = std::max<std::chrono::nanoseconds>(wall_now() - last->at, std::chrono::nanoseconds(0)),
                .trigger = last->trigger};
  return out;
}

}  // namespace flight
