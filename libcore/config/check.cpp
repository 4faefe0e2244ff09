// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/check.hpp"

#include <algorithm>

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

constexpr std::uint64_t kNoBytesLimit = 1ULL << 60U;

void read_name(const Reader& reader, std::string& out) {
  std::string name;
  reader.text(name, "the name of a file in profiles/ without its .json");
  if (name.empty()) return;
  if (!valid_config_name(name))
    reader.refuse(fmt::format("'{}' is not a valid name: use {}", excerpt(name), kConfigNameRule));
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
    reader.refuse(fmt::format("'{}' is not a user name; use a name such as \"flightd\", not a number", excerpt(name)));
  out = std::move(name);
}

void read_workers(const Reader& reader, std::string& out) {
  constexpr std::string_view kRight =
      "\"cpu\", \"core\", \"package\", \"numa\", a number of workers from 1 to 64, or masks such as \"0-3/3:4-7/4\"";
  std::string words;
  if (reader.value().is_whole)
    words = fmt::format("{}", reader.value().whole);
  else if (reader.is(Value::Kind::text, kRight))
    words = reader.value().text;
  else
    return;
  if (const std::string fault = workers_fault(words); !fault.empty())
    reader.refuse(fmt::format("{}; use {}", fault, kRight));
  out = std::move(words);
}

void read_snapshot(const Reader& reader, SnapshotConfig& out) {
  constexpr std::uint64_t kMaxLevel = 19;
  reader.object({
      {"capture", [&](const Reader& r) { r.capture_mode(out.capture); }},
      {"workers", [&](const Reader& r) { read_workers(r, out.workers); }},
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
      {"layout",
       [&](const Reader& r) {
         r.choice(out.layout, {"file", "directory"});
       }},
      {"on_stop", [&](const Reader& r) { r.flag(out.on_stop); }},
  });
}

void read_record(const Reader& reader, RecordConfig& out) {
  reader.object({
      {"workers", [&](const Reader& r) { read_workers(r, out.workers); }},
      {"max_size", [&](const Reader& r) { r.bytes(out.max_bytes, kMinPartBytes, kNoBytesLimit); }},
      {"switch_size", [&](const Reader& r) { r.bytes(out.switch_bytes, kMinPartBytes, kMaxPartBytes); }},
      {"layout",
       [&](const Reader& r) {
         r.choice(out.layout, {"file", "directory"});
       }},
  });
}

void read_limit(const Reader& reader, std::optional<SizeOrShare>& out, bool zero_allowed) {
  SizeOrShare limit;
  reader.size_or_share(limit, zero_allowed);
  out = limit;
}

void read_store(const Reader& reader, StoreConfig& out) {
  constexpr std::uint64_t kMaxFiles = 1'000'000;
  constexpr std::uint64_t kMaxKept = 1000;
  constexpr hours kMaxAge = hours(24 * 365 * 100);
  reader.object({
      {"max_use", [&](const Reader& r) { read_limit(r, out.max_use, false); }},
      {"keep_free", [&](const Reader& r) { read_limit(r, out.keep_free, true); }},
      {"max_files", [&](const Reader& r) { r.whole(out.max_files, 1, kMaxFiles); }},
      {"max_age", [&](const Reader& r) { r.duration(out.max_age, std::chrono::seconds(1), kMaxAge); }},
      {"keep_first", [&](const Reader& r) { r.whole(out.keep_first, 0, kMaxKept); }},
      {"keep_last", [&](const Reader& r) { r.whole(out.keep_last, 0, kMaxKept); }},
      {"max_snapshot", [&](const Reader& r) { r.bytes(out.max_snapshot_bytes, kMinRingBytes, kNoBytesLimit); }},
  });
}

}  // namespace

ConfigResult<Config> check_config(const Value& root, bool fragment) {
  Check check{.fragment = fragment};
  Config out;
  Reader(check, root, "")
      .object({
          {"profile", [&](const Reader& r) { read_name(r, out.profile); }},
          {"user", [&](const Reader& r) { read_user(r, out.user); }},
          {"memory",
           [&](const Reader& memory) {
             memory.object({{"max", [&](const Reader& r) { r.size_or_share(out.memory_max, false); }},
                            {"sideband", [&](const Reader& r) {
                               std::uint64_t bytes = kLeastSidebandRingBytes;
                               r.ring_bytes(bytes, kLeastSidebandRingBytes, kMaxRingBytes);
                               out.sideband_ring_bytes = bytes;
                             }}});
           }},
          {"channels", [&](const Reader& r) { read_channels(r, out.channels); }},
          {"snapshot", [&](const Reader& r) { read_snapshot(r, out.snapshot); }},
          {"record", [&](const Reader& r) { read_record(r, out.record); }},
          {"store", [&](const Reader& r) { read_store(r, out.store); }},
          {"triggers", [&](const Reader& r) { read_triggers(r, out.triggers); }},
          {"storm_guard", [&](const Reader& r) { read_storm_guard(r, out.storm_guard); }},
      });
  if (check.error) return tl::unexpected(std::move(*check.error));
  return out;
}

}  // namespace flight
