// SPDX-License-Identifier: Apache-2.0
// Two snapshots in one tree: what the first has is `before`, what the second has is `now`, and `all` is both. Of each,
// one event.
//
// A function is the same in both if it has the same name in an object of the same name: its place, and the build of the
// object, may have changed. A place without a name is the same only in the same build.
#pragma once

#include <cstddef>

#include "libcore/profile/profile.hpp"

namespace flight {

// The result has one event, named as that of the second. Its `counts` are those of neither.
[[nodiscard]] SnapshotProfile joined(const SnapshotProfile& before, std::size_t before_event,
                                     const SnapshotProfile& now, std::size_t now_event);

}  // namespace flight
