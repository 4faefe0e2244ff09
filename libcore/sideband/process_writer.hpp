// SPDX-License-Identifier: Apache-2.0
// A process of the table as records again: what was so at the window's beginning goes to the prologue, what came later
// goes to its time; private to sideband. A file's window has a beginning and an end, the spool's has all times.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "libcore/sideband/ledger.hpp"
#include "libcore/sideband/process_table.hpp"

namespace flight {

// Distinct pairs of build-id and name.
class BuildIds {
 public:
  void add(const BuildId& id, std::string_view name);
  [[nodiscard]] std::vector<LedgerExport::UserBuildId> take() { return std::move(found_); }

 private:
  std::string key_;
  std::unordered_set<std::string> seen_;
  std::vector<LedgerExport::UserBuildId> found_;
};

class ProcessWriter {
 public:
  // `prologue` has to live as long. `build_ids`: null where nobody wants them.
  ProcessWriter(EventTime begin_ns, EventTime end_ns, RecordBuffer& prologue, BuildIds* build_ids)
      : begin_(begin_ns), end_(end_ns), prologue_(prologue), build_ids_(build_ids) {}

  struct Late {
    EventTime time_ns = 0;
    std::size_t offset = 0, size = 0;
  };

  void write(std::uint32_t pid, const Incarnation& process);
  // One that has its parent's maps and no past: a FORK that says so instead of maps. For the ledger's own reader, whose
  // parent is there.
  void write_clone(std::uint32_t pid, const Incarnation& process);
  // Ascending in time; equal times in the order of writing.
  [[nodiscard]] const std::vector<Late>& late();
  [[nodiscard]] std::span<const std::byte> record(const Late& late) const {
    return std::span(late_bytes_).subspan(late.offset, late.size);
  }
  // What came later, in the order of writing, behind the prologue; and forgets it.
  void flush();

 private:
  // `append(buffer, trailer)` writes one record that became true at `time_ns`.
  template <typename Append>
  void put(EventTime time_ns, std::uint32_t pid, std::uint32_t tid, const Append& append) {
    if (time_ns > end_) return;
    if (time_ns <= begin_) return append(prologue_, Trailer{});
    const std::size_t offset = late_bytes_.size();
    append(late_bytes_, Trailer{pid, tid, time_ns});
    late_.push_back({time_ns, offset, late_bytes_.size() - offset});
  }
  void put_task(EventTime time_ns, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid, bool clones = false);
  void put_exit(EventTime time_ns, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid);
  void put_comm(EventTime time_ns, std::uint32_t pid, std::uint32_t tid, const Comm& comm, bool exec);
  void write_image(std::uint32_t pid, const Image& image, bool first);
  void write_threads_and_end(std::uint32_t pid, const Incarnation& process);

  EventTime begin_, end_;
  RecordBuffer& prologue_;
  BuildIds* build_ids_;
  RecordBuffer late_bytes_;
  std::vector<Late> late_;
};

}  // namespace flight
