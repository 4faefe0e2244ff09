// SPDX-License-Identifier: Apache-2.0
#include "daemon/service.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>

#include "libcore/base/units.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

namespace asio = boost::asio;

constexpr double kDefaultUsePercent = 10;
constexpr std::uint64_t kDefaultUseCapBytes = 4ULL << 30U;
constexpr std::chrono::milliseconds kStoreUseWait(300);  // a status is answered after this, whatever the disk does
constexpr EventTime kSlowWriteNs = 10'000'000'000;       // a snapshot that takes longer is told in the status

std::string_view what_next(int error_number) {
  if (error_number == ENOSPC || error_number == EDQUOT)
    return " Make room there, for instance with `flightctl remove ID`, and ask again.";
  if (error_number == EACCES) return " The folder must belong to flightd's user and be writable for its group.";
  return "";
}

CallError to_call_error(const Error& error, bool broker_gone) {
  if (error.code == std::errc::operation_canceled) return stopping();
  const int number = error.errno_value();
  if (broker_gone)
    return write_failed(
        number, "",
        fmt::format("flightd-broker is gone ({}): nothing was kept of this snapshot, nothing is recorded "
                    "any more. Restart flightd.",
                    error.what));
  return write_failed(
      number, "",
      fmt::format("{}. Nothing was kept of this snapshot; the recording goes on.{}", error.what, what_next(number)));
}

CallError not_found(const std::string& id, const Error& error) {
  if (error.code == std::errc::no_such_file_or_directory) return no_such_snapshot(id);
  if (error.code == std::errc::invalid_argument) return invalid_parameter("id", error.what);
  // The data is there and its sidecar is gone: nothing is known of it.
  if (error.code == std::errc::no_message_available) return no_such_snapshot(id);
  return write_failed(error.errno_value(), "", error.what);
}

}  // namespace

Service::Service(asio::io_context& loop, RecorderThread& recorder, SnapshotWorker& worker, std::string folder,
                 const StoreConfig& store, std::vector<std::string> warnings)
    : loop_(loop),
      recorder_(recorder),
      worker_(worker),
      store_config_(store),
      warnings_(std::move(warnings)),
      started_ns_(monotonic_now()),
      catalogue_(std::move(folder)) {}

Service::~Service() { store_.join(); }

void Service::on_store(std::function<CallResult<std::string>()> work, Done done) {
  asio::post(store_, [this, work = std::move(work), done = std::move(done)]() mutable {
    asio::post(loop_, [answer = work(), done = std::move(done)]() mutable { done(std::move(answer)); });
  });
}

// The disk may hang: then the status tells what was known last, and says so.
void Service::get_status(Done done) {
  recorder_.status([this, done = std::move(done)](Status status) mutable {
    asio::post(loop_, [this, status = std::move(status), done = std::move(done)]() mutable {
      const std::uint64_t number = ++status_number_;
      waiting_statuses_[number] = [this, status = std::move(status), done = std::move(done)]() mutable {
        answer_status(std::move(status), done);
      };
      auto timer = std::make_shared<asio::steady_timer>(loop_, kStoreUseWait);
      timer->async_wait([this, number, timer](const boost::system::error_code&) {
        if (const auto late = waiting_statuses_.extract(number)) late.mapped()();
      });
      refresh_store_use();
    });
  });
}

void Service::refresh_store_use() {
  if (use_asked_ns_ != 0) return;
  use_asked_ns_ = monotonic_now();
  asio::post(store_, [this] {
    const StoreUse use{.usage = catalogue_.usage(), .max_bytes = store_limit()};
    asio::post(loop_, [this, use] {
      store_use_ = use;
      use_asked_ns_ = 0;
      for (const auto& [number, answer] : std::exchange(waiting_statuses_, {})) answer();
    });
  });
}

