// SPDX-License-Identifier: Apache-2.0
// Creates an empty file in the store that belongs to root: perf opens a file only if root or the caller owns it, and a
// compromised flightd cannot reopen an old snapshot to change it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {

inline constexpr std::size_t kMaxPartialFiles = 16;

struct NewFile {
  UniqueFd fd;
  std::string name;  // ".flightd-RANDOM.partial"
};
// flightd can open a spare file again. It must not stay open for writing while it waits, or its file system could not
// be remounted read-only.
enum class FileKind { final, spare };
// Created in `state_dir`/snapshots, root:`group`, mode 0640 (a spare file 0660), open for reading and writing; with
// another owner or mode if its file system does not allow these. EBUSY: there are kMaxPartialFiles with such names
// already (a client may take files and never rename them), and none of them is one that this broker could not remove
// before and can remove now.
[[nodiscard]] Result<NewFile> create_partial_file(const std::string& state_dir, std::optional<gid_t> group,
                                                  FileKind kind);
// Removes a file that its client did not get. If that fails, it is tried again before a file is refused.
void remove_partial_file(const std::string& state_dir, const std::string& name);

}  // namespace flight::broker
