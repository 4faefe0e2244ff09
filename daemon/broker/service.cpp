// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/service.hpp"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "daemon/broker/file_thread.hpp"
#include "daemon/broker/kernel_symbols.hpp"
#include "daemon/broker/scan.hpp"
#include "daemon/broker/tell.hpp"
#include "libcore/base/files.hpp"
#include "libcore/broker/wall.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

// A client that does not read its answers is dropped after this long.
constexpr timeval kSendTimeout{.tv_sec = 5, .tv_usec = 0};
// Room for a few answers only: each may hold a memfd of megabytes for as long as it is not read.
constexpr int kSendBufferBytes = 8192;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Result<Config> read_config(const BrokerOptions& options) {
  auto config = options.config.empty() ? load_config(ConfigFolders{}) : load_config(options.config);
  if (!config) return fail(std::errc::invalid_argument, "{}", config.error().text());
  return std::move(*config);
}

}  // namespace

Service Service::start(BrokerOptions options, EventSources sources, FdStore store) {
  Service service(std::move(options), std::move(sources), std::move(store));
  if (auto loaded = service.load(); !loaded) {
    service.error_ = loaded.error();
    spdlog::error("{}", service.error_.what);
  }
  return service;
}

Result<bool> Service::load() {
  auto config = read_config(options_);
  bad_config_ = !config;
  if (!config) return pass(config.error());
  if (recording_) {
    auto changed = recording_->reload(*config, sources_);
    if (!changed) return changed;
    if (*changed) log_recording(recording_->manifest());
    keep();
    return changed;
  }
  if (auto opened = open_or_take_back(*config); !opened) return pass(opened.error());
  log_recording(recording_->manifest());
  keep();
  return true;
}

Result<void> Service::open_or_take_back(const Config& config) {
  const auto cpus = online_cpus();
  const KernelFeatures features = KernelFeatures::probe(cpus && !cpus->empty() ? cpus->front() : 0);
  std::string why_not;
  if (auto kept = store_.take_kept()) {
    auto taken = *kept ? Recording::take_back((*kept)->manifest, std::move((*kept)->events), config, sources_, features)
                       : Result<Recording>(pass(kept->error()));
    if (taken) {
      recording_.emplace(std::move(*taken));
      spdlog::info("took over the recording of the flightd-broker before this one: it did not pause");
      return {};
    }
    why_not = taken.error().what;
  }
  auto opened = Recording::open(config, sources_, features, [this](const Manifest& manifest) {
    auto scan = scan_processes(manifest);
    if (scan)
      first_scan_ = std::move(*scan);
    else
      spdlog::warn("who runs and ends within the first moment will have no name: {}", scan.error().what);
  });
  if (!opened) return pass(opened.error());
  recording_.emplace(std::move(*opened));
  if (!why_not.empty())
    recording_->warn("history begins afresh: the recording of the flightd-broker before could not be taken over (" +
                     why_not + ")");
  return {};
}

void Service::keep() {
  if (auto kept = store_.keep(*recording_); !kept)
    recording_->warn("the death of flightd-broker would end the history: " + kept.error().what);
  tell_state();
}

