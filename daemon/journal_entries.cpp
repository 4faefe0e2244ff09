// SPDX-License-Identifier: Apache-2.0
#include "daemon/journal_entries.hpp"

#include <algorithm>
#include <array>

#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "libcore/store/headline.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxAskersNamed = 16;
constexpr std::size_t kMaxMessageColumns = 1000;

std::string field(std::string_view name, std::string_view value) {
  return fmt::format("FLIGHTD_{}={}", name, printable(value));
}

std::string number(std::string_view name, std::uint64_t value) { return fmt::format("FLIGHTD_{}={}", name, value); }

std::string message_id(std::string_view id) { return fmt::format("MESSAGE_ID={}", id); }

bool a_person_asked(const std::string& trigger) {
  constexpr std::array<std::string_view, 3> kAsked{"manual", "signal", "stop"};
  return std::find(kAsked.begin(), kAsked.end(), trigger) != kAsked.end();
}

std::uint64_t micros_of(double value) { return static_cast<std::uint64_t>(std::clamp(value, 0.0, 1e15)); }

JournalEntry trouble_entry(Priority priority, std::string_view id, std::string_view what, std::string_view message) {
  return {.priority = priority,
          .message = cut_end(printable(message), kMaxMessageColumns),
          .fields = {message_id(id), field("DEGRADED", what)}};
}

}  // namespace

JournalEntry snapshot_entry(const Sidecar& sidecar) {
  JournalEntry out;
  out.priority = a_person_asked(sidecar.trigger) ? Priority::notice : Priority::warning;
  out.message = fmt::format("snapshot {}: {}", printable(sidecar.id), headline(sidecar));
  out.fields = {message_id(kSnapshotMessageId),
                field("SNAPSHOT_ID", sidecar.id),
                "FLIGHTD_PATH=" + sidecar.path,  // as it is: somebody opens it
                field("TRIGGER", sidecar.trigger),
                field("REASON", sidecar.reason),
                number("WINDOW_USEC", micros_of(sidecar.window.seconds * 1e6)),
                number("BLACKOUT_USEC", micros_of(sidecar.blackout.max_us)),
                number("LOST", sidecar.blackout.lost),
                number("SIZE", sidecar.size_bytes)};
  for (std::size_t i = 0; i < std::min(sidecar.requests.size(), kMaxAskersNamed); ++i) {
    const SidecarRequest& asker = sidecar.requests[i];
    out.fields.push_back(field("REQUESTED_BY", fmt::format("{}[{}] uid {}", asker.comm, asker.pid, asker.uid)));
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

JournalEntry degraded_entry(std::string_view what, std::string_view message) {
  return trouble_entry(Priority::error, kDegradedMessageId, what, message);
}

JournalEntry recovered_entry(std::string_view what, std::string_view message) {
  return trouble_entry(Priority::notice, kRecoveredMessageId, what, message);
}

}  // namespace flight
