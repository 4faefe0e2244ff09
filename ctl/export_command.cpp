// SPDX-License-Identifier: Apache-2.0
// flightctl export [ID] --format folded [--event EVENT] [-o FILE|-] [--force]: the stacks of one snapshot, for other
// viewers.
#include <algorithm>
#include <span>
#include <utility>

#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/files.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/json/value.hpp"
#include "libcore/profile/folded.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {
namespace {

constexpr std::string_view kFoldedSuffix = ".folded";

// The snapshot's name in the current directory.
Result<std::string> place_of_export(const Sidecar& sidecar, const OutputFile& target) {
  if (!target.path.empty()) return target.path;
  const auto name = parse_snapshot_name(sidecar.path.substr(sidecar.path.rfind('/') + 1));
  if (!name)
    return flight::fail(std::errc::bad_message,
                        "flightd calls the snapshot '{}', which is not a snapshot name; use -o FILE",
                        printable(sidecar.path));
  return own_place(name->stem() + std::string(kFoldedSuffix), target);
}

// What the reader of the file should know, for people.
std::vector<std::string> notes_of(const Profiled& snapshot, const SnapshotProfile& profile, std::size_t event,
                                  const ExportOptions& options) {
  std::vector<std::string> out;
  const auto totals = profile.tree.totals();
  if (totals[profile.events[event].root].all.samples == 0) out.emplace_back("the snapshot has no samples of the event");
  std::string others;
  for (std::size_t i = 0; i < profile.events.size(); ++i)
    if (i != event && totals[profile.events[i].root].all.samples > 0)
      others += (others.empty() ? "" : ", ") + printable(profile.events[i].name);
  if (!others.empty())
    out.push_back(fmt::format("only the samples of {} are written; {} the others, which have samples, too: {}",
                              printable(profile.events[event].name),
                              options.event.empty() ? "--event selects one of" : "--event also fits", others));
  for (std::string& warning : profile.warnings()) out.push_back(std::move(warning));
  if (!snapshot.no_kallsyms.empty()) out.push_back("kernel symbols: " + snapshot.no_kallsyms);
  return out;
}

Result<void> write_export(const std::string& where, const SnapshotProfile& profile, std::size_t event) {
  return write_target(where, [&](int to) {
    return write_folded(profile, event, [&](std::string_view lines) -> Result<void> {
      if (auto written = write_patiently(to, std::as_bytes(std::span(lines.data(), lines.size()))); !written)
        return wrap(written.error(), "{}", where == "-" ? "stdout" : where);
      return {};
    });
  });
}

int print_result(const Common& common, const std::string& where, const SnapshotProfile& profile, std::size_t event,
                 const std::vector<std::string>& notes) {
  if (!common.json) {
    for (const std::string& note : notes) static_cast<void>(print(stderr, fmt::format("flightctl: {}\n", note)));
    return where == "-" ? kDone : print(stdout, printable(where) + "\n");
  }
  if (where == "-") return kDone;
  const auto totals = profile.tree.totals();
  json::Object out{{"path", where},
                   {"event", profile.events[event].name},
                   {"samples", totals[profile.events[event].root].all.samples},
                   {"notes", notes}};
  return print(stdout, json::dump(out, 2) + "\n");
}

}  // namespace

int run_export(const Common& common, const ExportOptions& options) {
  const auto failed = [&common](const Error& error) { return complain(common, kOutputFailed, error.what, kRefused); };
  if (const auto place = check_place(options.output); !place) return failed(place.error());
  const auto snapshot = open_profiled(common, options.id);
  if (!snapshot) return complain(common, snapshot.error());
  const auto where = place_of_export(snapshot->sidecar, options.output);
  if (!where) return failed(where.error());
  ProfileOrder order;
  order.only.event = options.event;
  order.kallsyms = snapshot->kallsyms;
  if (snapshot->sidecar.compared) order.compared = *snapshot->sidecar.compared;
  const auto profile = SnapshotProfile::read(snapshot->data, order);
  if (!profile) return complain_of_profile(common, profile.error());
  const std::size_t event = main_event(*profile);
  if (auto written = write_export(*where, *profile, event); !written) return failed(written.error());
  return print_result(common, *where, *profile, event, notes_of(*snapshot, *profile, event, options));
}

}  // namespace flight::ctl
