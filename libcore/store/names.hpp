// SPDX-License-Identifier: Apache-2.0
// The one place where a snapshot's file names are built and parsed:
//
//   flight-HOST-YYYYMMDDTHHMMSS.mmmZ-TRIGGER-SEQ.perf.data      (and .json, .pinned in place of .perf.data)
//   kallsyms-BOOTID.zst
//
// HOST: what is not [A-Za-z0-9._-] becomes _, at most 64. TRIGGER: [a-z0-9][a-z0-9-]{0,31}. SEQ: decimal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/clock.hpp"

namespace flight {

inline constexpr std::string_view kDataSuffix = ".perf.data";
inline constexpr std::string_view kSidecarSuffix = ".json";
inline constexpr std::string_view kPinSuffix = ".pinned";  // an empty file: not to be vacuumed
inline constexpr std::string_view kPartialSuffix = ".partial";

struct SnapshotName {
  std::string host;
  WallTime time{};  // to the millisecond
  std::string trigger;
  std::uint64_t seq = 0;

  [[nodiscard]] std::string stem() const;  // without a suffix
  [[nodiscard]] std::string data_file() const { return stem() + std::string(kDataSuffix); }
  [[nodiscard]] std::string sidecar_file() const { return stem() + std::string(kSidecarSuffix); }
  [[nodiscard]] std::string pin_file() const { return stem() + std::string(kPinSuffix); }
};

[[nodiscard]] std::string clean_host(std::string_view host);
[[nodiscard]] bool valid_trigger_name(std::string_view name);
// Of a file name, with either suffix; nullopt: not one of ours.
[[nodiscard]] std::optional<SnapshotName> parse_snapshot_name(std::string_view file);
// An id as people and clients give it: decimal digits without leading zeros that fit 64 bits; nullopt: anything else.
[[nodiscard]] std::optional<std::uint64_t> parse_seq(std::string_view text);
[[nodiscard]] std::string kallsyms_file(std::string_view boot_id);
[[nodiscard]] bool is_kallsyms_file(std::string_view file);

}  // namespace flight