void Service::answer_status(Status status, const Done& done) const {
  const EventTime now_ns = monotonic_now();
  status.version = FLIGHTD_VERSION;
  status.uptime_seconds = static_cast<double>(now_ns - started_ns_) / 1e9;
  status.snapshots = store_use_.usage.snapshots;
  status.store_bytes = store_use_.usage.bytes;
  status.store_max_bytes = store_use_.max_bytes;
  const ProcessUsage self = process_usage(::getpid());
  status.flightd = {.pid = ::getpid(), .cpu_seconds = self.cpu_seconds, .rss_bytes = self.rss_bytes};
  status.last_snapshot = last_snapshot_;
  const auto since = [now_ns](EventTime from_ns) {
    return format_duration(std::chrono::nanoseconds(now_ns - from_ns));
  };
  if (!disk_trouble_.empty()) status.warnings.push_back(disk_trouble_);
  if (use_asked_ns_ != 0)
    status.warnings.push_back(fmt::format(
        "degraded (disk): {} has not answered for {}; how many snapshots there are is what was known before",
        catalogue_.folder(), since(use_asked_ns_)));
  if (const EventTime from_ns = worker_.writing_since_ns(); from_ns != 0 && now_ns > from_ns + kSlowWriteNs)
    status.warnings.push_back(
        fmt::format("degraded (disk): a snapshot has been under way to {} for {}; the recording goes on",
                    catalogue_.folder(), since(from_ns)));
  status.warnings.insert(status.warnings.end(), warnings_.begin(), warnings_.end());
  done(to_json(status));
}

std::uint64_t Service::store_limit() const {
  struct statvfs info {};
  const bool known = ::statvfs(catalogue_.folder().c_str(), &info) == 0;
  const std::uint64_t whole = known ? static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize : 0;
  if (store_config_.max_use) return store_config_.max_use->of(whole);
  return std::min(SizeOrShare{.bytes = 0, .percent = kDefaultUsePercent}.of(whole), kDefaultUseCapBytes);
}

CallResult<WindowRequest> Service::window_of(const SnapshotParameters& parameters, EventTime now_ns) const {
  WindowRequest out;
  if (parameters.last_usec && parameters.since)
    return tl::unexpected(invalid_parameter("since", "last_usec and since exclude each other"));
  if (parameters.last_usec) {
    const std::uint64_t last_ns = std::min(*parameters.last_usec, UINT64_MAX / 1000) * 1000;
    out.begin_ns = now_ns > last_ns ? now_ns - last_ns : 1;
  }
  const WallTime now = wall_now();
  const ClockPair clock = ClockPair::now();
  const auto read = [&](const std::string& text, const char* name) -> CallResult<EventTime> {
    auto time = parse_time(text, now);
    if (!time) return tl::unexpected(invalid_parameter(name, time.error().what));
    return std::max<EventTime>(clock.event_at(*time), 1);
  };
  if (parameters.since) {
    auto begin = read(*parameters.since, "since");
    if (!begin) return tl::unexpected(begin.error());
    out.begin_ns = *begin;
    const EventTime oldest_ns = recorder_.oldest_held_ns();
    if (out.begin_ns < oldest_ns)
      return tl::unexpected(invalid_parameter(
          "since", fmt::format("{} is no longer held: the oldest time held is {} ({} ago)", *parameters.since,
                               to_rfc3339(clock.wall_at(oldest_ns)),
                               format_duration(std::chrono::nanoseconds(now_ns - std::min(now_ns, oldest_ns))))));
    if (out.begin_ns > now_ns + parameters.post_usec.value_or(0) * 1000)
      return tl::unexpected(invalid_parameter("since", fmt::format("{} lies in the future", *parameters.since)));
  }
  if (parameters.until) {
    auto end = read(*parameters.until, "until");
    if (!end) return tl::unexpected(end.error());
    out.end_ns = *end;
    if (out.end_ns <= std::max(out.begin_ns, recorder_.oldest_held_ns()))
      return tl::unexpected(invalid_parameter(
          "until", fmt::format("nothing is held that lies before {}: the oldest time held is {}", *parameters.until,
                               to_rfc3339(clock.wall_at(recorder_.oldest_held_ns())))));
  }
  return out;
}

