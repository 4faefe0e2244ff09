// SPDX-License-Identifier: Apache-2.0
// flightctl vacuum [--dry-run]: deletes what is over the store's budget now, and lists it.
#include <cstdlib>

#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/vacuum.hpp"

namespace flight::ctl {
namespace {

std::string reason_text(VacuumReason reason) {
  if (reason == VacuumReason::missing) return "its data file is missing";
  return fmt::format("store.{}", to_string(reason));
}

Answer<std::string> ask_with_progress(const Common& common, bool dry_run) {
  const ProgressLine line(!common.json);
  const OnProgress show = [&line](const SnapshotProgress& progress) {
    line.show(fmt::format("{} {}%", printable(progress.step), progress.percent));
  };
  return ask_whole(common, "Vacuum", dry_run ? R"({"dry_run":true})" : "{}", common.json ? OnProgress() : show);
}

}  // namespace

int run_vacuum(const Common& common, bool dry_run) {
  const auto reply = ask_with_progress(common, dry_run);
  if (!reply) return complain(common, reply.error());
  if (common.json) return print(stdout, indented(*reply));
  const auto removed = parse_vacuumed(member(*reply, "removed"));
  if (!removed) return complain(common, kBadReply, removed.error().what, kRefused);
  std::string text;
  std::uint64_t bytes = 0;
  for (const VacuumedSnapshot& one : *removed) {
    text += fmt::format("{} {} ({}, {})\n", dry_run ? "Would delete" : "Deleted", printable(one.path),
                        format_bytes(one.bytes), reason_text(one.reason));
    bytes += one.bytes;
  }
  const std::vector<std::string> warnings = parse_texts(member(*reply, "warnings"));
  for (const std::string& warning : warnings) text += printable(warning) + '\n';
  if (removed->empty() && warnings.empty())
    text += "Nothing is over the store's budget.\n";
  else if (removed->empty())  // the warnings say whether something is over it
    text += dry_run ? "Nothing would be deleted.\n" : "Nothing was deleted.\n";
  else
    text += fmt::format("{} {} snapshot{}, {}.\n", dry_run ? "Would free the space of" : "Freed the space of",
                        removed->size(), removed->size() == 1 ? "" : "s", format_bytes(bytes));
  return print(stdout, page_text(text));
}

}  // namespace flight::ctl
