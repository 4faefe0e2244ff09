// SPDX-License-Identifier: Apache-2.0
// The parameters and replies of the methods for recordings: Record, StopRecording.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/control/messages.hpp"

namespace flight {

inline constexpr std::uint64_t kMaxRecordNs = 366ULL * 86'400 * 1'000'000'000;
inline constexpr std::uint64_t kMinRecordingBytes = 1U << 20U;
inline constexpr std::uint64_t kMaxRecordPartBytes = 1U << 30U;  // perf holds a part in memory, expanded
inline constexpr std::uint64_t kMaxRecordingBytes = 1ULL << 60U;
inline constexpr std::size_t kMaxRecordChannels = 64;

// Record's parameters; all optional. Without `more`, for_ns must be given.
struct RecordParameters {
  std::uint64_t past_ns = 0;                           // so much of what the rings hold comes first; 0: nothing
  std::optional<std::uint64_t> for_ns;                 // then it ends; nullopt: when it is stopped
  std::optional<std::uint64_t> max_bytes, part_bytes;  // nullopt: those of the configuration
  std::vector<std::string> channels;                   // empty: all
  std::optional<std::string> layout{};                 // "file" or "directory"; nullopt: that of the configuration
  std::string reason;                                  // as of SnapshotParameters
};
[[nodiscard]] CallResult<RecordParameters> parse_record_parameters(std::string_view parameters);
[[nodiscard]] std::string to_json(const RecordParameters& parameters);

// How far a recording is.
struct RecordProgress {
  double seconds = 0;  // since it began, without the past
  std::uint64_t bytes = 0, events = 0, lost = 0, parts = 0;
  std::vector<std::string> finished;  // the ids of the parts that are whole
};
// A reply that is followed by others: {"id": "12"} at first, then with "progress".
[[nodiscard]] std::string record_reply(std::string_view id, const std::optional<RecordProgress>& progress);
struct RecordStep {
  std::string id;
  std::optional<RecordProgress> progress;
};
// nullopt: it is not such a reply.
[[nodiscard]] std::optional<RecordStep> parse_record_step(std::string_view parameters);

// A recording that has ended.
struct RecordResult {
  std::string id;     // of its first part
  std::string ended;  // asked, max_size, disk, reload, budget
  RecordProgress progress;
  std::vector<std::string> paths;  // of the parts, in their order
  std::vector<std::string> warnings;
};
[[nodiscard]] std::string to_json(const RecordResult& result);
[[nodiscard]] Result<RecordResult> parse_record_result(std::string_view text);
// The last reply of Record, and that of StopRecording: {"recording": OBJECT}.
[[nodiscard]] std::string recording_reply(std::string_view object);

[[nodiscard]] CallError no_such_recording(std::string_view id, std::string_view message);
[[nodiscard]] CallError recording_refused(std::string_view message);

}  // namespace flight
