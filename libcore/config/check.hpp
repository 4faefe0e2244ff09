// SPDX-License-Identifier: Apache-2.0
// Reads the checked tree into structs. The keys and their values are defined only in check.cpp (the document and its
// small sections), channels.cpp and triggers.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/config/config.hpp"
#include "libcore/config/reader.hpp"

namespace flight {

inline constexpr std::size_t kMaxChannels = 64;
inline constexpr std::size_t kMaxEvents = 256;  // all channels together
inline constexpr std::uint64_t kMinRingBytes = 64U << 10U;
inline constexpr std::uint64_t kMaxRingBytes = 1U << 30U;
inline constexpr std::uint64_t kMinPartBytes = 1U << 20U;
inline constexpr std::uint64_t kMaxPartBytes = 1U << 30U;  // perf holds a part in memory, expanded
inline constexpr std::uint16_t kMaxStackDepth = 127;

// The whole document, or the first error in it. `fragment`: one of several files; its keys are checked, and missing
// keys are no error. Without "channels" the result has none.
[[nodiscard]] ConfigResult<Config> check_config(const Value& root, bool fragment);

// The whole document. "channels" has a default like every other key: the channels of the built-in profile. The result
// lists all values.
[[nodiscard]] ConfigResult<Config> finish_config(Value root);

// Every value of a valid document, its file and line, and the defaults of the missing ones.
[[nodiscard]] std::vector<ConfigValue> list_values(const Value& root, const Config& config);

void read_channels(const Reader& reader, std::vector<ChannelConfig>& channels);
void read_triggers(const Reader& reader, std::vector<TriggerConfig>& triggers);
void read_storm_guard(const Reader& reader, StormGuardConfig& out);

// "SYSTEM:EVENT", but not "cycles:u".
[[nodiscard]] bool is_tracepoint_name(std::string_view event);
// An event's name, checked as far as possible without the kernel.
void read_event_name(const Reader& reader, std::string& out);
// What is wrong with a set of workers; empty if it is valid: "cpu", "core", "package", "numa", a number of workers, or
// masks in the syntax of `perf record --threads`.
[[nodiscard]] std::string workers_fault(std::string_view words);
// What is wrong with a list of CPUs such as "0-3,8"; empty if it is valid, and `cpus` has them, ascending.
[[nodiscard]] std::string cpu_list_fault(std::string_view list, std::vector<int>& cpus);

}  // namespace flight
