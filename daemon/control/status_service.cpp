// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/status_service.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/log/log.hpp"
#include "libcore/base/units.hpp"
#include "libcore/base/version.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight::daemon {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kStoreUseWait(300);  // then the last known size of the store is reported
constexpr EventTime kSlowWriteNs = 10'000'000'000;       // the status reports a snapshot that takes longer

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void StatusService::get(ControlBackend::Done done) {
  recorder_.status([this, done = std::move(done)](Status status) mutable {
    asio::post(loop_, [this, status = std::move(status), done = std::move(done)]() mutable {
      store_.refresh_use(kStoreUseWait, [this, status = std::move(status), done = std::move(done)]() mutable {
        done(complete(std::move(status)));
      });
    });
  });
}

std::string StatusService::complete(Status status) const {
  const EventTime now_ns = monotonic_now();
  status.version = kVersion;
  status.uptime_seconds = static_cast<double>(now_ns - started_ns_) / 1e9;
  status.snapshots = store_.use().usage.snapshots;
  status.store_bytes = store_.use().usage.bytes;
  status.store_max_bytes = store_.use().max_bytes;
  const ProcessUsage self = own_usage();
  status.flightd = {.pid = ::getpid(),
                    .cpu_seconds = self.cpu_seconds,
                    .rss_bytes = self.rss_bytes,
                    .uptime_seconds = self.uptime_seconds};
  if (const auto& last = snapshots_.last()) {
    const SidecarTimings& t = last->timings_us;
    status.last_snapshot = last->id;
    status.last = StatusLast{.time = last->time,
                             .trigger = last->trigger,
                             .queued_us = t.queued,
                             .freeze_us = t.freeze,
                             .walk_us = t.walk,
                             .merge_us = t.merge,
                             .write_us = t.write,
                             .total_us = t.total,
                             .age_seconds = static_cast<double>(snapshots_.age_of_last().count()) / 1e9};
  }
  add_disk(status, now_ns);
  append(status.warnings, store_.state_warnings());
  append(status.warnings, store_.use().warnings);
  if (std::string trouble = store_.trigger_state().trouble(); !trouble.empty())
    status.warnings.push_back(std::move(trouble));
  append(status.warnings, triggers_.metric_troubles());
  append(status.warnings, warnings_);
  append(status.notes, notes_);
  append(status.notes, recordings_.notes());
  append(status.warnings, reloader_.warnings());
  return to_json(status);
}

void StatusService::add_disk(Status& status, EventTime now_ns) const {
  const auto since = [now_ns](EventTime from_ns) {
    return format_duration(std::chrono::nanoseconds(now_ns - from_ns));
  };
  const std::string untaken = store_.trouble_text();
  if (!untaken.empty()) status.errors.push_back(untaken);
  for (const std::string& trouble : {snapshots_.disk_trouble(), snapshots_.descriptor_trouble()})
    if (!trouble.empty()) status.errors.push_back(trouble);
  if (const std::uint64_t lost = log::dropped(); lost > 0)
    status.warnings.push_back(
        fmt::format("{} of flightd's log {} dropped because stderr was not read for a while: check journald",
                    counted(lost, "line"), was_or_were(lost)));
  if (const EventTime asked_ns = store_.use_asked_ns(); asked_ns != 0 && untaken.empty())
    status.errors.push_back(
        fmt::format("degraded (disk): {} has not answered for {}; the number of snapshots shown is the last known one",
                    store_.folder(), since(asked_ns)));
  if (const EventTime from_ns = snapshots_.writing_since_ns(); from_ns != 0 && now_ns > from_ns + kSlowWriteNs)
    status.warnings.push_back(
        fmt::format("degraded (disk): writing a snapshot to {} has taken {} so far; recording continues",
                    store_.folder(), since(from_ns)));
}

StatusFacts StatusService::line_facts() const {
  const std::shared_ptr<Attached> attached = recorder_.attached();
  std::set<std::string_view> channels;
  for (const auto& ring : attached->rings) channels.insert(ring->info().channel);
  const EventTime now_ns = monotonic_now();
  const auto since = [now_ns](EventTime time_ns) {
    return std::chrono::nanoseconds(now_ns - std::min(now_ns, time_ns));
  };
  StatusFacts out{.cpus = attached->online_cpus(),
                  .channels = channels.size(),
                  .held = since(recorder_.all_held_from_ns()),
                  .shortest = channels.size() > 1 ? recorder_.shortest_channel() : "",
                  .paused = recorder_.gaps().paused_since_ns() != UINT64_MAX,
                  .broker_gone = recorder_.broker_gone(),
                  .refusal = recorder_.refusal(),
                  .trouble = snapshots_.disk_trouble().empty() ? store_.trouble_text() : snapshots_.disk_trouble(),
                  .last = std::nullopt,
                  .store_bytes = store_.use().usage.bytes,
                  .store_max_bytes = store_.use().max_bytes};
  if (const auto& last = snapshots_.last()) out.last = {.ago = snapshots_.age_of_last(), .trigger = last->trigger};
  return out;
}

}  // namespace flight::daemon
