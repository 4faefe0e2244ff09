// SPDX-License-Identifier: Apache-2.0
// flightctl config [KEY]: the values in force, the file of each, and the memory they need.
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/nearest_word.hpp"
#include "libcore/base/units.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/config/renamed_keys.hpp"
#include "libcore/control/config_report.hpp"

namespace flight::ctl {
namespace {

std::string values_text(const std::vector<ReportedValue>& values) {
  std::vector<std::vector<std::string>> rows{{"KEY", "VALUE", "FROM"}};
  for (const ReportedValue& value : values)
    rows.push_back({printable(value.path), printable(value.value), file_line(value.file, value.line)});
  return known_columns(STDOUT_FILENO) ? Screen::here().table(std::move(rows), {}, {2, 1, 0}) : table(rows, {});
}

std::string share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "?" : fmt::format("{:.2f} %", static_cast<double>(part) * 100 / static_cast<double>(whole));
}

std::string memory_text(const ConfigMemory& memory) {
  const std::string max =
      fmt::format("{} ({} of RAM)", format_bytes(memory.max_bytes), share(memory.max_bytes, memory.ram_bytes));
  const std::string cgroup =
      memory.cgroup_max_bytes ? fmt::format("; the cgroup's limit is {}", format_bytes(*memory.cgroup_max_bytes)) : "";
  return page_facts({{"rings", format_bytes(memory.ring_bytes)},
                     {"staging", format_bytes(memory.staging_bytes)},
                     {"sideband", format_bytes(memory.sideband_bytes)},
                     {"triggers", format_bytes(memory.trigger_bytes)},
                     {"programs", "at most " + format_bytes(memory.program_bytes)},
                     {"memory", fmt::format("{}, {} of RAM; memory.max is {}{}", format_bytes(memory.sum_bytes),
                                            share(memory.sum_bytes, memory.ram_bytes), max, cgroup)}});
}

bool is_below(const std::string& path, const std::string& key) {
  return path == key || (path.starts_with(key) && (path[key.size()] == '.' || path[key.size()] == '['));
}

std::size_t depth_of(std::string_view path) {
  return static_cast<std::size_t>(std::count_if(path.begin(), path.end(), [](char c) { return c == '.' || c == '['; }));
}

// True if the value is from the program, the shipped file or a profile, and not from the administrator.
bool is_default(const ReportedValue& value) {
  return value.line == 0 || value.file.starts_with(ConfigFolders{}.lib + "/");
}

// Only the values that somebody has set, in `most` lines, and how to see the others.
std::string set_values_text(const ConfigReport& report, std::size_t most) {
  std::vector<ReportedValue> set = report.values;
  std::erase_if(set, is_default);
  const std::size_t defaults = report.values.size() - set.size();
  const std::string rest = Screen::here().wrapped(
      fmt::format("{}; `flightctl config --all` shows each value, `flightctl config store` those of store.",
                  defaults == 1 ? "1 value is the default" : fmt::format("{} values are the defaults", defaults)),
      0);
  const std::size_t around = count_lines(rest) + 3;  // two empty lines, and the head of the table
  const std::size_t rows = std::max<std::size_t>(most - std::min(most, around), 1);
  std::string more;
  if (set.size() > rows) {
    more = fmt::format("and {} more\n", set.size() - rows + 1);
    set.resize(rows - 1);
  }
  return (set.empty() ? more : values_text(set) + more + "\n") + rest + "\n";
}

// The values and sections with as many parts as the key.
std::vector<std::string_view> keys_as_deep(const std::vector<ReportedValue>& values, const std::string& key) {
  std::vector<std::string_view> out;
  for (const ReportedValue& value : values) {
    std::string_view path = value.path;
    while (depth_of(path) > depth_of(key)) path = path.substr(0, path.find_last_of(".["));
    if (depth_of(path) == depth_of(key)) out.push_back(path);
  }
  return out;
}

std::string no_such_key(const std::vector<ReportedValue>& values, const std::string& key) {
  const std::string renamed = renamed_text(key);
  const std::string_view meant = nearest_word(key, keys_as_deep(values, key));
  return fmt::format("the configuration has no value '{}'{} `flightctl config --all` shows all", printable(key),
                     !renamed.empty() ? fmt::format(": it was {};", renamed)
                     : meant.empty()  ? ";"
                                      : fmt::format(": did you mean '{}'?", printable(meant)));
}

std::string value_line(const ReportedValue& value) {
  return fmt::format("{} = {}  ({})\n", printable(value.path), printable(value.value),
                     file_line(value.file, value.line));
}

// On a terminal as many values as fit, and how to see the others.
std::string section_text(const std::vector<ReportedValue>& values, const std::string& key, bool all) {
  const Screen screen = Screen::here();
  const auto most = all ? std::nullopt : page_lines();
  std::string out, shortened;
  for (std::size_t i = 0; i < values.size(); ++i) {
    out += value_line(values[i]);
    const std::string rest = screen.wrapped(
        fmt::format("and {} more: `flightctl config --all {}` shows all.", values.size() - i - 1, printable(key)), 0);
    if (most && count_rows(out, screen.width()) + count_lines(rest) <= *most) shortened = out + rest;
  }
  return !most || shortened.empty() || count_rows(out, screen.width()) <= *most ? out : shortened;
}

int print_values(const Common& common, std::vector<ReportedValue> values, const std::string& key, bool all) {
  std::string wrong = no_such_key(values, key);
  std::erase_if(values, [&](const ReportedValue& value) { return !is_below(value.path, key); });
  if (values.empty()) return complain(common, kNoSuchKey, wrong, kRefused);
  if (common.json) return print(stdout, indented(to_json(values)));
  return print(stdout, section_text(values, key, all));
}

}  // namespace

int run_config(const Common& common, const std::string& key, bool all) {
  const auto text = ask_whole(common, "GetConfig", "{}");
  if (!text) return complain(common, text.error());
  if (common.json && key.empty()) return print(stdout, indented(*text));
  auto report = parse_config_report(*text);
  if (!report) return complain(common, kBadReply, report.error().what, kRefused);
  if (!key.empty()) return print_values(common, report->values, key, all);
  std::string warnings;
  for (const std::string& warning : report->warnings)
    warnings += page_text(fmt::format("warning: {}\n", printable(warning)));
  const std::string end = memory_text(report->memory) + page_facts({{"digest", report->digest}});
  std::string page = warnings + values_text(report->values) + "\n" + end;
  const auto most = all ? std::nullopt : page_lines();
  if (most && count_lines(page) > *most)
    page = warnings + set_values_text(*report, *most - std::min(*most, count_lines(warnings + end))) + end;
  return print(stdout, page);
}

}  // namespace flight::ctl
