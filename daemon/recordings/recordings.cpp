// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/recordings.hpp"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "daemon/log/log.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

namespace asio = boost::asio;

// `left`: something of it is in the store, and is finished later.
CallError error_of_recording(const Error& error, bool left) {
  const int number = error.errno_value();
  if (is_full(number))
    return store_full(fmt::format(
        "{}. {} Free some space there, for instance with `flightctl remove ID`{}", error.what,
        left ? "What was recorded is finished as soon as there is space." : "Nothing was recorded into a file.",
        left ? "." : ", and try again."));
  if (error.code == std::errc::invalid_argument || error.code == std::errc::no_message_available)
    return recording_refused(error.what);
  return write_failed(number, "", error.what);
}

}  // namespace

Recordings::Recordings(asio::io_context& loop, std::unique_ptr<TaskThread> thread, RecorderThread& recorder,
                       StoreService& store, const HostFacts& host, const Config& config, const WaitingClock& clock)
    : loop_(loop),
      recorder_(recorder),
      store_(store),
      host_(host),
      clock_(clock),
      recovery_(loop, std::move(thread), recorder, store, host.host.hostname) {
  configure(config);
}

Recordings::~Recordings() {
  recovery_.stop();
  std::map<std::uint64_t, Running> left;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    left.swap(running_);
  }
  left.clear();  // waits for their threads
}

void Recordings::configure(const Config& config) {
  config_ = config.record;
  level_ = config.snapshot.compression == "none" ? 0 : config.snapshot.compression_level;
}

RecordingOrder Recordings::new_order() const {
  RecordingOrder out;
  out.asked_ns = monotonic_now();
  out.max_bytes = config_.max_bytes;
  out.part_bytes = config_.switch_bytes;
  out.directory = config_.layout == "directory";
  out.workers = config_.workers;
  out.level = level_;
  return out;
}

RecordingOrder Recordings::order_of(const Caller& caller, RecordParameters parameters) const {
  RecordingOrder out = new_order();
  out.who = {.uid = caller.uid,
             .pid = caller.pid,
             .comm = caller.comm,
             .time = to_rfc3339(wall_now()),
             .reason = std::move(parameters.reason)};
  if (parameters.past_ns != 0) out.since_ns = out.asked_ns - std::min(parameters.past_ns, out.asked_ns - 1);
  out.for_ns = parameters.for_ns.value_or(0);
  out.max_bytes = parameters.max_bytes.value_or(out.max_bytes);
  out.part_bytes = parameters.part_bytes.value_or(out.part_bytes);
  out.channels = std::move(parameters.channels);
  if (parameters.layout) out.directory = *parameters.layout == "directory";
  return out;
}

RunningRecording::Callbacks Recordings::callbacks_of(std::uint64_t number) {
  return {.begun =
              [this, number](const std::string& id) {
                asio::post(loop_, [this, number, id] {
                  log::info("recording {} began", id);
                  progressed(number, id, std::nullopt);
                });
              },
          .progress =
              [this, number](const std::string& id, const RecordProgress& progress) {
                asio::post(loop_, [this, number, id, progress] { progressed(number, id, progress); });
              },
          .ended =
              [this, number](const RecordingOutcome& outcome) {
                asio::post(loop_, [this, number, outcome] { ended(number, outcome); });
              },
          .warn = [this](const Error& error) { asio::post(loop_, [what = error.what] { log::warn("{}", what); }); }};
}

void Recordings::record(const Caller& caller, RecordParameters parameters, ControlBackend::Follower follower,
                        ControlBackend::Done done) {
  Running running{.recording = nullptr,
                  .follower = std::move(follower),
                  .waiting = {},
                  .who = fmt::format("user {} ({})", caller.uid, own_name(printable(caller.comm)))};
  running.waiting.push_back(std::move(done));
  if (auto started = start(order_of(caller, std::move(parameters)), running); !started)
    running.waiting.front()(tl::unexpected(std::move(started.error())));
}

void Recordings::record(const OfTrigger& wanted, std::function<void(const std::string& id)> begun,
                        ControlBackend::Done done) {
  if (prolong(wanted, done)) return;
  RecordingOrder order = new_order();
  order.who = {.uid = static_cast<std::uint32_t>(::getuid()),
               .pid = static_cast<std::int32_t>(::getpid()),
               .comm = "flightd",
               .time = to_rfc3339(wall_now()),
               .reason = fmt::format("trigger {}: {}", wanted.trigger, wanted.reason)};
  order.since_ns = wanted.since_ns;
  order.all_since = true;
  order.for_ns = wanted.for_ns;
  Running running{.recording = nullptr,
                  .follower = {.client = own_,
                               .step =
                                   [begun = std::move(begun)](const std::string& id,
                                                              const std::optional<RecordProgress>& progress) {
                                     if (!progress) begun(id);
                                   }},
                  .waiting = {},
                  .who = "trigger " + wanted.trigger,
                  .last = {},
                  .trigger = wanted.trigger};
  running.waiting.push_back(std::move(done));
  auto started = start(std::move(order), running);
  if (started) return;
  log::warn("trigger {}: no recording is made: {}", wanted.trigger, error_message(started.error()));
  running.waiting.front()(tl::unexpected(std::move(started.error())));
}

