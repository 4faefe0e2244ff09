// SPDX-License-Identifier: Apache-2.0
// flightctl stacks [ID] [OPTIONS]: the call tree of a snapshot, now and before. perf is not needed.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/screen.hpp"
#include "ctl/stacks_text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/json/value.hpp"
#include "libcore/profile/folded.hpp"
#include "libcore/profile/profile.hpp"

namespace flight::ctl {
namespace {

struct Stretch {
  EventTime begin_ns = 0, end_ns = 0;

  [[nodiscard]] std::chrono::nanoseconds span() const {
    return std::chrono::nanoseconds(static_cast<std::int64_t>(end_ns - std::min(begin_ns, end_ns)));
  }
};

// The time of the snapshot that is shown.
struct Shown {
  bool compared = false;
  Stretch now, before;  // not compared: `now` is all of it
  std::string note;     // what is uncertain
};

std::optional<std::uint32_t> chosen_number(const std::string& text) {
  std::uint32_t number = 0;
  if (text.empty() || std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
    return std::nullopt;
  return number;
}

// Within the snapshot; relative times are before its end.
Result<EventTime> moment_in(const Sidecar& sidecar, const std::string& text, EventTime otherwise_ns,
                            std::string_view option) {
  if (text.empty()) return otherwise_ns;
  const ClockHistory clock = clock_of(sidecar);
  const auto time = parse_time(text, clock.wall_at(sidecar.window.end_ns));
  if (!time) return wrap(time.error(), "{}", option);
  const EventTime moment_ns = clock.event_at(*time, sidecar.window.end_ns);
  return std::min(std::max(moment_ns, sidecar.window.begin_ns), sidecar.window.end_ns);
}

Result<Shown> chosen_range(const Sidecar& sidecar, const StacksOptions& options) {
  const auto begin = moment_in(sidecar, options.since, sidecar.common_window.begin_ns, "--since");
  if (!begin) return propagate(begin.error());
  const auto end = moment_in(sidecar, options.until, sidecar.window.end_ns, "--until");
  if (!end) return propagate(end.error());
  if (*begin >= *end)
    return flight::fail(std::errc::invalid_argument, "the snapshot has nothing between these times: it is of {} to {}",
                        local_time(sidecar.window.begin), local_time(sidecar.window.end));
  Shown out{.compared = false, .now = {.begin_ns = *begin, .end_ns = *end}, .before = {}, .note = {}};
  if (*begin < sidecar.common_window.begin_ns)
    out.note = "not all CPUs have samples of all of this time, so values are too small";
  return out;
}

Result<Shown> shown_time(const Sidecar& sidecar, const StacksOptions& options) {
  const bool range = !options.since.empty() || !options.until.empty();
  const SidecarCompared compared = sidecar.compared.value_or(SidecarCompared());
  const bool comparable =
      !range && compared.before_begin_ns < compared.now_begin_ns && compared.now_begin_ns < compared.now_end_ns;
  if (!comparable && (options.before || options.diff))
    return flight::fail(std::errc::invalid_argument, "{}: {}", options.diff ? "--diff" : "--before",
                        range ? "it cannot be given with --since or --until"
                              : "the snapshot has too little of the time before to compare with");
  if (!comparable) return chosen_range(sidecar, options);
  return Shown{.compared = true,
               .now = {.begin_ns = compared.now_begin_ns, .end_ns = compared.now_end_ns},
               .before = {.begin_ns = compared.before_begin_ns, .end_ns = compared.now_begin_ns},
               .note = {}};
}

ProfileOrder profile_order(const Profiled& snapshot, const StacksOptions& options, const Shown& shown) {
  ProfileOrder order;
  order.only.cpu = chosen_number(options.cpu);
  order.only.tid = chosen_number(options.thread);
  order.only.event = options.event;
  order.only.comm = options.comm;
  order.only.unit = options.unit;
  order.kallsyms = snapshot.kallsyms;
  if (shown.compared) {
    order.compared = snapshot.sidecar.compared.value_or(SidecarCompared());
  } else {
    order.only.from_ns = shown.now.begin_ns;
    order.only.until_ns = shown.now.end_ns;
  }
  return order;
}

StacksColumns columns_of(const ProfileEvent& event, const StackValues& all, const StacksOptions& options,
                         const Shown& shown) {
  StacksColumns out{.in_cpus = event.is_clock, .compared = shown.compared, .change = options.diff};
  const auto scale = [&](const Stretch& stretch, const StackValue& whole) {
    const auto divisor =
        event.is_clock ? static_cast<double>(stretch.span().count()) : static_cast<double>(whole.weight);
    return divisor > 0 ? 1 / divisor : 0.0;
  };
  out.now_scale = scale(shown.now, shown.compared ? all.now : all.all);
  out.before_scale = scale(shown.before, all.before);
  return out;
}

StackOrder order_of(const StacksOptions& options, const Shown& shown) {
  if (options.diff) return StackOrder::difference;
  if (options.before) return StackOrder::before;
  return shown.compared ? StackOrder::now : StackOrder::all;
}

std::string head_text(const Sidecar& sidecar, const ProfileEvent& event, const Shown& shown) {
  const ClockHistory clock = clock_of(sidecar);
  const std::string end = local_time(clock.wall_at(shown.now.end_ns));
  const std::string what = fmt::format("Snapshot {}, {} of {}: ", printable(sidecar.id),
                                       event.is_clock ? "CPUs" : "shares", printable(event.name));
  if (shown.compared)
    return what + fmt::format("now is the {} up to {}, before is the {} before that.",
                              format_duration(shown.now.span()), end, format_duration(shown.before.span()));
  return what + fmt::format("the {} up to {}.", format_duration(shown.now.span()), end);
}

// On a terminal the page and its notes, which can have two lines each, fit.
std::size_t row_count(const StacksOptions& options, const std::vector<std::string>& notes) {
  constexpr std::size_t kRows = 20, kLeastRows = 8;
  constexpr std::size_t kOtherLines = 5;  // two of the head, those of the columns, of all, and of what is left out
  if (options.count != 0) return static_cast<std::size_t>(options.count);
  const auto lines = page_lines();
  if (!lines) return kRows;
  const std::size_t others = kOtherLines + 2 * notes.size();
  return std::clamp(*lines - std::min(*lines, others), kLeastRows, kRows);
}

json::Object json_of(const Stretch& stretch) {
  return json::Object{{"begin_ns", stretch.begin_ns}, {"end_ns", stretch.end_ns}};
}

json::Object json_of(const SnapshotProfile& profile, const TreeRow& row, const StacksColumns& columns) {
  json::Object out{
      {"depth", std::uint64_t{row.depth}},
      {"frames",
       json::array_of(row.frames,
                      [&](std::uint32_t frame) {
                        return json::Object{{"name", profile.text_of(frame)}, {"object", profile.object_of(frame)}};
                      })},
      {"samples", row.total.all.samples},
      {"now", columns.now(row.total)}};
  if (columns.compared) out.add("before", columns.before(row.total));
  return out;
}

}  // namespace

int run_stacks(const Common& common, const StacksOptions& options) {
  const auto snapshot = open_profiled(common, options.id);
  if (!snapshot) return complain(common, snapshot.error());
  const auto shown = shown_time(snapshot->sidecar, options);
  if (!shown) return complain(common, kUsageError, shown.error().what, kUsage);
  const auto profile = SnapshotProfile::read(snapshot->data, profile_order(*snapshot, options, *shown));
  if (!profile) {
    const bool no_event = profile.error().errno_value() == EINVAL;
    return complain(common, no_event ? kUsageError : kOutputFailed, profile.error().what, no_event ? kUsage : kRefused);
  }
  const ProfileEvent& event = profile->events[main_event(*profile)];
  std::uint32_t root = event.root;
  const StacksColumns columns = columns_of(event, profile->tree.totals()[root], options, *shown);
  std::vector<std::string> notes = profile->warnings();
  if (!shown->note.empty()) notes.push_back(shown->note);
  if (!snapshot->no_kallsyms.empty()) notes.push_back("kernel symbols: " + snapshot->no_kallsyms);
  const TreeViewOrder order{.by = order_of(options, *shown),
                            .now_scale = columns.now_scale,
                            .before_scale = columns.before_scale,
                            .most_rows = row_count(options, notes)};
  TreeView view;
  if (options.inverted) {
    const StackTree turned = inverted(profile->tree, root);
    view = view_of(turned, root, order);
  } else {
    view = view_of(profile->tree, root, order);
  }
  if (common.json) {
    json::Object out{{"id", snapshot->sidecar.id},
                     {"event", event.name},
                     {"unit", event.is_clock ? "cpus" : "share"},
                     {"now", json_of(shown->now)}};
    if (shown->compared) out.add("before", json_of(shown->before));
    out.add("rows", json::array_of(view.rows, [&](const TreeRow& row) { return json_of(*profile, row, columns); }));
    out.add("left_out", std::uint64_t{view.left_out});
    out.add("notes", notes);
    return print(stdout, json::dump(out, 2) + "\n");
  }
  for (const std::string& note : notes) static_cast<void>(print(stderr, fmt::format("flightctl: {}\n", note)));
  const Screen screen = Screen::here();
  return print(stdout, screen.wrapped(head_text(snapshot->sidecar, event, *shown), 0) +
                           stacks_text(*profile, view, columns, screen));
}

}  // namespace flight::ctl
