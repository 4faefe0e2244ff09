// SPDX-License-Identifier: Apache-2.0
// flightctl export [ID] --format FORMAT [--event EVENT] [--labels LABELS] [-o FILE|-] [--force]: the stacks of one
// snapshot, for other viewers.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "ctl/export_labels.hpp"
#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/units.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/export/pprof.hpp"
#include "libcore/json/value.hpp"
#include "libcore/profile/folded.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {
namespace {

using WriteBytes = std::function<Result<void>(std::span<const std::byte> bytes)>;

std::string_view suffix_of(const ExportOptions& options) { return options.format == "pprof" ? ".pb.gz" : ".folded"; }

// The snapshot's name in the current directory.
Result<std::string> place_of_export(const Sidecar& sidecar, const ExportOptions& options) {
  if (!options.output.path.empty()) return options.output.path;
  const auto name = parse_snapshot_name(sidecar.path.substr(sidecar.path.rfind('/') + 1));
  if (!name)
    return flight::fail(std::errc::bad_message,
                        "flightd calls the snapshot '{}', which is not a snapshot name; use -o FILE",
                        printable(sidecar.path));
  return own_place(name->stem() + std::string(suffix_of(options)), options.output);
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

PprofFacts pprof_facts(const Profiled& snapshot, const SnapshotProfile& profile,
                       const std::vector<std::string>& notes) {
  const Sidecar& sidecar = snapshot.sidecar;
  const EventTime end_ns = std::max(sidecar.window.begin_ns, sidecar.window.end_ns);
  PprofFacts out{.begin = clock_of(sidecar).wall_at(sidecar.window.begin_ns),
                 .duration = std::chrono::nanoseconds(static_cast<std::int64_t>(end_ns - sidecar.window.begin_ns)),
                 .comments = {fmt::format("snapshot {} of {}: {}", sidecar.id, sidecar.host, sidecar.reason)}};
  if (profile.counts.lost > 0) out.comments.push_back(fmt::format("{} lost", counted(profile.counts.lost, "record")));
  if (!sidecar.holes.empty()) out.comments.push_back(counted(sidecar.holes.size(), "hole"));
  out.comments.insert(out.comments.end(), notes.begin(), notes.end());
  return out;
}

Result<void> write_export(const std::string& where, const std::function<Result<void>(const WriteBytes&)>& make) {
  return write_target(where, [&](int to) {
    return make([&](std::span<const std::byte> bytes) -> Result<void> {
      if (auto written = write_patiently(to, bytes); !written)
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
  const auto labels = options.labels.empty() ? Result<ExtraLabels>() : parse_labels(options.labels);
  if (!labels) return complain(common, kUsageError, labels.error().what, kUsage);
  const auto snapshot = open_profiled(common, options.id);
  if (!snapshot) return complain(common, snapshot.error());
  const auto where = place_of_export(snapshot->sidecar, options);
  if (!where) return failed(where.error());
  const bool pprof = options.format == "pprof";
  LabelledStacks stacks(*labels);
  ProfileOrder order;
  order.only.event = options.event;
  order.kallsyms = snapshot->kallsyms;
  if (snapshot->sidecar.compared) order.compared = *snapshot->sidecar.compared;
  if (pprof) order.each = [&stacks](const CountedSample& sample) { stacks.add(sample); };
  const auto profile = SnapshotProfile::read(snapshot->data, order);
  if (!profile) return complain_of_profile(common, profile.error());
  const std::size_t event = main_event(*profile);
  std::vector<std::string> notes = notes_of(*snapshot, *profile, event, options);
  if (stacks.without_labels() > 0)
    notes.push_back(fmt::format("{} without labels: there are too many different ones",
                                counted(stacks.without_labels(), "sample")));
  const auto written = write_export(*where, [&](const WriteBytes& write) {
    if (pprof) return write_pprof(*profile, event, stacks, pprof_facts(*snapshot, *profile, notes), write);
    return write_folded(*profile, event, [&](std::string_view lines) {
      return write(std::as_bytes(std::span(lines.data(), lines.size())));
    });
  });
  if (!written) return failed(written.error());
  return print_result(common, *where, *profile, event, notes);
}

}  // namespace flight::ctl
