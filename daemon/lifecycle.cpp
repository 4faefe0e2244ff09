// SPDX-License-Identifier: Apache-2.0
#include "daemon/lifecycle.hpp"

#include <malloc.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <cstdlib>

#include "daemon/log/log.hpp"
#include "daemon/recorder/cpu_notes.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kCloseWait(2);
// For the last round of a recording and its files: a disk that hangs may need longer than systemd waits.
constexpr std::chrono::seconds kRecordingsEnd(20);
// By then every thread has started, and memory that only the start needed is free.
constexpr std::chrono::seconds kSettled(2);

}  // namespace

int Daemon::run() {
  wait_for_signal();
  for (const std::string& warning : setup_.attached->manifest.warnings) log::warn("{}", warning);
  for (const std::string& warning : setup_.warnings) log::warn("{}", warning);
  for (const std::string& warning : reloader_->warnings()) log::warn("{}", warning);
  for (const std::string& note : notes_with_times(setup_.attached->manifest, recorder_->clock().history()))
    log::info("{}", note);
  for (const std::string& note : setup_.notes) log::info("{}", note);
  if (setup_.refusal.empty() && !setup_.attached->staging.locked())
    log::warn("staging is not locked in memory: {}; raise LimitMEMLOCK", setup_.attached->staging.lock_error());
  const auto& manifest = setup_.attached->manifest;
  const std::string recording =
      fmt::format("recording {}, {} of {} in all; control socket {}/{}", counted(setup_.attached->online_cpus(), "CPU"),
                  counted(manifest.rings.size(), "ring"), format_bytes(setup_.attached->ring_bytes()),
                  setup_.runtime_dir, kInterface);
  if (setup_.refusal.empty())
    log::info("{}", recording);
  else
    log::error("nothing is recorded: {}; trying again", setup_.refusal);
  setup_.attached.reset();  // the next set may come at any time
  status_.ready();
  watchdog_.begin();
  if (!setup_.refusal.empty()) broker_loss_->wait_for_recording(setup_.refusal);
  store_->refresh_use();
  asio::steady_timer settled(loop_, kSettled);
  settled.async_wait([](boost::system::error_code error) {
    if (!error) ::malloc_trim(0);
  });
  serve();

  if (abandoned_) {
    // Their threads wait for the disk, and end_threads() would wait for them.
    log::warn("ended, although the disk of {} does not answer", folder_);
    log::flush();
    std::_Exit(exit_status_);
  }
  end_threads();
  log::info("ended");
  return exit_status_;
}

// The first event after a wait is handled at real-time priority (UrgentWait), so that a client is answered at once on a
// busy machine. All others are handled at this thread's own priority. UrgentWait has a limited share of the CPU, so
// that clients that call again and again do not keep it from other programs.
void Daemon::serve() {
  UrgentWait urgent;
  for (;;) {
    const auto ordinary_for = urgent.begin();
    const bool more = ordinary_for ? loop_.run_one_for(*ordinary_for) > 0 || !loop_.stopped() : loop_.run_one() > 0;
    urgent.end();
    if (!more) return;
    loop_.poll();
  }
}

// Objects end after those that use them, also after a failed start.
void Daemon::end_threads() {
  if (stopper_) stopper_->join();
  server_.reset();
  worker_.reset();
  recordings_.reset();  // its threads use the recorder's
  if (triggers_) triggers_->stop();
  recorder_.reset();  // before the objects that its threads may still call
  broker_loss_.reset();
  router_.reset();
  status_service_.reset();
  trigger_api_.reset();
  recording_.reset();
  snapshots_.reset();
  store_.reset();
  triggers_.reset();
  reloader_.reset();
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
      snapshots_->take_by_signal(info.ssi_uid, static_cast<std::int32_t>(info.ssi_pid));
      return;
    case SIGHUP:
      reloader_->reload("SIGHUP", [](const CallResult<ReloadReport>&) {});
      return;
    default:
      stop_on(info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
  }
}

void Daemon::on_config(const Config& config) {
  worker_->configure(config.snapshot);
  recordings_->configure(config);
  store_->configure(config.store);
  triggers_->replace(config.triggers, config.storm_guard);
  want_histories(config);
  setup_.config = config;
}

void Daemon::want_histories(const Config& config) {
  std::map<std::string, EventTime> wanted_ns;
  for (const ChannelConfig& channel : config.channels)
    wanted_ns[channel.name] = static_cast<EventTime>(channel.min_history.count());
  recorder_->want_histories(std::move(wanted_ns));
}

// `snapshot.on_stop`: takes a last snapshot first. A second signal ends flightd without waiting for it.
void Daemon::stop_on(const std::string& signal) {
  if (!setup_.config.snapshot.on_stop || std::exchange(last_asked_, true) || recorder_->broker_gone())
    return stop(signal);
  log::info("{}: taking a last snapshot", signal);
  snapshots_->submit(SnapshotRequest::of_flightd("stop", "flightd was stopped by " + signal),
                     [this, signal](const Result<Sidecar>&) { stop(signal); });
}

// Ends cleanly: the running snapshot is finished and its requests are answered, then the loop ends.
void Daemon::stop(std::string why) {
  if (stopping_) return;
  stopping_ = true;
  broker_loss_->stop();
  log::info("{}: stopping after the running snapshot, if there is one", why);
  static_cast<void>(notify_service_manager("STOPPING=1", kNotifySoon));
  reloader_->stop();
  stopper_->post([this] {
    worker_->stop();
    if (!recordings_->end_all(kRecordingsEnd)) asio::post(loop_, [this] { abandoned_ = recordings_->abandon(); });
    triggers_->stop();  // its last reports are still handled
    asio::post(loop_, [this] {
      auto timer = std::make_shared<asio::steady_timer>(loop_, kCloseWait);
      timer->async_wait([this, timer](boost::system::error_code) { loop_.stop(); });
      server_->stop([this] { loop_.stop(); });
    });
  });
}

void Daemon::notify_changed(const Attached& attached) {
  log::info("recording {}, {} of {} in all", counted(attached.online_cpus(), "CPU"),
            counted(attached.manifest.rings.size(), "ring"), format_bytes(attached.ring_bytes()));
  for (const std::string& warning : attached.manifest.warnings) log::warn("{}", warning);
  for (const std::string& note : notes_with_times(attached.manifest, recorder_->clock().history()))
    log::info("{}", note);
}

void Daemon::end_without_broker(const std::string& why) {
  if (stopping_) return;
  log::error("no flightd-broker was found ({}): flightd stops. Restart flightd.", why);
  exit_status_ = 1;
  stop("the broker is gone");
}

void Daemon::report_replaced(EventTime lost_ns) {
  log::info("flightd-broker ended at {}; the next one adopted its recording without a gap",
            recorder_->clock().text_at(lost_ns));
  events_.status_changed();
}

}  // namespace flight::daemon
