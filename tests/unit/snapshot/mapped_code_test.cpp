// SPDX-License-Identifier: Apache-2.0
// What is known of a process's code, and when nothing is said of it.
#include "libcore/snapshot/mapped_code.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "libcore/perf/record_build.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kProgram = 0x401000, kVdso = 0x7fff0000, kLibrary = 0x7f000000;

class MappedCodeTest : public testing::Test {
 protected:
  // Pid 100 ran at the beginning, and everything is known from 10 on.
  void SetUp() override {
    sideband_.maps_from_ns = 10;
    Tape begun;
    begun.scanned(100, 1, 5, "made");
    sideband_.prologue = begun.take();
    put_image(sideband_.prologue, 100);
  }
  static void put_map(RecordBuffer& out, std::uint32_t pid, std::uint64_t address, std::string_view name,
                      const Trailer& trailer = {}) {
    append_mmap2(out, {.pid = pid, .tid = pid, .address = address, .bytes = 0x1000, .name = name}, trailer);
  }
  static void put_image(RecordBuffer& out, std::uint32_t pid, const Trailer& trailer = {}) {
    put_map(out, pid, kProgram, "/bin/made", trailer);
    put_map(out, pid, kVdso, "[vdso]", trailer);
  }
  void log(const Tape& tape) { sideband_.log.insert(sideband_.log.end(), tape.bytes().begin(), tape.bytes().end()); }
  [[nodiscard]] bool is_known(std::uint32_t pid, EventTime time_ns) const {
    return MappedCode(sideband_).memory_of(pid, time_ns) != MappedCode::kUnknown;
  }
  [[nodiscard]] bool has(std::uint32_t pid, EventTime time_ns, std::uint64_t address) const {
    const MappedCode code(sideband_);
    const std::size_t memory = code.memory_of(pid, time_ns);
    EXPECT_NE(memory, MappedCode::kUnknown) << pid << " at " << time_ns;
    return memory != MappedCode::kUnknown && code.is_code(memory, address);
  }

  TrackerExport sideband_;
};

TEST_F(MappedCodeTest, ExecutableMappingsAreCode) {
  for (const std::uint64_t address : {kProgram, kProgram + 0xfff, kVdso}) EXPECT_TRUE(has(100, 20, address)) << address;
  for (const std::uint64_t address : {std::uint64_t{0}, kProgram - 1, kProgram + 0x1000, kVdso - 1, UINT64_MAX})
    EXPECT_FALSE(has(100, 20, address)) << address;
}

TEST_F(MappedCodeTest, OverlappingMappingsAreOneRange) {
  MappedRanges ranges;
  ranges.add(0x3000, 0x1000);
  ranges.add(0x1000, 0x1000);
  ranges.add(0x1800, 0x1800);
  ranges.add(0x1000, 0x1000);
  ranges.add(0x8000, 0);
  ranges.add(UINT64_MAX - 1, 16);  // no mapping wraps
  EXPECT_EQ(ranges.finish(), 3U) << "different ones";
  EXPECT_FALSE(ranges.has(0xfff));
  EXPECT_TRUE(ranges.has(0x1000));
  EXPECT_TRUE(ranges.has(0x3fff));
  EXPECT_FALSE(ranges.has(0x4000));
  EXPECT_FALSE(ranges.has(0x8000));
  EXPECT_FALSE(ranges.has(UINT64_MAX - 1));
}

TEST_F(MappedCodeTest, NothingIsSaidOfTheTimeBeforeTheLastScan) {
  EXPECT_FALSE(is_known(100, 9));
  EXPECT_TRUE(is_known(100, 10));
  sideband_.maps_from_ns = UINT64_MAX;
  EXPECT_FALSE(is_known(100, 20));
  EXPECT_FALSE(is_known(100, UINT64_MAX));
}

TEST_F(MappedCodeTest, NothingIsSaidOfProcessesWithPartOfTheirMappings) {
  RecordBuffer& prologue = sideband_.prologue;
  put_map(prologue, 200, kProgram, "/bin/later");  // the only record of it
  put_image(prologue, 201);
  put_map(prologue, 201, kLibrary, "[lost]");
  put_image(prologue, 202);
  sideband_.partial_maps.insert(202);
  for (const std::uint32_t pid : {200U, 201U, 202U, 203U, 0U, kKernelPid}) EXPECT_FALSE(is_known(pid, 20)) << pid;
  EXPECT_TRUE(is_known(100, 20)) << "the others are known";
}

