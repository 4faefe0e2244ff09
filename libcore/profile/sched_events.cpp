// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/sched_events.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <utility>

#include "libcore/perf/record_build.hpp"
#include "libcore/perf/sample_parts.hpp"
#include "libcore/perfdata/features.hpp"
#include "libcore/perfdata/tracing_data.hpp"
#include "libcore/profile/read_records.hpp"

namespace flight {
namespace {

constexpr std::size_t kMostTaskNameBytes = 64;  // the kernel's have 15
constexpr std::int64_t kFirstNormalPriority = 100;

std::optional<std::int64_t> number_at(const std::optional<TracepointField>& field, std::span<const std::byte> raw) {
  if (!field || field->offset > raw.size() || field->size > raw.size() - field->offset) return std::nullopt;
  const std::byte* at = raw.data() + field->offset;
  switch (field->size) {
    case sizeof(std::int64_t):
      return load<std::int64_t>(at);
    case sizeof(std::int32_t):
      return std::int64_t{load<std::int32_t>(at)};
    case sizeof(std::int16_t):
      return std::int64_t{load<std::int16_t>(at)};
    case sizeof(std::int8_t):
      return std::int64_t{load<std::int8_t>(at)};
    default:
      return std::nullopt;
  }
}

std::optional<TracepointField> field_of(const TracepointFormat& format, std::string_view name) {
  const auto found = std::find_if(format.fields.begin(), format.fields.end(),
                                  [name](const TracepointField& field) { return field.name == name; });
  return found == format.fields.end() ? std::nullopt : std::optional(*found);
}

struct NamedFormat {
  std::string name;  // "sched_switch"
  TracepointFormat format;
};

// Those of the system `sched`.
std::vector<NamedFormat> sched_formats(const std::vector<TracepointSource>& sources) {
  constexpr std::string_view kName = "name: ";
  std::vector<NamedFormat> out;
  for (const TracepointSource& source : sources) {
    const std::string_view text = source.format;
    if (source.system != "sched" || !text.starts_with(kName)) continue;
    const std::size_t end = std::min(text.find('\n'), text.size());
    out.push_back(
        {.name = std::string(text.substr(kName.size(), end - kName.size())), .format = TracepointFormat::parse(text)});
  }
  return out;
}

}  // namespace

SchedEvents::Event SchedEvents::event_of(const FileEvent& event, const TracepointFormat& format,
                                         std::string_view name) {
  Event out;
  out.format_id = format.id;
  const bool is_wakeup = name == "sched_wakeup" || name == "sched_wakeup_new";
  if ((event.attr.sample_type & PERF_SAMPLE_RAW) == 0 || (name != "sched_switch" && !is_wakeup)) return out;
  out.kind = is_wakeup ? Kind::wakeup : Kind::to_another;
  out.tid = field_of(format, is_wakeup ? "pid" : "prev_pid");
  out.name = field_of(format, is_wakeup ? "comm" : "prev_comm");
  out.next_tid = field_of(format, "next_pid");
  out.next_name = field_of(format, "next_comm");
  out.state = field_of(format, "prev_state");
  out.priority = field_of(format, "prio");
  out.cpu = field_of(format, "target_cpu");
  return out;
}

Result<SchedEvents> SchedEvents::of(const FileReader& file) {
  SchedEvents out;
  auto table = event_table_of(file.events());
  if (!table) return propagate(table.error());
  out.table_ = std::move(*table);
  std::vector<NamedFormat> formats;
  if (const auto section = file.features().find(kFeatureTracingData); section != file.features().end()) {
    const auto sources = read_tracing_data(section->second);
    if (!sources) return propagate(sources.error());
    formats = sched_formats(*sources);
  }
  bool any = false;
  for (const FileEvent& event : file.events()) {
    Event& own = out.events_.emplace_back();
    if (event.attr.type != PERF_TYPE_TRACEPOINT) continue;
    for (const NamedFormat& format : formats)
      if (format.format.id == event.attr.config) own = event_of(event, format.format, format.name);
    out.knowledge_.has_wakeups = out.knowledge_.has_wakeups || own.kind == Kind::wakeup;
    if (own.kind != Kind::to_another) continue;
    any = true;
    out.knowledge_.stacks = (event.attr.sample_type & PERF_SAMPLE_CALLCHAIN) != 0;
    out.knowledge_.every_switch = event.attr.freq == 0 && event.attr.sample_period <= 1;
  }
  if (!any) return fail(std::errc::no_such_device, "it has no event sched:sched_switch");
  return out;
}

bool SchedEvents::has_id(std::uint64_t id) const {
  const auto event = table_.find(id);
  return event && events_[*event].kind != Kind::other;
}

std::uint32_t SchedEvents::name_at(const std::optional<TracepointField>& field, std::span<const std::byte> raw) {
  if (!field || field->kind != TracepointField::Kind::text || field->offset > raw.size() ||
      field->size > raw.size() - field->offset)
    return 0;
  std::string_view text(reinterpret_cast<const char*>(raw.data()) + field->offset,
                        std::min(field->size, kMostTaskNameBytes));
  text = text.substr(0, text.find('\0'));
  if (text.empty()) return 0;
  std::string name(text);
  if (const auto known = name_numbers_.find(name); known != name_numbers_.end()) return known->second;
  if (names_.size() >= kMostNames) return 0;
  const auto number = static_cast<std::uint32_t>(names_.size());
  names_.push_back(name);
  name_numbers_.emplace(std::move(name), number);
  return number;
}

// False: a field is not there.
bool SchedEvents::fill(SchedRecord& out, const Event& event, std::span<const std::byte> raw) {
  const auto tid = number_at(event.tid, raw);
  if (!tid || load<std::uint16_t>(raw.data()) != event.format_id) return false;
  out.tid = static_cast<std::uint32_t>(*tid);
  out.name = name_at(event.name, raw);
  if (event.kind == Kind::wakeup) {
    out.is_wakeup = true;
    if (const auto cpu = number_at(event.cpu, raw)) out.cpu = static_cast<std::uint32_t>(*cpu);
    if (number_at(event.priority, raw).value_or(0) >= kFirstNormalPriority) knowledge_.normal_wakeups = true;
    return true;
  }
  const auto next_tid = number_at(event.next_tid, raw), state = number_at(event.state, raw);
  if (!next_tid || !state) return false;
  out.next_tid = static_cast<std::uint32_t>(*next_tid);
  out.next_name = name_at(event.next_name, raw);
  out.state = static_cast<std::uint16_t>(*state & UINT16_MAX);
  return true;
}

std::optional<SchedRecord> SchedEvents::read(std::span<const std::byte> record) {
  if (load<std::uint32_t>(record.data()) != PERF_RECORD_SAMPLE) return std::nullopt;
  const auto key = record_key(record, table_);
  if (!key || events_[key->event].kind == Kind::other) return std::nullopt;
  const RecordLayout& layout = table_.layout(key->event);
  const auto sample = sample_fields(record, layout);
  const auto parts = sample_parts(record, layout);
  SchedRecord out{.time_ns = key->time_ns};
  bool good = sample && parts && parts->raw_bytes >= sizeof(std::uint16_t);
  if (good) {
    out.cpu = sample->cpu;
    good = fill(out, events_[key->event], record.subspan(parts->raw, static_cast<std::size_t>(parts->raw_bytes))) &&
           out.cpu < kMostCpus;
    // While a task releases its ids, its pid is -1.
    if (sample->tid == out.tid && sample->pid != kKernelPid) out.pid = sample->pid;
  }
  if (good) return out;
  ++malformed_;
  return std::nullopt;
}

}  // namespace flight
