// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/crew.hpp"

#include <linux/ioprio.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <latch>
#include <set>

#include "libcore/sysinfo/cpus.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxWorkers = 64;
constexpr int kCrewNice = 5;

}  // namespace

void lower_this_thread() {
  // Each may be refused; the work is then done at the priority it has.
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  ::setpriority(PRIO_PROCESS, thread, kCrewNice);
  sched_param none{};
  ::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);
  ::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7));
}

Result<std::size_t> crew_size(std::string_view words) {
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(words.data(), words.data() + words.size(), number);
  if (error == std::errc{} && stop == words.data() + words.size() && number >= 1) return std::min(number, kMaxWorkers);
  auto online = online_cpus();
  if (!online) return pass(online.error());
  if (words == "cpu") return std::clamp<std::size_t>(online->size(), 1, kMaxWorkers);
  if (words == "numa") return std::clamp<std::size_t>(numa_nodes().size(), 1, kMaxWorkers);
  std::set<std::string> groups;
  const CpuTopology topology = cpu_topology();
  for (const int cpu : *online) {
    if (static_cast<std::size_t>(cpu) >= topology.cpus.size()) continue;
    const auto& place = topology.cpus[static_cast<std::size_t>(cpu)];
    groups.insert(words == "core" ? place.thread_siblings : place.core_siblings);
  }
  if (words == "core" || words == "package") return std::clamp<std::size_t>(groups.size(), 1, kMaxWorkers);
  // Masks, "CPUs/affinity:CPUs/affinity": a worker each.
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::count(words.begin(), words.end(), ':')) + 1, 1,
                                 kMaxWorkers);
}

Crew::Crew(std::size_t workers, std::string name) : name_(std::move(name)) {
  threads_.reserve(workers);
  for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this, i] { work(i); });
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::post(std::function<void(std::size_t)> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Crew::for_each(std::size_t count, const std::function<void(std::size_t)>& job) {
  std::latch done(static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    post([&, i](std::size_t) {
      job(i);
      done.count_down();
    });
  }
  done.wait();
}

void Crew::work(std::size_t worker) {
  ::pthread_setname_np(::pthread_self(), fmt::format("{}-{}", name_, worker).c_str());
  lower_this_thread();
  for (;;) {
    std::function<void(std::size_t)> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job(worker);
  }
}

}  // namespace flight
