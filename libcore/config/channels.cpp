// SPDX-License-Identifier: Apache-2.0
// "channels": the recorded events and the size of their rings.
#include <algorithm>
#include <cctype>

#include "libcore/config/check.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kMaxFrequencyHz = 100'000;  // the kernel's default of perf_event_max_sample_rate
constexpr std::uint64_t kMaxPeriod = 1ULL << 62U;

bool is_identifier(std::string_view text) {
  const auto good = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), good);
}

bool is_modifiers(std::string_view text) {
  return !text.empty() && text.find_first_not_of("ukpPhHGSDIeW") == std::string_view::npos;
}

void read_stack(const Reader& reader, bool& out) {
  std::string word;
  reader.choice(word, {"fp", "none"});
  out = word == "fp";
}

void read_filter(const Reader& reader, std::string& out) {
  reader.text(out, "a filter over the tracepoint's fields, such as \"prio < 100\"");
}

void read_event_object(const Reader& reader, EventConfig& out) {
  std::uint64_t depth = out.max_stack;
  std::optional<Reader> frequency, period, filter;
  reader.object({
      {"event", [&](const Reader& r) { read_event_name(r, out.event); }},
      {"frequency",
       [&](const Reader& r) {
         frequency = r;
         r.whole(out.frequency, 1, kMaxFrequencyHz);
       }},
      {"period",
       [&](const Reader& r) {
         period = r;
         r.whole(out.period, 1, kMaxPeriod);
       }},
      {"stack", [&](const Reader& r) { read_stack(r, out.stack); }},
      {"max_stack", [&](const Reader& r) { r.whole(depth, 1, kMaxStackDepth); }},
      {"filter",
       [&](const Reader& r) {
         filter = r;
         read_filter(r, out.filter);
       }},
  });
  out.max_stack = static_cast<std::uint16_t>(depth);
  if (reader.value().member("event") == nullptr)
    reader.refuse("the key 'event' is missing: { \"event\": \"cycles\", … }");
  if (frequency && period) {
    const Reader& second = frequency->value().place.line > period->value().place.line ? *frequency : *period;
    second.refuse("frequency and period exclude each other; remove one of them");
  }
  if (filter && !is_tracepoint_name(out.event))
    filter->refuse(
        fmt::format("only a tracepoint SYSTEM:EVENT can have a filter, but '{}' is not one; remove the filter",
                    excerpt(out.event)));
}

void read_event(const Reader& reader, EventConfig& out) {
  if (reader.value().kind == Value::Kind::text)
    read_event_name(reader, out.event);
  else if (reader.is(Value::Kind::object, "an event: \"NAME\" or { \"event\": \"NAME\", … }"))
    read_event_object(reader, out);
}

void read_cpus(const Reader& reader, std::vector<int>& out) {
  constexpr std::string_view kRight = "a list of CPUs such as \"0-3,8\", or omit it to record all CPUs";
  std::string list;
  reader.text(list, kRight);
  if (list.empty()) return;
  if (const std::string fault = cpu_list_fault(list, out); !fault.empty())
    reader.refuse(fmt::format("{}; use {}", fault, kRight));
}

void read_channel(const Reader& reader, ChannelConfig& out) {
  out.name = reader.value().key;
  reader.object({
      {"ring", [&](const Reader& r) { r.ring_bytes(out.ring_bytes, kMinRingBytes, kMaxRingBytes); }},
      {"events",
       [&](const Reader& events) {
         events.list(kMaxEvents, [&](const Reader& r) { read_event(r, out.events.emplace_back()); });
         if (events.value().items.empty())
           events.refuse("the list is empty: a channel records at least one event, such as [ \"cycles\" ]");
       }},
      {"min_history",
       [&](const Reader& r) { r.duration(out.min_history, std::chrono::milliseconds(1), std::chrono::hours(24)); }},
      {"cpus", [&](const Reader& r) { read_cpus(r, out.cpus); }},
  });
  if (reader.value().is_object() && !reader.fragment() && reader.value().member("events") == nullptr)
    reader.refuse("the key 'events' is missing: \"events\": [ \"cycles\" ]");
}

}  // namespace

bool is_tracepoint_name(std::string_view event) {
  const std::size_t colon = event.find(':');
  if (colon == std::string_view::npos || !is_identifier(event.substr(0, colon))) return false;
  std::string_view name = event.substr(colon + 1);
  if (const std::size_t second = name.find(':'); second != std::string_view::npos) {
    if (!is_modifiers(name.substr(second + 1))) return false;
    return is_identifier(name.substr(0, second));
  }
  return is_identifier(name) && !is_modifiers(name);
}

void read_event_name(const Reader& reader, std::string& out) {
  constexpr std::size_t kMaxEventBytes = 256;
  constexpr std::string_view kRight =
      "an event in perf's syntax, such as \"cycles\", \"cpu-clock\" or \"sched:sched_switch\"";
  reader.text(out, kRight);
  if (out.size() > kMaxEventBytes || out.find(' ') != std::string::npos)
    reader.refuse(fmt::format("'{}' is not an event name (no blanks, at most {} bytes); use {}", excerpt(out),
                              kMaxEventBytes, kRight));
}

void read_channels(const Reader& reader, std::vector<ChannelConfig>& channels) {
  reader.named("channel", kMaxChannels, [&](const Reader& r) { read_channel(r, channels.emplace_back()); });
  std::size_t events = 0;
  for (const ChannelConfig& channel : channels) events += channel.events.size();
  if (events > kMaxEvents)
    reader.refuse(fmt::format("{} events in all channels together are too many: at most {}", events, kMaxEvents));
  if (reader.value().is_object() && channels.empty() && !reader.fragment())
    reader.refuse(
        "no channel is left, so nothing would be recorded; define at least one, or omit 'channels' to get "
        "the default");
}

}  // namespace flight
