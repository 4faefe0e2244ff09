// SPDX-License-Identifier: Apache-2.0
// The whole configuration as plain structs with every default. Read this file to understand the program. parse.hpp
// parses the text; other modules need only this header.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flight {

// A size that may be given in bytes ("2G") or as a share ("10%").
struct SizeOrShare {
  std::uint64_t bytes = 0;
  double percent = 0;  // > 0: a share, and bytes is 0
  [[nodiscard]] std::uint64_t of(std::uint64_t whole) const {
    return percent > 0 ? static_cast<std::uint64_t>(static_cast<double>(whole) * percent / 100) : bytes;
  }
};

struct EventConfig {
  std::string event;            // perf's syntax
  std::uint64_t frequency = 0;  // Hz; 0: period
  std::uint64_t period = 0;     // if both are 0: 99 Hz; for a tracepoint: every event
  bool stack = false;           // "fp"
  std::uint16_t max_stack = 127;
  std::uint32_t stack_bytes = 0;  // of the user's stack, copied with each sample; needs `stack`; 0: none
  std::string filter;             // of tracepoints, in tracefs' syntax
  friend bool operator==(const EventConfig&, const EventConfig&) = default;
};

struct ChannelConfig {
  std::string name;
  std::uint64_t ring_bytes = 2U << 20U;  // for each CPU; a power of two, 64K to 1G
  std::vector<EventConfig> events;
  std::chrono::nanoseconds min_history{};  // the status warns below it; 0: never
  std::vector<int> cpus{};                 // only these are recorded, ascending; empty: all
  [[nodiscard]] bool records_on(int cpu) const {
    return cpus.empty() || std::binary_search(cpus.begin(), cpus.end(), cpu);
  }
  friend bool operator==(const ChannelConfig&, const ChannelConfig&) = default;
};

enum class CaptureMode { pause, live };
[[nodiscard]] std::string_view to_string(CaptureMode mode);

struct SnapshotConfig {
  CaptureMode capture = CaptureMode::pause;
  std::string workers = "cpu";       // "cpu", "core", "package", "numa", a number, or masks "0-3/3:4-7/4"
  std::string compression = "zstd";  // or "none"
  int compression_level = 1;
  std::string layout = "file";  // or "directory"
  bool on_stop = false;
};

// `flightctl record`, and recordings of triggers. A change applies to the next recording.
struct RecordConfig {
  std::string workers = "cpu";                // as snapshot.workers; they read the rings of a recording
  std::uint64_t max_bytes = 2ULL << 30U;      // a recording that has so many bytes ends
  std::uint64_t switch_bytes = 64ULL << 20U;  // a part that has so many bytes ends, and the next one begins
  std::string layout = "file";                // or "directory": of a part
};

struct StoreConfig {
  std::optional<SizeOrShare> max_use;    // nullopt: 10 % of the file system, at most 4 GiB
  std::optional<SizeOrShare> keep_free;  // nullopt: 15 % of it, at most 4 GiB
  std::uint64_t max_files = 200;
  std::chrono::nanoseconds max_age = std::chrono::hours(24 * 30);
  std::uint64_t keep_first = 2, keep_last = 2;  // number of snapshots of each trigger that are deleted last
  std::uint64_t max_snapshot_bytes = 0;         // 0: no separate limit
};

inline constexpr std::size_t kMaxTriggers = 64;
inline constexpr std::uint32_t kMaxFirings = 1000;  // limit of every rate: firings are remembered while they count

struct TriggerConfig {
  std::string name;
  bool enabled = true;
  // Exactly one of these three conditions:
  std::string metric;                // "cpu.busy", …
  std::optional<EventConfig> event;  // a tracepoint
  bool external = false;
  // For a metric, in its own unit (percent for shares):
  std::optional<double> above, below, delta, rearm;
  std::chrono::nanoseconds for_time{};
  std::optional<std::chrono::nanoseconds> warmup;  // nullopt: 60 s with `delta`, else none
  // Rate policy:
  std::chrono::nanoseconds cooldown{};
  std::uint32_t max_per_hour = 0, max_per_day = 0;  // 0: no limit
  // Action:
  std::chrono::nanoseconds post{}, last{};  // last 0: everything in the rings
  std::optional<CaptureMode> capture;
  std::chrono::nanoseconds record{};  // action.record: a recording goes on for so long; 0: none
  // The origin of the trigger. If the machine lacks the source, a shipped trigger is off, with a note; a trigger of an
  // administrator is an error, reported at `place`.
  bool shipped = false;
  std::string place;  // of its condition: "FILE:LINE"
  friend bool operator==(const TriggerConfig&, const TriggerConfig&) = default;
};
// Whether both have the same settings, in whatever files.
[[nodiscard]] bool same_trigger(TriggerConfig one, const TriggerConfig& other);

// The limit for all triggers together, without a person's requests: a bucket that holds `burst` snapshots and gets
// `per_hour` new ones. Twelve an hour is one per 5 minutes, the cooldown of the shipped triggers; six at once lets
// each of them fire in one incident and leaves some for the administrator's own.
struct StormGuardConfig {
  std::uint32_t burst = 6;
  std::uint32_t per_hour = 12;
  friend bool operator==(const StormGuardConfig&, const StormGuardConfig&) = default;
};

// A value in force and where it was written; file "built-in" and line 0: the program's default.
struct ConfigValue {
  std::string path;   // "channels.stacks.ring"
  std::string value;  // as in the configuration, a text without its quotes
  std::string file;
  int line = 0;
};

inline constexpr std::uint64_t kLeastSidebandRingBytes = 512U << 10U;

struct Config {
  std::string profile = "default";
  std::string user = "flightd";
  SizeOrShare memory_max{.bytes = 0, .percent = 2};
  std::optional<std::uint64_t> sideband_ring_bytes;  // on each CPU; nullopt: as large as memory_max allows
  std::vector<ChannelConfig> channels;               // in the file's order
  SnapshotConfig snapshot;
  RecordConfig record;
  StoreConfig store;
  std::vector<TriggerConfig> triggers;
  StormGuardConfig storm_guard;
  // A digest of the texts of the configuration, 16 hex digits; the sidecar contains it.
  std::string digest;
  std::vector<ConfigValue> values;  // all of the above, in the document's order
  // Files and directories in /etc/flightd and its conf.d that look as if they were meant, and are not read.
  std::vector<std::string> unread;
  // Warnings about triggers and channels that a file removes, and that no file has.
  std::vector<std::string> useless_nulls;
};
// A warning for each of `unread`, and `useless_nulls`.
[[nodiscard]] std::vector<std::string> unread_warnings(const Config& config);

// A value that differs between two configurations. `file`, `line`: where it is set now; of a removed one, where it was.
struct ConfigChange {
  std::string path;
  std::optional<std::string> before, now;  // nullopt: there was none, or is none any more
  std::string file;
  int line = 0;
};
// In the order of `now`, then those that are gone. The same value in another file is no change.
[[nodiscard]] std::vector<ConfigChange> config_changes(const std::vector<ConfigValue>& before,
                                                       const std::vector<ConfigValue>& now);

// "FILE:LINE: " of the first of config.values at `path` or below it; empty if it is in no file.
[[nodiscard]] std::string written_at(const Config& config, std::string_view path);

}  // namespace flight
