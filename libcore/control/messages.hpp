// SPDX-License-Identifier: Apache-2.0
// The parameters and replies of io.flightd.Recorder as plain structs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/control/varlink.hpp"

namespace flight {

template <typename T>
using CallResult = tl::expected<T, CallError>;

inline constexpr std::size_t kMaxReasonBytes = 1024;
inline constexpr std::uint64_t kMaxPostUsec = 60'000'000;
inline constexpr std::uint64_t kMaxLastUsec = 366ULL * 86'400 * 1'000'000;  // no ring holds more than a year

// TakeSnapshot's parameters; all optional.
struct SnapshotParameters {
  std::string
      reason;  // control characters are refused by the parser (they end up in terminals and journals); <= 1024 bytes
  std::optional<std::uint64_t> last_usec;
  std::optional<std::string> since, until;  // RFC 3339
  std::optional<std::uint64_t> post_usec;   // <= 60 s
  std::optional<std::string> capture;       // "pause" or "live"
};
[[nodiscard]] CallResult<SnapshotParameters> parse_snapshot_parameters(std::string_view parameters);
[[nodiscard]] std::string to_json(const SnapshotParameters& parameters);

// {"id": "7"} of DescribeSnapshot and RemoveSnapshot; decimal, <= 20 digits, or "latest".
[[nodiscard]] CallResult<std::string> parse_id_parameter(std::string_view parameters);
// {"id": "7", "what": "kallsyms"} of ReadSnapshot; the default is data.
enum class SnapshotFile { data, sidecar, kallsyms };
[[nodiscard]] std::string_view to_string(SnapshotFile file);
struct ReadParameters {
  std::string id;
  SnapshotFile file = SnapshotFile::data;
};
[[nodiscard]] CallResult<ReadParameters> parse_read_parameters(std::string_view parameters);
[[nodiscard]] std::string to_json(const ReadParameters& parameters);
// {"id": "7", "pinned": true} of PinSnapshot.
struct PinParameters {
  std::string id;
  bool pinned = false;
};
[[nodiscard]] CallResult<PinParameters> parse_pin_parameters(std::string_view parameters);
// {"recording": true} of SetRecording.
[[nodiscard]] CallResult<bool> parse_recording_parameter(std::string_view parameters);
// {"dry_run": true} of Vacuum; the default is false.
[[nodiscard]] CallResult<bool> parse_vacuum_parameter(std::string_view parameters);
// For methods without parameters: refuses every key.
[[nodiscard]] CallResult<void> parse_no_parameters(std::string_view parameters);
// {"interface": "…"} of GetInterfaceDescription.
[[nodiscard]] CallResult<std::string> parse_interface_parameter(std::string_view parameters);

// {"snapshot": OBJECT}; `object` is JSON text.
[[nodiscard]] std::string snapshot_reply(std::string_view object);
[[nodiscard]] std::string snapshots_reply(std::string_view array);
[[nodiscard]] std::string status_reply(std::string_view object);
// ReadSnapshot's reply, after which the connection carries only the file's bytes.
struct ReadReply {
  std::uint64_t size_bytes = 0;
  std::string name;  // the file's name, without its directory
};
[[nodiscard]] std::string read_reply(const ReadReply& reply);
// nullopt: it is not such a reply. The name is not checked.
[[nodiscard]] std::optional<ReadReply> parse_read_reply(std::string_view parameters);
// Vacuum's reply; `removed` is the JSON text of its rows.
[[nodiscard]] std::string vacuum_reply(std::string_view removed, std::uint64_t freed_bytes,
                                       const std::vector<std::string>& warnings = {});
// A progress reply of Vacuum with `more`: as its reply, with nothing removed yet, and `progress` as below.
[[nodiscard]] std::string vacuum_progress_reply(std::string_view step, unsigned percent);
// A progress reply of TakeSnapshot with `more`: {"progress": {"step": "writing", "percent": 42}}, without a snapshot.
[[nodiscard]] std::string progress_reply(std::string_view step, unsigned percent);
struct SnapshotProgress {
  std::string step;
  unsigned percent = 0;  // 0 to 100
};
// Parses the output of the two functions above; nullopt: it is not such a reply.
[[nodiscard]] std::optional<SnapshotProgress> parse_progress(std::string_view parameters);
[[nodiscard]] std::string info_reply(std::string_view version);
[[nodiscard]] std::string description_reply(std::string_view idl);
// The JSON text of one member of a reply's parameters ("snapshot", "status", "snapshots"), empty if it is missing.
[[nodiscard]] std::string member(std::string_view parameters, std::string_view key);
// Whether `text` is one JSON object of at most json::kMaxDepth levels, so that it may become part of a reply.
[[nodiscard]] bool is_json_object(std::string_view text);
// {"error": "io.flightd.Recorder.NoSuchSnapshot", "message": "…"}: an error on one line, as printed by `flightctl
// --json`.
[[nodiscard]] std::string error_line(std::string_view name, std::string_view message);
// ["3","4"].
[[nodiscard]] std::string to_json(const std::vector<std::string>& texts);
// Returns an empty list if it is not a list of texts.
[[nodiscard]] std::vector<std::string> parse_texts(std::string_view array);
// The same JSON indented by 2, with a newline at the end; `text` itself if it is not JSON.
[[nodiscard]] std::string indented(std::string_view text);

struct StatusRing {
  std::string channel;
  int cpu = 0;
  std::uint64_t ring_bytes = 0;
  double history_seconds = 0;
};
struct StatusEvent {
  std::string event;
  double per_second = 0, bytes_per_second = 0;
};
struct StatusChannel {
  std::string name;
  std::vector<StatusEvent> events;
  double history_min_seconds = 0, history_max_seconds = 0;
  std::string cpus{};  // "0-3,8": only these are recorded; empty: all, and not written
};
struct StatusProcess {
  int pid = 0;
  double cpu_seconds = 0;
  std::uint64_t rss_bytes = 0;
  double uptime_seconds = 0;  // of this process: the broker may be older than flightd; 0: unknown, and not written
};
// The last snapshot: when it was durable, its trigger, how long each step took. age_seconds: how long ago that was,
// suspended time included, whatever the wall clock shows now; flightd 0.1 does not say.
struct StatusLast {
  std::string time, trigger;
  std::uint64_t queued_us = 0, freeze_us = 0, walk_us = 0, merge_us = 0, write_us = 0, total_us = 0;
  std::optional<double> age_seconds = {};
};
// off: the broker is gone or cannot record; paused: a user paused it. The others are the broker's Delivery.
enum class RecordingState : std::uint8_t { on, silent, unproven, paused, off };
[[nodiscard]] std::string_view to_string(RecordingState state);
// GetStatus, and `flightctl --json status`: {version, uptime_seconds, cpus, recording, paused, rings, channels,
// snapshots, store: {bytes, max_bytes}, self: {flightd, broker, staging_bytes, ring_bytes, …}, last_snapshot, …,
// warnings}.
struct Status {
  std::string version;
  double uptime_seconds = 0;
  int cpus = 0;
  RecordingState recording = RecordingState::off;
  bool paused = false;  // the state, or what it would be if the broker were not gone
  std::vector<StatusRing> rings;
  std::vector<StatusChannel> channels;
  std::uint64_t snapshots = 0;
  std::uint64_t store_bytes = 0, store_max_bytes = 0;
  StatusProcess flightd, broker;
  std::uint64_t staging_bytes = 0, ring_bytes = 0;
  std::uint64_t tracker_bytes = 0, tracker_max_bytes = 0;  // the process tracker and its checkpoint; their limit
  std::uint64_t build_ids_waiting = 0;  // files that wait for the broker's share of a CPU; written if there are any
  std::optional<std::string> last_snapshot;  // the last one's id; null: this flightd has taken none
  std::optional<StatusLast>
      last;  // written as last_snapshot_time, _age_seconds, _trigger and _timings_us, if there is one
  // Written as `messages`, each with its severity, most severe first; `warnings` contains the first two.
  std::vector<std::string> errors;    // a promise is broken: nothing is recorded, or snapshots cannot be written
  std::vector<std::string> warnings;  // degraded, and an administrator can correct it
  std::vector<std::string> notes;     // permanent facts about this machine
};
[[nodiscard]] std::string to_json(const Status& status);
[[nodiscard]] Result<Status> parse_status(std::string_view text);

}  // namespace flight
