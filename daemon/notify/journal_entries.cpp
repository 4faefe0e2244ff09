// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify/journal_entries.hpp"

#include <algorithm>
#include <array>

#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "libcore/store/headline.hpp"

namespace flight::daemon {
namespace {

constexpr std::size_t kMaxAskersNamed = 16;
constexpr std::size_t kMaxMessageColumns = 1000;

std::string field(std::string_view name, std::string_view value) {
  return fmt::format("FLIGHTD_{}={}", name, printable(value));
}

std::string number(std::string_view name, std::uint64_t value) { return fmt::format("FLIGHTD_{}={}", name, value); }

std::string message_id(std::string_view id) { return fmt::format("MESSAGE_ID={}", id); }

bool a_person_asked(const Sidecar& sidecar) {
  constexpr std::array<std::string_view, 3> kAsked{"manual", "signal", "stop"};
  return sidecar.test || std::find(kAsked.begin(), kAsked.end(), sidecar.trigger) != kAsked.end();
}

std::uint64_t whole(double value) { return static_cast<std::uint64_t>(std::clamp(value, 0.0, 1e15)); }

JournalEntry trouble_entry(Priority priority, std::string_view id, std::string_view what, std::string_view message) {
  return {.priority = priority,
          .message = cut_end(printable(message), kMaxMessageColumns),
          .fields = {message_id(id), field("DEGRADED", what)}};
}

// The unit (of those with a name) and the program that used the most CPU time at the end of the window.
void add_top(std::vector<std::string>& fields, const Sidecar& sidecar) {
  const auto busiest = [](const auto& rows, const auto& is_named) {
    auto out = rows.end();
    for (auto row = rows.begin(); row != rows.end(); ++row)
      if (is_named(*row) &&
          (out == rows.end() || part_now(*row).value_or(row->share) > part_now(*out).value_or(out->share)))
        out = row;
    return out;
  };
  const auto has_name = [](const SidecarGroup& row) { return !row.name.empty(); };
  const auto is_known = [](const SidecarGroup& row) { return !row.name.empty() && row.name != kUnknownUnit; };
  if (const auto unit = busiest(sidecar.top_units, is_known); unit != sidecar.top_units.end())
    fields.push_back(field("TOP_UNIT", unit->name));
  if (const auto program = busiest(sidecar.top_programs, has_name); program != sidecar.top_programs.end())
    fields.push_back(field("TOP_PROGRAM", program->name));
  // The busiest process, which need not be one of TOP_PROGRAM: in a fork storm that program has thousands of processes
  // that are alike. Pid 0 is the idle tasks.
  const auto process = busiest(sidecar.top, [](const SidecarTop& row) { return row.pid != 0; });
  if (process != sidecar.top.end()) fields.push_back(number("TOP_PID", process->pid));
  if (!sidecar.forks) return;
  const SidecarForks& forks = *sidecar.forks;
  const double now = forks.all.per_second_now.value_or(forks.all.per_second);
  fields.push_back(number("FORKS_PER_SECOND", whole(now)));
  if (!many_forks(forks)) return;
  if (!forks.by_unit.empty() && !forks.by_unit[0].name.empty() && forks.by_unit[0].name != kUnknownForker)
    fields.push_back(field("FORKED_BY", forks.by_unit[0].name));
  else if (!forks.by_program.empty() && forks.by_program[0].name != kUnknownForker)
    fields.push_back(field("FORKED_BY", forks.by_program[0].name));
}

}  // namespace

JournalEntry snapshot_entry(const Sidecar& sidecar) {
  JournalEntry out;
  out.priority = a_person_asked(sidecar) ? Priority::notice : Priority::warning;
  out.message = fmt::format("snapshot {}: {}", printable(sidecar.id), headline(sidecar));
  out.fields = {message_id(kSnapshotMessageId),
                field("SNAPSHOT_ID", sidecar.id),
                "FLIGHTD_PATH=" + sidecar.path,  // unchanged: programs open it
                field("TRIGGER", sidecar.trigger),
                field("REASON", sidecar.reason),
                number("WINDOW_USEC", whole(sidecar.window.seconds * 1e6)),
                number("BLACKOUT_USEC", whole(sidecar.blackout.max_us)),
                number("LOST", sidecar.blackout.lost),
                number("SIZE", sidecar.size_bytes)};
  add_top(out.fields, sidecar);
  for (std::size_t i = 0; i < std::min(sidecar.requests.size(), kMaxAskersNamed); ++i) {
    const SidecarRequest& asker = sidecar.requests[i];
    out.fields.push_back(
        field("REQUESTED_BY", fmt::format("{}[{}] uid {}", own_name(asker.comm), asker.pid, asker.uid)));
  }
  return out;
}

JournalEntry suppressed_entry(const Suppressed& suppressed) {
  const std::string first = to_rfc3339(suppressed.first);
  const std::string last = to_rfc3339(suppressed.last);
  std::string message = fmt::format("{}: {} firing{} suppressed by {}, ", printable(suppressed.trigger),
                                    suppressed.count, suppressed.count == 1 ? "" : "s", printable(suppressed.by));
  message += first == last ? "at " + first : fmt::format("from {} to {}", first, last);
  return {.priority = Priority::warning,
          .message = cut_end(message, kMaxMessageColumns),
          .fields = {message_id(kSuppressedMessageId), field("TRIGGER", suppressed.trigger),
                     number("SUPPRESSED", suppressed.count), field("SUPPRESSED_BY", suppressed.by),
                     field("FIRST", first), field("LAST", last)}};
}

JournalEntry blind_entry(const Blind& blind) {
  const std::string until = to_rfc3339(blind.until);
  const std::string message =
      fmt::format("{}: this was the last firing that max_per_day ({}) allows: the trigger is blind until {}",
                  printable(blind.trigger), blind.max_per_day, until);
  return {.priority = Priority::warning,
          .message = cut_end(message, kMaxMessageColumns),
          .fields = {message_id(kBlindMessageId), field("TRIGGER", blind.trigger),
                     number("MAX_PER_DAY", blind.max_per_day), field("UNTIL", until)}};
}

JournalEntry degraded_entry(std::string_view what, std::string_view message) {
  return trouble_entry(Priority::error, kDegradedMessageId, what, message);
}

JournalEntry recovered_entry(std::string_view what, std::string_view message) {
  return trouble_entry(Priority::notice, kRecoveredMessageId, what, message);
}

}  // namespace flight::daemon
