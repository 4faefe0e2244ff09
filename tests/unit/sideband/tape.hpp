// SPDX-License-Identifier: Apache-2.0
// Writes sideband records like a kernel, with increasing times, for tests of the process tracker.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

inline constexpr EventTime kSecond = 1'000'000'000;

class Tape {
 public:
  void fork(EventTime time, std::uint32_t parent, std::uint32_t pid, std::uint32_t parent_tid = 0) {
    const std::uint32_t ptid = parent_tid != 0 ? parent_tid : parent;
    append_fork(bytes_, {pid, parent, pid, ptid, time}, at(parent, ptid, time));
  }
  void thread(EventTime time, std::uint32_t pid, std::uint32_t tid, std::uint32_t parent_tid = 0) {
    const std::uint32_t ptid = parent_tid != 0 ? parent_tid : pid;
    append_fork(bytes_, {pid, pid, tid, ptid, time}, at(pid, ptid, time));
  }
  void exit(EventTime time, std::uint32_t pid, std::uint32_t tid = 0) {
    const std::uint32_t who = tid != 0 ? tid : pid;
    append_exit(bytes_, {pid, 1, who, 1, time}, at(pid, who, time));
  }
  void comm(EventTime time, std::uint32_t pid, std::uint32_t tid, std::string_view name) {
    append_comm(bytes_, {pid, tid, name, false}, at(pid, tid, time));
  }
  void exec(EventTime time, std::uint32_t pid, std::string_view name) {
    append_comm(bytes_, {pid, pid, name, true}, at(pid, pid, time));
  }
  void map(EventTime time, std::uint32_t pid, std::uint64_t address, std::uint64_t bytes, std::string_view name,
           std::uint8_t build_id = 0) {
    Mmap2Record record{pid, pid, address, bytes, 0};
    if (build_id != 0) {
      record.build_id.size = 20;
      record.build_id.bytes.fill(build_id);
    }
    record.page_offset = 0x1000;
    record.protection = 5;
    record.flags = 2;
    record.name = name;
    append_mmap2(bytes_, record, at(pid, pid, time));
  }
  // A file with numbers, as the kernel and /proc report it.
  void map_file(EventTime time, std::uint32_t pid, std::uint64_t address, std::uint64_t bytes, std::string_view name,
                std::uint64_t inode, std::uint64_t page_offset = 0x1000, std::uint64_t generation = 0) {
    const Mmap2Record record{.pid = pid,
                             .tid = pid,
                             .address = address,
                             .bytes = bytes,
                             .page_offset = page_offset,
                             .build_id = {},
                             .major = 8,
                             .minor = 1,
                             .inode = inode,
                             .inode_generation = generation,
                             .protection = 5,
                             .flags = 2,
                             .name = name};
    append_mmap2(bytes_, record, at(pid, pid, time));
  }
  void cgroup(EventTime time, std::uint64_t id, std::string_view path) {
    append_cgroup(bytes_, {id, path}, at(1, 1, time));
  }
  void ksymbol(EventTime time, std::uint64_t address, std::string_view name, bool gone = false) {
    append_ksymbol(bytes_, {address, 64, 1, static_cast<std::uint16_t>(gone ? 1 : 0), name}, at(0, 0, time));
  }
  void lost(EventTime time, std::uint64_t count) { append_lost(bytes_, {7, count}, at(0, 0, time)); }
  void raw(std::uint32_t type, std::size_t body_bytes) {
    const std::uint32_t head[2] = {type, static_cast<std::uint32_t>(8 + body_bytes) << 16U};
    const auto bytes = std::as_bytes(std::span(head));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize(bytes_.size() + body_bytes);
  }
  // As in a scan: no time except that of the start.
  void scanned(std::uint32_t pid, std::uint32_t parent, EventTime started, std::string_view name, bool partly = false) {
    append_fork(bytes_, {pid, parent, pid, parent, started, true}, {.reserved = partly ? kScanPartly : 0});
    append_comm(bytes_, {pid, pid, name, false}, {});
    ++scanned_;
  }
  void scanned_program(std::uint32_t pid, std::uint64_t address, std::string_view path) {
    append_mmap2(bytes_,
                 {.pid = pid, .tid = pid, .address = address, .bytes = 0x1000, .name = path, .is_program = true}, {});
  }
  // None of its mappings is one of it.
  void scanned_executable(std::uint32_t pid, std::string_view path) {
    append_mmap2(bytes_, {.pid = pid, .tid = pid, .name = path, .is_program = true}, {});
  }
  // Says that threads of the process that was scanned last are left out.
  void threads_left_out(std::uint32_t pid, std::uint64_t count) {
    append_lost(bytes_, {count, 0}, {.pid = pid, .tid = pid, .reserved = kScanThreadsLeftOut});
  }
  void unread(std::uint32_t pid) {
    append_fork(bytes_, {pid, 0, pid, 0, 0, true}, {.reserved = kScanUnread});
    ++scanned_;
  }
  void listed_symbol(std::uint64_t address, std::string_view name) {
    append_ksymbol(bytes_, {address, 1U << 20U, 1, 0, name}, {});
    ++symbols_;
  }
  void symbols_listed(EventTime read, std::uint64_t bits = 0) {
    append_lost(bytes_, {symbols_, bits}, {.time_ns = read, .reserved = kScanSymbolsListed});
  }
  // `began`: 0: the scan does not say when it began.
  void all_listed(EventTime began = 0) {
    append_lost(bytes_, {scanned_, 0}, {.time_ns = began, .reserved = kScanAllListed});
  }

  [[nodiscard]] const RecordBuffer& bytes() const { return bytes_; }
  [[nodiscard]] RecordBuffer take() { return std::exchange(bytes_, {}); }

 private:
  static Trailer at(std::uint32_t pid, std::uint32_t tid, EventTime time) { return {pid, tid, time, 0, 0, 7}; }
  RecordBuffer bytes_;
  std::uint64_t scanned_ = 0, symbols_ = 0;
};

}  // namespace flight
