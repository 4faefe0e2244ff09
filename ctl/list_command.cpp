// SPDX-License-Identifier: Apache-2.0
// flightctl list: the store's snapshots and recordings as a table, oldest first; as JSON each part is a row. The
// options select rows as those of coredumpctl do.
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "ctl/recordings.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/catalogue.hpp"

namespace flight::ctl {
namespace {

std::string state_text(const ListedRow& listed) {
  std::string out = std::string(to_string(listed.row.state)) + (listed.row.pinned ? " pinned" : "");
  if (listed.parts > 1) out += ", " + counted(listed.parts, "part");
  if (!listed.ended.empty() && listed.ended != "asked") out += ", " + printable(listed.ended);
  return out;
}

std::string rows_text(const std::vector<ListedRow>& rows) {
  std::vector<std::vector<std::string>> lines{
      {"TIME", "ID", "TRIGGER", "SECONDS", "SAMPLES", "SIZE", "STATE", "REASON"}};
  for (const ListedRow& listed : rows) {
    const CatalogueRow& row = listed.row;
    lines.push_back({local_time(row.time), printable(row.id), printable(row.trigger),
                     fmt::format("{:.1f}", row.seconds), std::to_string(row.samples), format_bytes(row.size_bytes),
                     state_text(listed), printable(row.reason)});
  }
  return page_table(std::move(lines), {1, 3, 4, 5}, {2, 6, 0});
}

// As many rows as fit into `most` lines of the terminal, the newest; then how to see the others.
std::string newest_rows_text(const std::vector<ListedRow>& rows, bool newest_first, std::size_t most) {
  const Screen screen = Screen::here();
  std::size_t count = std::min(rows.size(), most);
  for (;; --count) {
    const auto first = newest_first ? rows.begin() : rows.end() - static_cast<std::ptrdiff_t>(count);
    const std::string table = rows_text({first, first + static_cast<std::ptrdiff_t>(count)});
    const std::string rest = screen.wrapped(
        fmt::format("{} not shown: `flightctl list --all` shows all.", counted(rows.size() - count, "older one")), 0);
    if (count == 1 || count_rows(table, screen.width()) + count_lines(rest) <= most) return table + rest;
  }
}

// RFC 3339 in UTC with milliseconds: the texts compare like the times.
Result<std::string> moment(const std::string& text, WallTime now, std::string_view option) {
  if (text.empty()) return std::string();
  const auto time = parse_time(text, now);
  if (!time) return wrap(time.error(), "{}", option);
  return to_rfc3339(*time);
}

// Selects the rows that match the options.
struct Filter {
  std::string since, until, trigger, unit;

  [[nodiscard]] static Result<Filter> of(const ListOptions& options) {
    const WallTime now = wall_now();
    auto since = moment(options.since, now, "--since");
    if (!since) return propagate(since.error());
    auto until = moment(options.until, now, "--until");
    if (!until) return propagate(until.error());
    if (!since->empty() && !until->empty() && *until < *since)
      return fail(std::errc::invalid_argument, "--until {} is before --since {}", options.until, options.since);
    return Filter{std::move(*since), std::move(*until), options.trigger, options.unit};
  }
  [[nodiscard]] bool takes(const CatalogueRow& row) const {
    return (since.empty() || row.time >= since) && (until.empty() || row.time <= until) &&
           (trigger.empty() || matches(trigger, row.trigger)) && (unit.empty() || takes_unit(row.units));
  }
  // Without a suffix the name means a service, as in systemctl.
  [[nodiscard]] bool takes_unit(const std::vector<std::string>& units) const {
    return std::any_of(units.begin(), units.end(), [this](const std::string& one) {
      return matches(unit, one) || matches(unit + ".service", one);
    });
  }
  // A backslash is an escape of glob(7), or a part of the name: systemd writes web\x2dshop.service for web-shop.
  [[nodiscard]] static bool matches(const std::string& pattern, const std::string& text) {
    return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0 ||
           ::fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
  }
};

const CatalogueRow& row_in(const CatalogueRow& row) { return row; }
const CatalogueRow& row_in(const ListedRow& listed) { return listed.row; }

template <typename Row>
void choose(std::vector<Row>& rows, const Filter& filter, const ListOptions& options) {
  std::erase_if(rows, [&](const Row& row) { return !filter.takes(row_in(row)); });
  if (options.count != 0 && rows.size() > options.count)
    rows.erase(rows.begin(), rows.end() - static_cast<std::ptrdiff_t>(options.count));
  if (options.reverse) std::reverse(rows.begin(), rows.end());
}

// Says why the list is empty. The store's disk may be missing: the status has the reason.
std::string why_empty(const Common& common) {
  const auto text = ask(common, "GetStatus", "{}", "status");
  const auto status = text ? parse_status(*text) : Result<Status>(fail(std::errc::io_error, "no status"));
  if (status)
    for (const std::string& error : status->errors)
      if (error.starts_with("degraded (disk)")) return fmt::format("No snapshot can be read: {}\n", printable(error));
  return "There are no snapshots yet; `flightctl snapshot` takes one.\n";
}

}  // namespace

int run_list(const Common& common, const ListOptions& options, bool all) {
  const auto filter = Filter::of(options);
  if (!filter) return complain(common, kUsageError, filter.error().what, kUsage);
  const auto text = ask(common, "ListSnapshots", "{}", "snapshots");
  if (!text) return complain(common, text.error());
  const bool unfiltered = options.since.empty() && options.until.empty() && options.trigger.empty() &&
                          options.unit.empty() && options.count == 0;
  if (common.json && unfiltered && !options.reverse) return print(stdout, indented(*text));
  auto rows = parse_rows(*text);
  if (!rows) return complain(common, kBadReply, rows.error().what, kRefused);
  if (common.json) {
    choose(*rows, *filter, options);
    return print(stdout, indented(to_json(*rows)));
  }
  if (rows->empty()) return print(stderr, why_empty(common));
  std::vector<ListedRow> lines = join_recordings(std::move(*rows));
  choose(lines, *filter, options);
  if (lines.empty()) return print(stderr, "No snapshot matches; `flightctl list` shows all snapshots.\n");
  const std::string page = rows_text(lines);
  // A number of rows that was asked for is shown.
  const auto most = all || options.count != 0 ? std::nullopt : page_lines();
  const bool fits = !most || count_rows(page, Screen::here().width()) <= *most;
  return print(stdout, fits ? page : newest_rows_text(lines, options.reverse, *most));
}

}  // namespace flight::ctl
