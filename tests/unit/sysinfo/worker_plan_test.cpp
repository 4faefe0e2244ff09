// SPDX-License-Identifier: Apache-2.0
// The words and masks of snapshot.workers on a machine of two packages, each with two cores of two threads: core
// siblings are CPU n and n + 4, the packages are 0,1,4,5 and 2,3,6,7. CPU 7 is offline.
#include "libcore/sysinfo/worker_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sysinfo/cpus.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class WorkerPlan : public testing::Test {
 protected:
  WorkerPlan() {
    const std::string cpus = "/sys/devices/system/cpu/";
    tree_.write(cpus + "online", "0-6\n");
    tree_.write(cpus + "present", "0-7\n");
    tree_.write(cpus + "possible", "0-7\n");
    for (int cpu = 0; cpu < 7; ++cpu) {
      const std::string folder = cpus + "cpu" + std::to_string(cpu) + "/topology/";
      const int core = cpu % 4;
      tree_.write(folder + "thread_siblings_list", core == 3 ? "3\n" : fmt::format("{},{}\n", core, core + 4));
      tree_.write(folder + "core_siblings_list", core < 2 ? "0-1,4-5\n" : "2-3,6\n");
    }
    tree_.write("/sys/devices/system/node/online", "0-2\n");
    for (const auto& [node, list] : {std::pair{"0", "0-1,4-5\n"}, {"1", "2-3,6-7\n"}, {"2", "\n"}}) {
      tree_.write("/sys/devices/system/node/node" + std::string(node) + "/meminfo", "Node 0 MemTotal: 1 kB\n");
      tree_.write("/sys/devices/system/node/node" + std::string(node) + "/cpulist", list);
    }
  }
  // "SERVES/RUNS_ON:…"; an empty list means all.
  std::string plan(std::string_view words) const {
    const auto workers = plan_workers(words, tree_.root());
    if (!workers) return workers.error().what;
    std::string out;
    for (const PlannedWorker& worker : *workers)
      out += (out.empty() ? "" : ":") + format_cpu_list(worker.serves) + "/" + format_cpu_list(worker.runs_on);
    return out;
  }
  TempTree tree_;
};

TEST_F(WorkerPlan, CpuAndANumberServeEveryRingAndRunAnywhere) {
  EXPECT_EQ(plan("cpu"), "/:/:/:/:/:/:/");
  EXPECT_EQ(plan("3"), "/:/:/");
  EXPECT_EQ(plan_workers("1000", tree_.root()).value().size(), kMaxWorkers);
}

TEST_F(WorkerPlan, CorePackageAndNumaFollowTheTopologyOfTheOnlineCpus) {
  EXPECT_EQ(plan("core"), "0,4/0,4:1,5/1,5:2,6/2,6:3/3");
  EXPECT_EQ(plan("package"), "0-1,4-5/0-1,4-5:2-3,6/2-3,6");
  EXPECT_EQ(plan("numa"), "0-1,4-5/0-1,4-5:2-3,6/2-3,6") << "a node without CPUs has no worker";
}

TEST_F(WorkerPlan, MoreGroupsThanWorkersShareThem) {
  const TempTree large;
  std::string nodes;
  for (int node = 0; node < 100; ++node) {
    const std::string folder = fmt::format("/sys/devices/system/node/node{}/", node);
    large.write(folder + "meminfo", "Node 0 MemTotal: 1 kB\n");
    large.write(folder + "cpulist", std::to_string(node));
  }
  large.write("/sys/devices/system/node/online", "0-99");
  large.write("/sys/devices/system/cpu/online", "0-99");
  const auto workers = plan_workers("numa", large.root());
  ASSERT_TRUE(workers) << workers.error().what;
  ASSERT_EQ(workers->size(), kMaxWorkers);
  EXPECT_EQ(workers->at(35).serves, (std::vector<int>{35, 99}));
  EXPECT_EQ(workers->at(36).serves, (std::vector<int>{36}));
}

TEST_F(WorkerPlan, MasksAreTakenAsTheyStand) {
  EXPECT_EQ(plan("0-3/3:4-7/4"), "0-3/3:4-7/4") << "an offline CPU is one of this machine";
  EXPECT_EQ(plan("0-6/0:7/7"), "0-6/0:7/7") << "also if all CPUs of a mask are offline";
  EXPECT_EQ(plan("0,2-4/2-4:1,5-7/5-7"), "0,2-4/2-4:1,5-7/5-7");
  EXPECT_EQ(plan("6-9/0"), "6-7/0") << "CPUs that are not there are ignored";
}

TEST_F(WorkerPlan, AMaskOfCpusThatAreNotThereIsRefused) {
  EXPECT_THAT(plan("0/0:8-9/1"), HasSubstr("mask \"8-9/1\": this machine has none of the CPUs 8-9"));
  EXPECT_THAT(plan("0/12"), HasSubstr("use some of 0-7"));
  EXPECT_THAT(plan("0/0:1"), HasSubstr("not a mask"));
}

TEST(WorkersPlanOfThisMachine, HasAWorkerForEveryWord) {
  for (const char* word : {"cpu", "core", "package", "numa", "1", "0/0"}) {
    const auto workers = plan_workers(word);
    ASSERT_TRUE(workers) << workers.error().what;
    EXPECT_GE(workers->size(), 1U) << word;
  }
}

}  // namespace
}  // namespace flight
