// SPDX-License-Identifier: Apache-2.0
// flightd's start: from the command line to a running daemon. The order follows the privileges: directories, broker,
// rings and staging come first, then the drop of privileges, then threads and clients.
#include <malloc.h>
#include <sys/signalfd.h>
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "daemon/broker_process.hpp"
#include "daemon/control/inherited_socket.hpp"
#include "daemon/daemon.hpp"
#include "daemon/folders.hpp"
#include "daemon/log/log.hpp"
#include "daemon/options.hpp"
#include "daemon/root_state.hpp"
#include "daemon/unit_view.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/inherited_state.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/units.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/sysinfo/host.hpp"

namespace flight::daemon {
namespace {

constexpr int kFailed = 1;
constexpr int kBadConfig = EX_CONFIG;  // a restart fails again until the configuration is corrected
constexpr std::chrono::seconds kMendWait(5);
constexpr std::chrono::seconds kBusyWait(5);
constexpr std::chrono::milliseconds kAskAgain(500);

// sd_booted(3).
bool systemd_runs() { return ::access("/run/systemd/system", F_OK) == 0; }

void set_up_logging() {
  // The journal adds its own time stamps.
  log::start("flightd", log::stderr_is_journal() ? "%l: %v" : "%Y-%m-%dT%H:%M:%S.%e %n %l: %v");
}

int failed(const Error& error, int status = kFailed) {
  log::error("{}{}", error.what, descriptor_advice(error));
  return status;
}

// systemd restarts flightd at once, however often. RestartPreventExitStatus=78 would end the broker as well, and with
// it the history; so flightd waits 5 s before it exits with 78. Without systemd it exits at once.
int refuse_config(const std::string& why) {
  log::error("{}", why);
  if (std::getenv("NOTIFY_SOCKET") == nullptr) return kBadConfig;
  static_cast<void>(
      notify_service_manager("STATUS=the configuration is wrong, trying again every 5 s: " + why, kNotifySoon));
  std::this_thread::sleep_for(kMendWait);
  return kBadConfig;
}

// These signals would end the process before it can handle them, so they are blocked until it can.
void hold_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGUSR2, SIGHUP}) ::sigaddset(&set, number);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

// Blocked before there are threads, so that every thread inherits the mask and only the event loop sees the signals.
// Not before the broker has replied: until then SIGINT may simply end the process.
Result<UniqueFd> block_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR2, SIGHUP}) ::sigaddset(&set, number);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) return sys_error(errno, "block signals");
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return sys_error(errno, "signalfd");
  return fd;
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

// The broker may still serve the previous flightd, which is about to exit: retry for a while. `refused`: it has
// answered that it cannot record.
Result<Attachment> attach(const Options& options, const Identity& identity, std::optional<BrokerProcess>& process,
                          std::optional<BrokerClient>& broker, bool& refused) {
  const auto until = std::chrono::steady_clock::now() + kBusyWait;
  for (;;) {
    auto client = find_broker(options, identity, process);
    if (!client) return propagate(client.error());
    auto attachment = client->attach();
    if (attachment) broker.emplace(std::move(*client));
    const bool busy = !attachment && attachment.error().code == std::errc::device_or_resource_busy;
    refused = !attachment && !busy && attachment.error().code != std::errc::connection_reset &&
              attachment.error().code != std::errc::broken_pipe && attachment.error().code != std::errc::timed_out;
    if (!busy || std::chrono::steady_clock::now() >= until) return attachment;
    std::this_thread::sleep_for(kAskAgain);
  }
}

int run(const Options& options, Config config, std::vector<PlannedWorker> workers,
        std::vector<std::string> command_line, std::unique_ptr<SpareDescriptors> spare) {
  auto control_socket = inherited_control_socket();
  if (!control_socket) return failed(control_socket.error());
  auto identity = find_identity(config.user);
  if (!identity) return failed(identity.error());
  raise_limits();
  auto runtime = take_runtime_folder(options.runtime_dir, *identity);
  if (!runtime) return failed(runtime.error());
  auto take_state = take_state_as_root(options.state_dir, *identity);
  if (!take_state) return failed(take_state.error());

  std::optional<BrokerProcess> broker_process;  // ends after the connection is closed
  std::optional<BrokerClient> broker;
  bool refused = false;
  auto attachment = attach(options, *identity, broker_process, broker, refused);
  // A service stays, and tells so: a restart would change nothing.
  std::string refusal;
  if (refused && !options.broker_socket.empty()) {
    refusal = attachment.error().what;
    broker.emplace(UniqueFd());
  }
  if (!attachment && attachment.error().code == std::errc::connection_reset)
    return failed({attachment.error().code,
                   options.broker_socket.empty()
                       ? "flightd-broker exited at its start; see its message above"
                       : "flightd-broker closed the connection; see its log (does flightd run as another user?)"});
  if (!attachment && refusal.empty()) return failed(attachment.error());
  // mlock(2) needs CAP_IPC_LOCK or a large RLIMIT_MEMLOCK, so the rings and the staging memory come before the drop.
  auto attached = attachment ? Attached::open(std::move(*attachment)) : Attached::none(HostInfo::read().boot_id);
  if (!attached) return failed(attached.error());
  auto signals = block_signals();
  if (!signals) return failed(signals.error());

  auto freezer = FreezeThread::start(identity->uid == 0);
  if (!freezer) return failed(freezer.error());
  Daemon::Setup setup{.config = std::move(config),
                      .workers = std::move(workers),
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
                      .command_line = std::move(command_line),
                      .warnings = std::move(runtime->warnings),
                      .notes = {},
                      .config_file = options.config_file,
                      .broker_socket = options.broker_socket,
                      .refusal = std::move(refusal)};
  if (!identity->note.empty()) setup.warnings.push_back(identity->note);
  auto without_source = TriggerThread::check(setup.config.triggers);
  if (!without_source) return refuse_config(without_source.error().what);
  setup.notes = std::move(*without_source);
  if (auto locked = lock_memory(); !locked) setup.warnings.push_back(locked.error().what);
  if (auto dropped = drop_privileges(*identity); !dropped) return failed(dropped.error());
  if (auto started = log::use_thread(); !started) return failed(started.error());
  auto daemon = Daemon::open(std::move(setup));
  if (!daemon) return failed(daemon.error());
  return (*daemon)->run();
}

