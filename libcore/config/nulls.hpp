// SPDX-License-Identifier: Apache-2.0
// Finds triggers and channels that a file sets to null to remove them, and that no file has: a misspelled name would
// remove nothing, without a word.
#pragma once

#include <string>
#include <vector>

#include "libcore/config/document.hpp"

namespace flight {

// The first few warnings about `files`, which are checked. `others`: what they override.
[[nodiscard]] std::vector<std::string> null_warnings(const std::vector<const Value*>& files,
                                                     const std::vector<const Value*>& others);

}  // namespace flight
