// SPDX-License-Identifier: Apache-2.0
// Writes a process of the table as records: facts that were valid at the window's beginning go to the prologue, later
// ones keep their time. Private to sideband. A file's window has a beginning and an end, the checkpoint's includes all
// times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

// Distinct pairs of build-id and name.
class BuildIds {
 public:
  void add(const BuildId& id, std::string_view name);
  [[nodiscard]] std::vector<TrackerExport::UserBuildId> take() { return std::move(found_); }

 private:
  std::string key_;
  std::unordered_set<std::string> seen_;
  std::vector<TrackerExport::UserBuildId> found_;
};

class ProcessWriter {
 public:
  // `prologue` must outlive this object. `build_ids`, `mapped_ns` (as in TrackerExport): null if they are not needed.
  // `most_bytes`: forks of a process with thousands of mappings could otherwise multiply them without limit; beyond it,
  // processes have only names. Without `build_ids` it writes notes, too, for the process tracker's own reader.
  ProcessWriter(EventTime begin_ns, EventTime end_ns, RecordBuffer& prologue, BuildIds* build_ids,
                std::size_t most_bytes = SIZE_MAX, std::vector<EventTime>* mapped_ns = nullptr)
      : begin_(begin_ns),
        end_(end_ns),
        most_bytes_(most_bytes),
        prologue_(prologue),
        build_ids_(build_ids),
        mapped_ns_(mapped_ns) {}

  struct Late {
    EventTime time_ns = 0;
    std::size_t offset = 0, size = 0;
  };

  void write(std::uint32_t pid, const Incarnation& process);
  // Writes a process with its parent's maps and no past: a FORK that copies them. Only for the process tracker's own
  // reader, which has the parent.
  void write_clone(std::uint32_t pid, const Incarnation& process);
  // The load or the end of generated code of the kernel.
  void write_symbol(EventTime time_ns, const KsymbolRecord& symbol) {
    put(time_ns, 0, 0, [&](RecordBuffer& out, const Trailer& trailer) { append_ksymbol(out, symbol, trailer); });
  }
  // Number of images without their maps.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  // Executables that no written mapping shows. (Only in a file's window: the checkpoint has an empty mapping for each,
  // which perf would not accept.)
  [[nodiscard]] std::vector<TrackerExport::Program> take_programs() { return std::move(programs_); }
  // Mappings that the images written last lack (MapList::forgotten); takes the number.
  [[nodiscard]] std::uint64_t take_forgotten() { return std::exchange(forgotten_, 0); }
  // Ascending by time; equal times in the order of writing.
  [[nodiscard]] const std::vector<Late>& late();
  [[nodiscard]] std::span<const std::byte> record(const Late& late) const {
    return std::span(late_bytes_).subspan(late.offset, late.size);
  }
  // Appends the later records to the prologue, in the order of writing, and drops them.
  void flush();

 private:
  // `append(buffer, trailer)` writes one record that became valid at `time_ns`.
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
  // The names of a task from its first one, in [from, to). `exec`: the first one is that of an exec.
  void put_names(std::uint32_t pid, std::uint32_t tid, const PastNames& names, EventTime from_ns, EventTime to_ns,
                 const Comm& last, bool exec);
  // `to_ns`: when the next image begins, ~0: never.
  void write_image(std::uint32_t pid, const Incarnation& process, const Image& image, EventTime to_ns, bool first);
  void write_maps(std::uint32_t pid, const Image& image, const MappedFile*& program);
  void note_forgotten(std::uint32_t pid, const Image& image);
  void write_threads_and_end(std::uint32_t pid, const Incarnation& process);

  EventTime begin_, end_;
  std::size_t most_bytes_;
  std::uint64_t left_out_ = 0, forgotten_ = 0;
  std::vector<TrackerExport::Program> programs_;
  RecordBuffer& prologue_;
  BuildIds* build_ids_;
  std::vector<EventTime>* mapped_ns_;
  RecordBuffer late_bytes_;
  std::vector<Late> late_;
};

}  // namespace flight
