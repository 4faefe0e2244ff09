// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/service_status.hpp"

#include <systemd/sd-daemon.h>

#include <chrono>
#include <string>
#include <vector>

#include "daemon/log/log.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/base/columns.hpp"
#include "libcore/base/service_manager.hpp"
#include "libcore/base/units.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight::broker {
namespace {

// If PID 1 does not read within this time, the line is dropped; the recording is not delayed.
constexpr std::chrono::milliseconds kNotifyWithin(100);

// READY=1 that was not sent yet. Without it, systemd ends a service after TimeoutStartSec=.
struct Ready {
  bool is_due = false;
  EventTime tried_ns = 0;
};
Ready ready;

struct Sums {
  std::size_t cpus = 0, online = 0, channels = 0;
};

Sums count(const Manifest& manifest) {
  Sums sums;
  std::string last;
  for (const ManifestRing& ring : manifest.rings) {
    if (ring.kind == RingKind::sideband) {
      if (!any_channel_records(manifest, ring.cpu)) continue;
      ++sums.cpus;
      sums.online += ring.online ? 1 : 0;
    } else if (ring.kind == RingKind::channel && ring.channel != last) {
      last = ring.channel;
      ++sums.channels;
    }
  }
  return sums;
}

std::string of_client(int client) {
  if (client < 0) return "flightd is not attached";
  const auto peer = peer_credentials(client);
  return peer ? fmt::format("serving flightd, process {}", peer->pid) : "flightd is attached";
}

}  // namespace

void log_recording(const Manifest& manifest) {
  const Sums sums = count(manifest);
  log::info("recording {}, {}, {}", counted(sums.cpus, "CPU"), counted(sums.channels, "channel"),
            counted(manifest.rings.size(), "ring"));
  for (const std::string& warning : manifest.warnings) log::warn("{}", warning);
  for (const std::string& note : manifest.notes) log::info("{}", note);
}

void notify_status(const Manifest& manifest, int client) {
  const Sums sums = count(manifest);
  const std::string text = fmt::format("STATUS=recording {}, {}, {}{}; {}", counted(sums.online, "CPU"),
                                       counted(sums.channels, "channel"), counted(manifest.rings.size(), "ring"),
                                       manifest.warnings.empty() ? "" : ", with warnings", of_client(client));
  static_cast<void>(notify_service_manager(text, kNotifyWithin));
}

void notify_no_recording(const std::string& why) {
  constexpr std::size_t kMostColumns = 300;
  const std::string text = "STATUS=recording: no (" + printable_cut(why, kMostColumns) + "); trying again";
  static_cast<void>(notify_service_manager(text, kNotifyWithin));
}

void notify_ready() {
  const auto sent = notify_service_manager("READY=1", kNotifyWithin);
  if (!sent && !ready.is_due) log::warn("{}; READY=1 is sent later", sent.error().what);
  ready = {.is_due = !sent, .tried_ns = monotonic_now()};
}

void notify_alive() {
  constexpr EventTime kReadyEveryNs = 1'000'000'000;
  static const EventTime every_ns = [] {
    std::uint64_t allowed_us = 0;
    return ::sd_watchdog_enabled(0, &allowed_us) > 0 ? allowed_us * 1000 / 4 : UINT64_MAX;
  }();
  static EventTime reported_ns = 0;
  const EventTime now_ns = monotonic_now();
  if (ready.is_due && now_ns - ready.tried_ns >= kReadyEveryNs) notify_ready();
  if (now_ns - reported_ns < every_ns) return;
  reported_ns = now_ns;
  static_cast<void>(notify_service_manager("WATCHDOG=1", kNotifyWithin));
}

}  // namespace flight::broker
