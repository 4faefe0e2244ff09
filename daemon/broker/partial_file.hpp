// SPDX-License-Identifier: Apache-2.0
// An empty file in the store that belongs to root: perf opens a file only if root or the caller owns it, and a
// taken-over flightd cannot reopen an old snapshot to alter it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

inline constexpr std::size_t kMaxPartialFiles = 16;

struct NewFile {
  UniqueFd fd;
  std::string name;  // ".flightd-RANDOM.partial"
};
// For a last snapshot, flightd may open the file again: while it is kept it must not be open for writing, or its file
// system could not be remounted read-only.
enum class FileKind { final, spare };
// In `state_dir`/snapshots, root:`group`, 0640 (a spare one 0660), open for reading and writing. Refused where
// kMaxPartialFiles of these are there already: something takes files and never renames them.
[[nodiscard]] Result<NewFile> create_partial_file(const std::string& state_dir, std::optional<gid_t> group,
                                                  FileKind kind);

}  // namespace flight
