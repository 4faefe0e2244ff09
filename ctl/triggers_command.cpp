// SPDX-License-Identifier: Apache-2.0
// flightctl triggers [enable|disable|test NAME], flightctl fire NAME: automatic and external triggers.
#include <cmath>
#include <utility>

#include "ctl/daemon_call.hpp"
#include "ctl/option_names.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"
#include "libcore/control/trigger_messages.hpp"

namespace flight::ctl {
namespace {

std::string when(const std::optional<std::string>& rfc3339) { return rfc3339 ? local_time(*rfc3339) : "never"; }

std::string rows_text(const std::vector<ListedTrigger>& rows) {
  std::vector<std::vector<std::string>> lines{
      {"NAME", "STATE", "VALUE", "LAST FIRED", "SNAPSHOT", "FIRED", "SUPPRESSED", "CONDITION"}};
  for (const ListedTrigger& row : rows)
    lines.push_back({printable(row.name), printable(row.state), row.value ? fmt::format("{:.1f}", *row.value) : "-",
                     when(row.last_fired), row.last_snapshot ? printable(*row.last_snapshot) : "-",
                     std::to_string(row.fired), std::to_string(row.suppressed), printable(row.condition)});
  std::string out = page_table(std::move(lines), {2, 4, 5, 6}, {0, 1, 3});
  for (const ListedTrigger& row : rows)
    if (!row.note.empty()) out += page_text(fmt::format("{}: {}\n", printable(row.name), printable(row.note)));
  return out;
}

int fire(const Common& common, const FireParameters& parameters) {
  // Applies the daemon's own rules, so that a usage error needs no connection.
  if (const auto checked = parse_fire_parameters(to_json(parameters)); !checked)
    return complain(common, kUsageError, with_option_names(checked.error()), kUsage);
  const auto id = ask(common, "FireTrigger", to_json(parameters), "id");
  if (!id) return complain(common, id.error());
  if (common.json) return print(stdout, indented(fmt::format(R"({{"id":{}}})", *id)));
  const std::string number = id->size() > 2 ? id->substr(1, id->size() - 2) : *id;  // without its quotes
  return print(stdout, fmt::format("{}: snapshot {}\n", parameters.name, printable(number)));
}

}  // namespace

int run_triggers(const Common& common) {
  const auto text = ask(common, "ListTriggers", "{}", "triggers");
  if (!text) return complain(common, text.error());
  if (common.json) return print(stdout, indented(*text));
  const auto rows = parse_listed_triggers(*text);
  if (!rows) return complain(common, kBadReply, rows.error().what, kRefused);
  if (rows->empty()) return print(stderr, "The configuration has no triggers.\n");
  return print(stdout, rows_text(*rows));
}

int run_set_trigger(const Common& common, const std::string& name, bool enabled) {
  const auto done = ask(common, "SetTrigger", to_json(SetTriggerParameters{.name = name, .enabled = enabled}), "");
  if (!done) return complain(common, done.error());
  if (common.json) return print(stdout, indented(to_json(SetTriggerParameters{.name = name, .enabled = enabled})));
  return print(stdout, fmt::format("{} {}\n", enabled ? "enabled" : "disabled", name));
}

int run_test_trigger(const Common& common, const std::string& name) {
  return fire(common, {.name = name, .reason = "", .test = true});
}

int run_fire(const Common& common, const std::string& name, const std::string& reason) {
  return fire(common, {.name = name, .reason = reason, .test = false});
}

}  // namespace flight::ctl
