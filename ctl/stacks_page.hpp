// SPDX-License-Identifier: Apache-2.0
// What `flightctl stacks` and `flightctl diff` have in common: the rows of a call tree, as a page or as JSON, and the
// notes about what is missing.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ctl/commands.hpp"
#include "ctl/stacks_text.hpp"
#include "libcore/base/result.hpp"
#include "libcore/json/value.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/profile/tree_view.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

// A part of a snapshot's time.
struct Stretch {
  EventTime begin_ns = 0, end_ns = 0;

  [[nodiscard]] std::chrono::nanoseconds span() const;
};
[[nodiscard]] json::Object json_of(const Stretch& stretch);

// What --since and --until choose, otherwise the time that all rings cover.
struct ChosenTime {
  Stretch time;
  bool all_covered = true;  // false: not all rings cover all of it
};
// As typed; relative times are before the end of the snapshot.
[[nodiscard]] Result<ChosenTime> chosen_time(const Sidecar& sidecar, const std::string& since,
                                             const std::string& until);

// Whether its time has a stretch before and one now.
[[nodiscard]] bool is_comparable(const Sidecar& sidecar);

// Holes of one CPU that are at least a hundredth of the stretch make its values too small. Empty: there are none.
[[nodiscard]] std::string note_of_holes(const Sidecar& sidecar, const Stretch& stretch, std::string_view name);

// The filter of the options, but for the time.
[[nodiscard]] ProfileOrder order_of_samples(const StacksOptions& options, std::string_view kallsyms);

// Not compared: `now` is all of the time.
[[nodiscard]] StacksColumns columns_of(const ProfileEvent& event, const StackValues& all, const StacksOptions& options,
                                       const Stretch& now, const Stretch* before);

struct StacksPage {
  std::string head;    // the first lines
  json::Object facts;  // the same, and what else JSON has before the rows
  StacksColumns columns;
  StackOrder by = StackOrder::all;
  std::vector<std::string> notes;
};
// Returns the exit code.
[[nodiscard]] int print_page(const Common& common, const StacksOptions& options, const SnapshotProfile& profile,
                             std::size_t event, StacksPage page);

}  // namespace flight::ctl
