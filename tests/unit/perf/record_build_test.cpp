// SPDX-License-Identifier: Apache-2.0
// Appended records parse back and have the form that a reader of perf.data needs (multiples of 8, NUL-terminated). If
// they are truncated or changed, no read goes past their end.
#include "libcore/perf/record_build.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>

#include <algorithm>
#include <random>
#include <string>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

const Trailer kTrailer{1, 2, 3, 4, 0, 5};

perf_event_header header_of(const RecordBuffer& record) { return load<perf_event_header>(record.data()); }

// One complete record, of a size that perf accepts, with kTrailer at its end.
void expect_well_formed(const RecordBuffer& record) {
  ASSERT_GE(record.size(), sizeof(perf_event_header) + sizeof(Trailer));
  EXPECT_EQ(record.size() % 8, 0U);
  EXPECT_EQ(header_of(record).size, record.size());
  EXPECT_EQ(next_record(record).size(), record.size());
  const auto trailer = parse_trailer(record);
  ASSERT_TRUE(trailer);
  EXPECT_EQ(trailer->pid, 1U);
  EXPECT_EQ(trailer->tid, 2U);
  EXPECT_EQ(trailer->time_ns, 3U);
  EXPECT_EQ(trailer->cpu, 4U);
  EXPECT_EQ(trailer->id, 5U);
}

TEST(RecordBuild, CommOfEveryLength) {
  for (std::size_t length = 0; length <= 40; ++length) {
    for (const bool exec : {false, true}) {
      const std::string name(length, 'x');
      RecordBuffer out;
      append_comm(out, {10, 11, name, exec}, kTrailer);
      expect_well_formed(out);
      EXPECT_EQ(header_of(out).misc, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
      const auto comm = parse_comm(out);
      ASSERT_TRUE(comm);
      EXPECT_EQ(comm->pid, 10U);
      EXPECT_EQ(comm->tid, 11U);
      EXPECT_EQ(comm->name, name.substr(0, 31));
      EXPECT_EQ(comm->exec, exec);
    }
  }
}

TEST(RecordBuild, AnUnknownNameIsNoNameOfThatText) {
  RecordBuffer unknown, own;
  append_comm(unknown, {.pid = 10, .tid = 11, .name = "[lost]", .lost = true}, kTrailer);
  append_comm(own, {.pid = 10, .tid = 11, .name = "[lost]"}, kTrailer);
  EXPECT_EQ(parse_comm(unknown)->name, parse_comm(own)->name);
  EXPECT_TRUE(parse_comm(unknown)->lost);
  EXPECT_TRUE(parse_comm(unknown)->generated);
  EXPECT_FALSE(parse_comm(own)->lost);
}

TEST(RecordBuild, TasksForkAndExit) {
  for (const bool fork : {true, false}) {
    RecordBuffer out;
    const TaskRecord task{10, 20, 11, 21, 12345, fork};
    fork ? append_fork(out, task, kTrailer) : append_exit(out, task, kTrailer);
    expect_well_formed(out);
    EXPECT_EQ(header_of(out).type, fork ? PERF_RECORD_FORK : PERF_RECORD_EXIT);
    // The order in the file: pid, ppid, tid, ptid.
    EXPECT_EQ(load<std::uint32_t>(out.data() + 12), 20U);
    EXPECT_EQ(load<std::uint32_t>(out.data() + 16), 11U);
    const auto parsed = parse_task(out);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->pid, 10U);
    EXPECT_EQ(parsed->ppid, 20U);
    EXPECT_EQ(parsed->tid, 11U);
    EXPECT_EQ(parsed->ptid, 21U);
    EXPECT_EQ(parsed->time_ns, 12345U);
    EXPECT_EQ(parsed->exec, fork);
  }
}

Mmap2Record some_map(std::string_view name) {
  Mmap2Record map{10, 11, 0x7f0000001000, 0x2000, 0x1000};
  map.protection = PROT_READ | PROT_EXEC;
  map.flags = MAP_PRIVATE;
  map.name = name;
  return map;
}

TEST(RecordBuild, Mmap2WithInode) {
  auto map = some_map("/usr/lib/libc.so.6");
  map.major = 8;
  map.minor = 1;
  map.inode = 4711;
  map.inode_generation = 3;
  RecordBuffer out;
  append_mmap2(out, map, kTrailer);
  expect_well_formed(out);
  EXPECT_EQ(header_of(out).misc, PERF_RECORD_MISC_USER);
  const auto parsed = parse_mmap2(out);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->pid, 10U);
  EXPECT_EQ(parsed->tid, 11U);
  EXPECT_EQ(parsed->address, 0x7f0000001000U);
  EXPECT_EQ(parsed->bytes, 0x2000U);
  EXPECT_EQ(parsed->page_offset, 0x1000U);
  EXPECT_EQ(parsed->major, 8U);
  EXPECT_EQ(parsed->minor, 1U);
  EXPECT_EQ(parsed->inode, 4711U);
  EXPECT_EQ(parsed->inode_generation, 3U);
  EXPECT_EQ(parsed->protection, map.protection);
  EXPECT_EQ(parsed->flags, map.flags);
  EXPECT_EQ(parsed->build_id.size, 0U);
  EXPECT_EQ(parsed->name, "/usr/lib/libc.so.6");
}

