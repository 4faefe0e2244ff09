// SPDX-License-Identifier: Apache-2.0
#include "ctl/info_text.hpp"

#include <algorithm>

#include "ctl/output.hpp"
#include "ctl/sidecar_text.hpp"
#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/headline.hpp"
#include "libcore/store/names.hpp"

namespace flight::ctl {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kAskersShown = 8, kChannelsShown = 16;

bool plain(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-';
  });
}

// Quotes a path for a shell: the host's name may contain unusual characters.
std::string shell_word(const std::string& text) {
  if (plain(text)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// A shell command on as many lines as needed: a backslash joins them, but not inside quotes.
std::string command_text(const std::string& path, const Screen& screen) {
  const std::string command = "perf report -i ";
  if (columns(command + shell_word(path)) + 2 <= screen.width())
    return "  " + command + printable(shell_word(path)) + "\n";
  if (!plain(path)) return "  " + command + screen.cut(shell_word(path), screen.width() - command.size() - 2) + "\n";
  std::string out = "  " + command + "\\\n";
  for (std::size_t at = 0; at < path.size(); at += screen.width() - 1) {
    out += path.substr(at, screen.width() - 1);
    out += at + screen.width() - 1 < path.size() ? "\\\n" : "\n";
  }
  return out;
}

// Always with a unit: a bare number could be read as a number of events.
std::string size_of(std::uint64_t bytes) { return bytes < 1024 ? counted(bytes, "byte") : format_bytes(bytes) + "iB"; }

std::string record_text(const SidecarRecord& record) {
  return fmt::format("part {} of recording {}{}", record.part, record.first,
                     record.ended ? ", which ended with it: " + *record.ended : "");
}

std::string tracker_text(const Sidecar& sidecar) {
  return fmt::format("{} running, {} more exited but remembered, {} forgotten{}", sidecar.tracker.processes,
                     sidecar.tracker.exited, sidecar.tracker.evicted, sidecar.tracker.stale ? "; stale" : "");
}

// Empty if the stacks are as the kernel wrote them, and nearly all of them were checked.
std::string callers_text(const Sidecar& sidecar) {
  const SidecarStacks stacks = sidecar.stacks.value_or(SidecarStacks());
  std::string out;
  if (stacks.garbage_frames > 0)
    out = fmt::format("{} of {} were no code, and were dropped (programs without frame pointers)",
                      stacks.garbage_frames, stacks.callers);
  if (!out.empty() && stacks.unchecked > 0) out += "; ";
  if (!out.empty() ? stacks.unchecked > 0 : stacks.unchecked > stacks.checked)
    out += fmt::format("those of {} were not checked", counted(stacks.unchecked, "sample"));
  return out;
}

std::string timings_text(const Sidecar& sidecar) {
  const SidecarTimings& times = sidecar.timings_us;
  const auto us = [](std::uint64_t value) { return micros_text(static_cast<double>(value)); };
  return fmt::format("{} (queued {}, freeze {}, walk {}, merge {}, write {})", us(times.total), us(times.queued),
                     us(times.freeze), us(times.walk), us(times.merge), us(times.write));
}

Lines asker_lines(const Sidecar& sidecar) {
  Lines out;
  for (const SidecarRequest& request : sidecar.requests) {
    if (out.size() == kAskersShown) {
      out.emplace_back("asked by", fmt::format("{} more", sidecar.requests.size() - kAskersShown));
      break;
    }
    out.emplace_back("asked by",
                     fmt::format("{} (pid {}, uid {}) at {}{}{}", own_name(request.comm), request.pid, request.uid,
                                 local_time(request.time), request.reason.empty() ? "" : ": ", request.reason));
  }
  return out;
}

// "stacks: 0-3,8; other channels: all".
std::string cpus_of_channels(const Sidecar& sidecar) {
  std::string out;
  std::size_t shown = 0;
  for (const SidecarChannelCpus& channel : sidecar.channel_cpus) {
    if (++shown > kChannelsShown) return out + fmt::format("{} more", sidecar.channel_cpus.size() - kChannelsShown);
    out += fmt::format("{}: {}; ", channel.channel, channel.cpus);
  }
  return out + "other channels: all";
}

Lines fact_lines(const Sidecar& sidecar) {
  const std::size_t slash = sidecar.path.rfind('/');
  const bool has_folder = slash != std::string::npos;
  Lines out{{"window", window_text(sidecar.window)},
            {"all rings cover", window_text(sidecar.common_window)},
            {"samples", std::to_string(sidecar.samples) + (sidecar.recording == "silent" ? " (silent)" : "")},
            {"losses", losses_text(sidecar)},
            {"processes", tracker_text(sidecar)}};
  if (std::string callers = callers_text(sidecar); !callers.empty()) out.emplace_back("callers", std::move(callers));
  if (sidecar.record) out.emplace_back("recording", record_text(*sidecar.record));
  if (!sidecar.channel_cpus.empty()) out.emplace_back("recorded CPUs", cpus_of_channels(sidecar));
  for (auto& line : asker_lines(sidecar)) out.push_back(std::move(line));
  if (!sidecar.record) out.emplace_back("took", timings_text(sidecar));
  out.emplace_back(
      "capture", fmt::format("{}, compression {}, flightd {}", sidecar.capture, sidecar.compression, sidecar.version));
  out.emplace_back("host", fmt::format("{}, Linux {}", sidecar.host, sidecar.kernel));
  out.emplace_back("size", size_text(sidecar));
  out.emplace_back("file", has_folder ? sidecar.path.substr(slash + 1) : sidecar.path);
  if (has_folder) out.emplace_back("in", sidecar.path.substr(0, std::max<std::size_t>(slash, 1)));
  return out;
}

// The time in the file's name, as in `flightctl list`: the window may end earlier.
std::string taken_at(const Sidecar& sidecar) {
  const auto name = parse_snapshot_name(std::string_view(sidecar.path).substr(sidecar.path.rfind('/') + 1));
  return name ? local_time(name->time) : local_time(sidecar.window.end);
}

}  // namespace

std::string losses_text(const Sidecar& sidecar) {
  if (sidecar.record) {
    std::uint64_t lost = 0;
    for (const SidecarHole& hole : sidecar.holes) lost += hole.lost;
    const std::string known = fmt::format("{} in {}", counted(lost, "event"), counted(sidecar.holes.size(), "hole"));
    return sidecar.record->holes_known.value_or(true) ? known : "at least " + known + ", others are not known";
  }
  std::uint64_t torn = 0, unknown = 0;
  for (const SidecarRing& ring : sidecar.rings) torn += ring.torn_bytes, unknown += ring.unknown_ids;
  std::string out = fmt::format("{} {} in the longest blackout of {}", lost_text(sidecar),
                                sidecar.blackout.lost == 1 ? "event" : "events", micros_text(sidecar.blackout.max_us));
  out += fmt::format("; {} of ring content torn, {} of unknown events", size_of(torn), counted(unknown, "record"));
  return out + "; " + counted(sidecar.holes.size(), "hole");
}

std::string title_text(const Sidecar& sidecar, const Screen& screen) {
  return screen.wrapped(fmt::format("snapshot {}: {} on {}, {}", screen.cut(sidecar.id, 24),
                                    screen.cut(sidecar.trigger, 64), screen.cut(sidecar.host, 64), taken_at(sidecar)),
                        0);
}

std::string info_text(const Sidecar& sidecar, const Screen& screen, const std::string& changed) {
  std::string out;
  if (const std::string who = who_text(sidecar); !who.empty()) out += screen.wrapped(who, 0);
  out += title_text(sidecar, screen);
  if (sidecar.fired || !sidecar.reason.empty())
    out += screen.wrapped(sidecar.fired ? why_text(sidecar) : sidecar.reason, 2);
  out += names_text(sidecar, screen);
  out += metric_part(sidecar, screen);
  out += top_part(sidecar, screen);
  out += forks_part(sidecar, screen);
  out += "\n" + screen.facts(fact_lines(sidecar));
  out += rings_part(sidecar, screen);
  out += holes_part(sidecar, screen);
  out += warnings_text(sidecar, screen);
  out += changed;
  return out + "\nto look into it:\n  flightctl report " + screen.cut(sidecar.id, 24) + "\n" +
         command_text(sidecar.path, screen);
}

}  // namespace flight::ctl
