// SPDX-License-Identifier: Apache-2.0
// Mappings and names at each moment of a file, against the records that say so.
#include "libcore/profile/sideband_timeline.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

#include "tests/unit/profile/made_file.hpp"

namespace flight {
namespace {

using test::made_trailer;

class TimelineTest : public testing::Test {
 protected:
  TimelineTest() { static_cast<void>(texts_.id_of("")); }

  void map(std::uint32_t pid, std::uint64_t address, std::uint64_t bytes, std::string_view name, EventTime time_ns) {
    append_mmap2(records_,
                 {.pid = pid,
                  .tid = pid,
                  .address = address,
                  .bytes = bytes,
                  .page_offset = 0x1000,
                  .protection = PROT_READ | PROT_EXEC,
                  .name = name},
                 made_trailer(pid, time_ns));
  }
  void fork(std::uint32_t parent, std::uint32_t child, EventTime time_ns, bool exec = false) {
    append_fork(records_,
                {.pid = child, .ppid = parent, .tid = child, .ptid = parent, .time_ns = time_ns, .exec = exec},
                made_trailer(parent, time_ns));
  }
  void comm(std::uint32_t pid, std::uint32_t tid, std::string_view name, EventTime time_ns) {
    append_comm(records_, {.pid = pid, .tid = tid, .name = name}, made_trailer(pid, time_ns));
  }
  void close() {
    std::span<const std::byte> rest(records_);
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      timeline_.add(record);
      rest = rest.subspan(record.size());
    }
    timeline_.close();
  }
  // "libc.so.6+0x1010" of a sample then; "-": no mapping.
  std::string code(std::uint32_t pid, std::uint64_t address, EventTime time_ns, bool kernel = false) {
    AddressSpaces& spaces = timeline_.spaces();
    const SidebandPosition position = timeline_.position_at(time_ns);
    const std::uint32_t space = kernel ? AddressSpaces::kKernel : spaces.space_of(pid, position);
    const auto at = spaces.find(space, spaces.mapped(space, position), address);
    return at ? fmt::format("{}+{:#x}", spaces.objects()[at->object].short_name(), at->offset) : "-";
  }
  std::string name(std::uint32_t tid, EventTime time_ns) {
    return texts_[timeline_.tasks().at(tid, timeline_.position_at(time_ns))];
  }

