// SPDX-License-Identifier: Apache-2.0
// The service's requests that read other processes and the kernel: scans, build-ids, kernel. Replies are sent when they
// are ready (scan_answers.hpp, kernel_answers.hpp); nothing waits here.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "daemon/broker/service.hpp"
#include "daemon/log/log.hpp"
#include "libcore/broker/messages.hpp"

namespace flight::broker {

std::chrono::milliseconds Service::look_every() const {
  std::chrono::milliseconds every = kWatchEvery;
  if (files_->has_news()) every = std::min(every, files_->soon());
  if (scans_.is_awaited() || build_ids_asked_ > 0) every = std::min(every, ProcessScan::kLookEvery);
  if (reloads_.is_awaited()) every = std::min(every, ReloadQueue::kLookEvery);
  if (counts_asked_ > 0) every = std::min(every, Document::kNewEvery);
  return std::min(every, kernel_.look_every());
}

Result<void> Service::look(int client) {
  readers_->clear_wake();
  if (!helpers_.any() && !std::exchange(helpers_gone_, true))
    log::error(
        "all processes that read mapped files (flightd-reader) have ended, so new files have no build-id; "
        "`systemctl kill flightd-broker` starts new ones");
  if (Clock::now() - requested_ >= kSpareAfter) spare_->take();
  if (!recording_) reloads_.try_again(false, Clock::now());
  if (auto followed = follow_config(client); !followed) return followed;
  if (auto followed = follow_cpus(client); !followed) return followed;
  if (auto followed = follow_delivery(client); !followed) return followed;
  if (auto followed = follow_counts(client); !followed) return followed;
  if (auto followed = follow_scan(client); !followed) return followed;
  if (auto followed = follow_kernel(client); !followed) return followed;
  return follow_files(client);
}

Result<void> Service::processes(int client) {
  if (auto first = scans_.ask()) return send_scan(client, std::move(*first), 1);
  return follow_scan(client);
}

Result<void> Service::follow_scan(int client) {
  if (!recording_) return {};
  while (const auto reply = scans_.next(*recording_, scan_bytes_))
    if (auto sent = send_scan(client, reply->scan, reply->times); !sent) return sent;
  return {};
}

Result<void> Service::send_scan(int client, const Result<ScanAnswer>& scan, int times) const {
  const Result<int> document = scan ? Result<int>(scan->memfd.get()) : propagate(scan.error());
  return send_document(client, Request::processes, document, times, scan ? scan->warning : std::string_view());
}

Result<void> Service::build_ids(int client) {
  if (++build_ids_asked_ == 1) build_ids_until_ = Clock::now() + kBuildIdsWait;
  return follow_files(client);
}

Result<void> Service::follow_files(int client) {
  if (!recording_) return {};
  follow_rings();
  files_->look(build_ids_asked_ > 0);
  if (build_ids_asked_ == 0 || (!files_->settled() && Clock::now() < build_ids_until_)) return {};
  const auto document = files_->answer();
  return send_document(client, Request::build_ids, document, std::exchange(build_ids_asked_, 0));
}

void Service::follow_rings() {
  std::vector<FileWatch::Ring> rings;
  for (const auto& [owner_id, mapping] : recording_->sideband_rings()) rings.push_back({owner_id, mapping});
  files_->follow(rings, std::exchange(sideband_is_new_, true));
}

Result<void> Service::kernel(int client) {
  kernel_.ask();
  return follow_kernel(client);
}

Result<void> Service::follow_kernel(int client) {
  if (watch_.take_module_news()) {
    kernel_.suspect();
    scans_.note_break();
  }
  while (const auto reply = kernel_.next())
    if (auto sent = send_kernel(client, *reply); !sent) return sent;
  return {};
}

Result<void> Service::send_kernel(int client, const KernelAnswers::Reply& reply) const {
  if (!reply.document) return refuse(client, static_cast<std::uint8_t>(Request::kernel), reply.document.error());
  const std::array fds{*reply.document, reply.kallsyms};
  return send(client, header(Request::kernel), {}, std::span(fds).first(reply.kallsyms >= 0 ? 2 : 1));
}

}  // namespace flight::broker
