// SPDX-License-Identifier: Apache-2.0
// The parts of recordings in the store. The list shows a recording as one line; the commands that get the id of its
// first part do what they do with all of its parts.
#pragma once

#include <cstdint>
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

struct RecordedPart {
  std::string id;
  std::uint64_t number = 1;  // in its recording: earlier ones may have been deleted
};
[[nodiscard]] Answer<std::vector<CatalogueRow>> all_rows(const Common& common);
// If `id` is that of a recording (of its first part): its parts, in order. Otherwise, also for a later part and
// "latest": only `id`.
[[nodiscard]] std::vector<RecordedPart> parts_of(const std::vector<CatalogueRow>& rows, const std::string& id);
// The part's number in its sidecar; 0: the sidecar has none.
[[nodiscard]] std::uint64_t number_of_part(const Common& common, const std::string& id);
// FILE, FILE.2, …; numbers begin at 1.
[[nodiscard]] std::string part_path(const std::string& path, std::uint64_t number);

}  // namespace flight::ctl
