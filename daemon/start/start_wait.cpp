// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/start_wait.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "daemon/control/peer.hpp"
#include "daemon/log/log.hpp"
#include "daemon/privileges.hpp"
#include "daemon/reload.hpp"
#include "daemon/start/start_signals.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/control/config_report.hpp"

namespace flight::daemon {
namespace {

constexpr std::chrono::seconds kLastAnswersWait(2);

}  // namespace

StartWait::StartWait(ConfigReader& config, int control_socket, StartReport& report)
    : config_(config),
      control_socket_(control_socket),
      report_(report),
      backend_([this](const Caller& caller, ControlBackend::Done done) { reload(caller, std::move(done)); }) {}

StartWait::~StartWait() = default;

bool StartWait::wait(const std::string& why) {
  take_signals();
  report_.report(why);
  backend_.set_reason(why);
  for (const auto& done : std::exchange(reloads_, {}))
    done(tl::unexpected(write_failed(EAGAIN, "", "flightd has not started: " + why)));
  if (!waited_) watchdog_.begin();
  waited_ = true;
  listen();
  timer_.expires_after(report_.next_wait());
  timer_.async_wait([this](boost::system::error_code error) {
    // The handler of an earlier wait may still be in the loop's queue.
    if (!error && timer_.expiry() <= std::chrono::steady_clock::now()) loop_.stop();
  });
  loop_.restart();
  loop_.run();
  timer_.cancel();
  boost::system::error_code ignored;
  signals_.close(ignored);  // or end() would read the signals of the flightd that has started
  hold_signals();           // during the attempt, SIGTERM ends the process
  return !ended_;
}

// If threads or descriptors are missing, there is no server during this wait, and the next wait tries again.
void StartWait::listen() {
  if (server_ || control_socket_ < 0) return;
  ControlAccess access;  // only root
  // Started as root: the configuration, which is not known yet, has the user.
  if (::geteuid() != 0)
    if (const auto identity = find_identity(""); identity)
      access = {
          .own_uid = identity->trusted_uid, .group = identity->trusted_gid, .trigger_group = identity->trigger_gid};
  UniqueFd socket(::fcntl(control_socket_, F_DUPFD_CLOEXEC, 0));
  if (!socket) return;
  if (auto server = ControlServer::adopt(loop_, std::move(socket), backend_, access)) server_ = std::move(*server);
}

void StartWait::take_signals() {
  auto signals = block_signals();
  if (!signals) return;
  boost::system::error_code ignored;
  signals_.assign(signals->release(), ignored);
  wait_for_signal();
}

void StartWait::wait_for_signal() {
  signals_.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](boost::system::error_code error) {
    if (error) return;
    signalfd_siginfo info{};
    const bool read = ::read(signals_.native_handle(), &info, sizeof info) == static_cast<ssize_t>(sizeof info);
    if (read && info.ssi_signo == SIGUSR2)
      log::warn("SIGUSR2: no snapshot, because flightd has not started: {}", report_.why());
    if (!read || info.ssi_signo == SIGUSR2) return wait_for_signal();
    ended_ = info.ssi_signo != SIGHUP;
    if (ended_) {
      log::info("{}: flightd ends", info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
      static_cast<void>(notify_service_manager("STOPPING=1", kNotifySoon));
    }
    loop_.stop();
  });
}

// The files are read here, as by the next attempt, for an answer with the file and the line. What an earlier attempt
// has begun to read may be older than this call.
void StartWait::reload(const Caller& caller, ControlBackend::Done done) {
  log::info("reload, requested by {}: trying to start", name_of(caller));
  config_.drop();
  if (const auto config = Reloader::load(config_, ConfigReader::kSoon); !config) {
    const ConfigError& error = config.error();
    return done(tl::unexpected(bad_config(error.file, error.line, error.path, error.text())));
  }
  reloads_.push_back(std::move(done));
  loop_.stop();
}

void StartWait::end(const std::string& digest) {
  log::info("flightd has started");
  for (const auto& done : std::exchange(reloads_, {}))
    done(to_json(ReloadReport{.digest = digest, .changed = true, .changes = {}, .warnings = {}}));
  if (!server_) return;
  loop_.restart();
  timer_.expires_after(kLastAnswersWait);
  timer_.async_wait([this](boost::system::error_code) { loop_.stop(); });
  server_->stop([this] { loop_.stop(); });
  loop_.run();
}

}  // namespace flight::daemon
