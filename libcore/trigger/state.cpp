// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/state.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "libcore/base/text.hpp"
#include "libcore/config/config.hpp"

namespace flight {
namespace {

constexpr std::string_view kHead = "flightd-triggers 1";
constexpr std::size_t kMaxWordBytes = 64;
constexpr double kMaxTokens = 1000;
// Limits so that sums stay in range: the year 2096, and 31 years of uptime.
constexpr std::int64_t kMaxWallNs = 4'000'000'000'000'000'000;
constexpr SignedTime kMaxNs = 1'000'000'000'000'000'000;

class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::string_view take() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }

 private:
  std::string_view rest_;
};

template <typename T>
bool number(std::string_view word, T& out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc{} && end == word.data() + word.size();
}

bool time(std::string_view word, SignedTime& out) { return number(word, out) && out > -kMaxNs && out < kMaxNs; }

bool wall_time(std::string_view word, WallTime& out) {
  std::int64_t ns = 0;
  if (!number(word, ns) || ns < 0 || ns > kMaxWallNs) return false;
  out = WallTime(ns);
  return true;
}

bool plain(std::string_view word) { return !word.empty() && word.size() <= kMaxWordBytes && is_printable(word); }

bool parse_saved(Words words, TriggerState& out) {
  out.boot_id = words.take();
  return plain(out.boot_id) && wall_time(words.take(), out.wall) && time(words.take(), out.monotonic_ns) &&
         words.empty();
}

bool parse_guard(Words words, TriggerState& out) {
  return number(words.take(), out.guard_tokens) && std::isfinite(out.guard_tokens) && out.guard_tokens >= 0 &&
         out.guard_tokens <= kMaxTokens && words.empty();
}

bool parse_trigger(Words words, SavedTrigger& out) {
  out.name = words.take();
  if (!plain(out.name) || !number(words.take(), out.fired) || !number(words.take(), out.suppressed)) return false;
  const std::string_view switched = words.take();
  if (switched != "on" && switched != "off" && switched != "config") return false;
  if (switched != "config") out.enabled = switched == "on";
  if (const std::string_view word = words.take(); word != "-" && !wall_time(word, out.fired_at.emplace())) return false;
  if (const std::string_view word = words.take(); word != "-") {
    if (!plain(word)) return false;
    out.snapshot = word;
  }
  while (!words.empty()) {
    std::int64_t firing = 0;
    if (out.firings.size() >= kMaxFirings || !time(words.take(), firing)) return false;
    out.firings.push_back(firing);
  }
  return true;
}

bool parse_recordings(Words words, SavedTrigger& out) {
  if (!number(words.take(), out.recordings) || !number(words.take(), out.recordings_failed)) return false;
  out.recording.clear();
  if (const std::string_view word = words.take(); word != "-") {
    if (!plain(word)) return false;
    out.recording = word;
  }
  return words.empty();
}

bool parse_line(std::string_view line, TriggerState& out) {
  Words words(line);
  const std::string_view what = words.take();
  if (what == "saved") return parse_saved(words, out);
  if (what == "guard") return parse_guard(words, out);
  if (what == "recordings") return !out.triggers.empty() && parse_recordings(words, out.triggers.back());
  return what == "trigger" && out.triggers.size() < kMaxTriggers && parse_trigger(words, out.triggers.emplace_back());
}

}  // namespace

SignedTime TriggerState::shift(std::string_view boot_id_now, const ClockPair& now) const {
  const auto now_ns =
      static_cast<SignedTime>(std::min<EventTime>(now.monotonic_ns, kMaxNs));  // and saved values are bounded
  if (boot_id_now == boot_id) return std::min<SignedTime>(0, now_ns - monotonic_ns);
  const SignedTime passed_ns = std::max<SignedTime>((now.wall - wall).count(), now_ns);
  return now_ns - passed_ns - monotonic_ns;
}

std::string to_text(const TriggerState& state) {
  std::string out = fmt::format("{}\nsaved {} {} {}\nguard {:.6f}\n", kHead, state.boot_id, state.wall.count(),
                                state.monotonic_ns, state.guard_tokens);
  for (const SavedTrigger& trigger : state.triggers) {
    const std::string_view switched = trigger.enabled ? (*trigger.enabled ? "on" : "off") : "config";
    out += fmt::format("trigger {} {} {} {} {} {}", trigger.name, trigger.fired, trigger.suppressed, switched,
                       trigger.fired_at ? fmt::format("{}", trigger.fired_at->count()) : "-",
                       trigger.snapshot.empty() ? "-" : trigger.snapshot);
    for (const SignedTime firing : trigger.firings) out += fmt::format(" {}", firing);
    out += '\n';
    if (trigger.recordings == 0 && trigger.recordings_failed == 0) continue;
    out += fmt::format("recordings {} {} {}\n", trigger.recordings, trigger.recordings_failed,
                       trigger.recording.empty() ? "-" : trigger.recording);
  }
  return out + "end\n";
}

Result<TriggerState> parse_trigger_state(std::string_view text) {
  if (text.size() > kMaxTriggerStateBytes)
    return fail(std::errc::file_too_large, "the triggers' saved counters have {} bytes, more than the limit of {}",
                text.size(), kMaxTriggerStateBytes);
  TriggerState out;
  std::size_t number = 0;
  bool ended = false;
  for (; !text.empty() && !ended; ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    if (end == std::string_view::npos) break;  // the last line was truncated
    text.remove_prefix(end + 1);
    ended = line == "end" && number > 2;
    // Head, clocks and guard come first, and only once.
    const bool in_place = (number == 1) == line.starts_with("saved ") && (number == 2) == line.starts_with("guard ");
    const bool good = number == 0 ? line == kHead : ended || (in_place && parse_line(line, out));
    if (!good)
      return fail(std::errc::bad_message, "the triggers' saved counters are damaged in line {}; counting starts again",
                  number + 1);
  }
  if (!ended || !text.empty())
    return fail(std::errc::bad_message, "the triggers' saved counters are incomplete; counting starts again");
  return out;
}

}  // namespace flight
