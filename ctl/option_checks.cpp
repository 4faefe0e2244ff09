// SPDX-License-Identifier: Apache-2.0
#include "ctl/option_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>

#include "ctl/export_labels.hpp"
#include "ctl/host.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {
namespace {

template <typename Value>
std::string check_parsed(const std::string& text, const Result<Value>& value) {
  return text.empty() ? check_not_empty(text) : value ? "" : value.error().what;
}

}  // namespace

std::string check_id(const std::string& id) {
  const bool digits = !id.empty() && std::all_of(id.begin(), id.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (id == "latest" || (digits && id.size() <= 20 && id[0] != '0')) return "";
  return "'" + printable(id) + "' is not a snapshot id: use a number from `flightctl list`, or latest";
}

std::string check_recording_id(const std::string& id) {
  return id == "latest" ? "'latest' is not the id of a recording: `flightctl status` shows those that run"
                        : check_id(id);
}

std::string check_host(const std::string& host) {
  const auto parsed = parse_host(host);
  return parsed ? "" : parsed.error().what;
}

// With --host the path is a word of a shell command line on the other machine.
std::string check_socket(const std::string& path) {
  if (path.empty()) return "it must not be empty";
  return is_printable(path) ? "" : "'" + printable(path) + "' is not a valid socket path";
}

// CLI11 treats an empty text like an option that was not given.
std::string check_not_empty(const std::string& text) { return text.empty() ? "it must not be empty" : ""; }

std::string check_time(const std::string& text) { return check_parsed(text, parse_time(text, wall_now())); }

std::string check_span(const std::string& text) { return check_parsed(text, parse_span(text)); }

std::string check_size(const std::string& text) { return check_parsed(text, parse_bytes(text)); }

std::string check_count(const std::string& text) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count >= 1 && count <= kMost) return "";
  return fmt::format("it must be a whole number from 1 to {}, not '{}'", kMost, printable(text));
}

std::string check_number(const std::string& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return "";
  return "it must be a whole number, not '" + printable(text) + "'";
}

std::string check_capture(const std::string& word) {
  return word == "pause" || word == "live" ? "" : "it must be pause or live, not '" + printable(word) + "'";
}

std::string check_format(const std::string& word) {
  if (word == "folded" || word == "pprof" || word == "firefox") return "";
  return "it must be folded, pprof or firefox, not '" + printable(word) + "'";
}

std::string check_labels(const std::string& text) { return check_parsed(text, parse_labels(text)); }

std::string check_trigger(const std::string& name) {
  return valid_trigger_name(name) ? ""
                                  : "'" + printable(name) + "' is not a trigger name; `flightctl triggers` shows all";
}

}  // namespace flight::ctl
