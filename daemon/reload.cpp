// SPDX-License-Identifier: Apache-2.0
#include "daemon/reload.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/recorder/trigger_thread.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/config/memory_share.hpp"
#include "libcore/sysinfo/worker_plan.hpp"

namespace flight::daemon {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::steady_clock::time_point kNever = std::chrono::steady_clock::time_point::max();

// If flightd was started by hand as root, the file may be readable only for root.
void explain_unreadable(ConfigError& error) {
  if (error.error_number != EACCES) return;
  error.message +=
      fmt::format("; flightd runs as uid {} now: make the file readable for it", static_cast<unsigned>(::geteuid()));
}

// The message names `path` and the old value.
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
      out.push_back(fmt::format("{} changed to \"{}\", but \"{}\" stays in force until flightd is restarted", path,
                                after, before));
  };
  differs("user", old.user, config.user);
  differs("snapshot.workers", old.snapshot.workers, config.snapshot.workers);
  if (old.sideband_ring_bytes != config.sideband_ring_bytes)
    out.emplace_back("memory.sideband changed: it takes effect for a new recording, after flightd was stopped");
  return out;
}

std::vector<ReportedChange> reported(std::vector<ConfigChange> changes) {
  std::vector<ReportedChange> out;
  for (ConfigChange& change : changes)
    out.push_back({.path = std::move(change.path),
                   .before = std::move(change.before),
                   .now = std::move(change.now),
                   .file = std::move(change.file),
                   .line = change.line});
  return out;
}

// For the log: the names of the values, and of a few only.
std::string changes_text(const std::vector<ReportedChange>& changes) {
  constexpr std::size_t kMost = 8;
  if (changes.empty()) return "no value changed";
  std::string out = "changed: ";
  for (std::size_t i = 0; i < std::min(changes.size(), kMost); ++i) out += (i == 0 ? "" : ", ") + changes[i].path;
  if (changes.size() > kMost) out += fmt::format(" and {} more", changes.size() - kMost);
  return out;
}

}  // namespace

Reloader::~Reloader() {
  wake_reading();
  reading_->join();
}

void Reloader::wake_reading() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(stop_.get(), &one, sizeof one));
}

// The broker answers at once, unless its configuration hangs.
void Reloader::stop() {
  if (std::exchange(stopping_, true)) return;
  wake_reading();
  last_wait_.expires_after(kLastWait);
  last_wait_.async_wait([this](boost::system::error_code error) {
    if (!error && busy_) finish(tl::unexpected(stopped()));
  });
}

CallError Reloader::stopped() { return write_failed(ECANCELED, "", "flightd is stopping"); }

ConfigResult<Config> Reloader::load(ConfigReader& reader, std::chrono::milliseconds patience, int stop_fd) {
  const std::string& file = reader.file();
  auto config = reader.read(patience, stop_fd);
  if (!config) {
    explain_unreadable(config.error());
    return config;
  }
  if (auto triggers = TriggerThread::check(config->triggers); !triggers)
    return tl::unexpected(ConfigError{file, 0, "triggers", triggers.error().what});
  for (const auto& [path, words] :
       {std::pair<std::string_view, std::string>("snapshot.workers", config->snapshot.workers),
        {"record.workers", config->record.workers}}) {
    const auto workers = plan_workers(words);
    if (workers) continue;
    const auto written = std::find_if(config->values.begin(), config->values.end(),
                                      [at = path](const ConfigValue& value) { return value.path == at; });
    const bool known = written != config->values.end();
    return tl::unexpected(
        ConfigError{known ? written->file : file, known ? written->line : 0, std::string(path), workers.error().what});
  }
  return config;
}

void Reloader::reload(const std::string& who, Done done) {
  if (stopping_) return done(tl::unexpected(stopped()));
  waiting_.push_back({.who = who, .done = std::move(done)});
  if (!busy_) begin();
}

void Reloader::report_to_all(const std::string& who, const CallResult<ReloadReport>& outcome) {
  if (!outcome)
    return log::warn("reload, requested by {}: {}; the old configuration stays in force", who,
                     error_message({outcome.error().parameters, outcome.error().name, false}));
  log::info("configuration {} is in force, requested by {}{}{}", outcome->digest, who,
            outcome->changes ? "; " + changes_text(*outcome->changes) : "",
            outcome->changed ? "; rings were opened or closed" : "");
  for (const std::string& warning : outcome->warnings) log::warn("{}", warning);
  events_.reloaded(who);
}

