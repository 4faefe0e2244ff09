// SPDX-License-Identifier: Apache-2.0
// flightd-broker: opens flightd's perf events and holds them. Started by flightd itself over a socketpair (--fd), or as
// a service of its own that outlives flightd (--socket). DESIGN: the process that holds the privilege takes no input.
#include <fcntl.h>
#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "daemon/broker/listener.hpp"
#include "daemon/broker/options.hpp"
#include "daemon/broker/privileges.hpp"
#include "daemon/broker/service.hpp"
#include "daemon/broker/tell.hpp"
#include "libcore/perf/tracepoint.hpp"

namespace flight {
namespace {

constexpr int kFailed = 1;
constexpr std::chrono::seconds kMendWait(1);
constexpr int kUsage = 2;
constexpr int kBadConfig = 78;  // EX_CONFIG of sysexits.h

void start_logging() {
  auto logger = spdlog::stderr_logger_st("flightd-broker");
  logger->set_pattern("flightd-broker: %v");
  spdlog::set_default_logger(std::move(logger));
}

// SIGTERM is read from the descriptor, between two requests. Ctrl-C at a terminal and `timeout` signal flightd's whole
// group: a broker of its own leaves it to flightd what that means, and ends when the wall is closed. SIGHUP is no
// reload: flightd would have another configuration than the broker. It asks for both.
Result<UniqueFd> take_signals(bool own_broker) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  sigset_t stops;
  ::sigemptyset(&stops);
  if (own_broker) {
    for (const int number : {SIGTERM, SIGINT, SIGQUIT}) ::signal(number, SIG_IGN);
  } else {
    for (const int number : {SIGTERM, SIGINT}) ::sigaddset(&stops, number);
  }
  if (::sigprocmask(SIG_BLOCK, &stops, nullptr) != 0) return sys_error(errno, "block signals");
  UniqueFd fd(::signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return sys_error(errno, "signalfd");
  return fd;
}

// The inherited end of flightd's socketpair. Everything else that was inherited is closed: a copy of flightd's own end
// here would hide that flightd has died.
Result<UniqueFd> take_client(int number) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
    return sys_error(errno, "--fd {}: it is no socket that flightd handed down", number);
  if (type != SOCK_SEQPACKET)
    return fail(std::errc::invalid_argument, "--fd {}: it is no SOCK_SEQPACKET socket", number);
  UniqueFd client(::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!client) return sys_error(errno, "duplicate --fd {}", number);
  const auto kept = static_cast<unsigned>(client.get());
  constexpr unsigned kFirst = STDERR_FILENO + 1;
  if (kept > kFirst) ::close_range(kFirst, kept - 1, 0);
  ::close_range(kept + 1, ~0U, 0);
  return client;
}

Result<void> prepare(const BrokerOptions& options, EventSources& sources) {
  raise_descriptor_limit();
  // Mounting takes CAP_SYS_ADMIN. Without tracefs there are no tracepoints: whoever asks for one is told.
  if (auto tracefs = find_or_mount_tracefs()) sources.tracefs = *tracefs;
  if (auto joined = join_group(options.group); !joined) return joined;
  return drop_privileges();
}

int start_status(const Service& service) {
  if (service.start_error() == nullptr) return 0;
  return service.bad_config() ? kBadConfig : kFailed;
}

int serve_own_client(const BrokerOptions& options) {
  auto client = take_client(options.fd);
  if (!client) {
    spdlog::error("{}", client.error().what);
    return kUsage;
  }
  const auto stop = take_signals(true);
  EventSources sources;
  const auto prepared = stop ? prepare(options, sources) : Result<void>(pass(stop.error()));
  if (!prepared) {
    spdlog::error("{}", prepared.error().what);
    return kFailed;
  }
  // Belt to the braces of the socket's end: whatever this process is busy with, it dies with flightd.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::unsetenv("NOTIFY_SOCKET");  // flightd's, should it have one
  Service service = Service::start(options, std::move(sources), FdStore());
  (void)service.serve(client->get(), stop->get(), nullptr);
  return start_status(service);
}

// False: told to end.
bool wait_for_client(int listener, int stop_fd, Service& service) {
  for (;;) {
    std::array<pollfd, 3> watched{pollfd{listener, POLLIN, 0}, pollfd{stop_fd, POLLIN, 0},
                                  pollfd{service.watch_fd(), POLLIN, 0}};
    if (::poll(watched.data(), watched.size(), static_cast<int>(kWatchEvery.count())) < 0 && errno != EINTR)
      return false;
    tell_alive();
    service.follow_cpus();
    if (watched[1].revents != 0) return false;
    if (watched[0].revents != 0) return true;
  }
}

Result<Listener> listen(const BrokerOptions& options, FdStore& store) {
  if (!store.sockets().empty()) return Listener::adopt(std::move(store.sockets().front()), options.client_uid);
  if (!options.socket.empty()) return Listener::open(options);
  return fail(std::errc::invalid_argument,
              "systemd handed down no SOCK_SEQPACKET socket that listens: ListenSequentialPacket= in the socket unit");
}

int serve_socket(const BrokerOptions& options) {
  FdStore store = FdStore::take();
  const auto stop = take_signals(false);
  const auto listener = stop ? listen(options, store) : Result<Listener>(pass(stop.error()));
  EventSources sources;
  const auto prepared = listener ? prepare(options, sources) : Result<void>(pass(listener.error()));
  if (!prepared) {
    spdlog::error("{}", prepared.error().what);
    return kFailed;
  }
  if (!options.group)
    spdlog::warn("without --group, the group of flightd's snapshots, files can be made only where this user may");
  Service service = Service::start(options, std::move(sources), std::move(store));
  if (const int failed = start_status(service); failed != 0) {
    // systemd starts the next one at once: at this pace that costs nothing until somebody has mended the file.
    if (failed == kBadConfig && std::getenv("NOTIFY_SOCKET") != nullptr) std::this_thread::sleep_for(kMendWait);
    return failed;
  }
  ::sd_notify(0, "READY=1");
  while (wait_for_client(listener->fd(), stop->get(), service)) {
    const auto client = listener->accept();
    if (!client) {
      spdlog::warn("{}", client.error().what);
      continue;
    }
    if (service.serve(client->get(), stop->get(), &*listener) == Ended::told_to) break;
  }
  ::sd_notify(0, "STOPPING=1");
  return 0;
}

}  // namespace
}  // namespace flight

int main(int argc, char** argv) {
  const flight::ParsedOptions parsed = flight::parse_options(argc, argv);
  if (!parsed.options) return parsed.exit_status;
  flight::start_logging();
  return parsed.options->fd >= 0 ? flight::serve_own_client(*parsed.options) : flight::serve_socket(*parsed.options);
}
