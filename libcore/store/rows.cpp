// SPDX-License-Identifier: Apache-2.0
// The rows of a list, between daemon and client.
#include <nlohmann/json.hpp>

#include "libcore/store/catalogue.hpp"
#include "libcore/store/json_read.hpp"

namespace flight {
namespace {

using Json = nlohmann::ordered_json;

void read_state(const Members& in, SnapshotState& out) {
  std::string word(to_string(out));
  in.read("state", word);
  for (const SnapshotState known : {SnapshotState::present, SnapshotState::missing, SnapshotState::orphan})
    if (word == to_string(known)) out = known;
  if (word != to_string(out)) in.refuse("state", "present, missing or orphan");
}

}  // namespace

std::string_view to_string(SnapshotState state) {
  switch (state) {
    case SnapshotState::present:
      return "present";
    case SnapshotState::missing:
      return "missing";
    case SnapshotState::orphan:
      return "orphan";
  }
  return "present";
}

std::string to_json(const CatalogueRow& row) {
  const Json object{{"id", row.id},           {"path", row.path},
                    {"time", row.time},       {"trigger", row.trigger},
                    {"reason", row.reason},   {"size_bytes", row.size_bytes},
                    {"samples", row.samples}, {"seconds", finite(row.seconds)},
                    {"pinned", row.pinned},   {"state", to_string(row.state)}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const std::vector<CatalogueRow>& rows) {
  std::string text = "[";
  for (const CatalogueRow& row : rows) {
    if (text.size() > 1) text += ',';
    text += to_json(row);
  }
  return text + "]";
}

Result<std::vector<CatalogueRow>> parse_rows(std::string_view text) {
  const auto json = JsonText::parse(text, kMaxRowsBytes);
  if (!json) return wrap(json.error(), "list of snapshots");
  std::vector<CatalogueRow> rows;
  auto error = json->read_array([&](const Members& in) {
    CatalogueRow& row = rows.emplace_back();
    in.need("id", row.id);
    in.read("path", row.path);
    in.read("time", row.time);
    in.read("trigger", row.trigger);
    in.read("reason", row.reason);
    in.read("size_bytes", row.size_bytes);
    in.read("samples", row.samples);
    in.read("seconds", row.seconds);
    in.read("pinned", row.pinned);
    read_state(in, row.state);
  });
  if (error) return wrap(std::move(*error), "list of snapshots");
  return rows;
}

}  // namespace flight
