// SPDX-License-Identifier: Apache-2.0
// A data directory in the store, to be written: flightd makes it, and the broker's files, which root owns, are renamed
// into it. So the broker needs no request of its own for directories.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/client.hpp"

namespace flight::daemon {

struct DataFolderFiles {
  UniqueFd data;               // empty, as the others
  std::vector<UniqueFd> more;  // data.0, data.1 …
};

// `folder`/`name`, with `data` and so many files beside it; what has that name goes. `ask`: the broker for one more
// file. On an error nothing is left. A thread that may wait for the disk and the broker.
[[nodiscard]] Result<DataFolderFiles> make_data_folder(const std::string& folder, const std::string& name,
                                                       std::size_t more,
                                                       const std::function<Result<PartialFile>()>& ask);

}  // namespace flight::daemon