  Texts texts_;
  SidebandTimeline timeline_{texts_};
  RecordBuffer records_;
};

TEST_F(TimelineTest, AMappingHoldsFromItsRecordUntilAnotherCoversIt) {
  map(10, 0x10000, 0x4000, "/usr/lib/libc.so.6", 0);
  map(10, 0x11000, 0x1000, "/usr/lib/libz.so", 100);
  close();
  EXPECT_EQ(code(10, 0x11010, 99), "libc.so.6+0x2010");
  EXPECT_EQ(code(10, 0x11010, 100), "libz.so+0x1010") << "the record of the same time comes first";
  EXPECT_EQ(code(10, 0x10010, 200), "libc.so.6+0x1010");
  EXPECT_EQ(code(10, 0x12010, 200), "libc.so.6+0x3010");
  EXPECT_EQ(code(10, 0x14000, 200), "-");
  EXPECT_EQ(code(11, 0x10010, 200), "-");
}

TEST_F(TimelineTest, AChildHasTheMappingsThatItsParentHadAtTheFork) {
  map(10, 0x10000, 0x1000, "/bin/old", 0);
  map(10, 0x20000, 0x1000, "/lib/before.so", 50);
  fork(10, 20, 100);
  map(10, 0x10000, 0x1000, "/bin/new", 150);
  map(20, 0x30000, 0x1000, "/lib/own.so", 160);
  fork(20, 30, 200);
  fork(10, 40, 300, true);  // generated: its own mappings follow
  fork(10, 20, 400);        // the number again
  close();
  EXPECT_EQ(code(20, 0x10000, 170), "old+0x1000");
  EXPECT_EQ(code(20, 0x20000, 170), "before.so+0x1000");
  EXPECT_EQ(code(20, 0x20000, 99), "-") << "before it was forked";
  EXPECT_EQ(code(10, 0x10000, 170), "new+0x1000");
  EXPECT_EQ(code(30, 0x30000, 210), "own.so+0x1000");
  EXPECT_EQ(code(30, 0x10000, 210), "old+0x1000");
  EXPECT_EQ(code(40, 0x10000, 310), "-");
  EXPECT_EQ(code(20, 0x30000, 399), "own.so+0x1000");
  EXPECT_EQ(code(20, 0x30000, 400), "-");
  EXPECT_EQ(code(20, 0x10000, 400), "new+0x1000");
}

TEST_F(TimelineTest, ObjectsHaveTheNamesOfPerf) {
  map(10, 0x10000, 0x1000, "//anon", 0);
  map(10, 0x20000, 0x1000, "[vdso]", 0);
  map(10, 0x30000, 0x1000, "/opt/a b/x (deleted)", 0);
  map(10, 0x40000, 0x1000, "[heap]", 0);
  append_kernel_mmap(records_, 0xffff0000, 0x1000, 0xffff0000, "[kernel.kallsyms]_text", {});
  append_kernel_mmap(records_, 0xffffa000, 0x1000, 0, "/lib/modules/6.1/kernel/snd-hda.ko.xz", {});
  append_kernel_mmap(records_, 0xffffb000, 0x1000, 0, "[loop]", {});
  append_ksymbol(records_, {0xffffc000, 0x100, 1, 0, "bpf_prog_a"}, made_trailer(0, 100));
  append_ksymbol(records_, {0xffffc000, 0x100, 1, 1, "bpf_prog_a"}, made_trailer(0, 200));
  close();
  EXPECT_EQ(code(10, 0x10008, 1), "[JIT] tid 10+0x8");
  EXPECT_EQ(code(10, 0x20008, 1), "[vdso]+0x8");
  EXPECT_EQ(code(10, 0x30008, 1), "x (deleted)+0x1008");
  EXPECT_EQ(code(10, 0x40008, 1), "[JIT] tid 10+0x8");
  EXPECT_EQ(code(0, 0xffff0010, 1, true), "[kernel.kallsyms]+0x10");
  EXPECT_EQ(code(0, 0xffffa010, 1, true), "[snd_hda]+0x10");
  EXPECT_EQ(code(0, 0xffffb010, 1, true), "[loop]+0x10");
  EXPECT_EQ(code(0, 0xffffc010, 99, true), "-");
  EXPECT_EQ(code(0, 0xffffc010, 100, true), "bpf_prog_a+0x10");
  EXPECT_EQ(code(0, 0xffffc010, 200, true), "-");
}

TEST_F(TimelineTest, ATaskHasTheNameOfItsThread) {
  comm(10, 10, "main", 0);
  comm(10, 11, "worker", 100);
  append_fork(records_, {.pid = 10, .ppid = 10, .tid = 12, .ptid = 11, .time_ns = 150}, made_trailer(10, 150));
  comm(10, 11, "renamed", 200);
  append_fork(records_, {.pid = 77, .ppid = 76, .tid = 77, .ptid = 76, .time_ns = 250}, made_trailer(76, 250));
  comm(77, 77, "late", 300);
  append_fork(records_, {.pid = 10, .ppid = 10, .tid = 11, .ptid = 10, .time_ns = 400}, made_trailer(10, 400));
  close();
  EXPECT_EQ(name(10, 1), "main");
  EXPECT_EQ(name(11, 50), "worker") << "the first name that comes, as perf";
  EXPECT_EQ(name(11, 199), "worker");
  EXPECT_EQ(name(11, 200), "renamed");
  EXPECT_EQ(name(11, 400), "main") << "another thread with the number";
  EXPECT_EQ(name(12, 160), "worker") << "of the one that made it";
  EXPECT_EQ(name(12, 250), "worker");
  EXPECT_EQ(name(77, 260), "late");
  EXPECT_EQ(name(77, 240), ":77") << "another task, before the fork";
  EXPECT_EQ(name(99, 1), ":99");
  EXPECT_EQ(name(0, 1), "swapper");
  EXPECT_EQ(name(kKernelPid, 1), ":-1");
}

// A data directory's, or a file that is not sorted.
TEST_F(TimelineTest, TheOrderInTheFileIsOfNoImportance) {
  comm(10, 10, "second", 200);
  map(10, 0x10000, 0x1000, "/bin/second", 200);
  comm(10, 10, "first", 100);
  map(10, 0x10000, 0x1000, "/bin/first", 100);
  comm(10, 10, "always", 0);
  close();
  EXPECT_EQ(name(10, 50), "always");
  EXPECT_EQ(name(10, 150), "first");
  EXPECT_EQ(code(10, 0x10000, 150), "first+0x1000");
  EXPECT_EQ(name(10, 250), "second");
  EXPECT_EQ(code(10, 0x10000, 250), "second+0x1000");
}

TEST_F(TimelineTest, CountsWhatItCannotUse) {
  comm(10, 10, "first", 100);
  const std::size_t one = records_.size();
  SidebandTimeline small(texts_, 2 * one);
  for (int i = 0; i < 5; ++i) small.add(records_);
  EXPECT_EQ(small.left_out(), 3U);
  for (std::size_t size = 8; size < one; size += 8) {
    RecordBuffer cut(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(size));
    test::set_size(cut, 0);
    small.add(cut);
  }
  EXPECT_GT(small.malformed(), 0U);
  EXPECT_LE(small.malformed(), one / 8);
  small.close();
  EXPECT_EQ(texts_[small.tasks().at(10, small.position_at(100))], "first");
}

// Mappings that nobody would make: the search ends, and that is counted.
TEST(AddressSpaces, ASearchIsBounded) {
  AddressSpaces spaces(10'000);
  SidebandPosition position = 1;
  RecordBuffer record;
  for (std::uint32_t pid = 2; pid < 3000; ++pid) {
    record.clear();
    append_fork(record, {.pid = pid, .ppid = pid - 1, .tid = pid, .ptid = pid - 1, .time_ns = 1}, {});
    spaces.apply(record, position++);
  }
  const std::uint32_t last = spaces.space_of(2999, position);
  ASSERT_NE(last, AddressSpaces::kNone);
  std::uint64_t searches = 0;
  while (spaces.given_up() == 0 && searches < 100) {
    EXPECT_FALSE(spaces.find(last, spaces.mapped(last, position), 0x1000));
    ++searches;
  }
  EXPECT_EQ(searches, 4U) << "10,000 steps are three searches through 2,999 parents";
}

}  // namespace
}  // namespace flight
