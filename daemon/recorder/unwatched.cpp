// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/unwatched.hpp"

#include <algorithm>

namespace flight::daemon {
namespace {

// A CPU without a gap in the manifest is online for the first time. The broker checks the CPUs this often even if no
// uevent arrives (daemon/broker/cpu_watch.hpp).
constexpr EventTime kNoticedWithinNs = 30'000'000'000;

bool has_closed(const Manifest& manifest, const ManifestGap& gap) {
  return std::any_of(manifest.gaps.begin(), manifest.gaps.end(), [&gap](const ManifestGap& one) {
    return one.cpu == gap.cpu && one.begin_ns == gap.begin_ns && one.end_ns != 0;
  });
}

bool has_sideband(const Manifest& manifest, int cpu) {
  return std::any_of(manifest.rings.begin(), manifest.rings.end(),
                     [cpu](const ManifestRing& ring) { return ring.kind == RingKind::sideband && ring.cpu == cpu; });
}

}  // namespace

EventTime unwatched_since(const Manifest& before, const Manifest& now) {
  EventTime since_ns = UINT64_MAX;
  if (before.recording != now.recording) return since_ns;
  for (const ManifestGap& gap : now.gaps)
    if (gap.end_ns != 0 && !has_closed(before, gap)) since_ns = std::min(since_ns, gap.begin_ns);
  for (const ManifestRing& ring : now.rings)
    if (ring.kind == RingKind::sideband && ring.online && !has_sideband(before, ring.cpu))
      since_ns = std::min(since_ns, ring.enabled_ns - std::min(ring.enabled_ns, kNoticedWithinNs));
  return since_ns;
}

EventTime watched_since(const Manifest& manifest) {
  EventTime since_ns = 0;
  for (const ManifestRing& ring : manifest.rings) {
    if (ring.kind != RingKind::sideband) continue;
    if (ring.enabled_ns == 0) return UINT64_MAX;
    since_ns = std::max(since_ns, ring.enabled_ns);
  }
  for (const ManifestGap& gap : manifest.gaps) since_ns = std::max(since_ns, gap.end_ns);
  return since_ns != 0 ? since_ns : UINT64_MAX;
}

}  // namespace flight::daemon