TEST(RecordBuild, Mmap2WithBuildIdOfEverySize) {
  for (std::uint8_t size = 1; size <= 20; ++size) {
    auto map = some_map("[vdso]");
    for (std::size_t i = 0; i < size; ++i) map.build_id.bytes.at(i) = static_cast<std::uint8_t>(i + 1);
    map.build_id.size = size;
    map.cpumode = PERF_RECORD_MISC_KERNEL;
    RecordBuffer out;
    append_mmap2(out, map, kTrailer);
    expect_well_formed(out);
    EXPECT_EQ(header_of(out).misc, PERF_RECORD_MISC_KERNEL | PERF_RECORD_MISC_MMAP_BUILD_ID);
    const auto parsed = parse_mmap2(out);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->build_id, map.build_id);
    EXPECT_EQ(parsed->cpumode, PERF_RECORD_MISC_KERNEL);
    EXPECT_EQ(parsed->protection, map.protection);
    EXPECT_EQ(parsed->name, "[vdso]");
    out[40] = std::byte{21};  // a size that does not fit its 20 bytes
    EXPECT_FALSE(parse_mmap2(out));
  }
}

TEST(RecordBuild, KernelMap) {
  RecordBuffer out;
  append_kernel_mmap(out, 0xffffffff81000000, 0x1209988, 0xffffffff81000000, "[kernel.kallsyms]_text", kTrailer);
  expect_well_formed(out);
  EXPECT_EQ(header_of(out).type, PERF_RECORD_MMAP);
  EXPECT_EQ(header_of(out).misc, PERF_RECORD_MISC_KERNEL);
  EXPECT_EQ(load<std::uint32_t>(out.data() + 8), 0xffffffffU);
  EXPECT_EQ(load<std::uint32_t>(out.data() + 12), 0U);
  EXPECT_EQ(load<std::uint64_t>(out.data() + 16), 0xffffffff81000000U);
  EXPECT_EQ(load<std::uint64_t>(out.data() + 24), 0x1209988U);
  EXPECT_EQ(load<std::uint64_t>(out.data() + 32), 0xffffffff81000000U);
  const void* name = out.data() + 40;
  EXPECT_STREQ(static_cast<const char*>(name), "[kernel.kallsyms]_text");
  const auto map = parse_mmap(out);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->pid, kKernelPid);
  EXPECT_EQ(map->address, 0xffffffff81000000U);
  EXPECT_EQ(map->bytes, 0x1209988U);
  EXPECT_EQ(map->page_offset, 0xffffffff81000000U);
  EXPECT_EQ(map->cpumode, PERF_RECORD_MISC_KERNEL);
  EXPECT_EQ(map->name, "[kernel.kallsyms]_text");
  EXPECT_FALSE(parse_mmap2(out));
  std::fill(out.end() - sizeof(Trailer) - 8, out.end() - sizeof(Trailer), std::byte{1});  // without the NUL
  EXPECT_FALSE(parse_mmap(out));
}

TEST(RecordBuild, KsymbolAndCgroup) {
  RecordBuffer out;
  append_ksymbol(out, {0xffffffffc0000000, 77, 1, 1, "bpf_prog_6deef7357e7b4530"}, kTrailer);
  expect_well_formed(out);
  const auto symbol = parse_ksymbol(out);
  ASSERT_TRUE(symbol);
  EXPECT_EQ(symbol->address, 0xffffffffc0000000U);
  EXPECT_EQ(symbol->bytes, 77U);
  EXPECT_EQ(symbol->kind, 1U);
  EXPECT_EQ(symbol->flags, 1U);
  EXPECT_EQ(symbol->name, "bpf_prog_6deef7357e7b4530");
  out.clear();
  append_cgroup(out, {4711, "/system.slice/nginx.service"}, kTrailer);
  expect_well_formed(out);
  const auto cgroup = parse_cgroup(out);
  ASSERT_TRUE(cgroup);
  EXPECT_EQ(cgroup->id, 4711U);
  EXPECT_EQ(cgroup->path, "/system.slice/nginx.service");
}