void Service::take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) {
  const EventTime now_ns = monotonic_now();
  auto window = window_of(parameters, now_ns);
  if (!window) return done(tl::unexpected(window.error()));
  SnapshotRequest request;
  request.who = {.uid = caller.uid,
                 .pid = caller.pid,
                 .comm = caller.comm,
                 .time = to_rfc3339(wall_now()),
                 .reason = parameters.reason};
  request.window = *window;
  request.requested_ns = now_ns;
  request.due_ns = now_ns + parameters.post_usec.value_or(0) * 1000;
  if (parameters.capture) request.capture = *parameters.capture == "live" ? CaptureMode::live : CaptureMode::pause;
  request.progress = [this, progress = std::move(progress)](std::string_view step, unsigned percent) {
    asio::post(loop_, [progress, step = std::string(step), percent] { progress(step, percent); });
  };
  submit(std::move(request), [this, done = std::move(done)](const Result<Sidecar>& result) {
    if (result) return done(to_json_line(*result));
    done(tl::unexpected(to_call_error(result.error(), recorder_.broker_gone())));
  });
}

void Service::take_by_signal(std::uint32_t uid, std::int32_t pid, std::function<void(const Result<Sidecar>&)> done) {
  SnapshotRequest request;
  request.trigger = "signal";
  request.who = {.uid = uid, .pid = pid, .comm = "", .time = to_rfc3339(wall_now()), .reason = "SIGUSR2"};
  request.requested_ns = request.due_ns = monotonic_now();
  submit(std::move(request), std::move(done));
}

void Service::submit(SnapshotRequest request, std::function<void(const Result<Sidecar>&)> done) {
  request.done = [this, done = std::move(done)](const Result<Sidecar>& result) {
    asio::post(loop_, [this, done, result] {
      if (result) {
        last_snapshot_ = result->id;
        disk_trouble_.clear();
      } else if (result.error().code != std::errc::operation_canceled && !recorder_.broker_gone()) {
        disk_trouble_ = fmt::format("degraded (disk): at {} a snapshot could not be written: {}",
                                    to_rfc3339(wall_now()), result.error().what);
      }
      // Askers who share a snapshot are answered one after the other; it is told once.
      const std::string what = result ? result->id : result.error().what;
      if (told_ && !(result && what == last_told_)) told_(result);
      last_told_ = what;
      done(result);
    });
  };
  worker_.request(std::move(request));
}

void Service::list_snapshots(Done done) {
  on_store(
      [this]() -> CallResult<std::string> {
        auto rows = catalogue_.list();
        if (!rows) return tl::unexpected(write_failed(rows.error().errno_value(), "", rows.error().what));
        return to_json(*rows);
      },
      std::move(done));
}

void Service::describe_snapshot(std::string id, Done done) {
  on_store(
      [this, id]() -> CallResult<std::string> {
        auto text = catalogue_.describe(id);
        if (!text) return tl::unexpected(not_found(id, text.error()));
        auto sidecar = parse_sidecar(*text);
        if (!sidecar)
          return tl::unexpected(write_failed(EIO, "",
                                             fmt::format("the sidecar of snapshot {} in {} is damaged: {}", id,
                                                         catalogue_.folder(), sidecar.error().what)));
        return to_json_line(*sidecar);
      },
      std::move(done));
}

void Service::remove_snapshot(std::string id, Done done) {
  on_store(
      [this, id]() -> CallResult<std::string> {
        auto removed = catalogue_.remove(id);
        if (!removed) return tl::unexpected(not_found(id, removed.error()));
        drop_unneeded_kallsyms();
        return "{}";
      },
      std::move(done));
}

// A boot's kernel symbols are kept while there is a snapshot of that boot.
void Service::drop_unneeded_kallsyms() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(catalogue_.folder(), ignored)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("kallsyms-") || !file.ends_with(".zst")) continue;
    auto rows = catalogue_.list();
    if (!rows) return;
    const bool needed = std::any_of(rows->begin(), rows->end(), [&](const CatalogueRow& row) {
      const auto text = catalogue_.describe(row.id);
      const auto sidecar = text ? parse_sidecar(*text) : fail(std::errc::no_such_file_or_directory, "no sidecar");
      return !sidecar || kallsyms_file(sidecar->boot_id) == file;  // an orphan's boot is unknown: keep
    });
    if (!needed) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace flight
