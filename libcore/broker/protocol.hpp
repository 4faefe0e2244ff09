// SPDX-License-Identifier: Apache-2.0
// The broker protocol. SOCK_SEQPACKET; a request is one byte and carries no parameter, so the process that has the
// privileges takes no parameters. Replies:
//
//   every message   | ReplyHeader 32 | text (an error, or a file's name) |  + fds by SCM_RIGHTS
//   attach          message 0: fd {manifest}, a sealed memfd; then messages of <= 250 ring owners' fds, each with the
//                   index of its first ring; `parts` says how many messages there are in all. Of a broker that does not
//                   record yet it comes out of order: when the configuration was read, or that takes too long
//   processes       one message, fd {sealed memfd of perf records: FORK COMM MMAP2 CGROUP KSYMBOL, with trailers}. The
//                   first answer of a broker is of the moment before it enabled its events, as the trailers' times say:
//                   it can be much older than the request, and what the rings have is newer. An answer comes when the
//                   scan is done, out of order, or (after some seconds at most) in part: then the records' trailers
//                   mark what is missing (kScan…), and the text describes it. The time in a FORK, but not in its
//                   trailer, is of CLOCK_BOOTTIME: when it started. flightd knows the suspends since then
//   build_ids       one message, fd {sealed memfd: build_ids.hpp}, the same one as long as nothing changed. It may wait
//                   a moment for files that are being read, out of order
//   kernel          one message, fds {sealed memfd: kernel_names.hpp, read after the request} and, only if
//                   modules came or went since this client got it last, {sealed memfd: /proc/kallsyms without
//                   generated code}. It comes out of order: when all is read, ETIMEDOUT after 5 s
//   counts          one message, fd {sealed memfd: Counts}
//   file            one message, fd {an empty .partial in the store}, text = its file name. It comes out of order:
//                   when the disk has created it, without a limit
//   spare           as file; the file's group may write, too
//   reload          one message, out of order: when the configuration was read; an error when that takes
//                   3 s, for which its process may have 3 s more to begin
//   disable, enable   one message
//   changed         without a request: the set of rings changed; attach again
#pragma once

#include <linux/perf_event.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"

