// SPDX-License-Identifier: Apache-2.0
// The sidecar: all facts about one snapshot, as the JSON file beside it and as the output of `flightctl --json
// snapshot` and `info`. ns are CLOCK_MONOTONIC; wall times RFC 3339, UTC, ms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/clock_history.hpp"
#include "libcore/base/result.hpp"

namespace flight {

namespace json {
class Object;
class Reader;
}  // namespace json

inline constexpr std::size_t kMaxSidecarBytes = 16U << 20U;

struct SidecarFired {
  std::string metric;
  double value = 0, threshold = 0;
  double baseline = 0;  // NaN (null in the file): unknown
  EventTime since_ns = 0;
  std::optional<double> stolen;  // of a metric that counts stolen time as busy: this much of `value`, in its unit
};
struct SidecarRequest {
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
  std::string comm, time, reason;
};
struct SidecarWindow {
  EventTime begin_ns = 0, end_ns = 0;
  double seconds = 0;
  std::string begin, end;

  [[nodiscard]] static SidecarWindow of(EventTime begin_ns, EventTime end_ns, const ClockHistory& clock);
};
// The wall clock was set, or went on in a suspend, at `ns`: before it showed `before`, then `after` (RFC 3339).
struct SidecarClockStep {
  EventTime ns = 0;
  std::string before, after;
};
struct SidecarHole {
  std::string channel;
  int cpu = 0;
  EventTime begin_ns = 0, end_ns = 0;
  std::uint64_t lost = 0;
  // Only in a recording: the cause (libcore/stream/round.hpp), the bytes of the records, and whether `lost` is an
  // estimate.
  std::string cause = {};
  std::uint64_t bytes = 0;
  bool estimated = false;
};
// The part of a recording.
struct SidecarRecord {
  std::string first;                 // the id of the first part
  std::uint64_t part = 1;            // the number of this one
  std::optional<std::string> ended;  // why the recording ended with this part; nullopt: it did not
  // False: `holes` has those that are known, and there may be others, since the disk refused or lost records that it
  // had taken. nullopt: not said, as in the rows of a list.
  std::optional<bool> holes_known = {};
};
inline constexpr std::string_view kRecordTrigger = "record";  // in the names of the parts of recordings
struct SidecarRing {
  std::string channel;
  int cpu = 0;
  std::uint64_t ring_bytes = 0;
  EventTime oldest_ns = 0, newest_ns = 0;
  std::uint64_t records = 0, samples = 0;
  double blackout_us = 0;
  std::uint64_t lost = 0, torn_bytes = 0, unknown_ids = 0;
  std::uint64_t record_bytes = 0;  // for the status's rates, not written
};
// A channel that does not record all CPUs, and the list of those that it records: "0-3,8".
struct SidecarChannelCpus {
  std::string channel, cpus;
};
// The origin of a task's name. The name itself does not show it: a process can call itself "[kworker/0:1]".
enum class NamedBy : std::uint8_t {
  process,  // itself or a process that forked it, or an earlier flightd did not write it
  kernel,   // it is a kernel thread (libcore/snapshot/lives.hpp)
  flightd,  // its name is not known ("[lost]", ":123"), or it is not one process
};
struct SidecarTop {
  std::string comm;
  std::uint32_t pid = 0;  // 0: not one process: the idle tasks, "[exiting]", or all outside of flightd's PID namespace
  NamedBy named_by = NamedBy::process;
  std::string cgroup;       // the one with most of its samples, in the unit with most of them
  std::string unit;         // the systemd unit of the cgroup; empty: none; kUnknownUnit
  std::uint64_t units = 0;  // in how many units it was; 0: only outside of units, or a sidecar of flightd 0.1
  std::uint64_t samples = 0;
  double share = 0;  // 0 to 1, of the window's samples
  // The same for SidecarCompared's two stretches; nullopt if they have no samples.
  std::optional<double> share_before, share_now;
  // In CPUs: 0.94 is 94 % of one CPU. nullopt if the samples do not show it (see top_processes()).
  std::optional<double> cpus_before, cpus_now;
  std::vector<int> cpus;  // with at least 2 % of its samples
};
// A row of top_units or top_programs: processes that are counted together.
struct SidecarGroup {
  // Unit: "gunicorn.service", "docker-3f2a91c7d8e0", or the path of a cgroup; empty: the root cgroup, whose `cgroup` is
  // "/" (an earlier flightd wrote one row without a cgroup for this and what is unknown); kUnknownUnit.
  // Program: the name of its executable; "[kworker]": all kworkers; "[unknown]": the executable is not known.
  std::string name;
  // Program: the unit with the most of its samples; kUnknownUnit.
  std::string unit, container, cgroup;
  std::string program;          // unit: the one with the most samples
  std::string path;             // of the executable of `program`; empty: a kernel thread, or unknown
  std::uint64_t units = 0;      // program: in how many units it runs; 0: only outside of units
  std::uint64_t processes = 0;  // 0: an unknown number ("[exiting]")
  std::uint32_t pid = 0;        // of the process with the most samples, as in SidecarTop
  std::string comm;             // its name while it ran `program`; empty: not written, by an earlier flightd
  NamedBy named_by = NamedBy::process;
  double pid_share = 0;  // that process's part of the group's samples, 0 to 1
  // As in SidecarTop.
  std::uint64_t samples = 0;
  double share = 0;
  std::optional<double> share_before, share_now, cpus_before, cpus_now;
  std::vector<int> cpus;
  // Unit: forks of its processes now, else in the window, and the program that made most of them. Empty: none is known.
  double forks_per_second = 0;
  std::string forked_by;
};
// The parents of forked processes. `name`: a unit's or a program's, or a process's comm.
struct SidecarForker {
  std::string name;
  std::uint32_t pid = 0;                // 0: several processes
  NamedBy named_by = NamedBy::process;  // of a process
  // As in SidecarGroup; for a program, the unit that forked most. kUnknownForker: the process has no samples.
  std::string unit, cgroup;
  std::uint64_t count = 0;
  double per_second = 0;
  std::optional<double> per_second_before, per_second_now;  // in SidecarCompared's stretches
};
inline constexpr std::string_view kUnknownForker = "[unknown]";
inline constexpr std::string_view kUnknownUnit = kUnknownForker;  // it is not known in which unit it ran
struct SidecarForks {
  bool complete = true;  // false: records are missing, so the numbers are minimums
  SidecarForker all;     // without a name
  std::vector<SidecarForker> by_unit, by_program, by_pid;
  // Forks by processes whose unit is not known. Not 0: what the units forked are minimums.
  std::uint64_t unit_unknown = 0;
};
// The stretches of the window that the rows of `top` compare: before [before_begin_ns, now_begin_ns), now
// [now_begin_ns, now_end_ns]. If both begin at the same time, there are no samples from before.
struct SidecarCompared {
  EventTime before_begin_ns = 0, now_begin_ns = 0, now_end_ns = 0;
};
// Metrics before the freeze, one value per step, oldest first. NaN (null in the file): unknown.
struct SidecarSeries {
  EventTime begin_ns = 0;
  std::uint64_t step_ns = 0;
  std::vector<std::pair<std::string, std::vector<double>>> values;
};
struct SidecarMetrics {
  SidecarSeries recent;   // 60 s at 100 ms; names are metrics
  SidecarSeries minutes;  // 10 min at 1 s
  SidecarSeries cpus;     // 10 s at 100 ms: busy percent; names are CPU numbers
};
// Samples with callers of the program, as the kernel found them by frame pointer.
struct SidecarStacks {
  std::uint64_t checked = 0;         // all code of the process is known
  std::uint64_t unchecked = 0;       // not known: all callers were kept
  std::uint64_t callers = 0;         // of the checked ones
  std::uint64_t garbage_frames = 0;  // of these callers, those that are no code and were dropped
};
struct SidecarTimings {
  std::uint64_t queued = 0, freeze = 0, walk = 0, merge = 0, write = 0, total = 0;
};

struct Sidecar {
  std::string id, path, host, boot_id, kernel;
  // The file in the store with the kernel's symbols; empty: they could not be read. nullopt in sidecars of flightd
  // 0.1: kallsyms-BOOTID.zst.
  std::optional<std::string> kallsyms;
  std::string version, config_digest;
  std::string trigger;
  bool test = false;  // `flightctl triggers test` requested it: the trigger did not fire; written only if true
  std::optional<SidecarRecord> record;  // of a part of a recording: written with `kind`; otherwise neither is
  std::optional<SidecarFired> fired;
  std::string reason;
  std::vector<SidecarRequest> requests;
  std::string recording;  // the status's `recording` at the freeze; empty: unknown, and not written
  std::string capture, compression;
  std::uint64_t size_bytes = 0, raw_bytes = 0, samples = 0;
  SidecarWindow window, common_window;
  std::vector<SidecarClockStep> clock_steps;  // in the window, oldest first; written only if there are any
  struct {
    double max_us = 0;
    std::uint64_t lost = 0;
    bool lost_exact = true;
  } blackout;
  std::vector<SidecarHole> holes;
  std::vector<SidecarRing> rings;
  std::vector<SidecarChannelCpus> channel_cpus;  // written only if there are any
  struct {
    std::uint64_t processes = 0, exited = 0;
    bool stale = false;
    std::uint64_t evicted = 0;
    std::uint64_t lost = 0, unsure = 0;
  } tracker;
  std::optional<SidecarStacks> stacks;  // written only if there are such samples
  SidecarTimings timings_us;
  std::optional<SidecarCompared> compared;  // written only if there is one
  // The list of the CPUs whose samples the rows below count. What the others did is not known. Empty: all CPUs, and not
  // written.
  std::string top_cpus;
  // Most samples first.
  std::vector<SidecarGroup> top_units, top_programs;
  std::vector<SidecarTop> top;
  std::optional<SidecarForks> forks;      // written only if they were counted
  std::optional<SidecarMetrics> metrics;  // written only if there are any
  // What is wrong with this snapshot. Written as `messages`, each with its severity, most severe first; `warnings`
  // contains the first two; only if there are any.
  std::vector<std::string> errors;    // a promise is broken
  std::vector<std::string> warnings;  // something is missing or uncertain
  std::vector<std::string> notes;     // facts about this machine, the same in all snapshots
};

// For sidecars and the rows of a list.
[[nodiscard]] json::Object json_of(const SidecarRecord& record);
void read_record(const json::Reader& in, SidecarRecord& out);

// One JSON object, indented by 2, keys in the order above, a newline at the end. Bytes of names that are not UTF-8
// are written as \xNN (as_utf8()), those of other texts as U+FFFD.
[[nodiscard]] std::string to_json(const Sidecar& sidecar);
// The same on one line.
[[nodiscard]] std::string to_json_line(const Sidecar& sidecar);
// Input from outside: unknown keys are ignored, missing ones keep their defaults; `id`, `path`, `trigger` are
// required.
[[nodiscard]] Result<Sidecar> parse_sidecar(std::string_view text);

// The wall clock of the sidecar's times, for those in ns.
[[nodiscard]] ClockHistory clock_of(const Sidecar& sidecar);

// The begins of two keys in a sidecar written by to_json(). Everything that a list needs comes before the first;
// sidecars of version 0.1 have only the second.
inline constexpr std::string_view kProgramsLine = ",\n  \"top_programs\": [", kMetricsLine = ",\n  \"metrics\": {";

// The part of a sidecar that a list needs. Accepts every text that parse_sidecar() accepts, at a fraction of its cost;
// a wrong type in an unused value is not detected.
inline constexpr std::size_t kMaxRowUnits = 4;
struct SidecarSummary {
  std::string boot_id, reason;
  std::optional<std::string> kallsyms;  // as in Sidecar
  std::vector<std::string> units;       // the first kMaxRowUnits of top_units that are known; in old sidecars, of top
  std::uint64_t size_bytes = 0, samples = 0;
  double seconds = 0;
  std::optional<SidecarRecord> record = {};
};
[[nodiscard]] Result<SidecarSummary> summarize_sidecar(std::string_view text);
// The name of the file with the kernel's symbols for a sidecar with these two values. Empty: there is none, or the
// name is invalid.
[[nodiscard]] std::string kallsyms_of(const std::optional<std::string>& kallsyms, const std::string& boot_id);

}  // namespace flight