Ended Service::serve(int client, int stop_fd, const Listener* listener) {
  ::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  ::setsockopt(client, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
  Ended ended = Ended::client_left;
  client_ = client;
  tell_state();
  for (;;) {
    std::array<pollfd, 4> watched{pollfd{client, POLLIN, 0}, pollfd{stop_fd, POLLIN, 0}, pollfd{watch_.fd(), POLLIN, 0},
                                  pollfd{listener != nullptr ? listener->fd() : -1, POLLIN, 0}};
    if (::poll(watched.data(), watched.size(), static_cast<int>(kWatchEvery.count())) < 0) {
      if (errno == EINTR) continue;
      spdlog::error("poll: errno {}: the client is dropped", errno);
      break;
    }
    tell_alive();
    if (watched[1].revents != 0) {
      ended = Ended::told_to;
      break;
    }
    // First, so that an answer comes behind the word that the rings changed.
    if (const auto told = follow_cpus(client); !told) {
      spdlog::warn("the client is dropped: {}", told.error().what);
      break;
    }
    // Behind the client's own words: it may be its successor that knocks.
    if (watched[0].revents == 0 && watched[3].revents != 0) listener->turn_away(client);
    const auto request = receive_request(client);
    if (!request && request.error().errno_value() == EAGAIN) continue;
    const auto done = request                                    ? answer(client, *request)
                      : request.error().errno_value() == EBADMSG ? refuse(client, 0, request.error())
                                                                 : Result<void>(pass(request.error()));
    if (done) continue;
    const int reason = done.error().errno_value();
    if (reason != ECONNRESET && reason != EPIPE) spdlog::warn("the client is dropped: {}", done.error().what);
    break;
  }
  client_is_current_ = false;
  client_ = -1;
  // A thread that makes a file for it may still hold its socket.
  ::shutdown(client, SHUT_RDWR);
  // It may have been killed between pause and resume; and who switched the events off is not there to switch them on.
  if (recording_) recording_->resume_all();
  if (recording_ && std::exchange(disabled_, false))
    if (auto on = recording_->enable_all(true); !on) spdlog::error("recording could not go on: {}", on.error().what);
  tell_state();
  return ended;
}

Result<void> Service::follow_cpus(int client) {
  const auto look = watch_.look();
  if (!look || !recording_) return {};
  if (!recording_->follow_cpus(look->online, look->probe, look->good_ns)) return {};
  log_recording(recording_->manifest());
  keep();
  return tell_changed(client);
}

void Service::tell_state() const {
  if (recording_) tell_status(recording_->manifest(), client_);
}

Result<void> Service::tell_changed(int client) {
  if (!std::exchange(client_is_current_, false)) return {};
  return send_message(client, header(Request::changed), {}, {});
}

Result<void> Service::answer(int client, std::uint8_t request) {
  const auto known = static_cast<Request>(request);
  if (known == Request::reload) return reload(client);
  if (known == Request::file || known == Request::spare) return file(client, known);
  const bool needs_recording = known == Request::attach || known == Request::processes || known == Request::counts ||
                               known == Request::disable || known == Request::enable;
  if (needs_recording && !recording_) return refuse(client, request, error_);
  switch (known) {
    case Request::attach:
      return attach(client);
    case Request::processes:
      return processes(client);
    case Request::counts:
      return counts(client);
    case Request::disable:
      return enable(client, false);
    case Request::enable:
      return enable(client, true);
    default:
      break;
  }
  return refuse(client, request, fail(std::errc::invalid_argument, "there is no request {}", request).value());
}

ReplyHeader Service::header(Request request) const {
  ReplyHeader out;
  out.request = static_cast<std::uint8_t>(request);
  out.generation = recording_ ? recording_->manifest().generation : 0;
  return out;
}

Result<void> Service::refuse(int client, std::uint8_t request, const Error& error) const {
  ReplyHeader out = header(Request{request});
  out.failed = 1;
  out.error_number = error.errno_value();
  return send_message(client, out, error.what, {});
}

// A document crosses as a sealed memfd: of any size, and nobody can change it under its reader.
Result<void> Service::reply(int client, Request request, std::span<const std::byte> document, const char* name) const {
  const auto memfd = sealed_memfd(name, document);
  if (!memfd) return refuse(client, static_cast<std::uint8_t>(request), memfd.error());
  const std::array fds{memfd->get()};
  return send_message(client, header(request), {}, fds);
}

Result<void> Service::attach(int client) {
  recording_->resume_all();
  constexpr auto kAttach = static_cast<std::uint8_t>(Request::attach);
  std::array<UniqueFd, 2> documents;
  {
    Manifest manifest = recording_->manifest();
    const std::string symbols = read_kallsyms(manifest);
    auto kallsyms = sealed_memfd("flightd-kallsyms", bytes_of(symbols));
    if (!kallsyms) return refuse(client, kAttach, kallsyms.error());
    auto text = sealed_memfd("flightd-manifest", bytes_of(encode(manifest)));
    if (!text) return refuse(client, kAttach, text.error());
    documents = {std::move(*text), std::move(*kallsyms)};
  }
  const std::vector<int> owners = recording_->owner_fds();
  ReplyHeader out = header(Request::attach);
  out.parts = static_cast<std::uint32_t>(1 + (owners.size() + kMaxFdsPerMessage - 1) / kMaxFdsPerMessage);
  const std::array fds{documents[0].get(), documents[1].get()};
  if (auto sent = send_message(client, out, {}, fds); !sent) return sent;
  for (std::size_t first = 0; first < owners.size(); first += kMaxFdsPerMessage) {
    ++out.part;
    out.first_ring = static_cast<std::uint32_t>(first);
    const auto some = std::span(owners).subspan(first, std::min(kMaxFdsPerMessage, owners.size() - first));
    if (auto sent = send_message(client, out, {}, some); !sent) return sent;
  }
  client_is_current_ = true;
  return {};
}

Result<void> Service::processes(int client) {
  // Of those that died before anybody asked nothing else will tell.
  if (const auto first = std::exchange(first_scan_, std::nullopt))
    return reply(client, Request::processes, *first, "flightd-processes");
  const auto records = scan_processes(recording_->manifest());
  if (!records) return refuse(client, static_cast<std::uint8_t>(Request::processes), records.error());
  return reply(client, Request::processes, *records, "flightd-processes");
}

Result<void> Service::counts(int client) {
  Counts counts = recording_->counts();
  const ProcessUsage usage = process_usage(::getpid());
  counts.broker_pid = ::getpid();
  counts.broker_cpu_seconds = usage.cpu_seconds;
  counts.broker_rss_bytes = usage.rss_bytes;
  return reply(client, Request::counts, bytes_of(encode(counts)), "flightd-counts");
}

Result<void> Service::file(int client, Request request) {
  const auto begun = answer_with_file(client, header(request), options_.state_dir, options_.group);
  if (!begun) return refuse(client, static_cast<std::uint8_t>(request), begun.error());
  return {};
}

Result<void> Service::reload(int client) {
  constexpr auto kReload = static_cast<std::uint8_t>(Request::reload);
  const auto changed = load();
  if (!changed) {
    spdlog::warn("reload: {}; {}", changed.error().what,
                 recording_ ? "the old configuration stays" : "nothing is recorded");
    if (!recording_) error_ = changed.error();
    return refuse(client, kReload, changed.error());
  }
  // Before the answer, so that the client knows of it as soon as its reload is done.
  if (*changed) {
    client_is_current_ = false;
    if (auto sent = send_message(client, header(Request::changed), {}, {}); !sent) return sent;
  }
  return send_message(client, header(Request::reload), {}, {});
}

Result<void> Service::enable(int client, bool on) {
  const Request request = on ? Request::enable : Request::disable;
  disabled_ = !on;
  if (auto done = recording_->enable_all(on); !done)
    return refuse(client, static_cast<std::uint8_t>(request), done.error());
  return send_message(client, header(request), {}, {});
}

}  // namespace flight
