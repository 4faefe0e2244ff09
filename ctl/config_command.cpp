// SPDX-License-Identifier: Apache-2.0
// flightctl config: what is in force, where each value was written, and what memory that takes.
#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "libcore/base/units.hpp"
#include "libcore/control/config_report.hpp"

namespace flight::ctl {
namespace {

std::string values_text(const ConfigReport& report) {
  std::vector<std::vector<std::string>> rows{{"KEY", "VALUE", "FROM"}};
  for (const ReportedValue& value : report.values)
    rows.push_back({printable(value.path), printable(value.value),
                    value.line > 0 ? fmt::format("{}:{}", printable(value.file), value.line) : printable(value.file)});
  return table(rows, {});
}

std::string share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "?" : fmt::format("{:.2f} %", static_cast<double>(part) * 100 / static_cast<double>(whole));
}

std::string memory_text(const ConfigMemory& memory) {
  const std::string max =
      fmt::format("{} ({} of RAM)", format_bytes(memory.max_bytes), share(memory.max_bytes, memory.ram_bytes));
  return key_values({{"rings", format_bytes(memory.ring_bytes)},
                     {"staging", format_bytes(memory.staging_bytes)},
                     {"sideband", format_bytes(memory.sideband_bytes)},
                     {"triggers", format_bytes(memory.trigger_bytes)},
                     {"memory", fmt::format("{}, {} of RAM; memory.max is {}", format_bytes(memory.sum_bytes),
                                            share(memory.sum_bytes, memory.ram_bytes), max)}});
}

}  // namespace

int run_config(const Common& common) {
  const auto text = ask_whole(common, "GetConfig", "{}");
  if (!text) return complain(common, text.error());
  if (common.json) return print(stdout, indented(*text));
  const auto report = parse_config_report(*text);
  if (!report) return complain(common, kBadReply, report.error().what, kRefused);
  return print(stdout,
               values_text(*report) + "\n" + memory_text(report->memory) + key_values({{"digest", report->digest}}));
}

}  // namespace flight::ctl
