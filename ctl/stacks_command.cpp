// SPDX-License-Identifier: Apache-2.0
// flightctl stacks [ID] [OPTIONS]: the call tree of a snapshot, now and before. perf is not needed.
#include <algorithm>
#include <utility>

#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/stacks_page.hpp"
#include "libcore/base/units.hpp"
#include "libcore/profile/folded.hpp"

namespace flight::ctl {
namespace {

// The time of the snapshot that is shown.
struct Shown {
  bool compared = false;
  Stretch now, before;  // not compared: `now` is all of it
  std::string note;     // what is uncertain
};

Result<Shown> shown_time(const Sidecar& sidecar, const StacksOptions& options) {
  const bool range = !options.since.empty() || !options.until.empty();
  const SidecarCompared compared = sidecar.compared.value_or(SidecarCompared());
  const bool comparable = !range && is_comparable(sidecar);
  if (!comparable && (options.before || options.diff))
    return flight::fail(std::errc::invalid_argument, "{}: {}", options.diff ? "--diff" : "--before",
                        range ? "it cannot be given with --since or --until"
                              : "the snapshot has too little of the time before to compare with");
  if (!comparable) {
    const auto chosen = chosen_time(sidecar, options.since, options.until);
    if (!chosen) return propagate(chosen.error());
    return Shown{
        .compared = false,
        .now = chosen->time,
        .before = {},
        .note = chosen->all_covered ? "" : "not all CPUs have samples of all of this time, so values are too small"};
  }
  return Shown{.compared = true,
               .now = {.begin_ns = compared.now_begin_ns, .end_ns = compared.now_end_ns},
               .before = {.begin_ns = compared.before_begin_ns, .end_ns = compared.now_begin_ns},
               .note = {}};
}

ProfileOrder profile_order(const Profiled& snapshot, const StacksOptions& options, const Shown& shown) {
  ProfileOrder order = order_of_samples(options, snapshot.kallsyms);
  if (shown.compared) {
    order.compared = snapshot.sidecar.compared.value_or(SidecarCompared());
  } else {
    order.only.from_ns = shown.now.begin_ns;
    order.only.until_ns = shown.now.end_ns;
  }
  return order;
}

StackOrder order_of(const StacksOptions& options, const Shown& shown) {
  if (options.diff) return StackOrder::difference;
  if (options.before) return StackOrder::before;
  return shown.compared ? StackOrder::now : StackOrder::all;
}

std::string head_text(const Sidecar& sidecar, const ProfileEvent& event, const Shown& shown, bool in_cpus) {
  const ClockHistory clock = clock_of(sidecar);
  const std::string end = local_time(clock.wall_at(shown.now.end_ns));
  const std::string what =
      fmt::format("Snapshot {}, {} of {}: ", printable(sidecar.id), in_cpus ? "CPUs" : "shares", printable(event.name));
  if (shown.compared)
    return what + fmt::format("now is the {} up to {}, before is the {} before that.",
                              format_duration(shown.now.span()), end, format_duration(shown.before.span()));
  return what + fmt::format("the {} up to {}.", format_duration(shown.now.span()), end);
}

std::vector<std::string> notes_of_stacks(const Profiled& snapshot, const SnapshotProfile& profile, const Shown& shown) {
  std::vector<std::string> out = profile.warnings();
  if (!shown.note.empty()) out.push_back(shown.note);
  const std::string_view name = shown.compared ? "the time now" : "this time";
  for (std::string& holes : std::vector<std::string>{note_of_holes(snapshot.sidecar, shown.now, name),
                                                     note_of_holes(snapshot.sidecar, shown.before, "the time before")})
    if (!holes.empty()) out.push_back(std::move(holes));
  if (!snapshot.no_kallsyms.empty()) out.push_back("kernel symbols: " + snapshot.no_kallsyms);
  return out;
}

}  // namespace

int run_stacks(const Common& common, const StacksOptions& options) {
  const auto snapshot = open_profiled(common, options.id);
  if (!snapshot) return complain(common, snapshot.error());
  const auto shown = shown_time(snapshot->sidecar, options);
  if (!shown) return complain(common, kUsageError, shown.error().what, kUsage);
  const auto profile = SnapshotProfile::read(snapshot->data, profile_order(*snapshot, options, *shown));
  if (!profile) return complain_of_profile(common, profile.error());
  const std::size_t number = main_event(*profile);
  const ProfileEvent& event = profile->events[number];
  const StacksColumns columns = columns_of(event, profile->tree.totals()[event.root], options, shown->now,
                                           shown->compared ? &shown->before : nullptr);
  StacksPage page{.head = head_text(snapshot->sidecar, event, *shown, columns.in_cpus),
                  .facts = json::Object{{"id", snapshot->sidecar.id}, {"now", json_of(shown->now)}},
                  .columns = columns,
                  .by = order_of(options, *shown),
                  .notes = notes_of_stacks(*snapshot, *profile, *shown)};
  if (shown->compared) page.facts.add("before", json_of(shown->before));
  return print_page(common, options, *profile, number, std::move(page));
}

}  // namespace flight::ctl
