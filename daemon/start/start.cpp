// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/start.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/start/first_attach.hpp"
#include "daemon/start/root_state.hpp"
#include "daemon/start/start_signals.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight::daemon {
namespace {

// systemd's socket accepts a connection also if the broker cannot be started. Then flightd is ready without it.
constexpr std::chrono::seconds kServiceWait(10);

using Unstarted = tl::unexpected<StartFailure>;

Unstarted failed_start(Error error) { return Unstarted(StartFailure{.error = std::move(error)}); }

Unstarted wrong_config(std::string_view why) {
  return Unstarted(StartFailure{
      .error = fail(std::errc::invalid_argument, "the configuration is wrong: {}", why).value(), .status = kBadConfig});
}

// If the machine's CPUs cannot be read, the configuration is not to blame.
Unstarted wrong_workers(const ConfigReader& reader, std::string_view key, const std::string& words,
                        const Error& error) {
  if (const auto online = online_cpus(); !online) return failed_start(online.error());
  return wrong_config(fmt::format("{}: {} \"{}\": {}", reader.file().empty() ? "the configuration" : reader.file(), key,
                                  words, error.what));
}

// The broker serves flightd's user only, and SO_PEERCRED is the effective uid at connect(2). So root sets its effective
// uid to that user while it connects.
Result<BrokerClient> connect_as(const Identity& identity, const std::string& path) {
  const bool borrow = ::geteuid() == 0 && identity.uid != 0;
  if (borrow && (::setegid(identity.gid) != 0 || ::seteuid(identity.uid) != 0))
    return sys_error(errno, "become user {} to connect to the broker", identity.user);
  auto client = BrokerClient::connect(path);
  if (borrow && (::seteuid(0) != 0 || ::setegid(::getgid()) != 0)) return sys_error(errno, "become root again");
  return client;
}

Result<BrokerClient> find_broker(const Options& options, const Identity& identity,
                                 std::optional<BrokerProcess>& process) {
  if (!options.broker_socket.empty()) return connect_as(identity, options.broker_socket);
  UniqueFd connection;
  auto started = BrokerProcess::start(
      {.config_file = options.config_file, .state_dir = options.state_dir, .group = identity.gid}, connection);
  if (!started) return propagate(started.error());
  process.emplace(std::move(*started));
  return BrokerClient(std::move(connection));
}

// Why flightd has no rings, in words for an administrator.
std::string reason_of(const Error& error, const Options& options, bool refused) {
  if (refused) return error.what;
  if (options.broker_socket.empty())
    return error.code == std::errc::connection_reset ? "flightd-broker exited at its start; see its message above"
                                                     : error.what;
  if (error.code == std::errc::connection_reset)
    return "flightd-broker closed the connection; see its log (does flightd run as another user?)";
  return "flightd-broker cannot be reached: " + error.what;
}

// As for the runtime directory. A thread that connects later could not be ended either.
Result<void> look_for_broker(const Start& start) {
  const std::string& socket = start.options.broker_socket;
  if (socket.empty()) return {};
  const std::string folder = std::filesystem::path(socket).parent_path().string();
  auto answers = start.broker_look->check(folder.empty() ? "." : folder);
  if (answers || answers.error().code != std::errc::timed_out) return {};
  return wrap(answers.error(), "look for flightd-broker at {}", socket);
}

Result<UniqueFd> duplicate(const Result<UniqueFd>& socket) {
  if (!socket) return propagate(socket.error());
  if (!*socket) return UniqueFd();
  UniqueFd out(::fcntl(socket->get(), F_DUPFD_CLOEXEC, 0));
  if (!out) return sys_error(errno, "duplicate the control socket");
  return out;
}

}  // namespace

tl::expected<Configured, StartFailure> configure(ConfigReader& reader, std::chrono::milliseconds patience) {
  auto config = reader.read(patience);
  if (!config && config.error().unread)
    return failed_start(fail(std::errc::resource_unavailable_try_again, "{}", config.error().text()).value());
  if (!config) return wrong_config(config.error().text());
  auto workers = plan_workers(config->snapshot.workers);
  if (!workers) return wrong_workers(reader, "snapshot.workers", config->snapshot.workers, workers.error());
  if (const auto planned = plan_workers(config->record.workers); !planned)
    return wrong_workers(reader, "record.workers", config->record.workers, planned.error());
  return Configured{.config = std::move(*config), .workers = std::move(*workers)};
}

