// SPDX-License-Identifier: Apache-2.0
// pprof's profile.proto (github.com/google/pprof, proto/profile.proto), packed with gzip, as `go tool pprof`,
// speedscope and the servers for continuous profiling read it.
//
// Each sample has its stack, its labels, and its values: samples/count, and cpu/nanoseconds if a clock sampled. Labels
// are `comm`, `pid`, `unit` and `cgroup`, and those that were asked for. Keys have underscores only, as some servers
// refuse a whole profile for another one, and `cpu` is a text, as some drop the number 0.
//
// Addresses are offsets in the file: a mapping begins at 0. Frames are functions, or places of which the name is not
// known. Where all names of a mapping are known, pprof does not look for the file.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/export/labelled_stacks.hpp"
#include "libcore/profile/profile.hpp"

namespace flight {

struct PprofFacts {
  WallTime begin{};
  std::chrono::nanoseconds duration{};
  std::vector<std::string> comments;  // what is missing, for people
};

// Of one event, by its index in `events`. `stacks`: of all samples of the profile. `write` is called with some KiB at a
// time.
[[nodiscard]] Result<void> write_pprof(const SnapshotProfile& profile, std::size_t event, const LabelledStacks& stacks,
                                       const PprofFacts& facts,
                                       const std::function<Result<void>(std::span<const std::byte> bytes)>& write);

}  // namespace flight
