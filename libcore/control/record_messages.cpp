// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/record_messages.hpp"

#include <utility>

#include "libcore/base/finite.hpp"
#include "libcore/control/parameters.hpp"
#include "libcore/json/parse.hpp"
#include "libcore/json/reader.hpp"
#include "libcore/json/value.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxResultBytes = 16U << 20U;

json::Object object_of(const RecordProgress& progress) {
  return {{"seconds", finite(progress.seconds)},
          {"bytes", progress.bytes},
          {"events", progress.events},
          {"lost", progress.lost},
          {"parts", progress.parts},
          {"finished", progress.finished}};
}

void read_progress(const json::Reader& in, RecordProgress& out) {
  in.read("seconds", out.seconds);
  in.read("bytes", out.bytes);
  in.read("events", out.events);
  in.read("lost", out.lost);
  in.read("parts", out.parts);
  in.values("finished", out.finished);
}

}  // namespace

CallResult<RecordParameters> parse_record_parameters(std::string_view parameters) {
  const auto given =
      Parameters::parse(parameters, {"past_ns", "for_ns", "max_bytes", "part_bytes", "channels", "layout", "reason"});
  if (!given) return tl::unexpected(given.error());
  RecordParameters out;
  auto reason = given->reason("reason");
  if (!reason) return tl::unexpected(reason.error());
  out.reason = std::move(*reason);
  const auto past = given->nanoseconds("past_ns", kMaxRecordNs);
  if (!past) return tl::unexpected(past.error());
  out.past_ns = past->value_or(0);
  const auto duration = given->nanoseconds("for_ns", kMaxRecordNs);
  if (!duration) return tl::unexpected(duration.error());
  if (*duration == 0U) return tl::unexpected(invalid_parameter("for_ns", "'for_ns' must be more than 0"));
  out.for_ns = *duration;
  const auto all_bytes = given->bytes("max_bytes", kMinRecordingBytes, kMaxRecordingBytes);
  if (!all_bytes) return tl::unexpected(all_bytes.error());
  out.max_bytes = *all_bytes;
  const auto part_bytes = given->bytes("part_bytes", kMinRecordingBytes, kMaxRecordPartBytes);
  if (!part_bytes) return tl::unexpected(part_bytes.error());
  out.part_bytes = *part_bytes;
  auto channels = given->texts("channels", kMaxRecordChannels);
  if (!channels) return tl::unexpected(channels.error());
  out.channels = std::move(*channels);
  auto layout = given->text("layout");
  if (!layout) return tl::unexpected(layout.error());
  if (*layout && **layout != "file" && **layout != "directory")
    return tl::unexpected(invalid_parameter("layout", "'layout' must be 'file' or 'directory'"));
  out.layout = std::move(*layout);
  return out;
}

std::string to_json(const RecordParameters& parameters) {
  json::Object object;
  if (parameters.past_ns != 0) object.add("past_ns", parameters.past_ns);
  if (parameters.for_ns) object.add("for_ns", *parameters.for_ns);
  if (parameters.max_bytes) object.add("max_bytes", *parameters.max_bytes);
  if (parameters.part_bytes) object.add("part_bytes", *parameters.part_bytes);
  if (!parameters.channels.empty()) object.add("channels", parameters.channels);
  if (parameters.layout) object.add("layout", *parameters.layout);
  if (!parameters.reason.empty()) object.add("reason", parameters.reason);
  return json::dump(object);
}

std::string record_reply(std::string_view id, const std::optional<RecordProgress>& progress) {
  json::Object object{{"id", id}};
  if (progress) object.add("progress", object_of(*progress));
  return json::dump(object);
}

std::optional<RecordStep> parse_record_step(std::string_view parameters) {
  const json::Value value = json::parse_or_null(parameters);
  const std::string* id = value.at("id").text();
  if (id == nullptr) return std::nullopt;
  RecordStep out{.id = *id, .progress = std::nullopt};
  const json::Value* progress = value.find("progress");
  if (progress == nullptr || progress->is_null()) return out;
  const auto read = json::read_object(*progress, json::Missing::keeps_default,
                                      [&](const json::Reader& in) { read_progress(in, out.progress.emplace()); });
  if (!read) return std::nullopt;
  return out;
}

std::string to_json(const RecordResult& result) {
  json::Object object{{"id", result.id}, {"ended", result.ended}};
  object.add("progress", object_of(result.progress));
  object.add("paths", result.paths);
  object.add("warnings", result.warnings);
  return json::dump(object);
}

Result<RecordResult> parse_record_result(std::string_view text) {
  const auto value = json::parse(text, {.max_bytes = kMaxResultBytes});
  if (!value) return wrap(value.error(), "flightd's reply about a recording");
  RecordResult out;
  const auto read = json::read_object(*value, json::Missing::keeps_default, [&](const json::Reader& in) {
    in.need("id", out.id);
    in.read("ended", out.ended);
    in.object("progress", [&](const json::Reader& m) { read_progress(m, out.progress); });
    in.values("paths", out.paths);
    in.values("warnings", out.warnings);
  });
  if (!read) return wrap(read.error(), "flightd's reply about a recording");
  return out;
}

std::string recording_reply(std::string_view object) { return fmt::format(R"({{"recording":{}}})", object); }

CallError no_such_recording(std::string_view id, std::string_view message) {
  return recorder_error("NoSuchRecording", {{"id", id}, {"message", message}});
}

CallError recording_refused(std::string_view message) {
  return recorder_error("RecordingRefused", {{"message", message}});
}

}  // namespace flight
