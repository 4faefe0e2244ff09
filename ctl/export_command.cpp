// SPDX-License-Identifier: Apache-2.0
// flightctl export [ID] --format FORMAT [--event EVENT] [--labels LABELS] [-o FILE|-] [--force]: the stacks of one
// snapshot, for other viewers.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "ctl/export_labels.hpp"
#include "ctl/exported_file.hpp"
#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/sched_text.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/units.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/export/firefox.hpp"
#include "libcore/export/pprof.hpp"
#include "libcore/export/timed_samples.hpp"
#include "libcore/json/value.hpp"
#include "libcore/profile/folded.hpp"
#include "libcore/profile/profile.hpp"

namespace flight::ctl {
namespace {

std::string_view suffix_of(const ExportOptions& options) {
  return options.format == "pprof" ? ".pb.gz" : options.format == "firefox" ? ".firefox.json.gz" : ".folded";
}

// What a format keeps of each sample besides the tree.
struct KeptSamples {
  explicit KeptSamples(const ExtraLabels& labels) : stacks(labels) {}

  LabelledStacks stacks;  // pprof
  TimedSamples timed;     // firefox
  [[nodiscard]] bool over_a_limit() const { return stacks.without_labels() > 0 || timed.left_out() > 0; }
};

struct ReadForExport {
  SnapshotProfile profile;
  std::size_t event = 0;
  std::string others;  // the other events that have samples; printable
};

std::string other_events(const SnapshotProfile& profile, std::size_t event) {
  const auto totals = profile.tree.totals();
  std::string out;
  for (std::size_t i = 0; i < profile.events.size(); ++i)
    if (i != event && totals[profile.events[i].root].all.samples > 0)
      out += (out.empty() ? "" : ", ") + printable(profile.events[i].name);
  return out;
}

Result<ReadForExport> read_for_export(const Profiled& snapshot, const ExportOptions& options, const ExtraLabels& labels,
                                      KeptSamples& kept) {
  ProfileOrder order;
  order.only.event = options.event;
  order.kallsyms = snapshot.kallsyms;
  if (snapshot.sidecar.compared) order.compared = *snapshot.sidecar.compared;
  if (options.format == "pprof") order.each = [&kept](const CountedSample& sample) { kept.stacks.add(sample); };
  if (options.format == "firefox") order.each = [&kept](const CountedSample& sample) { kept.timed.add(sample); };
  ReadForExport out;
  {
    auto profile = SnapshotProfile::read(snapshot.data, order);
    if (!profile) return propagate(profile.error());
    out.event = main_event(*profile);
    out.others = other_events(*profile, out.event);
    if (out.others.empty() || !kept.over_a_limit()) {
      out.profile = std::move(*profile);
      return out;
    }
    order.only.event = profile->events[out.event].name;
  }
  // The others have used up the limits.
  kept = KeptSamples(labels);
  auto profile = SnapshotProfile::read(snapshot.data, order);
  if (!profile) return propagate(profile.error());
  out.profile = std::move(*profile);
  return out;
}

// What the reader of the file should know, for people.
std::vector<std::string> notes_of_export(const Profiled& snapshot, const ReadForExport& taken, const KeptSamples& kept,
                                         const ExportOptions& options) {
  std::vector<std::string> out;
  const SnapshotProfile& profile = taken.profile;
  const auto totals = profile.tree.totals();
  if (totals[profile.events[taken.event].root].all.samples == 0)
    out.emplace_back("the snapshot has no samples of the event");
  if (!taken.others.empty())
    out.push_back(fmt::format("only the samples of {} are written; {} the others, which have samples, too: {}",
                              printable(profile.events[taken.event].name),
                              options.event.empty() ? "--event selects one of" : "--event also fits", taken.others));
  for (std::string& warning : profile.warnings()) out.push_back(std::move(warning));
  if (!snapshot.no_kallsyms.empty()) out.push_back("kernel symbols: " + snapshot.no_kallsyms);
  if (kept.stacks.without_labels() > 0)
    out.push_back(fmt::format("{} without labels: there are too many different ones",
                              counted(kept.stacks.without_labels(), "sample")));
  if (kept.timed.left_out() > 0)
    out.push_back(fmt::format("{} left out: there are too many for this format, so --format pprof has more",
                              counted(kept.timed.left_out(), "sample")));
  return out;
}

// Only firefox has it.
std::optional<SchedProfile> scheduling_of_export(const Profiled& snapshot, const ExportOptions& options,
                                                 std::vector<std::string>& notes) {
  if (options.format != "firefox") return std::nullopt;
  SchedLanesOrder lanes = kUsualLanes;
  lanes.most_asleep_ns = 0;  // it does not show them
  auto sched = read_scheduling(snapshot, lanes);
  if (!sched) {
    notes.push_back("scheduling: " + sched.error().what);
    return std::nullopt;
  }
  if (*sched && (*sched)->lanes.left_out_off() > 0) notes.push_back(left_out_off_text((*sched)->lanes.left_out_off()));
  return std::move(*sched);
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
  const auto where = place_of_export(snapshot->sidecar, options.output, suffix_of(options));
  if (!where) return failed(where.error());
  KeptSamples kept(*labels);
  const auto taken = read_for_export(*snapshot, options, *labels, kept);
  if (!taken) return complain_of_profile(common, taken.error());
  std::vector<std::string> notes = notes_of_export(*snapshot, *taken, kept, options);
  const std::optional<SchedProfile> sched = scheduling_of_export(*snapshot, options, notes);
  const auto written = write_exported(*where, [&](const WriteBytes& write) -> Result<void> {
    if (options.format == "pprof")
      return write_pprof(taken->profile, taken->event, kept.stacks, pprof_facts(*snapshot, taken->profile, notes),
                         write);
    if (options.format == "firefox") {
      kept.timed.arrange(kMostFirefoxThreads);
      return write_firefox(taken->profile, taken->event, kept.timed, snapshot->sidecar, notes, write,
                           sched ? &*sched : nullptr);
    }
    return write_folded(taken->profile, taken->event, [&](std::string_view lines) {
      return write(std::as_bytes(std::span(lines.data(), lines.size())));
    });
  });
  if (!written) return failed(written.error());
  return print_result(common, *where, taken->profile, taken->event, notes);
}

}  // namespace flight::ctl
