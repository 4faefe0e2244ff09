// SPDX-License-Identifier: Apache-2.0
// flightctl diff ID1 ID2: what has changed from one snapshot to another, as `stacks --diff` shows it within one.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/stacks_page.hpp"
#include "libcore/base/units.hpp"
#include "libcore/profile/folded.hpp"
#include "libcore/profile/joined.hpp"

namespace flight::ctl {
namespace {

// One of the two, without its file.
struct DiffSide {
  Sidecar sidecar;
  Stretch time;
  SnapshotProfile profile;
  std::size_t event = 0;
  std::vector<std::string> notes;
};

// The time that the rings of all CPUs have.
Stretch time_of_all_cpus(const Sidecar& sidecar) {
  return {.begin_ns = sidecar.common_window.begin_ns, .end_ns = sidecar.common_window.end_ns};
}

std::vector<std::string> notes_of_side(const Profiled& snapshot, const SnapshotProfile& profile, const Stretch& time) {
  std::vector<std::string> out = profile.warnings();
  if (std::string holes = note_of_holes(snapshot.sidecar, time, "its time"); !holes.empty())
    out.push_back(std::move(holes));
  if (!snapshot.no_kallsyms.empty()) out.push_back("kernel symbols: " + snapshot.no_kallsyms);
  for (std::string& note : out) note.insert(0, fmt::format("snapshot {}: ", printable(snapshot.sidecar.id)));
  return out;
}

// nullopt: it was complained about, with this exit code.
std::optional<DiffSide> read_side(const Common& common, const std::string& id, const StacksOptions& options,
                                  int& code) {
  auto snapshot = open_profiled(common, id);
  if (!snapshot) {
    code = complain(common, snapshot.error());
    return std::nullopt;
  }
  DiffSide out;
  out.time = time_of_all_cpus(snapshot->sidecar);
  if (out.time.span().count() == 0) {
    code = complain(common, kUsageError,
                    fmt::format("snapshot {} has no time of which all CPUs have samples, so it cannot be compared",
                                printable(snapshot->sidecar.id)),
                    kUsage);
    return std::nullopt;
  }
  ProfileOrder order = order_of_samples(options, snapshot->kallsyms);
  order.only.from_ns = out.time.begin_ns;
  order.only.until_ns = out.time.end_ns;
  auto profile = SnapshotProfile::read(snapshot->data, order);
  if (!profile) {
    Error error = profile.error();
    error.what = fmt::format("snapshot {}: {}", printable(snapshot->sidecar.id), error.what);
    code = complain_of_profile(common, error);
    return std::nullopt;
  }
  out.notes = notes_of_side(*snapshot, *profile, out.time);
  out.event = main_event(*profile);
  out.profile = std::move(*profile);
  out.sidecar = std::move(snapshot->sidecar);
  return out;
}

std::string side_text(const DiffSide& side) {
  const std::string end = local_time(clock_of(side.sidecar).wall_at(side.time.end_ns));
  return fmt::format("the {} of snapshot {} up to {}", format_duration(side.time.span()), printable(side.sidecar.id),
                     end);
}

json::Object json_of_side(const DiffSide& side) {
  return json::Object{{"id", side.sidecar.id}, {"begin_ns", side.time.begin_ns}, {"end_ns", side.time.end_ns}};
}

}  // namespace

int run_diff(const Common& common, const DiffOptions& options) {
  StacksOptions of = options.of;
  of.diff = true;
  int code = kDone;
  std::optional<DiffSide> now = read_side(common, of.id, of, code);
  if (!now) return code;
  of.event = now->profile.events[now->event].name;
  std::optional<DiffSide> before = read_side(common, options.before, of, code);
  if (!before) return code;
  if (before->sidecar.id == now->sidecar.id)
    return complain(common, kUsageError, fmt::format("both are snapshot {}", printable(now->sidecar.id)), kUsage);
  const SnapshotProfile both = joined(before->profile, before->event, now->profile, now->event);
  const ProfileEvent& event = both.events.front();
  StacksPage page{.head = {},
                  .facts = json::Object{{"now", json_of_side(*now)}, {"before", json_of_side(*before)}},
                  .columns = columns_of(event, both.tree.totals()[event.root], of, now->time, &before->time),
                  .by = StackOrder::difference,
                  .notes = std::move(before->notes)};
  page.notes.insert(page.notes.end(), now->notes.begin(), now->notes.end());
  page.head = fmt::format("{} of {}: now is {}, before is {}.", page.columns.in_cpus ? "CPUs" : "Shares",
                          printable(event.name), side_text(*now), side_text(*before));
  return print_page(common, of, both, 0, std::move(page));
}

}  // namespace flight::ctl
