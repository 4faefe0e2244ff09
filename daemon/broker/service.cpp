// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/service.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "daemon/broker/service_status.hpp"
#include "daemon/log/log.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/base/poll.hpp"
#include "libcore/broker/messages.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/proc_stat.hpp"

namespace flight::broker {
namespace {

// A client that does not read its replies for this long is dropped: by the main thread and by the file threads, which
// have the socket's own limit.
constexpr std::chrono::seconds kSendWithin(5);
constexpr timeval kSendTimeout{.tv_sec = kSendWithin.count(), .tv_usec = 0};
// Space for only a few replies: each may hold a memfd of megabytes until it is read.
constexpr int kSendBufferBytes = 8192;
// Separate pools: a thread that hangs in one does not delay the other.
constexpr std::size_t kReaders = Helpers::kCalls;  // for files: FileWatch::kMaxReads
constexpr std::size_t kScanners = 8;               // for processes (maps_readers.hpp)

// Why the client is not served any more.
Ended leave(const Error& error) {
  const int reason = error.errno_value();
  if (reason == ECANCELED) return Ended::was_stopped;
  if (reason != ECONNRESET && reason != EPIPE) log::warn("disconnecting the client: {}", error.what);
  return Ended::client_left;
}

}  // namespace

Result<ServiceThreads> ServiceThreads::start(Helpers helpers) {
  auto readers = BlockingThreads::start("read", kReaders);
  if (!readers) return propagate(readers.error());
  auto scanners = BlockingThreads::start("scan", kScanners);
  if (!scanners) return propagate(scanners.error());
  auto makers = BlockingThreads::start("file", kMaxFileThreads);
  if (!makers) return propagate(makers.error());
  auto kernel = BlockingThreads::start("kernel", 1);
  if (!kernel) return propagate(kernel.error());
  return ServiceThreads{.readers = std::move(*readers),
                        .scanners = std::move(*scanners),
                        .makers = std::move(*makers),
                        .kernel = std::move(*kernel),
                        .helpers = std::move(helpers)};
}

Result<void> Service::open_or_adopt(const Config& config) {
  const auto cpus = online_cpus();
  const KernelFeatures features = KernelFeatures::probe(cpus && !cpus->empty() ? cpus->front() : 0);
  std::string why_not;
  if (auto kept = store_.kept()) {
    const std::string missing = store_.missing(*kept);
    auto taken = *kept ? Recording::adopt((*kept)->manifest, std::move((*kept)->events), config, sources_, features)
                       : Result<Recording>(propagate(kept->error()));
    if (taken) {
      recording_.emplace(std::move(*taken));
      store_.drop_kept();
      sideband_is_new_ = false;
      scans_.note_adopted();
      log::info("adopted the recording of the previous flightd-broker without a gap");
      return {};
    }
    why_not = taken.error().what + missing;
  }
  // /proc is read before there are samples, and the result is the first reply to *processes*: only this scan knows
  // processes that exit before the first request. Forks are recorded meanwhile. Modules are read before, too, so that a
  // window that begins with the recording knows modules that are unloaded later.
  auto opened = Recording::open(config, sources_, features, [this](const Manifest& manifest) {
    const ScanLimits limits = first_scan(scan_bytes_);
    kernel_.wait_for_first(limits.process);
    if (const auto read = scans_.read_first(manifest, limits); !read)
      log::warn("processes that exit right after the start will have no name: {}", read.error().what);
  });
  if (!opened) return propagate(opened.error());
  recording_.emplace(std::move(*opened));
  store_.drop_kept();
  follow_rings();  // scans_ must see the symbols that came since its first scan
  scans_.note_opened();
  if (!why_not.empty())
    recording_->warn("the history starts again: the recording of the previous flightd-broker could not be adopted (" +
                     why_not + ")");
  return {};
}

void Service::keep() {
  const auto kept = store_.keep(*recording_);
  std::string warning = kept ? std::string() : "the history would end with flightd-broker: " + kept.error().what;
  if (warning != keep_warning_) {
    recording_->unwarn(keep_warning_);
    if (!warning.empty()) recording_->warn(warning);
    keep_warning_ = std::move(warning);
  }
  notify_state();
}

Ended Service::serve(int client, int stop_fd, Listener* listener) {
  ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  ::setsockopt(client, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  Ended ended = Ended::client_left;
  client_ = client;
  stop_fd_ = stop_fd;
  notify_state();
  for (;;) {
    std::array<pollfd, 6> watched{
        pollfd{client, POLLIN, 0},      pollfd{stop_fd, POLLIN, 0},
        pollfd{watch_.fd(), POLLIN, 0}, pollfd{listener != nullptr ? listener->accept_fd() : -1, POLLIN, 0},
        pollfd{wake_fd(), POLLIN, 0},   pollfd{config_fd(), POLLIN, 0}};
    wait_for_any(watched, look_every());
    notify_alive();
    if (watched[1].revents != 0) {
      ended = Ended::was_stopped;
      break;
    }
    // Before the reply, so that *changed* precedes it.
    if (const auto looked = look(client); !looked) {
      ended = leave(looked.error());
      break;
    }
    // Only after the client's own requests: the second connection may be from its successor.
    if (watched[0].revents == 0 && watched[3].revents != 0) listener->turn_away(client);
    const auto request = receive_request(client);
    if (!request && request.error().errno_value() == EAGAIN) continue;
    const auto done = request                                    ? answer(client, *request)
                      : request.error().errno_value() == EBADMSG ? refuse(client, 0, request.error())
                                                                 : Result<void>(propagate(request.error()));
    if (done) continue;
    ended = leave(done.error());
    break;
  }
  client_is_current_ = false;
  client_ = stop_fd_ = -1;
  build_ids_asked_ = counts_asked_ = 0;
  scans_.forget();
  kernel_.forget();
  reloads_.forget(recording_.has_value());
  // A file thread may still hold this socket, so closing it would not disconnect the client.
  ::shutdown(client, SHUT_RDWR);
  // The client may have been killed between pause and resume, or after *disable*: resume and enable all, so that the
  // next flightd finds everything on.
  if (recording_) recording_->resume_all();
  if (recording_ && std::exchange(disabled_, false))
    if (auto on = recording_->enable_all(true); !on) log::error("recording could not be resumed: {}", on.error().what);
  scans_.note_break();  // it may have been disabled
  notify_state();
  return ended;
}

Result<void> Service::follow_cpus(int client) {
  const auto look = watch_.look();
  if (!look || !recording_) return {};
  if (store_.incomplete()) keep();
  if (!recording_->follow_cpus(look->online, look->probe, look->good_ns)) return {};
  scans_.note_break();
  log_recording(recording_->manifest());
  keep();
  return notify_changed(client);
}

// While nothing has been proven the rings are looked at more often, for the status; what it costs is a walk over the
// records that are new since.
Result<void> Service::follow_delivery(int client) {
  constexpr std::chrono::seconds kEvery(10), kUnproven(2);
  if (!recording_) return {};
  const auto now = Clock::now();
  if (now - delivery_looked_ < (recording_->delivery() == Delivery::unproven ? kUnproven : kEvery)) return {};
  delivery_looked_ = now;
  const auto text = read_kernel_file("/proc/stat");
  std::vector<CpuBusy> busy;
  if (text) {
    stat_trouble_.clear();
    ProcStat stat;
    parse_proc_stat(*text, stat);
    for (const CpuTicks& cpu : stat.cpus) busy.push_back(busy_of(cpu));
  } else if (text.error().errno_value() != EREMOTE) {
    return {};
  } else if (std::exchange(stat_trouble_, text.error().what) != text.error().what) {
    log::warn("{}: an event that delivers no samples is not noticed", stat_trouble_);
  }
  if (!recording_->watch_delivery(busy, monotonic_now())) return {};
  log_recording(recording_->manifest());
  keep();
  return notify_changed(client);
}

void Service::notify_state() const {
  if (recording_)
    notify_status(recording_->manifest(), client_);
  else
    notify_no_recording(error_.what);
}

Result<void> Service::send(int client, const ReplyHeader& reply, std::string_view text,
                           std::span<const int> fds) const {
  return send_message(client, reply, text, fds, {.stop_fd = stop_fd_, .within = kSendWithin});
}

Result<void> Service::notify_changed(int client) {
  if (!std::exchange(client_is_current_, false)) return {};
  return send(client, header(Request::changed), {}, {});
}

}  // namespace flight::broker
