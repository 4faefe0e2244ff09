// SPDX-License-Identifier: Apache-2.0
// Unfinished files that this process made and could not remove: the disk had an error, or an attribute (chattr +a)
// forbade it. They are remembered, and removed when the store answers again. flightd-broker makes no more files while
// there are too many of them, so one that is forgotten could refuse a later snapshot.
//
// Only files whose names are used once are remembered. Who makes a file with a fixed name removes its leftover first,
// and a late removal could take the new file.
//
// Any thread that may wait for the disk.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "libcore/base/result.hpp"

namespace flight {

// In all directories together. More are left to the next start (Catalogue::remove_partials).
inline constexpr std::size_t kMaxLeftovers = 256;

// Removes an unfinished file or data directory of `folder`. What cannot be removed is remembered.
void remove_unfinished(const std::string& folder, const std::string& name);
// The same after the caller has tried.
void remember_leftover(const std::string& folder, const std::string& name);
// Tries again to remove those of `folder`. nullopt: there are none any more. Otherwise how many are left, and why: the
// errno and the path of the first.
[[nodiscard]] std::optional<Error> remove_leftovers(const std::string& folder);

}  // namespace flight
