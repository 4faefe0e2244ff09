// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/event_spec.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "libcore/perf/event_names.hpp"
#include "libcore/perf/pmu.hpp"
#include "libcore/perf/tracepoint.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxEventBytes = 1024;
constexpr unsigned kMaxPrecise = 3;

bool looks_like_modifiers(std::string_view text) {
  return !text.empty() && text.size() <= 8 && text.find_first_not_of("ukhGHpPSDIWe") == std::string_view::npos;
}

// u and k: only these modes; p, one to three times: the required precision of the address.
Result<void> apply_modifiers(std::string_view modifiers, EventSpec& spec) {
  bool user = false;
  bool kernel = false;
  for (const char letter : modifiers) {
    const bool repeated =
        (letter == 'u' && user) || (letter == 'k' && kernel) || (letter == 'p' && spec.precise_ip == kMaxPrecise);
    if (repeated || (letter != 'u' && letter != 'k' && letter != 'p'))
      return fail(
          std::errc::invalid_argument,
          "event '{}': '{}' are not modifiers: u (user), k (kernel) and p, pp, ppp (precise) can be used, each once",
          spec.name, modifiers);
    if (letter == 'u') user = true;
    if (letter == 'k') kernel = true;
    if (letter == 'p') ++spec.precise_ip;
  }
  spec.exclude_kernel = user && !kernel;
  spec.exclude_user = kernel && !user;
  return {};
}

// "r" and up to 16 hexadecimal digits: the PMU's own code.
std::optional<std::uint64_t> raw_config(std::string_view name) {
  constexpr std::size_t kMostDigits = 16;
  if (name.size() < 2 || name.size() > kMostDigits + 1 || name.front() != 'r') return std::nullopt;
  std::uint64_t config = 0;
  const auto [stop, error] = std::from_chars(name.data() + 1, name.data() + name.size(), config, 16);
  if (error != std::errc{} || stop != name.data() + name.size()) return std::nullopt;
  return config;
}

bool apply_plain_name(std::string_view name, EventSpec& spec) {
  if (const auto generic = generic_event(name); generic) {
    spec.type = generic->type;
    spec.config = generic->config;
    spec.needs = generic->type == PERF_TYPE_HARDWARE ? Needs::cpu_pmu : Needs::kernel;
    return true;
  }
  if (const auto config = raw_config(name); config) {
    spec.type = PERF_TYPE_RAW;
    spec.config = *config;
    spec.needs = Needs::cpu_pmu;
    return true;
  }
  return false;
}

// `name` without its modifiers: lists generic events and tracepoints with a similar name.
Failure unknown_event(std::string_view name, const EventSources& sources) {
  std::vector<std::string> all = generic_event_names();
  if (!sources.tracefs.empty())
    for (std::string& tracepoint : list_tracepoints(sources.tracefs)) all.push_back(std::move(tracepoint));
  return fail(
      std::errc::no_such_file_or_directory,
      "there is no event '{}'{}; events are written as cycles, cpu-clock, r1a8, pmu/term=value/ or SYSTEM:EVENT", name,
      did_you_mean(nearest_names(name, all)));
}

Result<EventSpec> parse_pmu_event(std::string_view text, EventSpec spec, const EventSources& sources) {
  const std::size_t first = text.find('/');
  const std::size_t last = text.rfind('/');
  if (first == 0 || first == last)
    return fail(std::errc::invalid_argument, "event '{}': use pmu/term=value,.../ with a slash at both ends", text);
  const std::string_view terms = text.substr(first + 1, last - first - 1);
  if (auto parsed = parse_pmu(text.substr(0, first), terms, sources.sysfs, spec); !parsed)
    return wrap(parsed.error(), "event '{}'", text);
  std::string_view modifiers = text.substr(last + 1);
  if (modifiers.starts_with(':')) modifiers.remove_prefix(1);
  if (auto applied = apply_modifiers(modifiers, spec); !applied) return propagate(applied.error());
  return spec;
}

Result<EventSpec> parse_tracepoint(std::string_view system, std::string_view event, std::string_view modifiers,
                                   EventSpec spec, const EventSources& sources) {
  if (event.find_first_of("*?[") != std::string_view::npos || system.find_first_of("*?[") != std::string_view::npos)
    return fail(std::errc::invalid_argument, "event '{}': name one tracepoint; wildcards cannot be used", spec.name);
  spec.system = system;
  spec.event = event;
  const auto id = tracepoint_id(sources.tracefs, spec.system, spec.event);
  if (!id) return propagate(id.error());
  spec.type = PERF_TYPE_TRACEPOINT;
  spec.config = *id;
  if (auto applied = apply_modifiers(modifiers, spec); !applied) return propagate(applied.error());
  return spec;
}

}  // namespace

Result<EventSpec> parse_event(std::string_view text, const EventSources& sources) {
  if (text.empty()) return fail(std::errc::invalid_argument, "an event name is empty");
  if (text.size() > kMaxEventBytes)
    return fail(std::errc::invalid_argument, "an event name has {} bytes; the maximum is {}", text.size(),
                kMaxEventBytes);
  const auto printable = [](char letter) { return letter > ' ' && letter < '\x7f'; };
  if (!std::all_of(text.begin(), text.end(), printable))
    return fail(std::errc::invalid_argument, "an event name must not contain blanks, control or non-ASCII characters");
  EventSpec spec;
  spec.name = text;
  if (text.find('/') != std::string_view::npos) return parse_pmu_event(text, std::move(spec), sources);

  const std::size_t colon = text.find(':');
  const std::string_view head = text.substr(0, colon);
  if (colon == std::string_view::npos)
    return apply_plain_name(head, spec) ? Result<EventSpec>(std::move(spec)) : unknown_event(head, sources);
  const std::string_view tail = text.substr(colon + 1);
  if (head.empty() || tail.empty())
    return fail(std::errc::invalid_argument, "event '{}': something is missing before or after its colon", text);
  // "cycles:u" before "sched:sched_switch": no tracepoint system has the name of a generic event.
  if (apply_plain_name(head, spec)) {
    if (auto applied = apply_modifiers(tail, spec); !applied) return propagate(applied.error());
    return spec;
  }
  const std::size_t second = tail.find(':');
  const std::string_view event = tail.substr(0, second);
  const std::string_view modifiers = second == std::string_view::npos ? "" : tail.substr(second + 1);
  if (second != std::string_view::npos && modifiers.empty())
    return fail(std::errc::invalid_argument, "event '{}': its modifiers are missing after the last colon", text);
  auto parsed = parse_tracepoint(head, event, modifiers, std::move(spec), sources);
  // "cylces:u" is more likely a generic event with a typing error than a tracepoint called "u".
  if (!parsed && parsed.error().errno_value() == ENOENT && looks_like_modifiers(event))
    return unknown_event(head, sources);
  return parsed;
}

}  // namespace flight
