// SPDX-License-Identifier: Apache-2.0
// The rows of a list, between daemon and client.
#include "libcore/base/finite.hpp"
#include "libcore/json/parse.hpp"
#include "libcore/json/reader.hpp"
#include "libcore/store/catalogue.hpp"

namespace flight {
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
  json::Object object{{"id", row.id},           {"path", row.path},
                      {"time", row.time},       {"trigger", row.trigger},
                      {"reason", row.reason},   {"size_bytes", row.size_bytes},
                      {"samples", row.samples}, {"seconds", finite(row.seconds)},
                      {"pinned", row.pinned},   {"state", to_string(row.state)}};
  if (!row.units.empty()) object.add("units", row.units);
  if (row.record) object.add("record", json_of(*row.record));
  return json::dump(object);
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
  const auto value = json::parse(text, {.max_bytes = kMaxRowsBytes});
  if (!value) return wrap(value.error(), "list of snapshots");
  std::vector<CatalogueRow> rows;
  const auto read = json::read_list(*value, json::Missing::keeps_default, [&](const json::Reader& in) {
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
    in.values("units", row.units);
    in.object("record", [&](const json::Reader& m) { read_record(m, row.record.emplace()); });
    in.word("state", {SnapshotState::present, SnapshotState::missing, SnapshotState::orphan}, row.state);
  });
  if (!read) return wrap(read.error(), "list of snapshots");
  return rows;
}

}  // namespace flight