// On the thread that reads the configuration, because systemd may be slow; in order.
void Reloader::notify(std::string text) {
  reading_->post([text = std::move(text)] {
    if (auto sent = notify_service_manager(text, kNotifySurely); !sent) log::warn("{}", sent.error().what);
  });
}

void Reloader::begin() {
  busy_ = true;
  broker_done_ = changed_ = false;
  reads_ = 0;
  asked_ = std::exchange(waiting_, {});
  note_rings();
  notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_now() / 1000));
  read();
}

void Reloader::read() {
  ++reads_;
  reading_->post([this] {
    auto config = load(*reader_, kReadWithin, stop_.get());
    reader_->drop();  // if it is still being read: the next reload must not get what is older than its call
    asio::post(loop_, [this, config = std::move(config)]() mutable { take(std::move(config)); });
  });
}

void Reloader::take(ConfigResult<Config> config) {
  if (!busy_) return;
  if (!config && stopping_ && config.error().unread) return finish(tl::unexpected(stopped()));
  if (!config) {
    // The broker has reloaded: it accepted the files, but they changed again.
    if (broker_done_) return put_in_force(changed_);
    const ConfigError& error = config.error();
    return finish(tl::unexpected(bad_config(error.file, error.line, error.path, error.text())));
  }
  next_ = std::move(*config);
  if (broker_done_ && next_.digest == recorder_.attached()->manifest.config_digest) return put_in_force(changed_);
  ask_broker();
}

void Reloader::ask_broker() {
  if (recorder_.broker_gone()) {
    const std::string refusal = recorder_.refusal();
    on_no_broker_();
    return answered(refusal.empty()
                        ? Result<bool>(fail(std::errc::connection_reset,
                                            "flightd-broker does not run and cannot read its configuration"))
                        : fail(std::errc::connection_reset, "{}; trying again now", refusal));
  }
  late_.expires_after(says_so_after_);
  late_.async_wait([this](boost::system::error_code error) {
    if (!error && late_.expiry() <= std::chrono::steady_clock::now()) say_that_it_is_late();
  });
  recorder_.reload(
      [this](Result<bool> changed) { asio::post(loop_, [this, changed = std::move(changed)] { answered(changed); }); });
}

// The reload goes on: a broker that answers later has read its configuration, and flightd must follow.
void Reloader::say_that_it_is_late() {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(says_so_after_).count();
  const std::string text = fmt::format(
      "flightd-broker has not answered for {} s: it was stopped, or it hangs; the new configuration takes "
      "effect when it answers or the next one does, and the journal says so then",
      seconds);
  log::warn("reload: {}", text);
  for (Asked& one : asked_)
    if (const Done done = std::exchange(one.done, nullptr)) done(tl::unexpected(write_failed(ETIMEDOUT, "", text)));
}

void Reloader::answered(const Result<bool>& changed) {
  late_.expires_at(kNever);
  if (!busy_) return;
  if (!changed && broker_done_) return put_in_force(changed_);
  if (!changed && recorder_.broker_gone())
    return finish(tl::unexpected(
        write_failed(changed.error().errno_value(), "",
                     fmt::format("{} ({}); nothing was changed",
                                 recorder_.refusal().empty() ? "flightd-broker is gone" : "nothing is recorded",
                                 changed.error().what))));
  if (!changed) return finish(tl::unexpected(refused_by_broker(changed.error().what)));
  broker_done_ = true;
  changed_ = changed_ || *changed;
  // The files may have changed between the two reads.
  if (recorder_.attach_warning().empty() && next_.digest != recorder_.attached()->manifest.config_digest &&
      reads_ < kMaxReads)
    return read();
  put_in_force(changed_);
}

