// SPDX-License-Identifier: Apache-2.0
// flightd: from the command line to a running daemon, in the order that the privileges ask for: folders, broker, rings
// and staging while we may; then the drop; then threads and clients.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "daemon/broker_process.hpp"
#include "daemon/daemon.hpp"
#include "daemon/folders.hpp"
#include "daemon/inherited_socket.hpp"
#include "daemon/options.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight {
namespace {

constexpr int kFailed = 1;
constexpr int kBadConfig = EX_CONFIG;  // a start that will not succeed before somebody mends something
constexpr std::chrono::seconds kMendWait(5);
constexpr std::chrono::seconds kBusyWait(5);
constexpr std::chrono::milliseconds kAskAgain(500);

void set_up_logging() {
  auto logger = spdlog::stderr_color_mt("flightd");
  spdlog::set_default_logger(logger);
  // The journal has its own time stamps.
  spdlog::set_pattern(std::getenv("JOURNAL_STREAM") != nullptr ? "%l: %v" : "%Y-%m-%dT%H:%M:%S.%e %n %l: %v");
}

int failed(const Error& error, int status = kFailed) {
  spdlog::error("{}", error.what);
  return status;
}

// systemd starts the next one at once, however often (flightd.service): at this pace that costs nothing, and the broker
// and the history are there when somebody has mended the file. By hand nobody waits.
int refuse_config(const std::string& why) {
  spdlog::error("{}", why);
  if (std::getenv("NOTIFY_SOCKET") == nullptr) return kBadConfig;
  ::sd_notify(0, ("STATUS=the configuration is wrong, trying again every 5 s: " + why).c_str());
  std::this_thread::sleep_for(kMendWait);
  return kBadConfig;
}

// What would end a process that is not yet ready for it waits until it is.
void hold_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGUSR2, SIGHUP}) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
}

// Blocked before there are threads, so that every thread inherits it and only the event loop sees them. Not before
// the broker has answered: until then there is nothing to end in order, and somebody may want to interrupt it.
Result<UniqueFd> block_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR2, SIGHUP}) ::sigaddset(&set, number);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return sys_error(errno, "block signals");
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return sys_error(errno, "signalfd");
  return fd;
}

// The broker asks the kernel who connects (SO_PEERCRED: the effective uid at connect(2)) and serves flightd's user
// only.
Result<BrokerClient> connect_as(const Identity& identity, const std::string& path) {
  const bool borrow = ::geteuid() == 0 && identity.uid != 0;
  if (borrow && (::setegid(identity.gid) != 0 || ::seteuid(identity.uid) != 0))
    return sys_error(errno, "become user {} to connect to the broker", identity.user);
  auto client = BrokerClient::connect(path);
  if (borrow && (::seteuid(0) != 0 || ::setegid(::getgid()) != 0)) return sys_error(errno, "become root again");
  return client;
}

Result<BrokerClient> find_wall(const Options& options, const Identity& identity,
                               std::optional<BrokerProcess>& process) {
  if (!options.broker_socket.empty()) return connect_as(identity, options.broker_socket);
  UniqueFd wall;
  auto started = BrokerProcess::start(
      {.config_file = options.config_file, .state_dir = options.state_dir, .group = identity.gid}, wall);
  if (!started) return pass(started.error());
  process.emplace(std::move(*started));
  return BrokerClient(std::move(wall));
}

// The flightd before this one may be about to end: a broker that serves it is asked again for a while.
Result<Attachment> attach(const Options& options, const Identity& identity, std::optional<BrokerProcess>& process,
                          std::optional<BrokerClient>& broker) {
  const auto until = std::chrono::steady_clock::now() + kBusyWait;
  for (;;) {
    auto client = find_wall(options, identity, process);
    if (!client) return pass(client.error());
    auto attachment = client->attach();
    if (attachment) broker.emplace(std::move(*client));
    const bool busy = !attachment && attachment.error().code == std::errc::device_or_resource_busy;
    if (!busy || std::chrono::steady_clock::now() >= until) return attachment;
    std::this_thread::sleep_for(kAskAgain);
  }
}