tl::expected<Started, StartFailure> try_start(const Start& start, std::unique_ptr<SpareDescriptors> spare) {
  const Options& options = start.options;
  hold_signals();
  auto configured = configure(*start.config, start.service ? ConfigReader::kSoon : ConfigReader::kByHand);
  if (!configured) return Unstarted(std::move(configured.error()));
  auto control_socket = duplicate(start.control_socket);
  if (!control_socket) return failed_start(control_socket.error());
  auto identity = find_identity(configured->config.user);
  if (!identity) return failed_start(identity.error());
  raise_limits();
  // The main thread could not be ended while it waits for a server. What else is wrong is said when it is taken.
  const auto answers = start.runtime_look->check(options.runtime_dir);
  if (!answers && answers.error().code == std::errc::timed_out) return failed_start(answers.error());
  if (auto reachable = look_for_broker(start); !reachable) return failed_start(reachable.error());
  auto runtime = take_runtime_folder(options.runtime_dir, *identity);
  if (!runtime) return failed_start(runtime.error());
  auto take_state = take_state_as_root(options.state_dir, *identity);
  if (!take_state) return failed_start(take_state.error());

  Started out{
      .runtime = std::move(*runtime), .broker_process = {}, .daemon = {}, .config_digest = configured->config.digest};
  auto [broker, attachment, refused] = attach_first([&] { return find_broker(options, *identity, out.broker_process); },
                                                    start.service ? std::optional(kServiceWait) : std::nullopt);
  // With --broker, one that answers that it cannot record may be able to later; and a service waits for one that does
  // not answer: a restart would change nothing.
  std::string refusal;
  if (!attachment) {
    refusal = reason_of(attachment.error(), options, refused);
    if (options.broker_socket.empty() || (!refused && !start.service))
      return failed_start({attachment.error().code, refusal});
    broker.emplace(UniqueFd());
  }
  if (auto forbidden = forbid_inspection(); !forbidden) return failed_start(forbidden.error());
  // mlock(2) needs CAP_IPC_LOCK or a large RLIMIT_MEMLOCK, so the rings and the staging memory come before the drop.
  auto attached = attachment ? Attached::open(std::move(*attachment)) : Attached::none(HostInfo::read().boot_id);
  if (!attached) return failed_start(attached.error());
  // Not before the broker has replied: until then SIGINT may simply end the process.
  auto signals = block_signals();
  if (!signals) return failed_start(signals.error());

  auto freezer = FreezeThread::start(identity->uid == 0);
  if (!freezer) return failed_start(freezer.error());
  Daemon::Setup setup{.config = std::move(configured->config),
                      .workers = std::move(configured->workers),
                      .state_dir = options.state_dir,
                      .runtime_dir = options.runtime_dir,
                      .take_state = std::move(*take_state),
                      .identity = *identity,
                      .broker = std::move(*broker),
                      .attached = std::move(*attached),
                      .freezer = std::move(*freezer),
                      .control_socket = std::move(*control_socket),
                      .spare = std::move(spare),
                      .signals = std::move(*signals),
                      .command_line = start.command_line,
                      .warnings = out.runtime.warnings,
                      .notes = {},
                      .config_reader = start.config,
                      .broker_socket = options.broker_socket,
                      .refusal = std::move(refusal)};
  if (!identity->note.empty()) setup.warnings.push_back(identity->note);
  auto without_source = TriggerThread::check(setup.config.triggers);
  if (!without_source) return wrong_config(without_source.error().what);
  setup.notes = std::move(*without_source);
  if (auto locked = lock_memory(); !locked) setup.warnings.push_back(locked.error().what);
  if (auto dropped = drop_privileges(*identity); !dropped) return failed_start(dropped.error());
  if (auto logging = log::use_thread(); !logging) return failed_start(logging.error());
  auto daemon = Daemon::open(std::move(setup));
  if (!daemon) return failed_start(with_refused_chown(daemon.error(), out.runtime));
  out.daemon = std::move(*daemon);
  return out;
}

}  // namespace flight::daemon
