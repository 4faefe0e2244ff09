// SPDX-License-Identifier: Apache-2.0
// A snapshot worker with everything that it needs: a recorder with real rings, a fake broker that makes its files, and
// the freeze thread. A test can hold it just before it cuts the rings, refuse it space on the disk, and move its clock.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/snapshots/freeze_thread.hpp"
#include "daemon/snapshots/worker.hpp"
#include "libcore/snapshot/file_facts.hpp"
#include "tests/unit/daemon/recorder/recorder_bench.hpp"
#include "tests/unit/daemon/virtual_clock.hpp"

namespace flight::test {

using namespace daemon;

class SnapshotBench {
 public:
  using Answer = std::future<Result<Sidecar>>;

  SnapshotBench() = default;
  SnapshotBench(const SnapshotBench&) = delete;
  SnapshotBench& operator=(const SnapshotBench&) = delete;
  ~SnapshotBench() { end(); }
  void end() {
    begin.open();
    worker.reset();
  }

  std::vector<std::string> missing;  // Manifest::missing, before start()
  [[nodiscard]] BrokerSetup setup() const {
    return {.rings = rings,
            .folder = recorder.snapshots(),
            .processes = scan_with(kUnknownPid, "first"),
            .missing = missing};
  }
  // `followed`: as RecorderBench::start.
  void start(bool followed = false) {
    open_rings();
    ASSERT_TRUE(rings);
    ASSERT_NO_FATAL_FAILURE(recorder.start(setup(), followed));
    start_worker();
  }
  void open_rings() {
    if (!rings) rings = small_recording();
  }
  void start_worker() {
    end();
    SnapshotWorker::Callbacks callbacks{.begun =
                                            [this](const std::string& trigger) {
                                              {
                                                const std::lock_guard lock(mutex_);
                                                begun_.push_back(trigger);
                                              }
                                              begin.pass();
                                            },
                                        .ended =
                                            [this](const Result<Sidecar>& result) {
                                              if (on_ended) on_ended(result);
                                            },
                                        .metrics = [this] { return metrics ? metrics() : std::nullopt; },
                                        .make_room = [this](const std::string&, std::uint64_t) { return room(); },
                                        .make_more_room = [](const std::string&, std::uint64_t) { return false; },
                                        .symbols_kept = [] {},
                                        .warn = [this](const Error& error) { warn(error.what); },
                                        .recording_id = [this] { return recording_id; },
                                        .store_warning = [this] { return store_warning; }};
    const WaitingClock& used = clock ? static_cast<const WaitingClock&>(*clock) : WaitingClock::monotonic();
    auto started = SnapshotWorker::start(*recorder.recorder, *freezer, {}, host, recorder.snapshots(),
                                         std::vector<PlannedWorker>(1), std::move(callbacks), used);
    ASSERT_TRUE(started) << started.error().what;
    worker = std::move(*started);
  }

  // The promise permits one reply: a second one ends the test program.
  [[nodiscard]] Answer ask(SnapshotRequest request) {
    auto promise = std::make_shared<std::promise<Result<Sidecar>>>();
    auto answer = promise->get_future();
    request.done = [promise](const Result<Sidecar>& result) { promise->set_value(result); };
    worker->request(std::move(request));
    return answer;
  }
  // Sends a request and waits until the worker waits for its `post`: from here on this snapshot is running, and not
  // frozen.
  [[nodiscard]] Answer ask_and_wait(SnapshotRequest request) {
    auto seen = std::make_shared<std::atomic<bool>>(false);
    request.progress = [seen](std::string_view step, unsigned) {
      if (step == "waiting") *seen = true;
    };
    auto answer = ask(std::move(request));
    EXPECT_TRUE(soon([&] { return seen->load(); }));
    return answer;
  }
  // Sends a request and waits until the worker is about to cut the rings: from here on no request joins. begin.open()
  // lets it continue.
  [[nodiscard]] Answer ask_and_hold(SnapshotRequest request) {
    begin.close();
    auto answer = ask(std::move(request));
    EXPECT_TRUE(begin.wait_for_one());
    return answer;
  }

  // Waits until the worker has its files for a last snapshot: from here on only requests change the folder.
  [[nodiscard]] bool has_spare_files() const {
    return soon([this] { return std::filesystem::exists(recorder.snapshots() + "/.flightd-spare-sidecar"); });
  }

  // Applies to each later snapshot; nullopt: there is enough space.
  void refuse_room(std::optional<Error> why) {
    const std::lock_guard lock(mutex_);
    refused_ = std::move(why);
  }
  [[nodiscard]] std::vector<std::string> warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_;
  }
  // The triggers of the snapshots so far.
  [[nodiscard]] std::vector<std::string> begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }

  RecorderBench recorder;
  std::shared_ptr<const Recording> rings;  // the test's own rings, or those of start()
  std::unique_ptr<FreezeThread> freezer = std::move(*FreezeThread::start());
  HostFacts host = HostFacts::read({"test"});
  Gate begin;  // of each snapshot, just before the rings are cut
  std::function<void(const Result<Sidecar>&)> on_ended;
  std::function<std::optional<SidecarMetrics>()> metrics;
  std::string recording_id;           // of one that is running; before start()
  std::string store_warning;          // before start()
  std::optional<VirtualClock> clock;  // the worker's, if a test makes it before start()
  std::unique_ptr<SnapshotWorker> worker;

 private:
  void warn(std::string text) {
    const std::lock_guard lock(mutex_);
    warnings_.push_back(std::move(text));
  }
  Result<std::uint64_t> room() {
    const std::lock_guard lock(mutex_);
    if (refused_) return propagate(*refused_);
    return 0;
  }
  std::mutex mutex_;
  std::optional<Error> refused_;
  std::vector<std::string> begun_, warnings_;
};

inline SnapshotRequest by_person(EventTime due_ns = monotonic_now()) {
  SnapshotRequest out;
  out.who = {.uid = 0, .pid = ::getpid(), .comm = "unit-daemon", .time = {}, .reason = "a person"};
  out.requested_ns = monotonic_now();
  out.due_ns = due_ns;
  return out;
}

inline SnapshotRequest by_trigger(const std::string& name, EventTime due_ns = monotonic_now()) {
  SnapshotRequest out = by_person(due_ns);
  out.trigger = name;
  out.automatic = true;
  out.who.reason = name + " fired";
  return out;
}

}  // namespace flight::test
