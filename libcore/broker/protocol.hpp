// SPDX-License-Identifier: Apache-2.0
// The wall's words. SOCK_SEQPACKET; a request is one byte and carries no parameter, so the process that holds
// privilege takes no input. Replies:
//
//   every message   | ReplyHeader 32 | text (an error, or a file's name) |  + fds by SCM_RIGHTS
//   attach          message 0: fds {manifest, kallsyms}, both sealed memfds; then messages of <= 250 ring owners' fds,
//                   each with the index of its first ring; `parts` says how many messages there are in all
//   processes       one message, fd {sealed memfd of perf records: FORK COMM MMAP2 CGROUP, with trailers}. The first
//                   answer of a broker is of the moment before it enabled its events, as the trailers' times say
//   counts          one message, fd {sealed memfd: Counts}
//   file            one message, fd {an empty .partial in the store}, text = its file name. The one answer that comes
//                   out of order: when the disk has made it, however long that hangs
//   spare           as file; the file's group may write, too
//   reload, disable, enable   one message
//   changed         unasked: the set of rings is another now; attach again
#pragma once

#include <linux/perf_event.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"

namespace flight {

// Also raised when an owner's or the sideband's attr is another: the next broker takes over the events of the one
// before.
inline constexpr std::uint16_t kWallProtocol = 3;
// What to do where the two sides speak different ones.
inline constexpr std::string_view kMendProtocol =
    "install flightd and flightd-broker from one version, then `systemctl restart flightd-broker flightd`";
inline constexpr std::size_t kMaxFdsPerMessage = 250;
inline constexpr std::size_t kMaxWallTextBytes = 4096;
inline constexpr std::size_t kMaxManifestBytes = 256U << 20U;
inline constexpr std::size_t kMaxProcessesBytes = 256U << 20U;
inline constexpr std::size_t kMaxCountsBytes = 64U << 20U;
inline constexpr std::size_t kMaxKallsymsBytes = 64U << 20U;
inline constexpr std::size_t kMaxRings = 65536;
inline constexpr std::size_t kMaxIds = 1U << 20U;  // of all events of a manifest together
inline constexpr std::uint64_t kMaxRingBytes = 1U << 30U;
inline constexpr std::size_t kMaxGaps = 256;  // the newest are kept

enum class Request : std::uint8_t {
  attach = 'a',
  processes = 'p',
  counts = 'c',
  file = 'f',
  spare = 's',  // a file that flightd may open again
  reload = 'r',
  disable = 'd',
  enable = 'e',
  changed = 'C',  // only from the broker
};

struct ReplyHeader {
  std::uint16_t protocol = kWallProtocol;
  std::uint8_t request = 0;
  std::uint8_t failed = 0;  // 1: the text is an error, error_number its errno
  std::uint32_t part = 0;   // of an attach: 0 … parts-1
  std::uint32_t parts = 1;
  std::uint32_t first_ring = 0;  // index of the first fd's ring
  std::uint32_t fd_count = 0;
  std::int32_t error_number = 0;
  std::uint64_t generation = 0;
};
static_assert(sizeof(ReplyHeader) == 32);

struct ManifestId {
  std::uint64_t id = 0;  // PERF_EVENT_IOC_ID
  int cpu = 0;
  std::uint32_t ring = 0;  // index of the ring it writes into
};
struct ManifestEvent {
  std::string channel;  // "" for the sideband
  std::string name;
  perf_event_attr attr{};  // as it was opened
  std::string filter;
  // One or more for each CPU: an event dies with its CPU and a new one goes on in the same ring, which still holds
  // records of both. The sideband has its rings' owners only.
  std::vector<ManifestId> ids;
  bool closed = false;  // no longer recorded (a reload took it out), its records may still be in a ring
};
enum class RingKind : std::uint8_t { channel, sideband, trigger };
struct ManifestRing {
  RingKind kind = RingKind::channel;
  std::string channel;  // "" for the sideband; of a trigger's ring: the trigger's name
  int cpu = 0;
  std::uint64_t ring_bytes = 0;  // data area; the mapping is one page more
  EventTime enabled_ns = 0;      // its history cannot be older
  bool online = true;
  std::uint64_t owner_id = 0;           // PERF_EVENT_IOC_ID of its owner, which no other event of this boot has
  bool owner_died = false;              // with its CPU: it owns the ring and records nothing
  std::vector<std::uint64_t> live_ids;  // what writes into it, in the order of the channel's events; none while offline
};
// A kernel event as a trigger: one small forward ring on each CPU, of kind trigger and with its name, into which the
// tracepoint writes and which wakes its poller for each record. Nothing of it is in a snapshot.
struct ManifestTrigger {
  std::string name;   // as it is configured
  std::string event;  // "oom:mark_victim"
  std::string filter;
  std::string format;  // the tracepoint's format text
  std::string off;     // why it is not watched; empty: it is
};
// When nothing could be recorded of a CPU: it was offline, or its events had died in a suspend.
struct ManifestGap {
  int cpu = 0;
  EventTime begin_ns = 0;  // the last time that all was known to be well
  EventTime end_ns = 0;    // 0: it is offline still
};
struct ManifestKernelMap {
  std::string name;
  std::uint64_t address = 0, bytes = 0, page_offset = 0;
  std::vector<std::uint8_t> build_id;
};
// What flightd has to know of the recording, all of it.
struct Manifest {
  std::uint16_t protocol = kWallProtocol;
  std::uint64_t generation = 0;
  // The same for as long as the events live, whoever holds them: one broker after the other. Of this boot.
  std::uint64_t recording = 0;
  std::string version;  // the broker's
  std::string boot_id;
  std::string config_digest;
  std::vector<ManifestRing> rings;    // index = order of the owners' fds
  std::vector<ManifestEvent> events;  // events[0] is the sideband's dummy
  std::vector<ManifestTrigger> triggers;
  std::vector<ManifestGap> gaps;  // oldest first
  std::vector<ManifestKernelMap> kernel_maps;
  // "SYSTEM:EVENT" -> format text; and the two header texts, needed with any tracepoint
  std::map<std::string, std::string> tracepoint_formats;
  std::string header_page, header_event;
  bool lost_exact = false;            // PERF_FORMAT_LOST is counted
  std::vector<std::string> warnings;  // fallbacks, halved rings, what could not be opened: for status and journal
};
[[nodiscard]] std::string encode(const Manifest& manifest);  // JSON
// Input from the other side of the wall: everything is checked (ring indexes, powers of two, counts).
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text);

struct EventCount {
  std::uint64_t id = 0, value = 0, lost = 0;
};
struct Counts {
  EventTime time_ns = 0;
  std::vector<EventCount> events;
  int broker_pid = 0;
  double broker_cpu_seconds = 0;
  std::uint64_t broker_rss_bytes = 0;
};
[[nodiscard]] std::string encode(const Counts& counts);  // JSON
[[nodiscard]] Result<Counts> parse_counts(std::string_view text);

}  // namespace flight
