// SPDX-License-Identifier: Apache-2.0
// flightd: from the command line to a running daemon (start/run.hpp), or to the check of its configuration. It includes
// none of the daemon's objects, which other files of a unity build have read.
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/options.hpp"
#include "daemon/privileges.hpp"
#include "daemon/start/configured.hpp"
#include "daemon/start/run.hpp"
#include "daemon/units/unit_view.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/folder_answers.hpp"
#include "libcore/base/inherited_state.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/time_zone.hpp"
#include "libcore/base/units.hpp"
#include "libcore/config/config_child.hpp"
#include "libcore/config/config_reader.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/perf/event_spec.hpp"
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
  if (auto answers = check_answers(folders); !answers) return log_failure(answers.error());
  if (auto seen = check_for_unit(options, config); !seen) return log_failure(seen.error(), kBadConfig);
  std::string looked_up = "events were not checked, because this requires root";
  if (::geteuid() == 0) {
    EventSources sources;
    if (auto tracefs = find_tracefs()) sources.tracefs = *tracefs;
    const auto found = Recording::check(config, sources);
    if (!found) return log_failure(found.error(), kBadConfig);
    for (const std::string& warning : found->warnings) log::warn("{}", warning);
    for (const std::string& note : found->notes) log::info("{}", note);
    if (auto readable = check_as_user(options, config); !readable) return log_failure(readable.error(), kBadConfig);
    looked_up = "all its events are available";
  } else {
    const auto warnings = check_channel_cpus(config);
    if (!warnings) return log_failure(warnings.error(), kBadConfig);
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
  if (!configured) return log_failure(configured.error().error, configured.error().status);
  return check(options, configured->config);
}

int run_main(int argc, char** argv, std::unique_ptr<SpareDescriptors> spare, Result<void> kept) {
  const ParsedOptions parsed = parse_options(argc, argv);
  if (!parsed.usage.empty()) return refuse_usage(parsed);
  if (!parsed.options) return parsed.exit_status;
  if (parsed.options->check_config) return kept ? check_only(*parsed.options) : log_failure(kept.error());
  return run_flightd(*parsed.options, {argv, argv + argc}, std::move(spare), std::move(kept));
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
