// SPDX-License-Identifier: Apache-2.0
// A real OOM kill in a memory cgroup, and a real stall for lack of memory: one snapshot each, which contains the
// culprit.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/e2e/memory_group.hpp"
#include "tests/e2e/trigger_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kGroupBytes = 64U << 20U;

class Memory : public TriggerTest {
 protected:
  // While a process is killed again and again, others may wait for memory as well: that is no stall of 3 s.
  explicit Memory(const char* stalls_for = "3s")
      : TriggerTest({{"oom", {{"event", "oom:mark_victim"}, {"cooldown", "10min"}, {"post", "500ms"}}},
                     {"psi-memory",
                      {{"metric", "psi.memory.some"}, {"above", "25%"}, {"for", stalls_for}, {"cooldown", "10min"}}}}) {
  }
  // In its samples: on a busy machine, ten other processes can have more of them, and be its table.
  [[nodiscard]] bool has(const Json& sidecar, std::string_view comm) const {
    const auto samples = named_samples(folder_, sidecar["path"]);
    return std::any_of(samples.begin(), samples.end(), [&](const NamedSample& one) { return one.comm == comm; });
  }
  [[nodiscard]] int snapshots_of(std::string_view name) const {
    const Json rows = daemon_.ctl_json({"list"});
    return static_cast<int>(
        std::count_if(rows.begin(), rows.end(), [&](const Json& row) { return row["trigger"] == name; }));
  }
};

TEST_F(Memory, AnOomKillIsOneSnapshot) {
  auto group = MemoryGroup::create(kGroupBytes);
  ASSERT_TRUE(group) << "no memory cgroup can be made";
  Arguments command = group->enter();
  for (const std::string& word : {folder_.load("hog"), std::string("256")}) command.push_back(word);
  {
    Child hog = start_load(command);
    ASSERT_TRUE(hog.wait_for_line("killed", 60s)) << hog.out() << hog.err();
    const Json sidecar = await_snapshot_of("oom");
    EXPECT_THAT(sidecar["reason"], HasSubstr("oom:mark_victim"));
    EXPECT_TRUE(has(sidecar, "hog")) << sidecar["top"];
    // The process is killed again and again. This counts as the same incident.
    EXPECT_TRUE(wait_until([&] { return trigger("oom")["suppressed"].get<int>() > 0; }, 60s));
    EXPECT_EQ(snapshots_of("oom"), 1);
    EXPECT_EQ(trigger("oom")["fired"], 1);
  }
}

class MemoryStall : public Memory {
 protected:
  MemoryStall() : Memory("1s") {}
};

// A process reads more than fits into its group, again and again: every page that is read evicts another one.
TEST_F(MemoryStall, IsOneSnapshot) {
  if (trigger("psi-memory")["state"] == "unavailable") GTEST_SKIP() << "this kernel has no /proc/pressure/memory";
  auto group = MemoryGroup::create(kGroupBytes);
  ASSERT_TRUE(group) << "no memory cgroup can be made";
  Arguments command = group->enter();
  for (const std::string& word :
       {folder_.load("thrasher"), folder_.path() + "/scratch/pages", std::string("160"), std::string("4")})
    command.push_back(word);
  Child thrasher = start_load(command);
  ASSERT_TRUE(thrasher.wait_for_line("started", 60s)) << thrasher.out() << thrasher.err();
  const Json sidecar = await_snapshot_of("psi-memory");
  EXPECT_EQ(sidecar["fired"]["metric"], "psi.memory.some");
  EXPECT_GE(sidecar["fired"]["value"].get<double>(), 25);
  EXPECT_TRUE(has(sidecar, "thrasher")) << sidecar["top"];
  EXPECT_EQ(snapshots_of("psi-memory"), 1);
}

}  // namespace
}  // namespace flight
