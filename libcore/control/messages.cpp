// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/messages.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcore/control/json_depth.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Discarded where `text` is no JSON. To nlohmann's parser a NUL is the end of the text, to Varlink of the message.
Json parse_bounded(std::string_view text) {
  if (nests_too_deep(text) || text.find('\0') != std::string_view::npos) return {Json::value_t::discarded};
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

const Json* find(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

std::string wrapped(std::string_view key, std::string_view json) { return fmt::format(R"({{"{}":{}}})", key, json); }

}  // namespace

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

std::string to_json(const ReadParameters& parameters) {
  Json json{{"id", parameters.id}};
  if (parameters.file != SnapshotFile::data) json["what"] = to_string(parameters.file);
  return dump(json);
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
