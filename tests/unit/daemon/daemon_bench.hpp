// SPDX-License-Identifier: Apache-2.0
// All objects that answer control calls, connected as in the daemon, with a fake broker and an event loop that the test
// runs. It collects the journal's entries and the events of a client of Monitor.
#pragma once

#include <boost/asio/post.hpp>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/control/status_service.hpp"
#include "daemon/control/trigger_api.hpp"
#include "daemon/notify/event_hub.hpp"
#include "daemon/recorder/recording_switch.hpp"
#include "daemon/recordings/recordings.hpp"
#include "daemon/reload.hpp"
#include "daemon/snapshots/snapshot_api.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/control/events.hpp"
#include "tests/unit/daemon/snapshots/snapshot_bench.hpp"

namespace flight::test {

class DaemonBench {
 public:
  using Answer = std::optional<CallResult<std::string>>;

  DaemonBench() { write_config("{ \"triggers\": { \"deploy\": { \"external\": true, \"cooldown\": \"1h\" } } }\n"); }
  DaemonBench(const DaemonBench&) = delete;
  DaemonBench& operator=(const DaemonBench&) = delete;
  // As in the daemon: users of an object are destroyed before it.
  ~DaemonBench() {
    snapshots.end();
    recordings.reset();
    if (triggers) triggers->stop();
    snapshots.recorder.recorder.reset();
  }

  // `followed`: as RecorderBench::start. The broker has read the same configuration.
  void start(bool followed = false, std::vector<std::string> warnings = {}) {
    const auto config = load_config_file();
    ASSERT_TRUE(config) << config.error().text();
    snapshots.on_ended = [this](const Result<Sidecar>& result) {
      boost::asio::post(loop.io, [this, result] { api->ended(result); });
    };
    snapshots.open_rings();
    BrokerSetup broker_setup = snapshots.setup();
    broker_setup.config_digest = config->digest;
    ASSERT_TRUE(broker_setup.rings);
    ASSERT_NO_FATAL_FAILURE(snapshots.recorder.start(std::move(broker_setup), followed));
    ASSERT_NO_FATAL_FAILURE(snapshots.start_worker());
    store = std::make_unique<StoreService>(loop.io, TaskThread::start("store").value(),
                                           StoreService::Setup{.folder = snapshots.recorder.snapshots(),
                                                               .state_dir = snapshots.recorder.folder,
                                                               .boot_id = "boot",
                                                               .config = config->store},
                                           [] {});
    recordings = std::make_unique<Recordings>(loop.io, TaskThread::start("recordings").value(), recorder(), *store,
                                              snapshots.host, *config);
    ASSERT_NO_FATAL_FAILURE(start_triggers(*config));
    api = std::make_unique<SnapshotApi>(loop.io, recorder(), *snapshots.worker, *store, events);
    recording = std::make_unique<RecordingSwitch>(loop.io, recorder(), *triggers, events, says_so_after);
    trigger_api = std::make_unique<TriggerApi>(loop.io, *triggers, *api, recorder(), *recording, *recordings, events);
    reloader = std::make_unique<Reloader>(
        loop.io, recorder(), events, std::make_shared<ConfigReader>(config_file(), config_command), *config,
        TaskThread::start("reload").value(), [this](const Config& next) { applied.push_back(next); },
        [this] { ++no_broker; },
        [this](const std::function<void(std::string)>& done) {
          ++due_asked;
          done(due);
        },
        says_so_after);
    status = std::make_unique<StatusService>(loop.io, recorder(), *api, *store, *reloader, *triggers, *recordings,
                                             std::move(warnings), std::vector<std::string>());
    events.listen({.client = client_, .send = [this](const std::string& text) { seen.push_back(*parse_event(text)); }},
                  "", true);
  }

  RecorderThread& recorder() { return *snapshots.recorder.recorder; }
  FakeBroker& broker() { return *snapshots.recorder.broker; }
  [[nodiscard]] std::string config_file() const { return snapshots.recorder.folder + "/flightd.json"; }
  [[nodiscard]] ConfigResult<Config> load_config_file() const {
    ConfigReader reader(config_file());
    return Reloader::load(reader, ConfigReader::kByHand);
  }
  // The broker reads the same file at a reload.
  void write_config(const std::string& text) {
    std::ofstream(config_file()) << text;
    const auto config = load_config_file();
    if (!config || !snapshots.recorder.broker) return;
    broker().change([&](BrokerSetup& setup) { setup.config_digest = config->digest; });
  }

  static ControlBackend::Done into(Answer& answer) {
    return [&answer](CallResult<std::string> got) {
      EXPECT_FALSE(answer) << "answered twice";
      answer = std::move(got);
    };
  }
  // Makes a call and waits for its reply: the text, or an error's name and parameters.
  template <typename Call>
  std::string call(Call make) {
    Answer answer;
    make(into(answer));
    EXPECT_TRUE(loop.until([&] { return answer.has_value(); }));
    return text_of(answer);
  }
  static std::string text_of(const Answer& answer) {
    if (!answer) return "not answered";
    return *answer ? **answer : answer->error().name + " " + answer->error().parameters;
  }
  [[nodiscard]] std::vector<std::string> events_of(const std::string& trigger = "") const {
    std::vector<std::string> out;
    for (const RecorderEvent& one : seen)
      if (trigger.empty() || one.trigger == trigger) out.push_back(one.event);
    return out;
  }
  // The broker ends and has no successor.
  void lose_broker() {
    broker().die();
    ASSERT_TRUE(soon([this] { return snapshots.recorder.lost == 1; }));
  }

  Loop loop;
  SnapshotBench snapshots;
  std::vector<JournalEntry> journal;
  std::vector<RecorderEvent> seen;
  std::chrono::milliseconds says_so_after = kPatience;  // before start()
  std::vector<std::string> config_command;              // of the ConfigReader; empty: it reads on the reload's thread
  int no_broker = 0;                                    // reloads that found no broker that records
  std::vector<Config> applied;                          // applied by reloads
  std::string due;                                      // what the store will delete after a reload
  int due_asked = 0;
  EventHub events{[this](JournalEntry entry) { journal.push_back(std::move(entry)); }, [] {}};
  std::unique_ptr<StoreService> store;
  std::unique_ptr<Recordings> recordings;
  std::unique_ptr<TriggerThread> triggers;
  std::unique_ptr<SnapshotApi> api;
  std::unique_ptr<RecordingSwitch> recording;
  std::unique_ptr<TriggerApi> trigger_api;
  std::unique_ptr<Reloader> reloader;
  std::unique_ptr<StatusService> status;
  const Caller caller{.uid = 0, .gid = 0, .pid = ::getpid(), .comm = "unit-daemon", .groups = {}};

 private:
  void start_triggers(const Config& config) {
    TriggerThread::Setup setup{
        .triggers = config.triggers, .guard = config.storm_guard, .saved = {}, .boot_id = "boot", .attached = [this] {
          return recorder().attached();
        }};
    auto started = TriggerThread::start(
        std::move(setup), {.fire =
                               [this](Decision decision) {
                                 boost::asio::post(
                                     loop.io, [this, decision = std::move(decision)] { trigger_api->take(decision); });
                               },
                           .suppressed = [](const SuppressedWindow&) {},
                           .keep = [this](std::string state) { store->trigger_state().save(std::move(state)); }});
    ASSERT_TRUE(started) << started.error().what;
    triggers = std::move(*started);
  }
  std::shared_ptr<const void> client_ = std::make_shared<int>(0);
};

}  // namespace flight::test
