// SPDX-License-Identifier: Apache-2.0
// flightd-broker: opens flightd's perf events and holds them. flightd starts it with a socketpair (--fd), or it is a
// service that outlives flightd (--socket). The process that has the privileges takes no parameters.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <optional>
#include <thread>

#include "daemon/broker/helpers/reading.hpp"
#include "daemon/broker/listener.hpp"
#include "daemon/broker/options.hpp"
#include "daemon/broker/privileges.hpp"
#include "daemon/broker/service.hpp"
#include "daemon/broker/service_status.hpp"
#include "daemon/log/log.hpp"
#include "libcore/base/close_inherited.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/folder_answers.hpp"
#include "libcore/base/inherited_state.hpp"
#include "libcore/base/output_relay.hpp"
#include "libcore/base/poll.hpp"
#include "libcore/base/retry.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/config/config_child.hpp"
#include "libcore/perf/tracepoint.hpp"

namespace flight::broker {
namespace {

constexpr int kFailed = 1;
// If READY=1 is lost, systemd regards the start as failed.
constexpr std::chrono::milliseconds kStoppingWithin(100);
constexpr int kUsage = 2;
constexpr int kBadConfig = 78;  // EX_CONFIG of sysexits.h

// SIGTERM is read from the descriptor, between two requests. Ctrl-C and `timeout` signal flightd's whole process group:
// a broker started by flightd ignores that and ends when the connection is closed. SIGHUP and SIGUSR2 are for
// flightd, and `pkill flightd` sends them to both: only flightd asks for a reload, so that both have the same
// configuration.
Result<UniqueFd> take_signals(bool own_broker) {
  for (const int number : {SIGHUP, SIGUSR2}) ::signal(number, SIG_IGN);
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

// True: SIGTERM or SIGINT was received. It needs no descriptor, because a blocked signal stays pending. Meanwhile it
// reports to the service manager that this process is alive.
bool is_stopped_within(std::chrono::seconds time) {
  sigset_t stops;
  ::sigemptyset(&stops);
  for (const int number : {SIGTERM, SIGINT}) ::sigaddset(&stops, number);
  const auto until = std::chrono::steady_clock::now() + time;
  constexpr timespec kLook{.tv_sec = 1, .tv_nsec = 0};
  while (std::chrono::steady_clock::now() < until) {
    notify_alive();
    if (::sigtimedwait(&stops, nullptr, &kLook) > 0) return true;
  }
  return false;
}

// A service that has no descriptor for its signals stays as well (see wait_to_start). An error: not a service, or
// stopped (ECANCELED).
Result<UniqueFd> take_signals_of_service() {
  const bool managed = std::getenv("NOTIFY_SOCKET") != nullptr;
  std::string why;
  for (std::size_t tries = 0;; ++tries) {
    auto stop = take_signals(false);
    if (stop) return stop;
    std::string now = stop.error().what + descriptor_advice(stop.error());
    if (now != why) log::error("{}{}", now, managed ? "; trying again" : "");
    if (!managed) return stop;
    why = std::move(now);
    notify_no_recording(why);
    if (tries == 0) notify_ready();
    if (is_stopped_within(retry_after(tries))) return fail(std::errc::operation_canceled, "stopped");
  }
}

struct Inherited {
  UniqueFd client, end;
};

// All other inherited descriptors are closed: a copy of flightd's own end would hide the death of flightd.
void close_others(const Inherited& inherited) {
  std::array<int, 2> kept{inherited.end.get(), inherited.client.get()};
  std::sort(kept.begin(), kept.end());
  int from = STDERR_FILENO + 1;
  for (const int one : kept) {
    while (from < one) ::close(from++);
    from = std::max(from, one + 1);
  }
  close_inherited(from);
}

// Takes the inherited end of flightd's socketpair, and that of its pipe, if there is one.
Result<Inherited> take_inherited(const BrokerOptions& options) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(options.fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
    return sys_error(errno, "--fd {}: this is not a socket passed by flightd", options.fd);
  if (type != SOCK_SEQPACKET)
    return fail(std::errc::invalid_argument, "--fd {}: it is not a SOCK_SEQPACKET socket", options.fd);
  Inherited out{.client = UniqueFd(::fcntl(options.fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)), .end = {}};
  if (!out.client) return sys_error(errno, "duplicate --fd {}", options.fd);
  struct stat info {};
  if (options.end_fd >= 0 && (::fstat(options.end_fd, &info) != 0 || !S_ISFIFO(info.st_mode)))
    return fail(std::errc::invalid_argument, "--end-fd {}: this is not a pipe passed by flightd", options.end_fd);
  if (options.end_fd >= 0) {
    out.end.reset(::fcntl(options.end_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    if (!out.end) return sys_error(errno, "duplicate --end-fd {}", options.end_fd);
  }
  close_others(out);
  return out;
}

// In addition to the check for the end of the connection: when flightd's end of the pipe is closed, the kernel kills
// this process, whatever it is doing, and also while it is stopped (fcntl(2), F_SETSIG). PR_SET_PDEATHSIG would not do:
// for it the kernel asks whether flightd may kill(2) this process, and flightd has changed its user.
Result<void> die_with(const UniqueFd& end) {
  if (!end) return {};
  const int flags = ::fcntl(end.get(), F_GETFL);
  if (flags < 0 || ::fcntl(end.get(), F_SETOWN, ::getpid()) != 0 || ::fcntl(end.get(), F_SETSIG, SIGKILL) != 0 ||
      ::fcntl(end.get(), F_SETFL, flags | O_ASYNC) != 0)
    return sys_error(errno, "arrange that the broker ends with flightd");
  return {};
}

// flightd ended before die_with(), or that could not arrange it.
bool has_ended(const UniqueFd& end) {
  pollfd one{.fd = end.get(), .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) == 1 && (one.revents & (POLLHUP | POLLERR)) != 0;
}

// Drops the privileges that are not needed. The helpers and the threads are made without them, and the helpers first:
// a program with threads must not fork. `helpers`: none before the first attempt.
Result<ServiceThreads> try_to_prepare(const BrokerOptions& options, EventSources& sources,
                                      std::optional<Helpers>& helpers) {
  // Mounting needs CAP_SYS_ADMIN. Without tracefs there are no tracepoints, and the status reports it.
  if (auto tracefs = find_or_mount_tracefs()) sources.tracefs = *tracefs;
  if (auto joined = join_group(options.group); !joined) return propagate(joined.error());
  if (auto dropped = drop_privileges(); !dropped) return propagate(dropped.error());
  if (!helpers) {
    auto started = Helpers::start(read_for_broker, options.command_line);
    if (!started) return propagate(started.error());
    helpers = std::move(*started);
  }
  if (auto logging = log::use_thread(); !logging) return propagate(logging.error());
  return ServiceThreads::start(*helpers);
}

Result<ServiceThreads> prepare(const BrokerOptions& options, EventSources& sources, std::optional<Helpers>& helpers) {
  try {
    return try_to_prepare(options, sources, helpers);
  } catch (const std::bad_alloc&) {
    return fail(std::errc::not_enough_memory, "{}", kOutOfMemory);
  }
}

// Then a helper that is idle is not found in the unit when the next broker starts.
void end_helpers(const std::optional<Helpers>& helpers) {
  constexpr std::chrono::milliseconds kWithin(100);
  if (helpers) helpers->end(kWithin);
}

int start_status(const Service& service) {
  if (service.start_error() == nullptr) return 0;
  return service.bad_config() ? kBadConfig : kFailed;
}

int serve_own_client(const BrokerOptions& options) {
  const auto inherited = take_inherited(options);
  if (!inherited) {
    log::error("{}", inherited.error().what);
    return kUsage;
  }
  if (auto arranged = die_with(inherited->end); !arranged) log::warn("{}", arranged.error().what);
  if (has_ended(inherited->end)) return 0;
  auto spare = std::make_unique<SpareDescriptors>();
  const auto kept = spare->take_at_start();
  const auto stop = kept ? take_signals(true) : Result<UniqueFd>(propagate(kept.error()));
  EventSources sources;
  std::optional<Helpers> helpers;
  auto threads = stop ? prepare(options, sources, helpers) : Result<ServiceThreads>(propagate(stop.error()));
  if (!threads) {
    log::error("{}{}", threads.error().what, descriptor_advice(threads.error()));
    return kFailed;
  }
  // The next step takes longest: it opens all events, and reads what runs.
  if (has_ended(inherited->end)) {
    end_helpers(helpers);
    return 0;
  }
  ::unsetenv("NOTIFY_SOCKET");  // flightd's, should it have one
  Service service = Service::start(options, std::move(sources), FdStore(), std::move(*threads), std::move(spare),
                                   ConfigReader::kByHand, stop->get());
  (void)service.serve(inherited->client.get(), stop->get(), nullptr);
  end_helpers(helpers);
  return start_status(service);
}

// False: SIGTERM was received.
bool wait_for_client(const Listener& listener, int stop_fd, Service& service) {
  for (;;) {
    std::array<pollfd, 5> watched{pollfd{listener.accept_fd(), POLLIN, 0}, pollfd{stop_fd, POLLIN, 0},
                                  pollfd{service.watch_fd(), POLLIN, 0}, pollfd{service.wake_fd(), POLLIN, 0},
                                  pollfd{service.config_fd(), POLLIN, 0}};
    wait_for_any(watched, service.look_every());
    notify_alive();
    service.look();
    if (watched[1].revents != 0) return false;
    if (watched[0].revents != 0) return true;
  }
}

Result<Listener> listen(const BrokerOptions& options, FdStore& store, FolderLook& look, int stop_fd) {
  if (!store.sockets().empty()) return Listener::adopt(std::move(store.sockets().front()), options.client_uid);
  if (!options.socket.empty()) {
    // This thread could not be ended while it waits for a server. What else is wrong is said when the socket is made.
    const auto answers = look.check(options.runtime_dir, kFolderAnswers, &look_into, stop_fd);
    const bool hangs = !answers && answers.error().code == std::errc::timed_out;
    const bool is_stopped = !answers && answers.error().code == std::errc::operation_canceled;
    if (hangs || is_stopped) return propagate(answers.error());
    return Listener::open(options);
  }
  return fail(std::errc::invalid_argument,
              "systemd passed no listening SOCK_SEQPACKET socket: set ListenSequentialPacket= in the socket unit");
}

// A service whose start fails stays, and tries again after 1, 2, 5 and then every 10 s: otherwise systemd would restart
// it for ever. Meanwhile `listener`, if there is one, answers with the reason. False: SIGTERM was received.
bool wait_to_start(const std::string& why, std::size_t tries, const UniqueFd& stop, Listener* listener) {
  constexpr std::chrono::milliseconds kAliveEvery(1000);
  const auto until = std::chrono::steady_clock::now() + retry_after(tries);
  notify_no_recording(why);
  if (tries == 0) notify_ready();
  while (std::chrono::steady_clock::now() < until) {
    std::array<pollfd, 2> watched{pollfd{stop.get(), POLLIN, 0},
                                  pollfd{listener != nullptr ? listener->accept_fd() : -1, POLLIN, 0}};
    wait_for_any(watched, kAliveEvery);
    notify_alive();
    if (watched[0].revents != 0) return false;
    if (watched[1].revents != 0) listener->refuse(EAGAIN, why);
  }
  return true;
}

// A service with wrong options stays, too: a user that does not exist may be known later. Nobody is answered, because
// the user that may connect is not known. It ends when the options are right, and systemd starts it again.
int stay_unstarted(int argc, char** argv, std::string usage) {
  const auto stop = take_signals_of_service();
  if (!stop) return stop.error().code == std::errc::operation_canceled ? 0 : kUsage;
  for (std::size_t tries = 0; !usage.empty(); ++tries) {
    if (!wait_to_start("wrong usage: " + usage, tries, *stop, nullptr)) return 0;
    std::string now = parse_options(argc, argv).usage;
    if (!now.empty() && now != usage) log::error("{}", now);
    usage = std::move(now);
  }
  return 0;
}

int serve_socket(const BrokerOptions& options) {
  const bool managed = std::getenv("NOTIFY_SOCKET") != nullptr;
  FdStore store = FdStore::take();
  const auto stop = take_signals_of_service();
  if (!stop) return stop.error().code == std::errc::operation_canceled ? 0 : kFailed;
  auto spare = std::make_unique<SpareDescriptors>();
  auto kept = spare->take_at_start();
  FolderLook look;
  auto listener = kept ? listen(options, store, look, stop->get()) : Result<Listener>(propagate(kept.error()));
  EventSources sources;
  std::optional<Helpers> helpers;
  auto threads = listener ? prepare(options, sources, helpers) : Result<ServiceThreads>(propagate(listener.error()));
  std::string why;
  for (std::size_t tries = 0; !threads; ++tries) {
    if (threads.error().code == std::errc::operation_canceled) return 0;
    std::string now = threads.error().what + descriptor_advice(threads.error());
    if (now != why) log::error("{}{}", now, managed ? "; trying again" : "");
    if (!managed) return kFailed;
    why = std::move(now);
    if (!wait_to_start(why, tries, *stop, listener ? &*listener : nullptr)) return 0;
    if (!kept) kept = spare->take_at_start();
    if (kept && !listener) listener = listen(options, store, look, stop->get());
    threads = listener ? prepare(options, sources, helpers) : Result<ServiceThreads>(propagate(listener.error()));
  }
  if (!options.group)
    log::warn("without --group (the group of flightd's snapshots), files can be made only where this user may write");
  Service service = Service::start(options, std::move(sources), std::move(store), std::move(*threads), std::move(spare),
                                   managed ? ConfigReader::kSoon : ConfigReader::kByHand, stop->get());
  // A broker that cannot record stays, and tries again: a restart would change nothing. Each attach is answered with
  // the reason.
  if (service.start_error() != nullptr) service.keep_trying();
  service.notify_state();
  notify_ready();
  while (wait_for_client(*listener, stop->get(), service)) {
    const auto client = listener->accept();
    if (!client) continue;
    if (service.serve(client->get(), stop->get(), &*listener) == Ended::was_stopped) break;
  }
  static_cast<void>(notify_service_manager("STOPPING=1", kStoppingWithin));
  end_helpers(helpers);
  return 0;
}

}  // namespace
}  // namespace flight::broker

int main(int argc, char** argv) {
  flight::run_config_child(argc, argv);
  flight::fill_standard_descriptors();
  flight::settle_inherited_state(flight::ProgramKind::service);
  const flight::broker::ParsedOptions parsed = flight::broker::parse_options(argc, argv);
  flight::log::start("flightd-broker", "flightd-broker: %v");
  if (!parsed.usage.empty()) {
    flight::log::error("{}", parsed.usage);
    if (std::getenv("NOTIFY_SOCKET") != nullptr) return flight::broker::stay_unstarted(argc, argv, parsed.usage);
  }
  if (!parsed.options) return parsed.exit_status;
  flight::relay_output();
  int status = flight::broker::kFailed;
  try {
    status = parsed.options->fd >= 0 ? flight::broker::serve_own_client(*parsed.options)
                                     : flight::broker::serve_socket(*parsed.options);
  } catch (const std::bad_alloc&) {
    flight::log::error("{}", flight::kOutOfMemory);
  }
  flight::log::flush();
  return status;
}
