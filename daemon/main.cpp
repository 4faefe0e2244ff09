// SPDX-License-Identifier: Apache-2.0
// flightd: from the command line to a running daemon. A flightd that cannot start ends if it was started by hand; a
// service stays and tries again.
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "daemon/control/inherited_socket.hpp"
#include "daemon/log/log.hpp"
#include "daemon/options.hpp"
#include "daemon/privileges.hpp"
#include "daemon/start/start.hpp"
#include "daemon/start/start_report.hpp"
#include "daemon/start/start_signals.hpp"
#include "daemon/start/start_wait.hpp"
#include "daemon/units/folder_answers.hpp"
#include "daemon/units/unit_view.hpp"
#include "libcore/base/inherited_state.hpp"
#include "libcore/base/output_relay.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/time_zone.hpp"
#include "libcore/base/units.hpp"
#include "libcore/config/config_child.hpp"
#include "libcore/config/config_reader.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/channel_cpus.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight::daemon {
namespace {

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

// std::bad_alloc (RLIMIT_AS, a memory cgroup), or Asio's, where no descriptor is left for an event loop. They are
// errors like others.
tl::expected<Started, StartFailure> attempt(const Start& start, std::unique_ptr<SpareDescriptors> spare) {
  try {
    return try_start(start, std::move(spare));
  } catch (const std::bad_alloc&) {
    return tl::unexpected(StartFailure{.error = fail(std::errc::not_enough_memory, "{}", kOutOfMemory).value()});
  } catch (const std::exception& error) {
    return tl::unexpected(
        StartFailure{.error = fail(std::errc::too_many_files_open, "start the event loop: {}", error.what()).value()});
  }
}

// Between two attempts of a service.
class Between {
 public:
  Between(ConfigReader& config, int control_socket) : config_(config), control_socket_(control_socket) {}

  // False: flightd was asked to end.
  bool wait(const std::string& why) {
    try {
      if (!full_) full_ = std::make_unique<StartWait>(config_, control_socket_, report_);
      return full_->wait(why);
    } catch (const std::exception&) {
      full_.reset();  // no descriptor or memory for an event loop
    }
    try {
      return wait_barely(why);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kLook);
      return true;
    }
  }
  void end(const std::string& digest) {
    if (full_) full_->end(digest);
    full_.reset();
  }

 private:
  static constexpr std::chrono::seconds kLook{1};

  // For a wait without an event loop: the service manager gets the reason, and no call is answered.
  bool wait_barely(const std::string& why) {
    int number = wait_for_signal(std::chrono::seconds(0));  // from now on, SIGTERM is answered with STOPPING=1
    report_.report(why);
    for (auto left = report_.next_wait(); left.count() > 0 && (number == 0 || number == SIGUSR2); left -= kLook) {
      if (number == SIGUSR2) log::warn("SIGUSR2: no snapshot, because flightd has not started: {}", why);
      report_.repeat();
      number = wait_for_signal(kLook);
    }
    hold_signals();
    if (number != SIGTERM && number != SIGINT) return true;
    log::info("{}: flightd ends", number == SIGINT ? "SIGINT" : "SIGTERM");
    static_cast<void>(notify_service_manager("STOPPING=1", kNotifySoon));
    return false;
  }

  ConfigReader& config_;
  const int control_socket_;
  StartReport report_;
  std::unique_ptr<StartWait> full_;
};

// A service whose socket is passed by the service manager answers calls between two attempts.
int run(const Options& options, std::vector<std::string> command_line, std::unique_ptr<SpareDescriptors> spare,
        Result<void> kept) {
  relay_output();
  const auto control_socket = inherited_control_socket();
  const auto config = std::make_shared<ConfigReader>(options.config_file, config_child_command());
  const Start start{.options = options,
                    .config = config,
                    .runtime_look = std::make_shared<FolderLook>(),
                    .command_line = std::move(command_line),
                    .service = std::getenv("NOTIFY_SOCKET") != nullptr,
                    .control_socket = control_socket};
  Between between(*config, control_socket ? control_socket->get() : -1);
  for (;;) {
    if (!spare) {
      spare = std::make_unique<SpareDescriptors>();
      kept = spare->take_at_start();
    }
    auto started = kept ? attempt(start, std::move(spare)) : tl::unexpected(StartFailure{.error = kept.error()});
    spare.reset();
    if (started) {
      between.end(started->config_digest);
      return started->daemon->run();
    }
    if (!start.service) return failed(started.error().error, started.error().status);
    const Error& why = started.error().error;
    if (!between.wait(why.what + descriptor_advice(why))) return 0;
  }
}

// Only another command line mends this, and the service manager starts flightd with it.
int refuse_usage(const ParsedOptions& parsed) {
  if (std::getenv("NOTIFY_SOCKET") == nullptr) {
    fmt::print(stderr, "flightd: {}\n", parsed.usage);
    return parsed.exit_status;
  }
  const auto control_socket = inherited_control_socket();
  ConfigReader config({}, config_child_command());
  Between between(config, control_socket ? control_socket->get() : -1);
  while (between.wait("wrong usage: " + parsed.usage)) {
  }
  return 0;
}

