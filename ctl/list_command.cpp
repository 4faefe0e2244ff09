// SPDX-License-Identifier: Apache-2.0
// flightctl list: the store's snapshots as a table, the oldest first.
#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/catalogue.hpp"

namespace flight::ctl {
namespace {

std::string rows_text(const std::vector<CatalogueRow>& rows) {
  std::vector<std::vector<std::string>> lines{
      {"TIME", "ID", "TRIGGER", "SECONDS", "SAMPLES", "SIZE", "STATE", "REASON"}};
  for (const CatalogueRow& row : rows)
    lines.push_back({local_time(row.time), printable(row.id), printable(row.trigger),
                     fmt::format("{:.1f}", row.seconds), std::to_string(row.samples), format_bytes(row.size_bytes),
                     std::string(to_string(row.state)) + (row.pinned ? " pinned" : ""), printable(row.reason)});
  return table(lines, {1, 3, 4, 5});
}

}  // namespace

int run_list(const Common& common) {
  const auto text = ask(common, "ListSnapshots", "{}", "snapshots");
  if (!text) return complain(common, text.error());
  if (common.json) return print(stdout, indented(*text));
  const auto rows = parse_rows(*text);
  if (!rows) return complain(common, kBadReply, rows.error().what, kRefused);
  if (rows->empty()) return print(stderr, "There are no snapshots yet; `flightctl snapshot` takes one.\n");
  return print(stdout, rows_text(*rows));
}

}  // namespace flight::ctl
