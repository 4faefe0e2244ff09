// SPDX-License-Identifier: Apache-2.0
#include "daemon/reloader.hpp"

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "daemon/trigger_thread.hpp"
#include "libcore/snapshot/crew_plan.hpp"

namespace flight {
namespace {

namespace asio = boost::asio;

// The file may have been root's alone when flightd was started by hand, as root.
void explain_unreadable(ConfigError& error) {
  if (error.line != 0 || ::access(error.file.c_str(), R_OK) == 0 || errno != EACCES) return;
  error.message +=
      fmt::format("; flightd runs as uid {} now: make the file readable for it", static_cast<unsigned>(::geteuid()));
}

// `path` says what it said before.
void keep_value(Config& next, const Config& before, std::string_view path) {
  const auto at = [&](auto& values) {
    return std::find_if(values.begin(), values.end(), [&](const ConfigValue& value) { return value.path == path; });
  };
  const auto now = at(next.values);
  if (const auto old = at(before.values); now != next.values.end() && old != before.values.end()) *now = *old;
}

std::vector<std::string> needs_restart(const Config& old, const Config& config) {
  std::vector<std::string> out;
  const auto differs = [&](const char* path, const std::string& before, const std::string& after) {
    if (before != after)
      out.push_back(fmt::format("{} is \"{}\" now, but \"{}\" holds until flightd is restarted", path, after, before));
  };
  differs("user", old.user, config.user);
  differs("snapshot.crew", old.snapshot.crew, config.snapshot.crew);
  return out;
}

}  // namespace

ConfigResult<Config> Reloader::load(const std::string& file) {
  auto config = file.empty() ? load_config(ConfigFolders{}) : load_config(file);
  if (!config) {
    explain_unreadable(config.error());
    return config;
  }
  if (auto triggers = TriggerThread::check(config->triggers); !triggers)
    return tl::unexpected(ConfigError{file, 0, "triggers", triggers.error().what});
  constexpr std::string_view kCrew = "snapshot.crew";
  const auto crew = plan_crew(config->snapshot.crew);
  if (crew) return config;
  const auto written = std::find_if(config->values.begin(), config->values.end(),
                                    [&](const ConfigValue& value) { return value.path == kCrew; });
  const bool known = written != config->values.end();
  return tl::unexpected(
      ConfigError{known ? written->file : file, known ? written->line : 0, std::string(kCrew), crew.error().what});
}

void Reloader::reload(Done done) {
  waiting_.push_back(std::move(done));
  if (!busy_) begin();
}

void Reloader::begin() {
  busy_ = true;
  broker_done_ = changed_ = false;
  reads_ = 0;
  asked_ = std::exchange(waiting_, {});
  ::sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", static_cast<unsigned long long>(monotonic_now() / 1000));
  read();
}

void Reloader::read() {
  ++reads_;
  asio::post(reading_,
             [this] { asio::post(loop_, [this, config = load(config_file_)]() mutable { take(std::move(config)); }); });
}

void Reloader::take(ConfigResult<Config> config) {
  if (!config) {
    // After the broker's own: it found the files good, and then somebody changed them again.
    if (broker_done_) return put_in_force(changed_);
    const ConfigError& error = config.error();
    return finish(tl::unexpected(bad_config(error.file, error.line, error.path, error.text())));
  }
  next_ = std::move(*config);
  if (broker_done_ && next_.digest == recorder_.attached()->manifest.config_digest) return put_in_force(changed_);
  ask_broker();
}

void Reloader::ask_broker() {
  if (recorder_.broker_gone()) return answered(fail(std::errc::connection_reset, "nobody reads its configuration"));
  recorder_.reload(
      [this](Result<bool> changed) { asio::post(loop_, [this, changed = std::move(changed)] { answered(changed); }); });
}

void Reloader::answered(const Result<bool>& changed) {
  if (!changed && broker_done_) return put_in_force(changed_);
  if (!changed && recorder_.broker_gone())
    return finish(tl::unexpected(
        write_failed(changed.error().errno_value(), "",
                     fmt::format("nothing was changed: flightd-broker is gone ({})", changed.error().what))));
  if (!changed) return finish(tl::unexpected(refused_by_broker(changed.error().what)));
  broker_done_ = true;
  changed_ = changed_ || *changed;
  // They may have been changed between the two reads.
  if (next_.digest != recorder_.attached()->manifest.config_digest && reads_ < kMaxReads) return read();
  put_in_force(changed_);
}

// It names the place in words. Both of us have read the same files.
CallError Reloader::refused_by_broker(const std::string& what) const {
  const std::string message = fmt::format("flightd-broker refuses it, nothing was changed: {}", what);
  for (const ConfigValue& value : next_.values)
    if (value.line > 0 && what.find(fmt::format("{}:{}: ", value.file, value.line)) != std::string::npos)
      return bad_config(value.file, value.line, value.path, message);
  return bad_config(config_file_, 0, "", message);
}

void Reloader::put_in_force(bool changed) {
  warnings_ = needs_restart(config_, next_);
  const std::string& theirs = recorder_.attached()->manifest.config_digest;
  if (next_.digest != theirs)
    warnings_.push_back(
        fmt::format("flightd's configuration (digest {}) and flightd-broker's ({}) are not the same: channels and "
                    "kernel events are "
                    "the broker's, all else is flightd's; start both with the same --config",
                    next_.digest, theirs));
  // What needs a restart is compared with what really holds, the next time, too.
  keep_value(next_, config_, "user");
  keep_value(next_, config_, "snapshot.crew");
  next_.user = config_.user;
  next_.snapshot.crew = config_.snapshot.crew;
  config_ = std::move(next_);
  told_(config_);
  finish(ReloadReport{.digest = config_.digest, .changed = changed, .warnings = warnings_});
}

void Reloader::finish(const CallResult<ReloadReport>& outcome) {
  ::sd_notify(0, "READY=1");
  busy_ = false;
  for (const Done& done : std::exchange(asked_, {})) done(outcome);
  if (!waiting_.empty() && !busy_) begin();
}

ConfigReport Reloader::report() const {
  ConfigReport out{.values = {}, .memory = {}, .digest = config_.digest};
  for (const ConfigValue& value : config_.values)
    out.values.push_back({value.path, value.value, value.file, value.line});
  const auto attached = recorder_.attached();
  for (const ManifestRing& ring : attached->manifest.rings) {
    std::uint64_t& sum = ring.kind == RingKind::channel    ? out.memory.ring_bytes
                         : ring.kind == RingKind::sideband ? out.memory.sideband_bytes
                                                           : out.memory.trigger_bytes;
    sum += ring.ring_bytes;
  }
  out.memory.staging_bytes = attached->staging.bytes();
  out.memory.sum_bytes =
      out.memory.ring_bytes + out.memory.sideband_bytes + out.memory.trigger_bytes + out.memory.staging_bytes;
  out.memory.ram_bytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.memory.max_bytes = config_.memory_max.of(out.memory.ram_bytes);
  return out;
}

}  // namespace flight
