// SPDX-License-Identifier: Apache-2.0
// A recorder thread and its fake broker, with real rings if a test needs them.
#pragma once

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/recorder/recorder_thread.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "tests/unit/daemon/fake_broker.hpp"
#include "tests/unit/daemon/virtual_clock.hpp"
#include "tests/unit/on_cpu.hpp"

namespace flight::test {

// Skip a test without them: GTEST_SKIP() << kNoEvents.
inline bool may_open_events() { return ::geteuid() == 0; }
constexpr const char* kNoEvents = "needs root: perf events of all processes";

constexpr const char* kBusy = "page-faults";        // fault() makes as many as a test needs
constexpr const char* kQuiet = "alignment-faults";  // which does not occur here

// Real events of this machine: its sideband, and `event`, each in a ring of 64 KiB (the second one: `ring_bytes`) for
// each CPU, with a record for each `period` of them, which copies so many bytes of the stack; and channels into which
// nothing is recorded. nullptr: an error.
inline std::shared_ptr<Recording> small_recording(const char* event = kBusy, std::vector<TriggerConfig> triggers = {},
                                                  const std::vector<std::string>& quiet = {},
                                                  std::uint64_t ring_bytes = 64U << 10U, std::uint64_t period = 1,
                                                  std::uint32_t stack_bytes = 0) {
  Config config;
  config.memory_max = {.bytes = 1U << 30U};
  config.digest = "digest";
  config.channels = {
      {.name = "faults",
       .ring_bytes = ring_bytes,
       .events = {{.event = event, .period = period, .stack = stack_bytes != 0, .stack_bytes = stack_bytes}}}};
  for (const std::string& name : quiet)
    config.channels.push_back({.name = name, .ring_bytes = 64U << 10U, .events = {{.event = kQuiet, .period = 1}}});
  config.triggers = std::move(triggers);
  EventSources sources;
  if (auto tracefs = find_or_mount_tracefs()) sources.tracefs = *tracefs;
  const auto cpus = online_cpus();
  if (!cpus) return nullptr;
  auto recording = Recording::open(config, sources, KernelFeatures::probe(cpus->front()));
  if (recording) return std::make_shared<Recording>(std::move(*recording));
  ADD_FAILURE() << recording.error().what;
  return nullptr;
}

// On this thread's CPU.
inline void fault(std::size_t pages) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* memory = ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::madvise(memory, pages * page, MADV_NOHUGEPAGE);
  auto* bytes = static_cast<volatile char*>(memory);
  for (std::size_t i = 0; i < pages; ++i) bytes[i * page] = 1;
  ::munmap(memory, pages * page);
}

// The kernel has no space for one sideband record of this process, and reports it with the next one (PERF_RECORD_LOST).
inline void lose_a_sideband_record(const daemon::Attached& attached) {
  const OnCpu there(attached.sideband.front()->info().cpu);
  const int fd = attached.sideband.front()->fd();
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  ASSERT_EQ(::ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1), 0);
  ::prctl(PR_SET_NAME, "lost");
  ASSERT_EQ(::ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0), 0);
  ::prctl(PR_SET_NAME, name.data());
}

constexpr std::uint32_t kUnknownPid = 4'190'000;  // no process of this machine has it

// A scan with this process, and one that does not exist. It is complete, except, if `partly`, for the threads and
// mappings of the latter. `began_ns`: 0: it does not say when it began.
inline std::vector<std::byte> scan_with(std::uint32_t pid, std::string_view name, bool partly = false,
                                        EventTime began_ns = 0) {
  RecordBuffer out;
  constexpr std::uint64_t kProcesses = 2;
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (const auto& [number, comm] : {std::pair(self, std::string_view("unit-daemon")), std::pair(pid, name)}) {
    const std::uint32_t mark = partly && number == pid ? kScanPartly : 0;
    append_fork(out, {number, 1, number, 1, 1, true}, {.reserved = mark});
    append_comm(out, {number, number, comm, false}, {});
  }
  append_lost(out, {.id = kProcesses, .lost = 0}, {.time_ns = began_ns, .reserved = kScanAllListed});
  return out;
}

// A complete scan with so many processes, called "p" and their pid.
inline std::vector<std::byte> scan_of(std::uint32_t first_pid, std::uint32_t count) {
  RecordBuffer out;
  for (std::uint32_t pid = first_pid; pid < first_pid + count; ++pid) {
    append_fork(out, {pid, 1, pid, 1, 1, true}, {});
    append_comm(out, {pid, pid, "p" + std::to_string(pid), false}, {});
  }
  append_lost(out, {.id = count, .lost = 0}, {.reserved = kScanAllListed});
  return out;
}

class RecorderBench {
 public:
  RecorderBench() {
    std::string name = "/tmp/flight-recorder-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    std::filesystem::create_directory(snapshots());
  }
  RecorderBench(const RecorderBench&) = delete;
  RecorderBench& operator=(const RecorderBench&) = delete;
  ~RecorderBench() {
    recorder.reset();
    broker.reset();  // makes files in the folder
    next.reset();
    std::filesystem::remove_all(folder);
  }

  // `followed`: a successor may listen at path() after it.
  void start(BrokerSetup setup, bool followed = false, std::optional<CheckpointFile> checkpoint = {}) {
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    auto attached = daemon::Attached::open(attachment_of(setup));
    ASSERT_TRUE(attached) << attached.error().what;
    broker.emplace(UniqueFd(ends[0]), std::move(setup));
    daemon::BrokerThread::Callbacks callbacks{.lost = [this](const Error&, EventTime) { ++lost; },
                                              .replaced = [this](EventTime) { ++replaced; },
                                              .changed = [this](const daemon::Attached&) { ++changed; },
                                              .warn = [this](const Error& error) { warn(error.what); }};
    const WaitingClock& used = clock ? static_cast<const WaitingClock&>(*clock) : WaitingClock::monotonic();
    auto started =
        daemon::RecorderThread::start(BrokerClient(UniqueFd(ends[1])), std::move(*attached), followed ? path() : "",
                                      std::move(callbacks), std::move(checkpoint), beside, {}, used);
    ASSERT_TRUE(started) << started.error().what;
    recorder = std::move(*started);
  }
  // The broker dies, and another one listens at the successor's path.
  void replace_broker(BrokerSetup setup) {
    next.reset();
    std::filesystem::remove(path());
    next.emplace(path(), std::move(setup));
    broker->die();
  }
  [[nodiscard]] std::string path() const { return folder + "/broker"; }
  [[nodiscard]] std::string snapshots() const { return folder + "/snapshots"; }
  [[nodiscard]] std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  // Waits for it.
  [[nodiscard]] Status status() {
    auto promise = std::make_shared<std::promise<Status>>();
    auto answer = promise->get_future();
    recorder->status([promise](Status status) { promise->set_value(std::move(status)); });
    if (answer.wait_for(kPatience) == std::future_status::ready) return answer.get();
    ADD_FAILURE() << "the status is not answered";
    return {};
  }

  std::string folder;
  BesideRings beside{.bytes = 256U << 20U};
  std::optional<FakeBroker> broker, next;
  std::optional<VirtualClock> clock;  // the recorder's, if a test makes it before start()
  std::unique_ptr<daemon::RecorderThread> recorder;
  std::atomic<int> lost = 0, replaced = 0, changed = 0;

 private:
  void warn(std::string text) {
    const std::lock_guard lock(mutex_);
    warnings_.push_back(std::move(text));
  }
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

}  // namespace flight::test
