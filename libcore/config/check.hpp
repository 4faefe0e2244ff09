// SPDX-License-Identifier: Apache-2.0
// The checked tree as structs. Which keys there are and what they may hold is said in check.cpp (the document and its
// small sections), channels.cpp and triggers.cpp, and nowhere else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/config/config.hpp"
#include "libcore/config/reader.hpp"

namespace flight {

inline constexpr std::size_t kMaxChannels = 64;
inline constexpr std::size_t kMaxEvents = 256;  // of all channels together
inline constexpr std::size_t kMaxTriggers = 64;
inline constexpr std::uint32_t kMaxFirings = 1000;  // of every rate: each is remembered until it no longer counts
inline constexpr std::uint64_t kMinRingBytes = 64U << 10U;
inline constexpr std::uint64_t kMaxRingBytes = 1U << 30U;
inline constexpr std::uint16_t kMaxStackDepth = 127;

// The whole document, or the one error that was found first. `fragment`: a file of several; what is there is
// checked, what is missing is not missed. Without "channels" the result has none.
[[nodiscard]] ConfigResult<Config> check_config(const Value& root, bool fragment);

// The whole document, in which "channels" has a default like every other key: the built-in profile's channels. The
// result's values are listed.
[[nodiscard]] ConfigResult<Config> finish_config(Value root);

// Every value of a document that was found good, where each was written, and what holds where nothing was.
[[nodiscard]] std::vector<ConfigValue> list_values(const Value& root, const Config& config);

void read_channels(const Reader& reader, std::vector<ChannelConfig>& channels);
void read_triggers(const Reader& reader, std::vector<TriggerConfig>& triggers);
void read_storm_guard(const Reader& reader, StormGuardConfig& out);

// "SYSTEM:EVENT", but not "cycles:u".
[[nodiscard]] bool is_tracepoint_name(std::string_view event);
// An event's own name, checked as far as it can be without the kernel.
void read_event_name(const Reader& reader, std::string& out);
// What is wrong with a crew; empty: it is "cpu", "core", "package", "numa", a number of workers, or masks as
// `perf record --threads` has them.
[[nodiscard]] std::string crew_fault(std::string_view words);

}  // namespace flight
