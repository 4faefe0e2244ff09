// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/worker_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>

#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string thread_name() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return name.data();
}

TEST(WorkerPool, ARingGoesToTheWorkerThatServesItsCpu) {
  const auto workers_made =
      WorkerPool::start({{.serves = {0, 2}, .runs_on = {}}, {.serves = {1, 3}, .runs_on = {}}}).value();
  WorkerPool& workers = *workers_made;
  EXPECT_EQ(workers.worker_of(2), 0U);
  EXPECT_EQ(workers.worker_of(3), 1U);
  EXPECT_EQ(workers.worker_of(4), std::nullopt);
  const std::vector<int> cpus{0, 1, 2, 3, 3, 2, 1, 0};
  std::vector<std::string> names(cpus.size());
  for (int round = 0; round < 20; ++round) {
    workers.for_each_ring(cpus, [&](std::size_t ring) { names[ring] = thread_name(); });
    ASSERT_THAT(names, ElementsAre("worker-0", "worker-1", "worker-0", "worker-1", "worker-1", "worker-0", "worker-1",
                                   "worker-0"));
  }
}

TEST(WorkerPool, RingsWithoutAWorkerAreServedByAll) {
  const auto workers_made = WorkerPool::start(3).value();
  WorkerPool& workers = *workers_made;
  std::atomic<int> done = 0;
  const std::vector<int> cpus(100, 7);
  workers.for_each_ring(cpus, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 100);
  workers.for_each_ring({}, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 100);
}

TEST(WorkerPool, WorkersRunOnTheirCpusOrSayWhyNot) {
  const int last = online_cpus().value().back();
  const int absent = static_cast<int>(available_cpus()) + 7;
  const auto workers_made =
      WorkerPool::start({{.serves = {0}, .runs_on = {last}}, {.serves = {1}, .runs_on = {absent}}}).value();
  WorkerPool& workers = *workers_made;
  cpu_set_t set;
  workers.for_each_ring(std::vector<int>{0}, [&](std::size_t) { ::sched_getaffinity(0, sizeof set, &set); });
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(last, &set));
  ASSERT_EQ(workers.warnings().size(), 1U);
  EXPECT_THAT(workers.warnings()[0], HasSubstr(fmt::format("worker 1 could not be pinned to CPUs {}", absent)));
}

struct Standing {
  std::string name;
  int policy = -1, nice = 0;
  long io_priority = 0;
  static Standing own() {
    constexpr int kProcess = 1;  // IOPRIO_WHO_PROCESS; 0: this thread
    return {thread_name(), ::sched_getscheduler(0), ::getpriority(PRIO_PROCESS, 0),
            ::syscall(SYS_ioprio_get, kProcess, 0)};
  }
};

TEST(WorkerPool, EveryThreadLowersItself) {
  constexpr long kBestEffortLowest = (2L << 13U) | 7;  // ioprio_set(2)
  const auto workers_made = WorkerPool::start(1).value();
  WorkerPool& workers = *workers_made;
  std::vector<Standing> seen(2);
  workers.for_each_ring(std::vector<int>{0}, [&](std::size_t) { seen[0] = Standing::own(); });
  workers.merge([&] { seen[1] = Standing::own(); });
  std::atomic<bool> written = false;
  Standing writer;
  workers.write([&] {
    writer = Standing::own();
    written = true;
    written.notify_all();
  });
  written.wait(false);
  seen.push_back(writer);
  EXPECT_EQ(seen[0].name, "worker-0");
  EXPECT_EQ(seen[1].name, "merge");
  EXPECT_EQ(seen[2].name, "writer");
  for (const Standing& thread : seen) {
    EXPECT_EQ(thread.policy, SCHED_BATCH) << thread.name;
    EXPECT_EQ(thread.nice, 5) << thread.name;
    EXPECT_EQ(thread.io_priority, kBestEffortLowest) << thread.name;
  }
}

// A single worker. If it had to serve the writer or the merge as well, this would never end.
TEST(WorkerPool, MergeWritesWhileAWorkerIsBusy) {
  const auto workers_made = WorkerPool::start(1).value();
  WorkerPool& workers = *workers_made;
  std::atomic<bool> go_on = false;
  workers.post([&](std::size_t) { go_on.wait(false); });
  workers.merge([&] {
    std::atomic<bool> written = false;
    workers.write([&] {
      written = true;
      written.notify_all();
    });
    written.wait(false);
  });
  go_on = true;
  go_on.notify_all();
}

}  // namespace
}  // namespace flight
