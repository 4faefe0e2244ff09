// SPDX-License-Identifier: Apache-2.0
// Says where a link leads that cannot be followed. Its file system may be mounted later, and defaults would be recorded
// without a word.
#pragma once

#include <string>

#include "libcore/base/result.hpp"
#include "libcore/config/look.hpp"

namespace flight {

// `path` could not be opened: ENOENT or ELOOP. "it is a link to TARGET, which does not exist: …", with each link of a
// chain; empty: it is no link. The error is that of a look.
[[nodiscard]] Result<std::string> broken_link_text(const LookUp& look, const std::string& path);

// The directory `folder` does not exist (ENOENT). If it is a link that leads nowhere, or is in a directory that is one:
// this link, and the text. Otherwise both are empty.
struct BrokenLink {
  std::string path, text;
};
[[nodiscard]] Result<BrokenLink> broken_folder(const LookUp& look, const std::string& folder);

}  // namespace flight
