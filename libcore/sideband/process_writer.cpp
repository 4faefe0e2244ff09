// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/process_writer.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/sideband/notes.hpp"

namespace flight {
namespace {

Mmap2Record record_of(std::uint32_t pid, const MappedFile& file) {
  return {.pid = pid,
          .tid = pid,
          .build_id = file.build_id,
          .major = file.major,
          .minor = file.minor,
          .inode = file.inode,
          .inode_generation = file.inode_generation,
          .name = file.name};
}

}  // namespace

void BuildIds::add(const BuildId& id, std::string_view name) {
  if (id.size == 0) return;
  key_.assign(id.bytes.begin(), id.bytes.begin() + id.size);
  key_ += name;
  if (seen_.insert(key_).second) found_.push_back({id, std::string(name)});
}

// FORK_EXEC: the reader must not copy the parent's maps, because the maps follow.
void ProcessWriter::put_task(EventTime time_ns, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid,
                             bool clones) {
  put(time_ns, pid, tid, [&](RecordBuffer& out, const Trailer& trailer) {
    append_fork(out, {pid, parent, tid, parent, trailer.time_ns, !clones}, trailer);
  });
}

void ProcessWriter::put_exit(EventTime time_ns, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid) {
  if (time_ns <= begin_) return;  // alive, or the leader of threads that are alive
  put(time_ns, pid, tid, [&](RecordBuffer& out, const Trailer& trailer) {
    append_exit(out, {pid, parent, tid, parent, trailer.time_ns, false}, trailer);
  });
}

void ProcessWriter::put_comm(EventTime time_ns, std::uint32_t pid, std::uint32_t tid, const Comm& comm, bool exec) {
  if (name_of(comm).empty()) return;  // unknown: the reader shows the number
  put(time_ns, pid, tid, [&](RecordBuffer& out, const Trailer& trailer) {
    append_comm(out, {pid, tid, name_of(comm), exec, exec, is_lost_comm(comm)}, trailer);
  });
}

void ProcessWriter::put_names(std::uint32_t pid, std::uint32_t tid, const PastNames& names, EventTime from_ns,
                              EventTime to_ns, const Comm& last, bool exec) {
  if (names.empty()) return put_comm(from_ns, pid, tid, last, exec);
  const auto all = names.of(tid, from_ns, to_ns, last);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i + 1 < all.size() && all[i + 1].since_ns <= begin_) continue;
    put_comm(all[i].since_ns, pid, tid, all[i].comm, exec && i == 0);
  }
}

void ProcessWriter::write_image(std::uint32_t pid, const Incarnation& process, const Image& image, EventTime to_ns,
                                bool first) {
  put_names(pid, pid, process.names, image.from_ns, to_ns, image.comm, !first);
  const MappedFile* program = image.program.get();
  write_maps(pid, image, program);
  if (program == nullptr || image.from_ns > end_) return;
  if (build_ids_ != nullptr) return programs_.push_back({.pid = pid, .from_ns = image.from_ns, .path = program->name});
  Mmap2Record record = record_of(pid, *program);
  record.is_program = true;
  put(image.from_ns, pid, pid, [&](RecordBuffer& out, const Trailer& trailer) { append_mmap2(out, record, trailer); });
}

// `program`: of these, the executable; null after a mapping of it was written.
void ProcessWriter::write_maps(std::uint32_t pid, const Image& image, const MappedFile*& program) {
  if (!image.maps) return;
  if (prologue_.size() + late_bytes_.size() > most_bytes_) {
    ++left_out_;
    return;
  }
  for (const ProcessMap& map : image.maps->all()) {
    const EventTime since = std::max(map.since_ns, image.from_ns);
    if (since > end_) continue;
    const MappedFile& file = *map.file;
    Mmap2Record record = record_of(pid, file);
    record.address = map.address;
    record.bytes = map.bytes;
    record.page_offset = map.page_offset;
    record.protection = map.protection;
    record.flags = map.flags;
    if (program != nullptr && file.name == program->name) {
      record.is_program = true;
      program = nullptr;
    }
    put(since, pid, pid, [&](RecordBuffer& out, const Trailer& trailer) { append_mmap2(out, record, trailer); });
    if (mapped_ns_ != nullptr && since <= begin_) mapped_ns_->push_back(map.since_ns);
    if (build_ids_ != nullptr) build_ids_->add(file.build_id, file.name);
  }
  note_forgotten(pid, image);
}

// After its mappings.
void ProcessWriter::note_forgotten(std::uint32_t pid, const Image& image) {
  const std::uint64_t count = image.maps->forgotten();
  if (count == 0 || image.from_ns > end_) return;
  forgotten_ += count;
  if (build_ids_ != nullptr) return;
  EventTime last_ns = image.from_ns;
  for (const ProcessMap& map : image.maps->all()) last_ns = std::max(last_ns, map.since_ns);
  put(last_ns, pid, pid, [&](RecordBuffer& out, const Trailer& trailer) {
    append_note(out, {.kind = NoteKind::maps, .pid = pid, .count = count}, trailer);
  });
}

void ProcessWriter::write(std::uint32_t pid, const Incarnation& process) {
  if (process.start_ns > end_) return;
  put_task(process.start_ns, pid, process.parent, pid);
  bool first = true;
  for (std::size_t i = 0; i < process.past.size(); ++i) {
    const Image& next = i + 1 < process.past.size() ? process.past[i + 1] : process.image;
    if (next.from_ns <= begin_) continue;
    write_image(pid, process, process.past[i], next.from_ns, first);
    first = false;
  }
  write_image(pid, process, process.image, ~EventTime{0}, first);
  write_threads_and_end(pid, process);
}

void ProcessWriter::write_clone(std::uint32_t pid, const Incarnation& process) {
  put_task(process.start_ns, pid, process.parent, pid, true);
  put_comm(process.start_ns, pid, pid, process.image.comm, false);
  write_threads_and_end(pid, process);
}

void ProcessWriter::write_threads_and_end(std::uint32_t pid, const Incarnation& process) {
  if (process.unnamed_threads != 0 && build_ids_ == nullptr)
    put(process.image.from_ns, pid, pid, [&](RecordBuffer& out, const Trailer& trailer) {
      append_note(out, {.kind = NoteKind::unnamed, .pid = pid, .count = process.unnamed_threads}, trailer);
    });
  for (const Thread& thread : process.threads) {
    if (thread.exit_ns != 0 && thread.exit_ns < begin_) continue;
    put_task(thread.start_ns, pid, pid, thread.tid);
    const EventTime to_ns = thread.exit_ns != 0 ? thread.exit_ns : ~EventTime{0};
    put_names(pid, thread.tid, process.names, thread.start_ns, to_ns, thread.comm, false);
    put_exit(thread.exit_ns, pid, pid, thread.tid);
  }
  put_exit(process.leader_exit_ns != 0 ? process.leader_exit_ns : process.exit_ns, pid, process.parent, pid);
}

const std::vector<ProcessWriter::Late>& ProcessWriter::late() {
  std::stable_sort(late_.begin(), late_.end(), [](const Late& a, const Late& b) { return a.time_ns < b.time_ns; });
  return late_;
}

void ProcessWriter::flush() {
  prologue_.insert(prologue_.end(), late_bytes_.begin(), late_bytes_.end());
  late_bytes_.clear();
  late_.clear();
}

}  // namespace flight
