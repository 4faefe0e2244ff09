// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan.hpp"

#include <algorithm>

#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

constexpr std::size_t kRoomForOneProcess = 8U << 20U;

void append_mapping(RecordBuffer& out, const ProcessMapping& mapping, const Trailer& trailer) {
  Mmap2Record record{.pid = trailer.pid,
                     .tid = trailer.tid,
                     .address = mapping.address,
                     .bytes = mapping.bytes,
                     .page_offset = mapping.page_offset,
                     .major = mapping.major,
                     .minor = mapping.minor,
                     .inode = mapping.inode,
                     .protection = mapping.protection,
                     .flags = mapping.flags,
                     .name = mapping.name};
  const std::size_t bytes = std::min(mapping.build_id.size(), record.build_id.bytes.size());
  std::copy_n(mapping.build_id.begin(), bytes, record.build_id.bytes.begin());
  record.build_id.size = static_cast<std::uint8_t>(bytes);
  append_mmap2(out, record, trailer);
}

void append_process(RecordBuffer& out, const ProcessInfo& process, Trailer trailer) {
  trailer.pid = trailer.tid = process.pid;
  // The process leader did not inherit: all its mappings follow.
  append_fork(out,
              {.pid = process.pid,
               .ppid = process.parent,
               .tid = process.pid,
               .ptid = process.parent,
               .time_ns = process.started_ns,
               .exec = true},
              trailer);
  append_comm(out, {.pid = process.pid, .tid = process.pid, .name = process.comm}, trailer);
  for (const ProcessMapping& mapping : process.mappings) append_mapping(out, mapping, trailer);
  for (const ProcessInfo::Thread& thread : process.threads) {
    trailer.tid = thread.tid;
    append_fork(out,
                {.pid = process.pid,
                 .ppid = process.pid,
                 .tid = thread.tid,
                 .ptid = process.pid,
                 .time_ns = process.started_ns},
                trailer);
    append_comm(out, {.pid = process.pid, .tid = thread.tid, .name = thread.comm}, trailer);
  }
}

}  // namespace

Result<RecordBuffer> scan_processes(const Manifest& manifest) {
  RecordBuffer out;
  Trailer trailer;
  if (!manifest.events.empty() && !manifest.events[0].ids.empty()) {
    trailer.id = manifest.events[0].ids[0].id;
    trailer.cpu = static_cast<std::uint32_t>(manifest.events[0].ids[0].cpu);
  }
  trailer.time_ns = monotonic_now();
  for (const CgroupInfo& cgroup : list_cgroups()) append_cgroup(out, {.id = cgroup.id, .path = cgroup.path}, trailer);
  const auto scanned = for_each_process([&](const ProcessInfo& process) {
    if (out.size() + kRoomForOneProcess > kMaxProcessesBytes) return;
    trailer.time_ns = monotonic_now();
    append_process(out, process, trailer);
  });
  if (!scanned) return wrap(scanned.error(), "read what runs now");
  if (out.size() > kMaxProcessesBytes)
    return fail(std::errc::message_size, "what runs now takes {} bytes, at most {} are sent", out.size(),
                kMaxProcessesBytes);
  return out;
}

}  // namespace flight
