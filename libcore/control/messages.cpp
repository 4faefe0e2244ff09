// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/messages.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcore/base/clock.hpp"
#include "libcore/base/text.hpp"
#include "libcore/control/json_depth.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;
using Refusal = tl::unexpected<CallError>;

constexpr std::size_t kMaxIdDigits = 20;
constexpr std::size_t kMinRfc3339Bytes = 20;  // 2026-11-20T03:12:04Z

Refusal refuse(std::string_view parameter, std::string_view message) {
  return Refusal(invalid_parameter(parameter, message));
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Discarded where `text` is no JSON. To nlohmann's parser a NUL is the end of the text, to Varlink of the message.
Json parse_bounded(std::string_view text) {
  if (nests_too_deep(text) || text.find('\0') != std::string_view::npos) return {Json::value_t::discarded};
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The parameters of a call; every key must be one of `known`.
CallResult<Json> parse_known(std::string_view parameters, std::initializer_list<std::string_view> known) {
  Json json = parse_bounded(parameters);
  if (!json.is_object()) return refuse("parameters", "the parameters must be a JSON object");
  for (const auto& entry : json.items()) {
    if (std::find(known.begin(), known.end(), entry.key()) != known.end()) continue;
    return refuse(entry.key(), known.size() == 0 ? std::string("this method takes no parameters")
                                                 : fmt::format("there is no parameter '{}'; there are: {}", entry.key(),
                                                               fmt::join(known, ", ")));
  }
  return json;
}

const Json* find(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

CallResult<std::optional<std::string>> read_text(const Json& json, const char* key) {
  const Json* value = find(json, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return refuse(key, fmt::format("'{}' must be a string", key));
  return value->get<std::string>();
}

CallResult<std::optional<std::uint64_t>> read_usec(const Json& json, const char* key, std::uint64_t max_usec) {
  const Json* value = find(json, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned())
    return refuse(key, fmt::format("'{}' must be a whole number of microseconds, not negative", key));
  const auto usec = value->get<std::uint64_t>();
  if (usec > max_usec) return refuse(key, fmt::format("'{}' may be at most {} s", key, max_usec / 1'000'000));
  return usec;
}

CallResult<std::optional<std::string>> read_time(const Json& json, const char* key) {
  auto text = read_text(json, key);
  if (!text || !*text) return text;
  const std::string& time = **text;
  const bool has_zone = time.size() >= kMinRfc3339Bytes && time.size() <= 40 && time[10] == 'T' &&
                        (time.back() == 'Z' || time.find_first_of("+-", 19) != std::string::npos);
  if (!has_zone || !parse_time(time, wall_now()))
    return refuse(key, fmt::format("'{}' must be a time as RFC 3339 has it, such as 2026-11-20T03:12:04Z", key));
  return text;
}

// Rules between the parameters.
CallResult<void> check_window(const SnapshotParameters& parameters) {
  if (parameters.last_usec && *parameters.last_usec == 0) return refuse("last_usec", "'last_usec' must be more than 0");
  if (parameters.last_usec && (parameters.since || parameters.until))
    return refuse("last_usec", "give 'last_usec' or 'since', not both");
  if (parameters.until && !parameters.since) return refuse("until", "'until' needs 'since'");
  if (parameters.until) {
    const WallTime now = wall_now();
    const auto since = parse_time(*parameters.since, now);
    const auto until = parse_time(*parameters.until, now);
    if (!since || !until || *until <= *since) return refuse("until", "'until' must be later than 'since'");
  }
  return {};
}

std::string wrapped(std::string_view key, std::string_view json) { return fmt::format(R"({{"{}":{}}})", key, json); }

}  // namespace

CallResult<SnapshotParameters> parse_snapshot_parameters(std::string_view parameters) {
  auto json = parse_known(parameters, {"reason", "last_usec", "since", "until", "post_usec", "capture"});
  if (!json) return Refusal(json.error());
  auto reason = read_text(*json, "reason");
  if (!reason) return Refusal(reason.error());
  auto last = read_usec(*json, "last_usec", kMaxLastUsec);
  if (!last) return Refusal(last.error());
  auto since = read_time(*json, "since");
  if (!since) return Refusal(since.error());
  auto until = read_time(*json, "until");
  if (!until) return Refusal(until.error());
  auto post = read_usec(*json, "post_usec", kMaxPostUsec);
  if (!post) return Refusal(post.error());
  auto capture = read_text(*json, "capture");
  if (!capture) return Refusal(capture.error());

  SnapshotParameters out{reason->value_or(""), *last, *since, *until, *post, *capture};
  if (out.reason.size() > kMaxReasonBytes)
    return refuse("reason",
                  fmt::format("'reason' may have at most {} bytes, not {}", kMaxReasonBytes, out.reason.size()));
  if (!is_printable(out.reason))
    return refuse(
        "reason",
        "'reason' has characters that steer a terminal (a newline, an escape, a change of direction); it must "
        "be one line of text");
  if (out.capture && *out.capture != "pause" && *out.capture != "live")
    return refuse("capture", "'capture' must be 'pause' or 'live'");
  if (auto checked = check_window(out); !checked) return Refusal(checked.error());
  return out;
}

std::string to_json(const SnapshotParameters& parameters) {
  Json json = Json::object();
  if (!parameters.reason.empty()) json["reason"] = parameters.reason;
  if (parameters.last_usec) json["last_usec"] = *parameters.last_usec;
  if (parameters.since) json["since"] = *parameters.since;
  if (parameters.until) json["until"] = *parameters.until;
  if (parameters.post_usec) json["post_usec"] = *parameters.post_usec;
  if (parameters.capture) json["capture"] = *parameters.capture;
  return dump(json);
}

namespace {

CallResult<std::string> read_id(const Json& json) {
  auto id = read_text(json, "id");
  if (!id) return Refusal(id.error());
  const std::string text = id->value_or("");
  const bool decimal = !text.empty() && text.size() <= kMaxIdDigits &&
                       std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!decimal && text != "latest")
    return refuse("id", R"('id' must be the text of a snapshot's number, such as "7", or "latest")");
  return text;
}

CallResult<bool> read_flag(const Json& json, const char* key) {
  const Json* value = find(json, key);
  if (value == nullptr || !value->is_boolean()) return refuse(key, fmt::format("'{}' must be true or false", key));
  return value->get<bool>();
}

}  // namespace

CallResult<std::string> parse_id_parameter(std::string_view parameters) {
  auto json = parse_known(parameters, {"id"});
  if (!json) return Refusal(json.error());
  return read_id(*json);
}

CallResult<PinParameters> parse_pin_parameters(std::string_view parameters) {
  auto json = parse_known(parameters, {"id", "pinned"});
  if (!json) return Refusal(json.error());
  auto id = read_id(*json);
  if (!id) return Refusal(id.error());
  const auto pinned = read_flag(*json, "pinned");
  if (!pinned) return Refusal(pinned.error());
  return PinParameters{std::move(*id), *pinned};
}

std::string_view to_string(SnapshotFile file) {
  switch (file) {
    case SnapshotFile::data:
      return "data";
    case SnapshotFile::sidecar:
      return "sidecar";
    case SnapshotFile::kallsyms:
      return "kallsyms";
  }
  return "data";
}

CallResult<ReadParameters> parse_read_parameters(std::string_view parameters) {
  auto json = parse_known(parameters, {"id", "what"});
  if (!json) return Refusal(json.error());
  auto id = read_id(*json);
  if (!id) return Refusal(id.error());
  const auto what = read_text(*json, "what");
  if (!what) return Refusal(what.error());
  for (const SnapshotFile file : {SnapshotFile::data, SnapshotFile::sidecar, SnapshotFile::kallsyms})
    if (what->value_or("data") == to_string(file)) return ReadParameters{std::move(*id), file};
  return refuse("what", "'what' must be 'data', 'sidecar' or 'kallsyms'");
}

std::string to_json(const ReadParameters& parameters) {
  Json json{{"id", parameters.id}};
  if (parameters.file != SnapshotFile::data) json["what"] = to_string(parameters.file);
  return dump(json);
}

CallResult<bool> parse_recording_parameter(std::string_view parameters) {
  auto json = parse_known(parameters, {"recording"});
  if (!json) return Refusal(json.error());
  return read_flag(*json, "recording");
}

CallResult<bool> parse_vacuum_parameter(std::string_view parameters) {
  auto json = parse_known(parameters, {"dry_run"});
  if (!json) return Refusal(json.error());
  if (find(*json, "dry_run") == nullptr) return false;
  return read_flag(*json, "dry_run");
}

CallResult<void> parse_no_parameters(std::string_view parameters) {
  if (auto json = parse_known(parameters, {}); !json) return Refusal(json.error());
  return {};
}

CallResult<std::string> parse_interface_parameter(std::string_view parameters) {
  auto json = parse_known(parameters, {"interface"});
  if (!json) return Refusal(json.error());
  auto interface = read_text(*json, "interface");
  if (!interface) return Refusal(interface.error());
  if (!*interface) return refuse("interface", "'interface' is missing: name the interface to describe");
  return **interface;
}

std::string snapshot_reply(std::string_view object) { return wrapped("snapshot", object); }
std::string snapshots_reply(std::string_view array) { return wrapped("snapshots", array); }
std::string status_reply(std::string_view object) { return wrapped("status", object); }

std::string vacuum_reply(std::string_view removed, std::uint64_t freed_bytes,
                         const std::vector<std::string>& warnings) {
  return fmt::format(R"({{"removed":{},"freed_bytes":{},"warnings":{}}})", removed, freed_bytes, to_json(warnings));
}

std::string progress_reply(std::string_view step, unsigned percent) {
  return dump({{"progress", {{"step", step}, {"percent", std::min(percent, 100U)}}}});
}

std::optional<SnapshotProgress> parse_progress(std::string_view parameters) {
  const Json json = parse_bounded(parameters);
  const Json* progress = json.is_object() ? find(json, "progress") : nullptr;
  if (progress == nullptr || !progress->is_object()) return std::nullopt;
  const Json* step = find(*progress, "step");
  const Json* percent = find(*progress, "percent");
  if (step == nullptr || !step->is_string() || percent == nullptr || !percent->is_number_unsigned())
    return std::nullopt;
  const auto value = std::min<std::uint64_t>(percent->get<std::uint64_t>(), 100);
  return SnapshotProgress{step->get<std::string>(), static_cast<unsigned>(value)};
}

std::string read_reply(const ReadReply& reply) {
  return dump({{"size_bytes", reply.size_bytes}, {"name", reply.name}});
}

std::optional<ReadReply> parse_read_reply(std::string_view parameters) {
  const Json json = parse_bounded(parameters);
  if (!json.is_object()) return std::nullopt;
  const Json* size = find(json, "size_bytes");
  const Json* name = find(json, "name");
  if (size == nullptr || !size->is_number_unsigned() || name == nullptr || !name->is_string()) return std::nullopt;
  return ReadReply{size->get<std::uint64_t>(), name->get<std::string>()};
}

std::string info_reply(std::string_view version) {
  return dump({{"vendor", "flightd"},
               {"product", "flightd, an always-on flight recorder"},
               {"version", version},
               {"url", ""},
               {"interfaces", Json::array({"org.varlink.service", kInterface})}});
}

std::string description_reply(std::string_view idl) { return wrapped("description", dump(Json(idl))); }

std::string member(std::string_view parameters, std::string_view key) {
  const Json json = parse_bounded(parameters);
  if (!json.is_object()) return "";
  const auto found = json.find(std::string(key));
  return found == json.end() ? std::string() : dump(*found);
}

bool is_json_object(std::string_view text) { return parse_bounded(text).is_object(); }

std::string error_line(std::string_view name, std::string_view message) {
  return dump({{"error", name}, {"message", message}});
}

std::string to_json(const std::vector<std::string>& texts) { return dump(Json(texts)); }

std::vector<std::string> parse_texts(std::string_view array) {
  std::vector<std::string> out;
  for (const Json& item : parse_bounded(array))
    if (item.is_string()) out.push_back(item.get<std::string>());
  return out;
}

std::string indented(std::string_view text) {
  const Json json = parse_bounded(text);
  if (json.is_discarded()) return std::string(text);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flight
