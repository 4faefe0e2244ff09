// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/check.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

constexpr std::uint64_t kNoBytesLimit = 1ULL << 60U;

// The number that is all of `text`.
std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// Calls `good` for each piece between separators; true if all are.
template <typename Good>
bool all_pieces(std::string_view text, char separator, const Good& good) {
  for (;;) {
    const std::size_t end = text.find(separator);
    if (!good(text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

// "0-3,8": CPU numbers and rising ranges.
bool valid_cpu_list(std::string_view list) {
  constexpr std::uint64_t kMaxCpus = 8192;
  return all_pieces(list, ',', [&](std::string_view range) {
    const std::size_t dash = range.find('-');
    const auto first = number_of(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number_of(range.substr(dash + 1));
    return first && last && *first <= *last && *last < kMaxCpus;
  });
}

void read_name(const Reader& reader, std::string& out) {
  std::string name;
  reader.text(name, "the name of a file in profiles/ without its .json");
  if (name.empty()) return;
  if (!valid_config_name(name)) reader.refuse(fmt::format("'{}' is no name: use {}", printable(name), kConfigNameRule));
  out = std::move(name);
}

void read_user(const Reader& reader, std::string& out) {
  constexpr std::size_t kMaxUserBytes = 32;  // useradd(8)
  std::string name;
  reader.text(name, "a user's name such as \"flightd\"");
  if (name.empty()) return;
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  const bool digits = name.find_first_not_of("0123456789") == std::string::npos;
  if (name.size() > kMaxUserBytes || digits || name[0] == '-' || !std::all_of(name.begin(), name.end(), good))
    reader.refuse(
        fmt::format("'{}' is no user's name; right would be a name such as \"flightd\", no number", printable(name)));
  out = std::move(name);
}

void read_crew(const Reader& reader, std::string& out) {
  constexpr std::string_view kRight =
      "\"cpu\", \"core\", \"package\", \"numa\", a number of workers from 1 to 64, or masks such as \"0-3/3:4-7/4\"";
  std::string words;
  if (reader.value().is_whole)
    words = fmt::format("{}", reader.value().whole);
  else if (reader.is(Value::Kind::text, kRight))
    words = reader.value().text;
  else
    return;
  if (!valid_crew(words)) reader.refuse(fmt::format("'{}' is no crew; right would be {}", printable(words), kRight));
  out = std::move(words);
}

void read_snapshot(const Reader& reader, SnapshotConfig& out) {
  constexpr std::uint64_t kMaxLevel = 19;
  reader.object({
      {"capture", [&](const Reader& r) { r.capture_mode(out.capture); }},
      {"crew", [&](const Reader& r) { read_crew(r, out.crew); }},
      {"compression",
       [&](const Reader& r) {
         r.choice(out.compression, {"zstd", "none"});
       }},
      {"compression_level",
       [&](const Reader& r) {
         std::uint64_t level = 1;
         r.whole(level, 1, kMaxLevel);
         out.compression_level = static_cast<int>(level);
       }},
      {"on_stop", [&](const Reader& r) { r.flag(out.on_stop); }},
  });
}

void read_limit(const Reader& reader, std::optional<SizeOrShare>& out, bool zero_allowed) {
  SizeOrShare limit;
  reader.size_or_share(limit, zero_allowed);
  out = limit;
}

void read_store(const Reader& reader, StoreConfig& out) {
  constexpr std::uint64_t kMaxFiles = 1'000'000;
  constexpr hours kMaxAge = hours(24 * 365 * 100);
  reader.object({
      {"max_use", [&](const Reader& r) { read_limit(r, out.max_use, false); }},
      {"keep_free", [&](const Reader& r) { read_limit(r, out.keep_free, true); }},
      {"max_files", [&](const Reader& r) { r.whole(out.max_files, 1, kMaxFiles); }},
      {"max_age", [&](const Reader& r) { r.duration(out.max_age, std::chrono::seconds(1), kMaxAge); }},
      {"max_snapshot", [&](const Reader& r) { r.bytes(out.max_snapshot_bytes, kMinRingBytes, kNoBytesLimit); }},
  });
}

}  // namespace

bool valid_crew(std::string_view words) {
  constexpr std::array<std::string_view, 4> kWords{"cpu", "core", "package", "numa"};
  constexpr std::uint64_t kMaxWorkers = 64;
  if (std::find(kWords.begin(), kWords.end(), words) != kWords.end()) return true;
  if (const auto workers = number_of(words)) return *workers >= 1 && *workers <= kMaxWorkers;
  return all_pieces(words, ':', [](std::string_view mask) {
    const std::size_t slash = mask.find('/');
    return slash != std::string_view::npos && valid_cpu_list(mask.substr(0, slash)) &&
           valid_cpu_list(mask.substr(slash + 1));
  });
}

ConfigResult<Config> check_config(const Value& root, bool fragment) {
  Check check{.fragment = fragment};
  Config out;
  Reader(check, root, "")
      .object({
          {"profile", [&](const Reader& r) { read_name(r, out.profile); }},
          {"user", [&](const Reader& r) { read_user(r, out.user); }},
          {"memory",
           [&](const Reader& memory) {
             memory.object({{"max", [&](const Reader& r) { r.size_or_share(out.memory_max, false); }}});
           }},
          {"channels", [&](const Reader& r) { read_channels(r, out.channels); }},
          {"snapshot", [&](const Reader& r) { read_snapshot(r, out.snapshot); }},
          {"store", [&](const Reader& r) { read_store(r, out.store); }},
          {"triggers", [&](const Reader& r) { read_triggers(r, out.triggers); }},
      });
  if (check.error) return tl::unexpected(std::move(*check.error));
  return out;
}

}  // namespace flight
