// SPDX-License-Identifier: Apache-2.0
// The work of the broker's helpers (helpers.hpp), and the function by which the broker hands it to them. The broker
// does not call read_mapped_file() itself, because it can block without a limit.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "daemon/broker/files/file_watch.hpp"
#include "daemon/broker/helpers/helpers.hpp"

namespace flight::broker {

// In a helper: Helpers::Work.
[[nodiscard]] std::vector<std::byte> read_for_broker(std::span<const std::byte> request,
                                                     const Helpers::Notices& notices);

// Any thread that may wait as long as a helper does.
[[nodiscard]] FileWatch::ReadFiles files_reader(Helpers helpers);

}  // namespace flight::broker