// The check is for flightd.service, and not for a flightd that is started by hand.
bool is_for_unit(const Options& options) {
  return options.for_service || (options.config_file.empty() && systemd_runs());
}

// Reads the configuration again as the user of the service: if that user cannot read it, the service would not start,
// and no reload would work. The unit's User= is it, whatever "user" says.
Result<void> check_as_user(const Options& options, const Config& config) {
  const auto identity = find_identity(is_for_unit(options) ? unit_user() : config.user);
  if (!identity || identity->uid == 0) return {};
  const auto text = look_as(*identity, [&options] {
    const auto again = options.config_file.empty() ? load_config(ConfigFolders{}) : load_config(options.config_file);
    return again ? std::string() : again.error().text();
  });
  if (!text) return wrap(text.error(), "check whether the user {} can read the configuration", identity->user);
  if (text->empty()) return {};
  return fail(std::errc::permission_denied, "the user {} cannot read it, as the service and each reload must: {}",
              identity->user, *text);
}

// Without --config, the files are those of the service. Another file may be for a flightd that is started by hand,
// which sees it.
Result<void> check_for_unit(const Options& options, const Config& config) {
  auto seen = check_unit_view(options.config_file, config, options.state_dir);
  if (seen) seen = check_unit_writes(options.state_dir, options.runtime_dir);
  if (seen || is_for_unit(options)) return seen;
  if (systemd_runs()) log::warn("{}", seen.error().what);
  return {};
}

// Checks what the broker would check, as far as the privileges of this process allow.
int check(const Options& options, const Config& config) {
  const std::array folders{options.state_dir, options.runtime_dir};
  if (auto answers = check_answers(folders); !answers) return failed(answers.error());
  if (auto seen = check_for_unit(options, config); !seen) return failed(seen.error(), kBadConfig);
  std::string looked_up = "events were not checked, because this requires root";
  if (::geteuid() == 0) {
    EventSources sources;
    if (auto tracefs = find_tracefs()) sources.tracefs = *tracefs;
    const auto found = Recording::check(config, sources);
    if (!found) return failed(found.error(), kBadConfig);
    for (const std::string& warning : found->warnings) log::warn("{}", warning);
    for (const std::string& note : found->notes) log::info("{}", note);
    if (auto readable = check_as_user(options, config); !readable) return failed(readable.error(), kBadConfig);
    looked_up = "all its events are available";
  } else {
    const auto warnings = check_channel_cpus(config);
    if (!warnings) return failed(warnings.error(), kBadConfig);
    for (const std::string& warning : *warnings) log::warn("{}", warning);
  }
  for (const std::string& warning : unread_warnings(config)) log::warn("{}", warning);
  fmt::print("the configuration is valid: {}, digest {}; {}\n", counted(config.channels.size(), "channel"),
             config.digest, looked_up);
  return 0;
}

// Packages and `flightctl doctor` run it, too: it must end. In a chroot without /proc it reads the files itself.
int check_only(const Options& options) {
  auto command = config_child_command();
  if (::access(command.front().c_str(), X_OK) != 0) command.clear();
  ConfigReader reader(options.config_file, std::move(command));
  auto configured = configure(reader, ConfigReader::kByHand);
  if (!configured) return failed(configured.error().error, configured.error().status);
  return check(options, configured->config);
}

int run_main(int argc, char** argv, std::unique_ptr<SpareDescriptors> spare, Result<void> kept) {
  const ParsedOptions parsed = parse_options(argc, argv);
  if (!parsed.usage.empty()) return refuse_usage(parsed);
  if (!parsed.options) return parsed.exit_status;
  if (parsed.options->check_config) return kept ? check_only(*parsed.options) : failed(kept.error());
  return run(*parsed.options, {argv, argv + argc}, std::move(spare), std::move(kept));
}

}  // namespace
}  // namespace flight::daemon

int main(int argc, char** argv) {
  flight::run_config_child(argc, argv);
  // Without this, the C library raises the threshold to the size of the largest block that was freed, and keeps the
  // memory that a snapshot took for a moment.
  constexpr int kOwnMappingBytes = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kOwnMappingBytes);
  flight::fill_standard_descriptors();
  flight::settle_inherited_state(flight::ProgramKind::service);
  auto spare = std::make_unique<flight::SpareDescriptors>();
  const auto kept = spare->take_at_start();
  const std::string zone_trouble = flight::settle_time_zone();
  flight::daemon::set_up_logging();
  if (!zone_trouble.empty()) flight::log::warn("{}", zone_trouble);
  int status = flight::daemon::kFailed;
  try {
    status = flight::daemon::run_main(argc, argv, std::move(spare), kept);
  } catch (const std::bad_alloc&) {
    // After the start: systemd restarts it.
    flight::log::error("{}", flight::kOutOfMemory);
  }
  flight::log::flush();
  return status;
}
