// SPDX-License-Identifier: Apache-2.0
#include "ctl/stacks_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "ctl/output.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

std::optional<std::uint32_t> chosen_number(const std::string& text) {
  std::uint32_t number = 0;
  if (text.empty() || std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
    return std::nullopt;
  return number;
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

std::string_view kind_name(CodeKind kind) {
  switch (kind) {
    case CodeKind::kernel:
    case CodeKind::generated:
      return "kernel";
    case CodeKind::file:
      return "user";
    case CodeKind::memory:
      return "jit";
    case CodeKind::unknown:
      break;
  }
  return "unknown";
}

json::Object json_of_frame(const SnapshotProfile& profile, std::uint32_t frame) {
  json::Object out{{"name", profile.text_of(frame)}, {"object", profile.object_of(frame)}};
  if (const StackFrame& what = profile.frames[frame]; what.kind == StackFrameKind::code)
    out.add("kind", kind_name(profile.objects[what.object].kind));
  return out;
}

json::Object json_of_row(const SnapshotProfile& profile, const TreeRow& row, const StacksColumns& columns) {
  json::Object out{
      {"depth", std::uint64_t{row.depth}},
      {"frames", json::array_of(row.frames, [&](std::uint32_t frame) { return json_of_frame(profile, frame); })},
      {"samples", row.total.all.samples},
      {"now", columns.now(row.total)}};
  if (!columns.compared) return out;
  out.add("before", columns.before(row.total));
  out.add("noise", is_noise(row.total, columns.scales));
  return out;
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

}  // namespace

std::chrono::nanoseconds Stretch::span() const {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(end_ns - std::min(begin_ns, end_ns)));
}

json::Object json_of(const Stretch& stretch) {
  return json::Object{{"begin_ns", stretch.begin_ns}, {"end_ns", stretch.end_ns}};
}

Result<ChosenTime> chosen_time(const Sidecar& sidecar, const std::string& since, const std::string& until) {
  const auto begin = moment_in(sidecar, since, sidecar.common_window.begin_ns, "--since");
  if (!begin) return propagate(begin.error());
  const auto end = moment_in(sidecar, until, sidecar.window.end_ns, "--until");
  if (!end) return propagate(end.error());
  if (*begin >= *end)
    return flight::fail(std::errc::invalid_argument, "the snapshot has nothing between these times: it is of {} to {}",
                        local_time(sidecar.window.begin), local_time(sidecar.window.end));
  return ChosenTime{.time = {.begin_ns = *begin, .end_ns = *end},
                    .all_covered = *begin >= sidecar.common_window.begin_ns};
}

bool is_comparable(const Sidecar& sidecar) {
  const SidecarCompared compared = sidecar.compared.value_or(SidecarCompared());
  return compared.before_begin_ns < compared.now_begin_ns && compared.now_begin_ns < compared.now_end_ns;
}

std::string note_of_holes(const Sidecar& sidecar, const Stretch& stretch, std::string_view name) {
  constexpr std::int64_t kLeastPart = 100;
  std::map<std::pair<std::string, int>, std::chrono::nanoseconds> lacks;
  for (const SidecarHole& hole : sidecar.holes) {
    const Stretch both{.begin_ns = std::max(hole.begin_ns, stretch.begin_ns),
                       .end_ns = std::min(hole.end_ns, stretch.end_ns)};
    lacks[{hole.channel, hole.cpu}] += both.span();
  }
  const auto worst =
      std::max_element(lacks.begin(), lacks.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (worst == lacks.end() || worst->second.count() == 0 || worst->second < stretch.span() / kLeastPart) return "";
  return fmt::format("there are holes in {}: of CPU {}, {} are missing, so values are too small", name,
                     worst->first.second, format_duration(worst->second));
}

ProfileOrder order_of_samples(const StacksOptions& options, std::string_view kallsyms) {
  ProfileOrder order;
  order.only.cpu = chosen_number(options.cpu);
  order.only.tid = chosen_number(options.thread);
  order.only.event = options.event;
  order.only.comm = options.comm;
  order.only.unit = options.unit;
  order.kallsyms = kallsyms;
  return order;
}

StacksColumns columns_of(const ProfileEvent& event, const StackValues& all, const StacksOptions& options,
                         const Stretch& now, const Stretch* before) {
  const bool in_cpus = event.is_clock && !options.shares;
  const auto scale = [in_cpus](const Stretch& stretch, const StackValue& whole) {
    const auto divisor = in_cpus ? static_cast<double>(stretch.span().count()) : static_cast<double>(whole.weight);
    return divisor > 0 ? 1 / divisor : 0.0;
  };
  StacksColumns out;
  out.in_cpus = in_cpus;
  out.compared = before != nullptr;
  out.change = options.diff;
  out.scales.now = scale(now, out.compared ? all.now : all.all);
  if (before != nullptr) out.scales.before = scale(*before, all.before);
  return out;
}

int print_page(const Common& common, const StacksOptions& options, const SnapshotProfile& profile, std::size_t event,
               StacksPage page) {
  const TreeViewOrder order{
      .by = page.by, .scales = page.columns.scales, .without_noise = true, .most_rows = row_count(options, page.notes)};
  std::uint32_t root = profile.events[event].root;
  TreeView view;
  if (options.inverted) {
    const StackTree turned = inverted(profile.tree, root);
    view = view_of(turned, root, order);
  } else {
    view = view_of(profile.tree, root, order);
  }
  if (common.json) {
    json::Object out = std::move(page.facts);
    out.add("event", profile.events[event].name);
    out.add("unit", page.columns.in_cpus ? "cpus" : "share");
    out.add("rows",
            json::array_of(view.rows, [&](const TreeRow& row) { return json_of_row(profile, row, page.columns); }));
    out.add("left_out", std::uint64_t{view.left_out});
    out.add("notes", page.notes);
    return print(stdout, json::dump(out, 2) + "\n");
  }
  for (const std::string& note : page.notes) static_cast<void>(print(stderr, fmt::format("flightctl: {}\n", note)));
  const Screen screen = Screen::here();
  return print(stdout, screen.wrapped(page.head, 0) + stacks_text(profile, view, page.columns, screen));
}

}  // namespace flight::ctl
