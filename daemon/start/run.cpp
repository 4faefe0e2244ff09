// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/run.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "daemon/control/inherited_socket.hpp"
#include "daemon/log/log.hpp"
#include "daemon/start/start.hpp"
#include "daemon/start/start_report.hpp"
#include "daemon/start/start_signals.hpp"
#include "daemon/start/start_wait.hpp"
#include "libcore/base/output_relay.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/config/config_child.hpp"
#include "libcore/config/config_reader.hpp"

namespace flight::daemon {
namespace {

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

}  // namespace

int log_failure(const Error& error, int status) {
  log::error("{}{}", error.what, descriptor_advice(error));
  return status;
}

int run_flightd(const Options& options, std::vector<std::string> command_line, std::unique_ptr<SpareDescriptors> spare,
                Result<void> kept) {
  relay_output();
  const auto control_socket = inherited_control_socket();
  const auto config = std::make_shared<ConfigReader>(options.config_file, config_child_command());
  const Start start{.options = options,
                    .config = config,
                    .runtime_look = std::make_shared<FolderLook>(),
                    .broker_look = std::make_shared<FolderLook>(),
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
    if (!start.service) return log_failure(started.error().error, started.error().status);
    const Error& why = started.error().error;
    if (!between.wait(why.what + descriptor_advice(why))) return 0;
  }
}

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

}  // namespace flight::daemon
