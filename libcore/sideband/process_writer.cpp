// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/process_writer.hpp"

#include <linux/perf_event.h>

#include <algorithm>

namespace flight {
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
    append_comm(out, {pid, tid, name_of(comm), exec}, trailer);
  });
}

void ProcessWriter::write_image(std::uint32_t pid, const Image& image, bool first) {
  put_comm(image.from_ns, pid, pid, image.comm, !first);
  if (!image.maps) return;
  if (prologue_.size() + late_bytes_.size() > most_bytes_) {
    ++left_out_;
    return;
  }
  for (const ProcessMap& map : image.maps->all()) {
    const EventTime since = std::max(map.since_ns, image.from_ns);
    if (since > end_) continue;
    const MappedFile& file = *map.file;
    const Mmap2Record record{pid,
                             pid,
                             map.address,
                             map.bytes,
                             map.page_offset,
                             file.build_id,
                             file.major,
                             file.minor,
                             file.inode,
                             file.inode_generation,
                             map.protection,
                             map.flags,
                             PERF_RECORD_MISC_USER,
                             file.name};
    put(since, pid, pid, [&](RecordBuffer& out, const Trailer& trailer) { append_mmap2(out, record, trailer); });
    if (build_ids_ != nullptr) build_ids_->add(file.build_id, file.name);
  }
}

void ProcessWriter::write(std::uint32_t pid, const Incarnation& process) {
  if (process.start_ns > end_) return;
  put_task(process.start_ns, pid, process.parent, pid);
  bool first = true;
  for (std::size_t i = 0; i < process.past.size(); ++i) {
    const Image& next = i + 1 < process.past.size() ? process.past[i + 1] : process.image;
    if (next.from_ns <= begin_) continue;
    write_image(pid, process.past[i], first);
    first = false;
  }
  write_image(pid, process.image, first);
  write_threads_and_end(pid, process);
}

void ProcessWriter::write_clone(std::uint32_t pid, const Incarnation& process) {
  put_task(process.start_ns, pid, process.parent, pid, true);
  put_comm(process.start_ns, pid, pid, process.image.comm, false);
  write_threads_and_end(pid, process);
}

void ProcessWriter::write_threads_and_end(std::uint32_t pid, const Incarnation& process) {
  for (const Thread& thread : process.threads) {
    if (thread.exit_ns != 0 && thread.exit_ns < begin_) continue;
    put_task(thread.start_ns, pid, pid, thread.tid);
    put_comm(thread.start_ns, pid, thread.tid, thread.comm, false);
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