TEST_F(MappedCodeTest, NothingIsSaidOfWhoGeneratesCode) {
  std::uint32_t pid = 200;
  for (const char* name : {"//anon", "[anon:jit]", "/memfd:doublemapper (deleted)", "/dev/zero (deleted)"}) {
    put_image(sideband_.prologue, ++pid);
    EXPECT_TRUE(is_known(pid, 20));
    put_map(sideband_.prologue, pid, kLibrary, name);
    EXPECT_FALSE(is_known(pid, 20)) << name;
  }
}

TEST_F(MappedCodeTest, NothingIsSaidOfWhoIsDoubted) {
  MappedCode code(sideband_);
  const std::size_t memory = code.memory_of(100, 20);
  ASSERT_NE(memory, MappedCode::kUnknown);
  code.doubt(memory);
  EXPECT_EQ(code.memory_of(100, 20), MappedCode::kUnknown);
}

TEST_F(MappedCodeTest, TheKernelsPageForAllProgramsIsCode) {
  EXPECT_TRUE(has(100, 20, 0xffffffffff600000));
  EXPECT_TRUE(has(100, 20, 0xffffffffff600fff));
  EXPECT_FALSE(has(100, 20, 0xffffffffff601000));
}

TEST_F(MappedCodeTest, NothingIsSaidOfWhoHasVeryManyMappings) {
  for (std::size_t i = 2; i <= MappedCode::kMostMappings; ++i) {
    EXPECT_TRUE(i % 100 != 0 || is_known(100, 20));
    put_map(sideband_.prologue, 100, kLibrary + 0x2000 * i, "/lib/many.so");
  }
  EXPECT_FALSE(is_known(100, 20));
}

// A scan dates what it finds with its own time, and unmapping is not recorded.
TEST_F(MappedCodeTest, AMappingHoldsForTheWholeImage) {
  Tape tape;
  tape.map(50, 100, kLibrary, 0x1000, "/lib/late.so");
  tape.exec(60, 100, "other");
  tape.map(61, 100, 0x800000, 0x1000, "/bin/other");
  tape.map(62, 100, kVdso + 0x10000, 0x1000, "[vdso]");
  log(tape);
  EXPECT_TRUE(has(100, 20, kLibrary));
  EXPECT_TRUE(has(100, 59, kLibrary));
  EXPECT_FALSE(has(100, 59, 0x800000));
  EXPECT_FALSE(has(100, 60, kLibrary));
  EXPECT_FALSE(has(100, 60, kProgram));
  EXPECT_TRUE(has(100, 60, 0x800000));
}

// vfork(2): both use one memory, so what either maps both have.
TEST_F(MappedCodeTest, AChildSharesItsParentsCodeUntilItExecutesSomething) {
  Tape tape;
  tape.fork(30, 100, 101);
  tape.thread(31, 100, 102);
  tape.map(40, 101, kLibrary, 0x1000, "/lib/of-the-child.so");
  tape.map(41, 100, kLibrary + 0x10000, 0x1000, "/lib/of-the-parent.so");
  tape.exec(50, 101, "other");
  tape.map(51, 101, 0x800000, 0x1000, "/bin/other");
  tape.map(52, 101, kVdso, 0x1000, "[vdso]");
  log(tape);
  for (const std::uint64_t address : {kProgram, kLibrary, kLibrary + 0x10000}) {
    EXPECT_TRUE(has(100, 35, address)) << address;
    EXPECT_TRUE(has(101, 35, address)) << address;
    EXPECT_FALSE(has(101, 50, address)) << address;
  }
  EXPECT_FALSE(has(100, 60, 0x800000));
  EXPECT_FALSE(is_known(101, 29)) << "it did not exist";
  EXPECT_FALSE(is_known(102, 35)) << "a thread is no process";
}

TEST_F(MappedCodeTest, WhatIsNotKnownOfAParentIsNotKnownOfItsChild) {
  put_image(sideband_.prologue, 200);
  sideband_.partial_maps.insert(200);
  Tape tape;
  tape.fork(30, 200, 201);
  tape.fork(30, 300, 301);  // of a process that nobody knows
  log(tape);
  EXPECT_FALSE(is_known(201, 35));
  EXPECT_FALSE(is_known(301, 35));
}

// The process tracker's own FORK is followed by the mappings.
TEST_F(MappedCodeTest, AForkThatCopiesNoMappingsSharesNone) {
  append_fork(sideband_.log, {101, 100, 101, 100, 30, true}, {101, 101, 30});
  EXPECT_FALSE(is_known(101, 35));
  put_image(sideband_.log, 101, {101, 101, 30});
  EXPECT_TRUE(is_known(101, 35));
  Tape tape;
  tape.map(40, 101, kLibrary, 0x1000, "/lib/of-the-child.so");
  log(tape);
  EXPECT_FALSE(has(100, 35, kLibrary));
}

}  // namespace
}  // namespace flight