// The broker's message names the file and key in its text. Both processes have read the same files.
CallError Reloader::refused_by_broker(const std::string& what) const {
  const std::string message = fmt::format("flightd-broker refuses the configuration, nothing was changed: {}", what);
  for (const ConfigValue& value : next_.values)
    if (value.line > 0 && what.find(fmt::format("{}:{}: ", value.file, value.line)) != std::string::npos)
      return bad_config(value.file, value.line, value.path, message);
  return bad_config(config_file_, 0, "", message);
}

void Reloader::put_in_force(bool changed) {
  warnings_ = unread_warnings(next_);
  for (std::string& setting : needs_restart(config_, next_)) warnings_.push_back(std::move(setting));
  const std::string unattached = recorder_.attach_warning();
  const std::string& theirs = recorder_.attached()->manifest.config_digest;
  if (unattached.empty() && next_.digest != theirs)
    warnings_.push_back(
        fmt::format("flightd's configuration (digest {}) and flightd-broker's ({}) differ: channels and kernel events "
                    "are the broker's, everything else is flightd's; start both with the same --config",
                    next_.digest, theirs));
  // Settings that need a restart are always compared with the configuration in force.
  keep_value(next_, config_, "user");
  keep_value(next_, config_, "snapshot.workers");
  next_.user = config_.user;
  next_.snapshot.workers = config_.snapshot.workers;
  ReloadReport report{.digest = next_.digest,
                      .changed = changed,
                      .changes = reported(config_changes(config_.values, next_.values)),
                      .warnings = warnings_};
  if (unattached.empty()) report.lost_history = lost_history();
  config_ = std::move(next_);
  on_config_(config_);
  if (!unattached.empty()) report.warnings.push_back(unattached);
  const bool store_changed = std::any_of(report.changes->begin(), report.changes->end(),
                                         [](const auto& change) { return change.path.starts_with("store."); });
  if (!find_due_ || !store_changed) return finish(report);
  find_due_([this, report = std::move(report)](std::string due) mutable {
    if (!busy_) return;  // flightd ends
    if (!due.empty()) report.warnings.push_back(std::move(due));
    finish(report);
  });
}

void Reloader::note_rings() {
  rings_before_.clear();
  for (const auto& ring : recorder_.attached()->rings) rings_before_.emplace_back(ring, ring->info().channel);
}

// Rings that are recorded on have the same object (Attached::open).
std::vector<std::string> Reloader::lost_history() const {
  const auto attached = recorder_.attached();
  std::vector<std::string> out;
  for (const auto& [before, channel] : rings_before_) {
    const auto ring = before.lock();
    const bool is_kept =
        ring && std::find(attached->rings.begin(), attached->rings.end(), ring) != attached->rings.end();
    if (!is_kept && std::find(out.begin(), out.end(), channel) == out.end()) out.push_back(channel);
  }
  return out;
}

void Reloader::finish(const CallResult<ReloadReport>& outcome) {
  notify("READY=1");
  late_.expires_at(kNever);
  busy_ = false;
  answer(std::exchange(asked_, {}), outcome);
  if (stopping_) {
    last_wait_.cancel();
    answer(std::exchange(waiting_, {}), tl::unexpected(stopped()));
  }
  if (!waiting_.empty() && !busy_) begin();
}

void Reloader::answer(const std::vector<Asked>& all, const CallResult<ReloadReport>& outcome) {
  for (const Asked& one : all) {
    report_to_all(one.who, outcome);
    if (one.done) one.done(outcome);
  }
}

ConfigReport Reloader::report() const {
  ConfigReport out{.values = {}, .memory = {}, .digest = config_.digest, .warnings = warnings_};
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
  out.memory.ram_bytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  out.memory.max_bytes = config_.memory_max.of(out.memory.ram_bytes);
  const BesideRings& beside = recorder_.beside();
  out.memory.program_bytes = beside.bytes + checkpoint_file_bytes(beside.bytes);
  out.memory.tracker_bytes = tracker_bytes(beside.bytes);
  if (beside.cgroup_bytes != BesideRings::kNoCgroupLimit) out.memory.cgroup_max_bytes = beside.cgroup_bytes;
  out.memory.sum_bytes = out.memory.ring_bytes + out.memory.sideband_bytes + out.memory.trigger_bytes +
                         out.memory.staging_bytes + out.memory.program_bytes;
  return out;
}

}  // namespace flight::daemon