int run(const Options& options, Config config, std::vector<CrewWorker> crew, std::vector<std::string> command_line) {
  auto control_socket = inherited_control_socket();
  if (!control_socket) return failed(control_socket.error());
  auto identity = find_identity(config.user);
  if (!identity) return failed(identity.error());
  raise_limits();
  const auto locks = take_folders(options.state_dir, options.runtime_dir, *identity);
  if (!locks) return failed(locks.error());

  std::optional<BrokerProcess> broker_process;  // ends after the wall is closed
  std::optional<BrokerClient> broker;
  auto attachment = attach(options, *identity, broker_process, broker);
  if (!attachment && attachment.error().code == std::errc::connection_reset)
    return failed(
        {attachment.error().code, options.broker_socket.empty()
                                      ? "flightd-broker ended at its start; its own message stands above"
                                      : "flightd-broker closed the connection; its own log says why (wrong user?)"});
  if (!attachment) return failed(attachment.error());
  auto attached = Attached::open(std::move(*attachment));
  if (!attached) return failed(attached.error());
  auto signals = block_signals();
  if (!signals) return failed(signals.error());

  Daemon::Setup setup{.config = std::move(config),
                      .crew = std::move(crew),
                      .state_dir = options.state_dir,
                      .runtime_dir = options.runtime_dir,
                      .identity = *identity,
                      .broker = std::move(*broker),
                      .attached = std::move(*attached),
                      .freezer = std::make_unique<FreezeThread>(identity->uid == 0),
                      .control_socket = std::move(*control_socket),
                      .signals = std::move(*signals),
                      .command_line = std::move(command_line),
                      .warnings = {},
                      .config_file = options.config_file,
                      .broker_socket = options.broker_socket};
  if (!identity->note.empty()) setup.warnings.push_back(identity->note);
  auto trigger_warnings = TriggerThread::check(setup.config.triggers);
  if (!trigger_warnings) return refuse_config(trigger_warnings.error().what);
  setup.warnings.insert(setup.warnings.end(), trigger_warnings->begin(), trigger_warnings->end());
  if (auto locked = lock_memory(); !locked) setup.warnings.push_back(locked.error().what);
  if (auto dropped = drop_privileges(*identity); !dropped) return failed(dropped.error());
  auto daemon = Daemon::open(std::move(setup));
  if (!daemon) return failed(daemon.error());
  return (*daemon)->run();
}

// What the broker would find as well, where we may do what it may.
int check(const Config& config) {
  std::string looked_up = "its events were not looked up, which takes root";
  if (::geteuid() == 0) {
    EventSources sources;
    if (auto tracefs = find_tracefs()) sources.tracefs = *tracefs;
    const auto warnings = Recording::check(config, sources);
    if (!warnings) return failed(warnings.error(), kBadConfig);
    for (const std::string& warning : *warnings) spdlog::warn("{}", warning);
    looked_up = "all its events are there";
  }
  fmt::print("the configuration is good: {} channels, digest {}; {}\n", config.channels.size(), config.digest,
             looked_up);
  return 0;
}

int run_main(int argc, char** argv) {
  const ParsedOptions parsed = parse_options(argc, argv);
  if (!parsed.options) return parsed.exit_status;
  const Options& options = *parsed.options;
  set_up_logging();
  hold_signals();
  auto config = options.config_file.empty() ? load_config(ConfigFolders{}) : load_config(options.config_file);
  if (!config) {
    if (!options.check_config) return refuse_config(config.error().text());
    return failed({std::make_error_code(std::errc::invalid_argument), config.error().text()}, kBadConfig);
  }
  auto crew = plan_crew(config->snapshot.crew);
  if (!crew) {
    const std::string why = fmt::format("{}: snapshot.crew \"{}\": {}",
                                        options.config_file.empty() ? "the configuration" : options.config_file,
                                        config->snapshot.crew, crew.error().what);
    if (!options.check_config) return refuse_config(why);
    return failed({crew.error().code, why}, kBadConfig);
  }
  if (options.check_config) return check(*config);
  return run(options, std::move(*config), std::move(*crew), {argv, argv + argc});
}

}  // namespace
}  // namespace flight

int main(int argc, char** argv) { return flight::run_main(argc, argv); }