// The size of a record has 16 bits, and perf keeps paths in PATH_MAX bytes.
TEST(RecordBuild, NamesAreCut) {
  for (const std::size_t length : {4090U, 4095U, 4096U, 5000U, 200000U}) {
    const std::string name(length, 'n');
    const std::string kept = name.substr(0, kMaxNameBytes - 1);
    RecordBuffer out;
    append_mmap2(out, some_map(name), kTrailer);
    expect_well_formed(out);
    EXPECT_EQ(parse_mmap2(out)->name, kept);
    out.clear();
    append_cgroup(out, {1, name}, kTrailer);
    expect_well_formed(out);
    EXPECT_EQ(parse_cgroup(out)->path, kept);
  }
  RecordBuffer out;
  append_cgroup(out, {1, std::string_view("a\0b", 3)}, kTrailer);
  EXPECT_EQ(parse_cgroup(out)->path, "a");
}

TEST(RecordBuild, RecordsFollowEachOther) {
  RecordBuffer out;
  append_fork(out, {1, 2, 3, 4, 5}, kTrailer);
  append_comm(out, {1, 3, "one"}, kTrailer);
  append_mmap2(out, some_map("two"), kTrailer);
  std::vector<std::uint32_t> types;
  std::span<const std::byte> left = out;
  for (auto record = next_record(left); !record.empty(); record = next_record(left)) {
    types.push_back(load<perf_event_header>(record.data()).type);
    left = left.subspan(record.size());
  }
  EXPECT_TRUE(left.empty());
  EXPECT_THAT(types, ::testing::ElementsAre(PERF_RECORD_FORK, PERF_RECORD_COMM, PERF_RECORD_MMAP2));
}

TEST(NextRecord, RefusesSizesThatMakeNoSense) {
  RecordBuffer out;
  append_comm(out, {1, 3, "one"}, kTrailer);
  for (std::size_t size = 0; size < out.size(); ++size) EXPECT_TRUE(next_record(std::span(out).first(size)).empty());
  for (const unsigned size : {0U, 4U, 7U, 12U, 255U}) {
    out[6] = static_cast<std::byte>(size);
    EXPECT_TRUE(next_record(out).empty()) << size;
    EXPECT_FALSE(parse_comm(out));
    EXPECT_FALSE(parse_trailer(out));
  }
}

// Each parser accepts only its own type.
TEST(RecordBuild, ParsersRefuseOtherTypes) {
  RecordBuffer out;
  append_comm(out, {1, 3, "one"}, kTrailer);
  EXPECT_FALSE(parse_task(out));
  EXPECT_FALSE(parse_mmap2(out));
  EXPECT_FALSE(parse_ksymbol(out));
  EXPECT_FALSE(parse_cgroup(out));
  out.clear();
  append_cgroup(out, {1, "/a"}, kTrailer);
  EXPECT_FALSE(parse_comm(out));
}

void parse_all(std::span<const std::byte> bytes) {
  std::size_t letters = 0;
  if (const auto comm = parse_comm(bytes)) letters += std::string(comm->name).size();
  if (const auto map = parse_mmap2(bytes)) letters += std::string(map->name).size();
  if (const auto symbol = parse_ksymbol(bytes)) letters += std::string(symbol->name).size();
  if (const auto cgroup = parse_cgroup(bytes)) letters += std::string(cgroup->path).size();
  if (const auto task = parse_task(bytes)) letters += task->exec ? 1 : 0;
  ASSERT_LE(letters, bytes.size());
}

// An exact copy on the heap, so that ASan detects a read one byte too far.
TEST(RecordBuild, HostileBytesNeverReadPastTheEnd) {
  RecordBuffer all;
  append_comm(all, {1, 3, "a-name"}, kTrailer);
  append_fork(all, {1, 2, 3, 4, 5}, kTrailer);
  append_mmap2(all, some_map("/a/path/of/some/length"), kTrailer);
  append_ksymbol(all, {1, 2, 3, 4, "symbol"}, kTrailer);
  append_cgroup(all, {1, "/group"}, kTrailer);
  std::mt19937_64 random(3);
  std::span<const std::byte> left = all;
  for (auto record = next_record(left); !record.empty(); record = next_record(left)) {
    left = left.subspan(record.size());
    for (int round = 0; round < 5000; ++round) {
      std::vector<std::byte> bytes(record.begin(), record.end());
      bytes.resize(8 + random() % (bytes.size() - 7));
      if (random() % 2 == 0) bytes[6] = static_cast<std::byte>(bytes.size() & ~7U);
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      bytes.shrink_to_fit();
      ASSERT_NO_FATAL_FAILURE(parse_all(bytes));
    }
  }
}

// A name without its NUL is not a name.
TEST(RecordBuild, NamesMustEnd) {
  RecordBuffer out;
  append_cgroup(out, {1, "/groups"}, kTrailer);
  ASSERT_EQ(out.size(), 8U + 8U + 8U + 32U);
  out[8 + 8 + 7] = std::byte{'x'};
  EXPECT_FALSE(parse_cgroup(out));
}

}  // namespace
}  // namespace flight
