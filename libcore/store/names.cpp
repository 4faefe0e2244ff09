// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace flight {
namespace {

constexpr std::string_view kPrefix = "flight-";
constexpr std::size_t kMaxHostBytes = 64;
constexpr std::size_t kCompactTimeBytes = 20;  // 20261120T031204.123Z

bool host_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

constexpr std::array<std::pair<PartFileKind, std::string_view>, 3> kPartPrefixes{
    {{PartFileKind::data, ".flightd-part-"},
     {PartFileKind::journal, ".flightd-rec-"},
     {PartFileKind::sidecar, ".flightd-side-"}}};

}  // namespace

std::string SnapshotName::stem() const {
  return fmt::format("{}{}-{}-{}-{}", kPrefix, host, to_compact_utc(time), trigger, seq);
}

std::string clean_host(std::string_view host) {
  std::string clean(host.substr(0, kMaxHostBytes));
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return !host_char(c); }, '_');
  return clean.empty() ? "localhost" : clean;
}

bool valid_trigger_name(std::string_view name) {
  constexpr std::size_t kMaxNameBytes = 32;
  const auto good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '-' && std::all_of(name.begin(), name.end(), good);
}

std::optional<std::uint64_t> parse_seq(std::string_view text) {
  std::uint64_t seq = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seq);
  const bool whole = !text.empty() && error == std::errc{} && stop == text.data() + text.size();
  if (!whole || (text[0] == '0' && text.size() > 1)) return std::nullopt;
  return seq;
}

std::optional<SnapshotName> parse_snapshot_name(std::string_view file) {
  std::string_view stem = file;
  if (!take_suffix(stem, kDataSuffix) && !take_suffix(stem, kSidecarSuffix)) return std::nullopt;
  // HOST and TRIGGER may both contain '-'. Parse from the end: a trigger has no capital Z, so the last one ends the
  // time.
  const std::size_t seq_at = stem.rfind('-');
  const std::size_t time_end = stem.rfind('Z');
  if (seq_at == std::string_view::npos || time_end == std::string_view::npos || time_end + 1 >= seq_at ||
      stem[time_end + 1] != '-' || time_end < kPrefix.size() + 1 + kCompactTimeBytes)
    return std::nullopt;
  const std::size_t time_at = time_end + 1 - kCompactTimeBytes;
  const std::string_view time_text = stem.substr(time_at, kCompactTimeBytes);
  const std::string_view host = stem.substr(kPrefix.size(), time_at - 1 - kPrefix.size());
  const std::string_view trigger = stem.substr(time_end + 2, seq_at - time_end - 2);
  const auto seq = parse_seq(stem.substr(seq_at + 1));
  if (!seq || !valid_trigger_name(trigger) || clean_host(host) != host) return std::nullopt;
  const auto time = parse_compact_utc(time_text);
  if (!time) return std::nullopt;
  SnapshotName name{.host = std::string(host), .time = *time, .trigger = std::string(trigger), .seq = *seq};
  // A name that would be written in another way (a 13th month, another prefix) is not flightd's: it must not be
  // deleted.
  if (name.stem() != stem) return std::nullopt;
  return name;
}

std::string part_file(PartFileKind kind, std::uint64_t seq) {
  const auto* const prefix =
      std::find_if(kPartPrefixes.begin(), kPartPrefixes.end(), [kind](const auto& one) { return one.first == kind; });
  return fmt::format("{}{}{}", prefix->second, seq, kPartialSuffix);
}

std::optional<PartFileName> parse_part_file(std::string_view file) {
  if (!take_suffix(file, kPartialSuffix)) return std::nullopt;
  for (const auto& [kind, prefix] : kPartPrefixes) {
    if (!file.starts_with(prefix)) continue;
    const auto seq = parse_seq(file.substr(prefix.size()));
    if (!seq) return std::nullopt;
    return PartFileName{.kind = kind, .seq = *seq};
  }
  return std::nullopt;
}

std::string kallsyms_file(std::string_view boot_id, std::string_view digest) {
  return fmt::format("kallsyms-{}{}{}.zst", boot_id, digest.empty() ? "" : "-", digest);
}

bool is_kallsyms_file(std::string_view file) {
  constexpr std::string_view kKallsymsPrefix = "kallsyms-";
  const auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == '-';
  };
  if (!file.starts_with(kKallsymsPrefix) || !take_suffix(file, ".zst")) return false;
  file.remove_prefix(std::min(file.size(), kKallsymsPrefix.size()));
  return !file.empty() && std::all_of(file.begin(), file.end(), good);
}

}  // namespace flight
