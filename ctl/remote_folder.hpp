// SPDX-License-Identifier: Apache-2.0
// Receives the data of a snapshot that is a directory: flightd sends it as a tar (libcore/store/pieces.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ctl/fetch.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/perfdata/reader.hpp"

namespace flight::ctl {

// Whether the data is a directory.
[[nodiscard]] bool is_folder(const RemoteFile& file);

// Receives all of its files: `begin` with the name of each, `data` or data.N, then its bytes. Call it once. EBADMSG: it
// is no such tar.
using BeginFile = std::function<Result<void>(const std::string& name, std::uint64_t bytes)>;
[[nodiscard]] Result<void> read_remote_folder(RemoteFile& file, const BeginFile& begin, const TakeBytes& take);

// Receives the data, a file or a directory, into files that `make` makes, and opens it. `what`: these, for messages.
[[nodiscard]] Result<FileReader> read_remote_data(RemoteFile& file, const std::function<Result<UniqueFd>()>& make,
                                                  std::string_view what);

}  // namespace flight::ctl
