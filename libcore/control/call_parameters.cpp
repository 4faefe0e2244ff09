// SPDX-License-Identifier: Apache-2.0
// Checks the parameters of io.flightd.Recorder's methods (messages.hpp). For its triggers: trigger_messages.cpp.
#include <algorithm>

#include "libcore/base/clock.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/control/parameters.hpp"

namespace flight {
namespace {

using Refusal = tl::unexpected<CallError>;

constexpr std::size_t kMaxIdDigits = 20;
constexpr std::size_t kMinRfc3339Bytes = 20;  // 2026-11-20T03:12:04Z
constexpr std::size_t kMaxAgoBytes = 64;

Refusal refuse(std::string_view parameter, std::string_view message) {
  return Refusal(invalid_parameter(parameter, message));
}

CallResult<std::optional<std::string>> read_time(const Parameters& parameters, const char* key) {
  auto text = parameters.text(key);
  if (!text || !*text) return text;
  const std::string& time = **text;
  const bool has_zone = time.size() >= kMinRfc3339Bytes && time.size() <= 40 && time[10] == 'T' &&
                        (time.back() == 'Z' || time.find_first_of("+-", 19) != std::string::npos);
  const bool understood = has_zone || (time.size() <= kMaxAgoBytes && parse_ago(time));
  if (!understood || !parse_time(time, wall_now()))
    return refuse(key, fmt::format("'{}' must be an RFC 3339 time, such as 2026-11-20T03:12:04Z, or how long ago, such "
                                   "as -30s",
                                   key));
  return text;
}

CallResult<std::string> read_id(const Parameters& parameters) {
  auto id = parameters.text("id");
  if (!id) return Refusal(id.error());
  std::string text = id->value_or("");
  const bool decimal = !text.empty() && text.size() <= kMaxIdDigits &&
                       std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!decimal && text != "latest")
    return refuse("id", R"('id' must be the text of a snapshot's number, such as "7", or "latest")");
  return text;
}

// A required flag.
CallResult<bool> read_flag(const Parameters& parameters, const char* key) {
  const auto flag = parameters.flag(key);
  if (!flag) return Refusal(flag.error());
  if (!*flag) return refuse(key, fmt::format("'{}' must be true or false", key));
  return **flag;
}

// Rules that involve several parameters.
CallResult<void> check_window(const SnapshotParameters& parameters) {
  if (parameters.last_usec && *parameters.last_usec == 0) return refuse("last_usec", "'last_usec' must be more than 0");
  if (parameters.last_usec && (parameters.since || parameters.until))
    return refuse("last_usec", "give 'last_usec' or 'since', not both");
  if (parameters.until && !parameters.since) return refuse("until", "'until' needs 'since'");
  if (parameters.until) {
    // The order of two wall-clock times cannot be checked here: if the clock was set back in between, the smaller one
    // is the later one. Only flightd knows that (daemon/snapshots/window.hpp).
    const auto since = parse_ago(*parameters.since), until = parse_ago(*parameters.until);
    if (*parameters.until == *parameters.since || (since && until && *until >= *since))
      return refuse("until", "'until' must be later than 'since'");
  }
  return {};
}

}  // namespace

CallResult<SnapshotParameters> parse_snapshot_parameters(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"reason", "last_usec", "since", "until", "post_usec", "capture"});
  if (!given) return Refusal(given.error());
  auto reason = given->reason("reason");
  if (!reason) return Refusal(reason.error());
  const auto last = given->usec("last_usec", kMaxLastUsec);
  if (!last) return Refusal(last.error());
  auto since = read_time(*given, "since");
  if (!since) return Refusal(since.error());
  auto until = read_time(*given, "until");
  if (!until) return Refusal(until.error());
  const auto post = given->usec("post_usec", kMaxPostUsec);
  if (!post) return Refusal(post.error());
  auto capture = given->text("capture");
  if (!capture) return Refusal(capture.error());
  if (*capture && **capture != "pause" && **capture != "live")
    return refuse("capture", "'capture' must be 'pause' or 'live'");
  SnapshotParameters out{std::move(*reason), *last, std::move(*since), std::move(*until), *post, std::move(*capture)};
  if (auto checked = check_window(out); !checked) return Refusal(checked.error());
  return out;
}

CallResult<std::string> parse_id_parameter(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"id"});
  if (!given) return Refusal(given.error());
  return read_id(*given);
}

CallResult<PinParameters> parse_pin_parameters(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"id", "pinned"});
  if (!given) return Refusal(given.error());
  auto id = read_id(*given);
  if (!id) return Refusal(id.error());
  const auto pinned = read_flag(*given, "pinned");
  if (!pinned) return Refusal(pinned.error());
  return PinParameters{std::move(*id), *pinned};
}

CallResult<ReadParameters> parse_read_parameters(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"id", "what"});
  if (!given) return Refusal(given.error());
  auto id = read_id(*given);
  if (!id) return Refusal(id.error());
  const auto what = given->text("what");
  if (!what) return Refusal(what.error());
  for (const SnapshotFile file : {SnapshotFile::data, SnapshotFile::sidecar, SnapshotFile::kallsyms})
    if (what->value_or("data") == to_string(file)) return ReadParameters{std::move(*id), file};
  return refuse("what", "'what' must be 'data', 'sidecar' or 'kallsyms'");
}

CallResult<bool> parse_recording_parameter(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"recording"});
  if (!given) return Refusal(given.error());
  return read_flag(*given, "recording");
}

CallResult<bool> parse_vacuum_parameter(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"dry_run"});
  if (!given) return Refusal(given.error());
  const auto dry_run = given->flag("dry_run");
  if (!dry_run) return Refusal(dry_run.error());
  return dry_run->value_or(false);
}

CallResult<void> parse_no_parameters(std::string_view parameters) {
  if (auto given = Parameters::parse(parameters, {}); !given) return Refusal(given.error());
  return {};
}

CallResult<std::string> parse_interface_parameter(std::string_view parameters) {
  const auto given = Parameters::parse(parameters, {"interface"});
  if (!given) return Refusal(given.error());
  auto interface = given->text("interface");
  if (!interface) return Refusal(interface.error());
  if (!*interface) return refuse("interface", "'interface' is missing: name the interface to describe");
  return **interface;
}

}  // namespace flight
