// SPDX-License-Identifier: Apache-2.0
// The parts of recordings in the store. The list shows a recording as one line; the commands that get the id of its
// first part do what they do with all of its parts.
#pragma once

#include <string>
#include <vector>

#include "ctl/daemon_call.hpp"
#include "libcore/store/catalogue.hpp"

namespace flight::ctl {

// A line of the list: a snapshot, or all parts of a recording that are in the store.
struct ListedRow {
  CatalogueRow row;       // of a recording: its id, and the sums
  std::size_t parts = 0;  // 0: it is no recording
  std::string ended;      // as in the sidecar; empty: it goes on, or its last part is not in the store
};
// `rows`: oldest first; so is the result.
[[nodiscard]] std::vector<ListedRow> join_recordings(std::vector<CatalogueRow> rows);

// The ids of the parts of this recording, in their order; of anything else, of a later part and of "latest" the id
// itself.
[[nodiscard]] Answer<std::vector<std::string>> parts_of(const Common& common, const std::string& id);
// FILE, FILE.2, …; numbers begin at 1.
[[nodiscard]] std::string part_path(const std::string& path, std::size_t number);

}  // namespace flight::ctl
