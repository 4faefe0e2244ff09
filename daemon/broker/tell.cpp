// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/tell.hpp"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <string>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {
namespace {

struct Sums {
  std::size_t cpus = 0, online = 0, channels = 0;
};

Sums count(const Manifest& manifest) {
  Sums sums;
  std::string last;
  for (const ManifestRing& ring : manifest.rings) {
    if (ring.kind == RingKind::sideband) {
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
  ucred peer{};
  socklen_t size = sizeof peer;
  if (client < 0) return "no flightd is attached";
  if (::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "a flightd is attached";
  return fmt::format("serving flightd, process {}", peer.pid);
}

}  // namespace

void log_recording(const Manifest& manifest) {
  const Sums sums = count(manifest);
  spdlog::info("recording {} CPUs, {} channels, {} rings", sums.cpus, sums.channels, manifest.rings.size());
  for (const std::string& warning : manifest.warnings) spdlog::warn("{}", warning);
}

void tell_status(const Manifest& manifest, int client) {
  const Sums sums = count(manifest);
  const std::string text =
      fmt::format("STATUS=recording {} CPUs, {} channels, {} rings{}; {}", sums.online, sums.channels,
                  manifest.rings.size(), manifest.warnings.empty() ? "" : ", with warnings", of_client(client));
  ::sd_notify(0, text.c_str());
}

void tell_alive() {
  static const EventTime every_ns = [] {
    std::uint64_t allowed_us = 0;
    return ::sd_watchdog_enabled(0, &allowed_us) > 0 ? allowed_us * 1000 / 4 : UINT64_MAX;
  }();
  static EventTime told_ns = 0;
  const EventTime now_ns = monotonic_now();
  if (now_ns - told_ns < every_ns) return;
  told_ns = now_ns;
  ::sd_notify(0, "WATCHDOG=1");
}

}  // namespace flight
