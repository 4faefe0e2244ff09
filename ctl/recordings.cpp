// SPDX-License-Identifier: Apache-2.0
#include "ctl/recordings.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "ctl/output.hpp"

namespace flight::ctl {
namespace {

void add_part(ListedRow& to, CatalogueRow part) {
  ++to.parts;
  if (part.record->ended) to.ended = *part.record->ended;
  to.row.samples += part.samples;
  to.row.seconds += part.seconds;
  to.row.size_bytes += part.size_bytes;
  to.row.pinned = to.row.pinned && part.pinned;
  if (part.state != SnapshotState::present) to.row.state = part.state;
  for (std::string& unit : part.units)
    if (std::find(to.row.units.begin(), to.row.units.end(), unit) == to.row.units.end())
      to.row.units.push_back(std::move(unit));
}

}  // namespace

std::vector<ListedRow> join_recordings(std::vector<CatalogueRow> rows) {
  std::vector<ListedRow> out;
  std::map<std::string, std::size_t> recordings;  // by the first part's id, the place in `out`
  for (CatalogueRow& row : rows) {
    if (!row.record) {
      out.push_back({.row = std::move(row), .parts = 0, .ended = {}});
      continue;
    }
    const auto [known, is_new] = recordings.try_emplace(row.record->first, out.size());
    if (!is_new) {
      add_part(out[known->second], std::move(row));
      continue;
    }
    ListedRow one{.row = std::move(row), .parts = 1, .ended = {}};
    one.ended = one.row.record->ended.value_or("");
    one.row.id = one.row.record->first;
    out.push_back(std::move(one));
  }
  return out;
}

Answer<std::vector<std::string>> parts_of(const Common& common, const std::string& id) {
  const auto text = ask(common, "ListSnapshots", "{}", "snapshots");
  if (!text) return tl::unexpected(text.error());
  auto rows = parse_rows(*text);
  if (!rows) return tl::unexpected(Refusal{std::string(kBadReply), rows.error().what});
  std::erase_if(*rows, [&](const CatalogueRow& row) { return !row.record || row.record->first != id; });
  if (rows->empty()) return std::vector{id};
  std::sort(rows->begin(), rows->end(),
            [](const CatalogueRow& a, const CatalogueRow& b) { return a.record->part < b.record->part; });
  std::vector<std::string> out;
  for (const CatalogueRow& row : *rows) out.push_back(row.id);
  return out;
}

std::string part_path(const std::string& path, std::size_t number) {
  return number == 1 ? path : fmt::format("{}.{}", path, number);
}

}  // namespace flight::ctl
