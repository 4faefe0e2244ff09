// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/proc_stat.hpp"

#include <algorithm>
#include <charconv>

#include "libcore/sysinfo/proc_text.hpp"

namespace flight {
namespace {

// Parses the next number of `line`, after blanks.
std::optional<std::uint64_t> take_number(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc{}) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return number;
}

bool take_prefix(std::string_view& line, std::string_view prefix) {
  if (!line.starts_with(prefix)) return false;
  line.remove_prefix(prefix.size());
  return true;
}

// Parses "0 4705 0 2259 …", the text after "cpu".
std::optional<CpuTicks> parse_cpu(std::string_view line) {
  CpuTicks out;
  if (line.empty() || line[0] == ' ') return std::nullopt;  // "cpu ", the sum: it includes offline CPUs
  const auto number = take_number(line);
  if (!number || *number >= kMaxStatCpus) return std::nullopt;
  out.cpu = static_cast<int>(*number);
  for (std::uint64_t& ticks : out.ticks) {
    const auto value = take_number(line);
    if (!value) return std::nullopt;
    ticks = *value;
  }
  out.guest = take_number(line).value_or(0);
  out.guest_nice = take_number(line).value_or(0);
  return out;
}

std::optional<std::uint64_t> pressure_total(std::string_view line) {
  constexpr std::string_view kTotal = "total=";
  const std::size_t at = line.find(kTotal);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + kTotal.size());
  return take_number(line);
}

}  // namespace

void parse_proc_stat(std::string_view text, ProcStat& out) {
  out.cpus.clear();
  out.running.reset();
  out.blocked.reset();
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (take_prefix(line, "cpu")) {
      if (const auto cpu = parse_cpu(line); cpu && out.cpus.size() < kMaxStatCpus) out.cpus.push_back(*cpu);
    } else if (take_prefix(line, "procs_running ")) {
      out.running = take_number(line);
    } else if (take_prefix(line, "procs_blocked ")) {
      out.blocked = take_number(line);
    }
  }
}

std::optional<std::uint64_t> parse_loadavg_running(std::string_view text) {
  constexpr int kAverages = 3;
  for (int i = 0; i < kAverages; ++i) {
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    text.remove_prefix(blank + 1);
  }
  return take_number(text);
}

PressureTotals parse_pressure(std::string_view text) {
  PressureTotals out;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (take_prefix(line, "some "))
      out.some_us = pressure_total(line);
    else if (take_prefix(line, "full "))
      out.full_us = pressure_total(line);
  }
  return out;
}

}  // namespace flight
