// SPDX-License-Identifier: Apache-2.0
// Reads the samples of sched:sched_switch and sched:sched_wakeup. Where their fields are is in the file: it has the
// formats of the kernel that recorded it (TRACING_DATA).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/tracepoint_text.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/profile/sched_tape.hpp"

namespace flight {

// What the events of a file can show.
struct SchedKnowledge {
  bool every_switch = true;     // false: the event samples switches
  bool stacks = false;          // a switch has the stack of the thread that leaves the CPU
  bool has_wakeups = false;     // there is an event of wake-ups
  bool normal_wakeups = false;  // there are wake-ups of threads that are not real-time ones
};

class SchedEvents {
 public:
  static constexpr std::uint32_t kMostCpus = 8192;  // as the kernel's NR_CPUS
  static constexpr std::size_t kMostNames = 1U << 17U;

  // ENODEV: the file has no sched:sched_switch. Otherwise as event_table_of() and read_tracing_data().
  [[nodiscard]] static Result<SchedEvents> of(const FileReader& file);

  // nullopt: the record is another one, or malformed.
  [[nodiscard]] std::optional<SchedRecord> read(std::span<const std::byte> record);
  // Whether records of this id are such switches or wake-ups.
  [[nodiscard]] bool has_id(std::uint64_t id) const;

  // The names of threads; 0: unknown, or one too many.
  [[nodiscard]] std::vector<std::string> take_names() { return std::move(names_); }
  [[nodiscard]] const SchedKnowledge& knowledge() const { return knowledge_; }
  [[nodiscard]] std::uint64_t malformed() const { return malformed_; }

 private:
  enum class Kind : std::uint8_t { other, to_another, wakeup };
  struct Event {
    Kind kind = Kind::other;
    std::uint32_t format_id = 0;
    std::optional<TracepointField> tid, name, next_tid, next_name, state, priority, cpu;
  };

  SchedEvents() = default;
  [[nodiscard]] static Event event_of(const FileEvent& event, const TracepointFormat& format, std::string_view name);
  [[nodiscard]] std::uint32_t name_at(const std::optional<TracepointField>& field, std::span<const std::byte> raw);
  [[nodiscard]] bool fill(SchedRecord& out, const Event& event, std::span<const std::byte> raw);

  EventTable table_;
  std::vector<Event> events_;  // by their numbers in the table
  std::vector<std::string> names_{""};
  std::unordered_map<std::string, std::uint32_t> name_numbers_;
  SchedKnowledge knowledge_;
  std::uint64_t malformed_ = 0;
};

}  // namespace flight
