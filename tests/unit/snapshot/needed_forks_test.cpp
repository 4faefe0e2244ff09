// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/needed_forks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <string>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class NeededForksTest : public testing::Test {
 protected:
  void task(std::uint32_t pid, std::uint32_t tid, std::string_view name) {
    const std::uint32_t parent = tid == pid ? 1 : pid;
    append_fork(prologue_, {pid, parent, tid, parent, 0, true}, {});
    if (!name.empty()) append_comm(prologue_, {pid, tid, name}, {});
  }
  void map(std::uint32_t pid) {
    append_mmap2(prologue_, {.pid = pid, .tid = pid, .address = 4096, .bytes = 4096, .name = "/bin/it"}, {});
  }
  // "PID/TID" of each FORK record that is kept.
  [[nodiscard]] std::vector<std::string> kept() const {
    const NeededForks forks(prologue_);
    std::vector<std::string> out;
    std::span<const std::byte> rest = prologue_;
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      const bool is_fork = load<perf_event_header>(record.data()).type == PERF_RECORD_FORK;
      EXPECT_TRUE(is_fork || forks.has(record, rest)) << "only FORKs may be left out";
      if (!is_fork || !forks.has(record, rest)) continue;
      const auto fork = parse_task(record);
      out.push_back(fmt::format("{}/{}", fork->pid, fork->tid));
    }
    return out;
  }
  RecordBuffer prologue_;
};

TEST_F(NeededForksTest, CommSaysTheSame) {
  append_cgroup(prologue_, {1, "/init.scope"}, {});
  task(100, 100, "server");
  map(100);
  task(100, 101, "worker");
  task(200, 200, "kthread");
  EXPECT_THAT(kept(), IsEmpty());
}

// perf would give it its parent's name.
TEST_F(NeededForksTest, AProcessWithoutANameKeepsItsNumber) {
  task(100, 100, "");
  map(100);
  EXPECT_THAT(kept(), IsEmpty());
}

TEST_F(NeededForksTest, AThreadWithoutANameHasThatOfItsProcess) {
  task(100, 100, "server");
  task(100, 101, "");
  task(100, 102, "worker");
  task(100, 103, "");
  EXPECT_THAT(kept(), ElementsAre("100/101", "100/103"));
}

TEST_F(NeededForksTest, OfTwoTasksWithOneNumberBothAreKept) {
  task(100, 100, "server");
  task(100, 150, "worker");
  task(100, 160, "worker");
  task(150, 150, "shell");
  task(170, 170, "other");
  EXPECT_THAT(kept(), ElementsAre("100/150", "150/150"));
}

TEST_F(NeededForksTest, ARecordThatIsNoForkIsKept) {
  append_exit(prologue_, {100, 1, 100, 1, 0, false}, {});
  map(100);
  EXPECT_THAT(kept(), IsEmpty());
}

}  // namespace
}  // namespace flight
