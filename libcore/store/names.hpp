// SPDX-License-Identifier: Apache-2.0
// Builds and parses the names of a snapshot's files; no other code does that:
//
//   flight-HOST-YYYYMMDDTHHMMSS.mmmZ-TRIGGER-SEQ.perf.data      (and .json, .pinned in place of .perf.data)
//   kallsyms-BOOTID-DIGEST.zst                                 (flightd 0.1: kallsyms-BOOTID.zst)
//
// and those of a part of a recording while it is written: its data, its journal, and what its sidecar can say already.
//
//   .flightd-part-SEQ.partial   .flightd-rec-SEQ.partial   .flightd-side-SEQ.partial
//
// HOST: characters outside [A-Za-z0-9._-] become _, at most 64. TRIGGER: [a-z0-9][a-z0-9-]{0,31}. SEQ: decimal.
// DIGEST: of the loaded modules, 16 hex digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/clock.hpp"

namespace flight {

inline constexpr std::string_view kDataSuffix = ".perf.data";
inline constexpr std::string_view kSidecarSuffix = ".json";
inline constexpr std::string_view kPinSuffix = ".pinned";  // an empty file: the snapshot is not vacuumed
inline constexpr std::string_view kPartialSuffix = ".partial";
inline constexpr const char* kSeqFile = ".seq";  // the last SEQ that was given

struct SnapshotName {
  std::string host;
  WallTime time{};  // with milliseconds
  std::string trigger;
  std::uint64_t seq = 0;

  [[nodiscard]] std::string stem() const;  // without a suffix
  [[nodiscard]] std::string data_file() const { return stem() + std::string(kDataSuffix); }
  [[nodiscard]] std::string sidecar_file() const { return stem() + std::string(kSidecarSuffix); }
  [[nodiscard]] std::string pin_file() const { return stem() + std::string(kPinSuffix); }
};

enum class PartFileKind : std::uint8_t { data, journal, sidecar };
[[nodiscard]] std::string part_file(PartFileKind kind, std::uint64_t seq);
struct PartFileName {
  PartFileKind kind = PartFileKind::data;
  std::uint64_t seq = 0;
};
// nullopt: the name is not that of a part's file.
[[nodiscard]] std::optional<PartFileName> parse_part_file(std::string_view file);

[[nodiscard]] std::string clean_host(std::string_view host);
[[nodiscard]] bool valid_trigger_name(std::string_view name);
// Parses a file name with either suffix; nullopt: it is not a snapshot's.
[[nodiscard]] std::optional<SnapshotName> parse_snapshot_name(std::string_view file);
// Parses an id given by a user or client: decimal digits without leading zeros that fit 64 bits; nullopt: another
// text.
[[nodiscard]] std::optional<std::uint64_t> parse_seq(std::string_view text);
// Without a digest: the name in flightd 0.1, which kept one for each boot.
[[nodiscard]] std::string kallsyms_file(std::string_view boot_id, std::string_view digest = {});
[[nodiscard]] bool is_kallsyms_file(std::string_view file);

}  // namespace flight