namespace flight {

// Also raised when the attr of an owner or of the sideband changes: the next broker adopts the events of the previous
// one. Since 8 a start in *processes* is of CLOCK_BOOTTIME: taken for CLOCK_MONOTONIC, each process would be another
// one than before a suspend.
inline constexpr std::uint16_t kBrokerProtocol = 8;
// Advice shown on a protocol mismatch.
inline constexpr std::string_view kProtocolAdvice =
    "install flightd and flightd-broker from one version, then `systemctl kill flightd-broker; systemctl restart "
    "flightd`";
inline constexpr std::size_t kMaxFdsPerMessage = 250;
inline constexpr std::size_t kMaxMessageTextBytes = 4096;
inline constexpr std::size_t kMaxManifestBytes = 256U << 20U;
inline constexpr std::size_t kMaxProcessesBytes = 256U << 20U;
inline constexpr std::size_t kMaxCountsBytes = 64U << 20U;
inline constexpr std::size_t kMaxKallsymsBytes = 64U << 20U;
inline constexpr std::size_t kMaxRings = 65536;
inline constexpr std::size_t kMaxIds = 1U << 20U;  // limit for all events of a manifest together
inline constexpr std::uint64_t kMaxRingBytes = 1U << 30U;
// The size of a perf_event_attr in the manifest: PERF_ATTR_SIZE_VER7. The rest of a longer one must be zero.
inline constexpr std::size_t kManifestAttrBytes = 128;
inline constexpr std::size_t kMaxGaps = 256;  // the newest are kept

// The `reserved` field of a trailer of *processes*, where the kernel writes 0. In a process's FORK: the process exists,
// and nothing else of it could be read (no start time, no COMM); or its name is right, and threads and mappings can be
// missing. The last record is a LOST whose first number is the number of processes listed: every process that is not
// among them has ended. Its time is when the scan began. A process's executable is marked (kProgramMap) at its first
// mapping; if none is of it, or the mappings were not read, at an MMAP2 of 0 bytes, which is for the process tracker
// only. The name there is kUnreadProgram if a child of kthreadd that is no kernel thread (PF_KTHREAD) shows no path.
inline constexpr std::uint32_t kScanUnread = 0x44524e55, kScanPartly = 0x54524150, kScanAllListed = 0x54534c41;
// In a LOST record among those of a process: its first number is the number of threads that are not listed, because
// they are beyond kMostThreads (libcore/sysinfo/processes.hpp).
inline constexpr std::uint32_t kScanThreadsLeftOut = 0x44524854;
// In the LOST record after the KSYMBOL records of generated code (libcore/sysinfo/generated_code.hpp), whose time is
// that of the read: its first number is the number of these records, the second one has kScanSymbols… bits. Without it
// (an older broker, or hidden addresses) nothing is known about generated code. If no KSYMBOL record came or was lost
// since the last read, that one is sent again; the one from before the recording with the time at which the broker
// found that it was still right.
inline constexpr std::uint32_t kScanSymbolsListed = 0x4d59534b;
inline constexpr std::uint64_t kScanSymbolsCut = 1;    // more exist than fit
inline constexpr std::uint64_t kScanSymbolsNoBpf = 2;  // GeneratedCode::no_bpf

enum class Request : std::uint8_t {
  attach = 'a',
  processes = 'p',
  build_ids = 'b',
  kernel = 'k',
  counts = 'c',
  file = 'f',
  spare = 's',  // a file that flightd may open again
  reload = 'r',
  disable = 'd',
  enable = 'e',
  changed = 'C',  // only from the broker
};

struct ReplyHeader {
  std::uint16_t protocol = kBrokerProtocol;
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

// What the kernel allowed when an event was opened on one CPU, where its limits were lower than its attr; 0: as in it.
struct OpenedBelow {
  std::uint64_t frequency = 0;
  std::uint16_t max_stack = 0;
};
struct ManifestId {
  std::uint64_t id = 0;  // PERF_EVENT_IOC_ID
  int cpu = 0;
  std::uint32_t ring = 0;  // index of the ring it writes into
  OpenedBelow below;       // optional: an older broker does not write it
};
struct ManifestEvent {
  std::string channel;  // "" for the sideband
  std::string name;
  perf_event_attr attr{};  // as it was opened, except for ManifestId::below and left_out
  std::string filter;
  // One or more for each CPU: an event dies with its CPU, and a new one continues in the same ring, which then holds
  // records of both, the newest one last. The sideband has only its rings' owners.
  std::vector<ManifestId> ids;
  bool closed = false;  // no longer recorded (another event took its place), but its records may still be in a ring
  // As configured: the machine's limits at the start (perf_event_max_sample_rate, perf_event_max_stack) can be lower.
  // 0: none.
  std::uint64_t frequency = 0;
  std::uint16_t max_stack = 0;
  std::string configured;       // the event that the configuration names
  std::string why;              // why this one is recorded in its place; empty: it is the configured one
  bool expected = false;        // the machine has no such counter, which nobody can correct
  std::vector<int> left_out{};  // CPUs on which nothing is recorded, although its ids are there; optional: an older
                                // broker does not write it
};
// ManifestEvent::name where nothing is recorded in the place of the configured event: a dummy keeps the place.
inline constexpr std::string_view kOmittedEvent = "dummy";
[[nodiscard]] inline bool is_omitted(const ManifestEvent& event) {
  return !event.why.empty() && event.name == kOmittedEvent;
}
// The sentence about an event that records in another one's place, or is omitted; `why` as in ManifestEvent.
[[nodiscard]] std::string replaced_text(std::string_view channel, std::string_view why, std::string_view event);
enum class RingKind : std::uint8_t { channel, sideband, trigger };
[[nodiscard]] std::string_view to_string(RingKind kind);
struct ManifestRing {
  RingKind kind = RingKind::channel;
  std::string channel;  // "" for the sideband; the trigger's name for a trigger's ring
  int cpu = 0;
  std::uint64_t ring_bytes = 0;  // data area; the mapping is one page more
  EventTime enabled_ns = 0;      // its history cannot begin earlier
  bool online = true;
  std::uint64_t owner_id = 0;  // PERF_EVENT_IOC_ID of its owner, unique in this boot
  bool owner_died = false;     // with its CPU: it owns the ring but records nothing
  std::vector<std::uint64_t>
      live_ids;  // the events that write into it, in the order of the channel's events; none while offline
};
// A channel whose configuration lists the CPUs to record. All others record all CPUs.
struct ManifestChannel {
  std::string name;
  std::vector<int> cpus;      // as configured, ascending; this machine need not have all of them
  std::vector<int> recorded;  // those of this machine, ascending; empty: they are all of its CPUs
};
// A kernel event as a trigger: one small forward ring on each CPU, of kind trigger and with the trigger's name. The
// tracepoint writes into it and wakes the poller for each record. Snapshots do not contain it.
struct ManifestTrigger {
  std::string name;   // as in the configuration
  std::string event;  // "oom:mark_victim"
  std::string filter;
  std::string format;  // the tracepoint's format text
  std::string off;     // why it is not recorded; empty: it is recorded
};
// A time when nothing could be recorded on a CPU: it was offline, or its events had died in a suspend.
struct ManifestGap {
  int cpu = 0;
  EventTime begin_ns = 0;  // the last time at which recording was verified
  EventTime end_ns = 0;    // 0: it is still offline
};
// The note about a CPU that is offline. flightd adds the time: the broker does not know what the wall clock showed
// then.
[[nodiscard]] std::string gone_cpu_text(int cpu);
// The complete description of the recording for flightd.
struct Manifest {
  std::uint16_t protocol = kBrokerProtocol;
  std::uint64_t generation = 0;
  // Identifies the recording while its events exist, also across brokers. Unique in this boot.
  std::uint64_t recording = 0;
  std::string version;  // the broker's version
  std::string boot_id;
  std::string config_digest;
  std::vector<ManifestRing> rings;    // index = order of the owners' fds
  std::vector<ManifestEvent> events;  // events[0] is the sideband's dummy
  std::vector<ManifestTrigger> triggers;
  std::vector<ManifestGap> gaps;  // oldest first
  // "SYSTEM:EVENT" -> format text; and the two header texts, needed with any tracepoint
  std::map<std::string, std::string> tracepoint_formats;
  std::string header_page, header_event;
  bool lost_exact = false;            // PERF_FORMAT_LOST is counted
  std::vector<std::string> warnings;  // halved rings, events that could not be opened: for status and journal
  std::vector<std::string> notes;     // facts about this machine: an event that was replaced, a CPU that is offline
  // Those of `warnings` and `notes` that say what is missing in each snapshot. Optional: an older broker does not write
  // it.
  std::vector<std::string> missing;
  std::vector<ManifestChannel> channels;  // optional: an older broker, which records all CPUs, does not write it
};
// The CPUs that the channel records, ascending; empty: all of the machine's.
[[nodiscard]] std::span<const int> recorded_cpus(const Manifest& manifest, std::string_view channel);
// Whether any channel records this CPU while it is online. The sideband and the triggers do so in any case.
[[nodiscard]] bool any_channel_records(const Manifest& manifest, int cpu);
// Whether any event records into this ring of a channel. Otherwise it stays empty, and its history means nothing.
[[nodiscard]] bool is_recorded(const Manifest& manifest, const ManifestRing& ring);
// The attr with the lowest frequency and the least deep stacks of all CPUs on which it records now, or recorded last if
// it is closed.
[[nodiscard]] perf_event_attr lowest_attr(const Manifest& manifest, const ManifestEvent& event);
[[nodiscard]] std::string encode(const Manifest& manifest);  // JSON
// Input from the other side of the broker protocol: everything is checked (ring indexes, powers of two, counts).
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text);

struct EventCount {
  std::uint64_t id = 0, value = 0, lost = 0;
};
// Whether the sampling events deliver samples: an event that opens and counts may still never write one. unproven: no
// sample was seen, and none had to come: the CPUs were not busy for long enough, or no event must occur on a busy CPU.
enum class Delivery : std::uint8_t { unproven, on, silent };
[[nodiscard]] std::string_view to_string(Delivery delivery);
struct Counts {
  EventTime time_ns = 0;
  Delivery delivery = Delivery::unproven;
  // Events without a sample so far that need not occur (libcore/recorder/delivery.hpp), but no tracepoints:
  // "CHANNEL", if that is so for all its events, or "CHANNEL: EVENT". Optional: an older broker does not write it.
  std::vector<std::string> unseen;
  std::vector<EventCount> events;
  int broker_pid = 0;
  double broker_cpu_seconds = 0, broker_uptime_seconds = 0;
  std::uint64_t broker_rss_bytes = 0;
  // Files that wait for the broker's share of a CPU. Optional: an older broker does not write it.
  std::uint64_t build_ids_waiting = 0;
};
[[nodiscard]] std::string encode(const Counts& counts);  // JSON
[[nodiscard]] Result<Counts> parse_counts(std::string_view text);

}  // namespace flight
