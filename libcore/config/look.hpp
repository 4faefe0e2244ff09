// SPDX-License-Identifier: Apache-2.0
// How the loader of the configuration (folders.cpp) looks at the file system: only here, so that another process can do
// it (config_reader.hpp). A file system that waits for a server can keep its caller for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::size_t kMaxDropIns = 256;

enum class Look : std::uint32_t {
  text,        // of a regular file
  json_files,  // the names NAME.json in a directory, without hidden ones: at most kMaxDropIns + 1, in no order
  is_masked,   // whether a file is a link to /dev/null: "yes" or ""
  target,      // where a link leads; "": it is none, or there is nothing
  unread       // entries of a directory and its conf.d that look as if they were meant, and are not read; in order
};
// The answer: a text, or names that are joined. Errors are those of the system.
using LookUp = std::function<Result<std::string>(Look look, const std::string& path)>;
// On the calling thread.
[[nodiscard]] Result<std::string> look_up(Look look, const std::string& path);

// What tells whether an entry was replaced, by lstat(2): of a link, it is the link's own. A missing one has one, too.
[[nodiscard]] std::string entry_identity(const std::string& path);

// Each name is followed by a zero byte.
[[nodiscard]] std::string join_names(const std::vector<std::string>& names);
[[nodiscard]] std::vector<std::string> split_names(std::string_view joined);

}  // namespace flight
