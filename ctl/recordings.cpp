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

Answer<std::vector<CatalogueRow>> all_rows(const Common& common) {
  const auto text = ask(common, "ListSnapshots", "{}", "snapshots");
  if (!text) return tl::unexpected(text.error());
  auto rows = parse_rows(*text);
  if (!rows) return tl::unexpected(Refusal{std::string(kBadReply), rows.error().what});
  return std::move(*rows);
}

std::vector<RecordedPart> parts_of(const std::vector<CatalogueRow>& rows, const std::string& id) {
  std::vector<RecordedPart> out;
  for (const CatalogueRow& row : rows)
    if (row.record && row.record->first == id) out.push_back({.id = row.id, .number = row.record->part});
  if (out.empty()) return std::vector{RecordedPart{.id = id}};
  std::sort(out.begin(), out.end(), [](const RecordedPart& a, const RecordedPart& b) { return a.number < b.number; });
  return out;
}

std::uint64_t number_of_part(const Common& common, const std::string& id) {
  const auto text = ask(common, "DescribeSnapshot", id_parameters(id), "snapshot");
  const auto sidecar = text ? parse_sidecar(*text) : Result<Sidecar>(propagate({}));
  return sidecar && sidecar->record ? sidecar->record->part : 0;
}

std::string part_path(const std::string& path, std::uint64_t number) {
  return number == 1 ? path : fmt::format("{}.{}", path, number);
}

}  // namespace flight::ctl