// Reads the configuration again as the service's user: if that user cannot read it, the service would not start, and no
// reload would work.
Result<void> check_as_user(const Options& options, const Config& config) {
  const auto identity = find_identity(config.user);
  if (!identity || identity->uid == 0) return {};
  const auto text = look_as(*identity, [&options] {
    const auto again = options.config_file.empty() ? load_config(ConfigFolders{}) : load_config(options.config_file);
    return again ? std::string() : again.error().text();
  });
  if (!text) return propagate(text.error());
  if (text->empty()) return {};
  return fail(std::errc::permission_denied, "the user {} cannot read it, as the service and each reload must: {}",
              identity->user, *text);
}

// Without --config, the files are those of the service. Another file may be for a flightd that is started by hand,
// which sees it.
Result<void> check_for_unit(const Options& options, const Config& config) {
  auto seen = check_unit_view(options.config_file, config, options.state_dir);
  if (seen || options.for_service || (options.config_file.empty() && systemd_runs())) return seen;
  if (systemd_runs()) log::warn("{}", seen.error().what);
  return {};
}

// Checks what the broker would check, as far as the privileges of this process allow.
int check(const Options& options, const Config& config) {
  if (auto seen = check_for_unit(options, config); !seen) return failed(seen.error(), kBadConfig);
  std::string looked_up = "events were not checked, because this requires root";
  if (::geteuid() == 0) {
    EventSources sources;
    if (auto tracefs = find_tracefs()) sources.tracefs = *tracefs;
    const auto warnings = Recording::check(config, sources);
    if (!warnings) return failed(warnings.error(), kBadConfig);
    for (const std::string& warning : *warnings) log::warn("{}", warning);
    if (auto readable = check_as_user(options, config); !readable) return failed(readable.error(), kBadConfig);
    looked_up = "all its events are available";
  }
  for (const std::string& warning : unread_warnings(config)) log::warn("{}", warning);
  fmt::print("the configuration is valid: {}, digest {}; {}\n", counted(config.channels.size(), "channel"),
             config.digest, looked_up);
  return 0;
}

int run_main(int argc, char** argv, std::unique_ptr<SpareDescriptors> spare, const Result<void>& kept) {
  const ParsedOptions parsed = parse_options(argc, argv);
  if (!parsed.options) return parsed.exit_status;
  if (!kept) return failed(kept.error());
  const Options& options = *parsed.options;
  hold_signals();
  auto config = options.config_file.empty() ? load_config(ConfigFolders{}) : load_config(options.config_file);
  if (!config) {
    if (!options.check_config) return refuse_config(config.error().text());
    return failed({std::make_error_code(std::errc::invalid_argument), config.error().text()}, kBadConfig);
  }
  auto workers = plan_workers(config->snapshot.workers);
  if (!workers) {
    const std::string why = fmt::format("{}: snapshot.workers \"{}\": {}",
                                        options.config_file.empty() ? "the configuration" : options.config_file,
                                        config->snapshot.workers, workers.error().what);
    if (!options.check_config) return refuse_config(why);
    return failed({workers.error().code, why}, kBadConfig);
  }
  if (options.check_config) return check(options, *config);
  return run(options, std::move(*config), std::move(*workers), {argv, argv + argc}, std::move(spare));
}

}  // namespace
}  // namespace flight::daemon

// std::bad_alloc is the only exception that can occur (RLIMIT_AS, a memory cgroup). It is an error like others: flightd
// exits and systemd restarts it.
int main(int argc, char** argv) {
  // Without this, the C library raises the threshold to the size of the largest block that was freed, and keeps the
  // memory that a snapshot took for a moment.
  constexpr int kOwnMappingBytes = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kOwnMappingBytes);
  flight::fill_standard_descriptors();
  flight::settle_inherited_state(flight::ProgramKind::service);
  auto spare = std::make_unique<flight::SpareDescriptors>();
  const auto kept = spare->take_at_start();
  flight::daemon::set_up_logging();
  int status = flight::daemon::kFailed;
  try {
    status = flight::daemon::run_main(argc, argv, std::move(spare), kept);
  } catch (const std::bad_alloc&) {
    flight::log::error("out of memory or address space (ulimit -v, MemoryMax=): raise the limit");
  }
  flight::log::flush();
  return status;
}