// Two of one trigger would have the same records, and leave none for others.
bool Recordings::prolong(const OfTrigger& wanted, const ControlBackend::Done& done) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, running] : running_) {
    if (running.trigger != wanted.trigger || !running.recording->go_on_until(clock_.now() + wanted.for_ns)) continue;
    running.waiting.push_back(done);
    log::info("trigger {} fired again: its recording goes on for {}", wanted.trigger,
              format_duration(std::chrono::nanoseconds(wanted.for_ns)));
    return true;
  }
  return false;
}

CallResult<void> Recordings::start(RecordingOrder order, Running& running) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return tl::unexpected(stopping());
    if (running_.size() >= kMost)
      return tl::unexpected(recording_refused(
          fmt::format("{} recordings run already ({}), which is the maximum; `flightctl record --stop ID` ends one",
                      kMost, running_ids())));
  }
  const std::uint64_t number = ++number_;
  auto started = RunningRecording::start({.recorder = recorder_, .store = store_, .host = host_}, std::move(order),
                                         callbacks_of(number), clock_);
  if (!started) return tl::unexpected(write_failed(started.error().errno_value(), "", started.error().what));
  running.recording = std::move(*started);
  const std::lock_guard lock(mutex_);
  if (ending_) running.recording->stop(RecordingEnd::asked);
  running_.emplace(number, std::move(running));
  return {};
}

void Recordings::stop(const std::string& id, ControlBackend::Done done) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, running] : running_) {
    if (running.recording->id() != id) continue;
    running.waiting.push_back(std::move(done));
    return running.recording->stop(RecordingEnd::asked);
  }
  const std::string ids = running_ids();
  done(tl::unexpected(no_such_recording(
      id, fmt::format("no recording {} is running{}", id, ids.empty() ? "" : fmt::format("; these are: {}", ids)))));
}

// A client that follows its recording and has gone ends it: nobody else would.
void Recordings::progressed(std::uint64_t number, const std::string& id,
                            const std::optional<RecordProgress>& progress) {
  const std::lock_guard lock(mutex_);
  const auto at = running_.find(number);
  if (at == running_.end()) return;
  if (progress) at->second.last = *progress;
  if (!at->second.follower.step) return;
  if (at->second.follower.client.expired()) return at->second.recording->stop(RecordingEnd::asked);
  at->second.follower.step(id, progress);
}

void Recordings::ended(std::uint64_t number, const RecordingOutcome& outcome) {
  const Result<RecordResult>& result = outcome.result;
  std::map<std::uint64_t, Running>::node_type node;
  {
    const std::lock_guard lock(mutex_);
    node = running_.extract(number);
  }
  changed_.notify_all();
  if (node.empty()) return;
  const Running& running = node.mapped();
  if (result) {
    const RecordProgress& all = result->progress;
    log::info("recording {} of {} ended ({}): {} in {}, {}, {} lost", result->id, running.who, result->ended,
              format_bytes(all.bytes), counted(all.finished.size(), "part"), counted(all.events, "event"), all.lost);
    for (const std::string& warning : result->warnings) log::warn("recording {}: {}", result->id, warning);
  } else {
    log::warn("a recording of {} could not be made: {}", running.who, result.error().what);
  }
  store_.refresh_use();
  recovery_.recover(outcome.unfinished, RecordingEnd::disk);
  for (const ControlBackend::Done& done : running.waiting) {
    if (result)
      done(to_json(*result));
    else
      done(tl::unexpected(error_of_recording(result.error(), !outcome.unfinished.empty())));
  }
  // Its thread has nothing more to do.
}

std::string Recordings::running_ids() const {
  std::string out;
  for (const auto& [number, running] : running_)
    if (const std::string id = running.recording->id(); !id.empty()) out += (out.empty() ? "" : ", ") + id;
  return out;
}

std::vector<std::string> Recordings::notes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& [number, running] : running_) {
    const std::string id = running.recording->id();
    if (id.empty()) continue;
    out.push_back(fmt::format("recording {} of {} is running: {} in {}; `flightctl record --stop {}` ends it", id,
                              running.who, format_bytes(running.last.bytes), counted(running.last.parts, "part"), id));
  }
  return out;
}

std::string Recordings::running_id() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, running] : running_)
    if (std::string id = running.recording->id(); !id.empty()) return id;
  return "";
}

bool Recordings::end_all(std::chrono::seconds most) {
  const auto end = std::chrono::steady_clock::now() + most;
  recovery_.stop();
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    for (const auto& [number, running] : running_) running.recording->stop(RecordingEnd::asked);
    if (!changed_.wait_until(lock, end, [this] { return running_.empty(); })) return false;
  }
  return recovery_.wait_until(end);
}

Recordings::Abandoned Recordings::abandon() {
  std::map<std::uint64_t, Running> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(running_);
  }
  Abandoned out;
  for (auto& [number, running] : left) {
    const std::string id = running.recording->id();
    const std::string text =
        fmt::format("recording {} is not finished: the disk of {} does not answer; the next flightd finishes its parts",
                    id.empty() ? "without an id" : id, store_.folder());
    log::warn("{}", text);
    for (const ControlBackend::Done& done : running.waiting) done(tl::unexpected(write_failed(ETIMEDOUT, "", text)));
    out.push_back(std::move(running.recording));
  }
  return out;
}

}  // namespace flight::daemon
