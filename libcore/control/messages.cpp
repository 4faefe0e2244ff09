// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/messages.hpp"

#include <algorithm>

#include "libcore/json/parse.hpp"

namespace flight {
namespace {

using json::Object;

// A list of 10,000 snapshots is 4 MB: it is copied once.
std::string wrapped(std::string_view key, std::string_view json) {
  std::string out;
  out.reserve(json.size() + key.size() + 5);
  out.append(R"({")").append(key).append(R"(":)").append(json).append("}");
  return out;
}

Object progress_of(std::string_view step, unsigned percent) {
  return Object{{"step", step}, {"percent", std::min(percent, 100U)}};
}

}  // namespace

std::string to_json(const SnapshotParameters& parameters) {
  Object object;
  if (!parameters.reason.empty()) object.add("reason", parameters.reason);
  if (parameters.last_usec) object.add("last_usec", *parameters.last_usec);
  if (parameters.since) object.add("since", *parameters.since);
  if (parameters.until) object.add("until", *parameters.until);
  if (parameters.post_usec) object.add("post_usec", *parameters.post_usec);
  if (parameters.capture) object.add("capture", *parameters.capture);
  return json::dump(object);
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
  Object object{{"id", parameters.id}};
  if (parameters.file != SnapshotFile::data) object.add("what", to_string(parameters.file));
  return json::dump(object);
}

std::string snapshot_reply(std::string_view object) { return wrapped("snapshot", object); }
std::string snapshots_reply(std::string_view array) { return wrapped("snapshots", array); }
std::string status_reply(std::string_view object) { return wrapped("status", object); }

std::string vacuum_reply(std::string_view removed, std::uint64_t freed_bytes,
                         const std::vector<std::string>& warnings) {
  return fmt::format(R"({{"removed":{},"freed_bytes":{},"warnings":{}}})", removed, freed_bytes, to_json(warnings));
}

std::string vacuum_progress_reply(std::string_view step, unsigned percent) {
  return json::dump(Object{{"removed", json::Array()},
                           {"freed_bytes", 0U},
                           {"warnings", json::Array()},
                           {"progress", progress_of(step, percent)}});
}

std::string progress_reply(std::string_view step, unsigned percent) {
  return json::dump(Object{{"progress", progress_of(step, percent)}});
}

std::optional<SnapshotProgress> parse_progress(std::string_view parameters) {
  const json::Value value = json::parse_or_null(parameters);
  const std::string* step = value.at("progress").at("step").text();
  const auto percent = value.at("progress").at("percent").whole<std::uint64_t>();
  if (step == nullptr || !percent) return std::nullopt;
  return SnapshotProgress{*step, static_cast<unsigned>(std::min<std::uint64_t>(*percent, 100))};
}

std::string read_reply(const ReadReply& reply) {
  return json::dump(Object{{"size_bytes", reply.size_bytes}, {"name", reply.name}});
}

std::optional<ReadReply> parse_read_reply(std::string_view parameters) {
  const json::Value value = json::parse_or_null(parameters);
  const auto size = value.at("size_bytes").whole<std::uint64_t>();
  const std::string* name = value.at("name").text();
  if (!size || name == nullptr) return std::nullopt;
  return ReadReply{*size, *name};
}

std::string info_reply(std::string_view version) {
  return json::dump(Object{{"vendor", "flightd"},
                           {"product", "flightd, an always-on flight recorder"},
                           {"version", version},
                           {"url", ""},
                           {"interfaces", std::vector<std::string_view>{"org.varlink.service", kInterface}}});
}

std::string description_reply(std::string_view idl) { return wrapped("description", json::dump_text(idl)); }

std::string member(std::string_view parameters, std::string_view key) {
  const json::Value value = json::parse_or_null(parameters);
  const json::Value* found = value.find(key);
  return found == nullptr ? std::string() : json::dump(*found);
}

bool is_json_object(std::string_view text) { return json::parse_or_null(text).is_object(); }

std::string error_line(std::string_view name, std::string_view message) {
  return json::dump(Object{{"error", name}, {"message", message}});
}

std::string to_json(const std::vector<std::string>& texts) { return json::dump(json::Value(texts)); }

std::vector<std::string> parse_texts(std::string_view array) {
  std::vector<std::string> out;
  const json::Value value = json::parse_or_null(array);
  for (const json::Value& item : value.items())
    if (item.text() != nullptr) out.push_back(*item.text());
  return out;
}

std::string indented(std::string_view text) {
  const auto value = json::parse(text);
  return value ? json::dump(*value, 2) + "\n" : std::string(text);
}

}  // namespace flight
