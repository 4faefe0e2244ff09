// SPDX-License-Identifier: Apache-2.0
// The journal of the part that flightd is writing (libcore/stream/journal.hpp). It shows which rounds and holes are
// left of a recording if flightd is killed now, so a test can wait for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "libcore/store/names.hpp"
#include "libcore/stream/journal.hpp"
#include "tests/e2e/command.hpp"

namespace flight {

// The journal of the newest part in this store; without entries if no part is being written.
[[nodiscard]] inline JournalContents journal_in(const std::string& store) {
  JournalContents out;
  std::uint64_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(store)) {
    const auto name = parse_part_file(entry.path().filename().string());
    if (!name || name->kind != PartFileKind::journal || name->seq < newest) continue;
    const std::string text = read_text(entry.path().string());
    auto contents = parse_journal(std::as_bytes(std::span<const char>(text)));
    if (!contents) continue;  // flightd is just making it
    newest = name->seq;
    out = std::move(*contents);
  }
  return out;
}

[[nodiscard]] inline bool wait_for_rounds(const std::string& store, std::size_t rounds, Milliseconds limit = 60s) {
  return wait_until([&] { return journal_in(store).entries.size() >= rounds; }, limit);
}

}  // namespace flight
