// SPDX-License-Identifier: Apache-2.0
// Sideband records: their content, writing and reading. Written records have the sideband's trailer (attr.hpp,
// kSidebandSampleType) and are padded to 8 bytes; names are cut at kMaxNameBytes. Source: perf_event_open(2); the
// PERF_RECORD_* comments in include/uapi/linux/perf_event.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

using RecordBuffer = std::vector<std::byte>;

inline constexpr std::uint32_t kKernelPid = 0xffffffffU;  // pid of kernel maps: (u32)-1
inline constexpr std::size_t kMaxNameBytes = 4096;
// The `reserved` field of the trailer of a generated COMM, of one that stands for an unknown name, and of a MMAP2 of
// the program; the kernel writes 0, and perf does not read it.
inline constexpr std::uint32_t kGeneratedComm = 0x4d4d4f43, kLostComm = 0x54534f4c, kProgramMap = 0x474f5250;

// In place of a path in a generated MMAP2 of the program: the process has an executable, which could not be read. So it
// is no kernel thread, although kthreadd, which makes them, has forked it.
inline constexpr std::string_view kUnreadProgram = "[unknown]";

// The trailer: all zero for facts that perf regards as known from the beginning.
struct Trailer {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  EventTime time_ns = 0;
  std::uint32_t cpu = 0;
  std::uint32_t reserved = 0;
  std::uint64_t id = 0;
};
static_assert(sizeof(Trailer) == 32);

struct BuildId {
  std::array<std::uint8_t, 20> bytes{};
  std::uint8_t size = 0;  // 0: none
  friend bool operator==(const BuildId&, const BuildId&) = default;
};

struct CommRecord {
  std::uint32_t pid = 0, tid = 0;
  std::string_view name;   // <= 15 bytes
  bool exec = false;       // PERF_RECORD_MISC_COMM_EXEC
  bool generated = false;  // not the kernel's: the first mapping after an exec need not be the program
  bool lost = false;       // generated; the name is unknown, and no process has called itself so
};
struct TaskRecord {  // FORK and EXIT
  std::uint32_t pid = 0, ppid = 0, tid = 0, ptid = 0;
  EventTime time_ns = 0;
  bool exec = false;  // PERF_RECORD_MISC_FORK_EXEC: do not clone the parent's maps
};
struct LostRecord {
  std::uint64_t id = 0;  // of the event
  std::uint64_t lost = 0;
};
struct Mmap2Record {
  std::uint32_t pid = 0, tid = 0;
  std::uint64_t address = 0, bytes = 0, page_offset = 0;
  BuildId build_id;                    // size > 0: the build-id form (PERF_RECORD_MISC_MMAP_BUILD_ID)
  std::uint32_t major = 0, minor = 0;  // otherwise the inode form
  std::uint64_t inode = 0, inode_generation = 0;
  std::uint32_t protection = 0, flags = 0;  // PROT_*, MAP_*
  std::uint16_t cpumode = 2;                // PERF_RECORD_MISC_USER, or _KERNEL for kernel and modules
  std::string_view name;
  // Only in generated records: the file is the executable of the process (/proc/PID/exe). After an exec the kernel's
  // first record of a file is that of the executable (fs/binfmt_elf.c, load_elf_binary()).
  bool is_program = false;
};
struct KsymbolRecord {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint16_t kind = 0, flags = 0;  // flags & 1: unregistered
  std::string_view name;
};
struct CgroupRecord {
  std::uint64_t id = 0;
  std::string_view path;
};

void append_comm(RecordBuffer& out, const CommRecord& record, const Trailer& trailer);
void append_fork(RecordBuffer& out, const TaskRecord& record, const Trailer& trailer);
void append_exit(RecordBuffer& out, const TaskRecord& record, const Trailer& trailer);
// As the kernel reports records that did not fit into the ring.
void append_lost(RecordBuffer& out, const LostRecord& record, const Trailer& trailer);
void append_mmap2(RecordBuffer& out, const Mmap2Record& record, const Trailer& trailer);
// The kernel's and modules' maps: PERF_RECORD_MMAP, misc KERNEL, pid kKernelPid.
void append_kernel_mmap(RecordBuffer& out, std::uint64_t address, std::uint64_t bytes, std::uint64_t page_offset,
                        std::string_view name, const Trailer& trailer);
void append_ksymbol(RecordBuffer& out, const KsymbolRecord& record, const Trailer& trailer);
void append_cgroup(RecordBuffer& out, const CgroupRecord& record, const Trailer& trailer);

// Parses one whole record with the sideband's trailer; nullopt if it has another type or its bytes do not fit. The
// string_views point into `record`.
[[nodiscard]] std::optional<CommRecord> parse_comm(std::span<const std::byte> record);
[[nodiscard]] std::optional<TaskRecord> parse_task(std::span<const std::byte> record);  // FORK or EXIT
[[nodiscard]] std::optional<Mmap2Record> parse_mmap2(std::span<const std::byte> record);
[[nodiscard]] std::optional<Mmap2Record> parse_mmap(std::span<const std::byte> record);  // MMAP: without the file
[[nodiscard]] std::optional<KsymbolRecord> parse_ksymbol(std::span<const std::byte> record);
[[nodiscard]] std::optional<CgroupRecord> parse_cgroup(std::span<const std::byte> record);
[[nodiscard]] std::optional<Trailer> parse_trailer(std::span<const std::byte> record);

// The next whole record at the beginning of `bytes`; empty at the end or if its size is invalid.
[[nodiscard]] std::span<const std::byte> next_record(std::span<const std::byte> bytes);

}  // namespace flight
