// SPDX-License-Identifier: Apache-2.0
// The replies to flightd's requests, except those that read /proc (service_scans.cpp).
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "daemon/broker/service.hpp"
#include "daemon/log/log.hpp"
#include "libcore/base/bytes.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/broker/messages.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight::broker {

Result<void> Service::answer(int client, std::uint8_t request) {
  const auto known = static_cast<Request>(request);
  spare_->give();
  requested_ = Clock::now();
  if (known == Request::reload) return reload(client);
  if (known == Request::file || known == Request::spare) return file(client, known);
  const bool needs_recording = known == Request::attach || known == Request::processes || known == Request::build_ids ||
                               known == Request::kernel || known == Request::counts || known == Request::disable ||
                               known == Request::enable;
  if (known == Request::attach) {
    if (!recording_) reloads_.try_again(true, Clock::now());
    if (auto followed = follow_config(client); !followed) return followed;
    if (!recording_ && reloads_.add_attach()) return {};
  }
  if (needs_recording && !recording_) return refuse(client, request, error_);
  switch (known) {
    case Request::attach:
      return attach(client);
    case Request::processes:
      return processes(client);
    case Request::build_ids:
      return build_ids(client);
    case Request::kernel:
      return kernel(client);
    case Request::counts:
      return counts(client);
    case Request::disable:
      return enable(client, false);
    case Request::enable:
      return enable(client, true);
    default:
      break;
  }
  return refuse(client, request, fail(std::errc::invalid_argument, "unknown request {}", request).value());
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
  return send(client, out, error.what + descriptor_advice(error, "flightd-broker"), {});
}

// Documents are sent as sealed memfds: they can have any size, and cannot be changed while they are read.
Result<void> Service::send_document(int client, Request request, const Result<int>& memfd, int times,
                                    std::string_view text) const {
  for (; times > 0 && client >= 0; --times) {
    const std::array fds{memfd ? *memfd : -1};
    auto sent = memfd ? send(client, header(request), text, fds)
                      : refuse(client, static_cast<std::uint8_t>(request), memfd.error());
    if (!sent) return sent;
  }
  return {};
}

// Does not enable events: flightd attaches again when CPUs change, and a pause must survive that.
Result<void> Service::attach(int client) {
  recording_->resume_all();
  const auto manifest = manifest_.of(bytes_of(encode(recording_->manifest())));
  if (!manifest) return refuse(client, static_cast<std::uint8_t>(Request::attach), manifest.error());
  const std::vector<int> owners = recording_->owner_fds();
  ReplyHeader out = header(Request::attach);
  out.parts = static_cast<std::uint32_t>(1 + (owners.size() + kMaxFdsPerMessage - 1) / kMaxFdsPerMessage);
  const std::array fds{*manifest};
  if (auto sent = send(client, out, {}, fds); !sent) return sent;
  for (std::size_t first = 0; first < owners.size(); first += kMaxFdsPerMessage) {
    ++out.part;
    out.first_ring = static_cast<std::uint32_t>(first);
    const auto some = std::span(owners).subspan(first, std::min(kMaxFdsPerMessage, owners.size() - first));
    if (auto sent = send(client, out, {}, some); !sent) return sent;
  }
  client_is_current_ = true;
  return {};
}

Result<void> Service::counts(int client) {
  ++counts_asked_;
  return follow_counts(client);
}

Result<void> Service::follow_counts(int client) {
  const auto now = Clock::now();
  if (!recording_ || counts_asked_ == 0 || now - counts_made_ < Document::kNewEvery) return {};
  counts_made_ = now;
  Counts counts = recording_->counts();
  const ProcessUsage usage = own_usage();
  counts.broker_pid = ::getpid();
  counts.broker_cpu_seconds = usage.cpu_seconds + helpers_.cpu_seconds();
  counts.broker_uptime_seconds = usage.uptime_seconds;
  counts.broker_rss_bytes = usage.rss_bytes;
  counts.build_ids_waiting = files_->waiting_files();
  const auto document = counts_.of(bytes_of(encode(counts)));
  return send_document(client, Request::counts, document, std::exchange(counts_asked_, 0));
}

Result<void> Service::file(int client, Request request) {
  const auto begun = answer_with_file(*makers_, client, header(request), options_.state_dir, options_.group);
  if (!begun) return refuse(client, static_cast<std::uint8_t>(request), begun.error());
  return {};
}

Result<void> Service::enable(int client, bool on) {
  const Request request = on ? Request::enable : Request::disable;
  disabled_ = !on;
  scans_.note_break();
  if (auto done = recording_->enable_all(on); !done)
    return refuse(client, static_cast<std::uint8_t>(request), done.error());
  return send(client, header(request), {}, {});
}

}  // namespace flight::broker
