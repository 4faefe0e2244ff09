// SPDX-License-Identifier: Apache-2.0
// Each method of the control interface reaches the object that answers it, with its parameters and its caller: calls as
// a session makes them, the real objects behind the router.
#include "daemon/control/router.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/control/calls.hpp"
#include "daemon/control/peer.hpp"
#include "libcore/control/config_report.hpp"
#include "libcore/store/catalogue.hpp"
#include "libcore/store/names.hpp"
#include "tests/unit/daemon/daemon_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::set<std::string> methods_of_interface() {
  constexpr std::string_view kBegin = "method ";
  std::set<std::string> out;
  std::istringstream lines{std::string(recorder_idl())};
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kBegin)) out.insert(line.substr(kBegin.size(), line.find('(') - kBegin.size()));
  return out;
}

class ControlRouterTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    ASSERT_NO_FATAL_FAILURE(bench_.start(false, {"a warning of the start"}));
    route_to(*bench_.store);
  }
  void route_to(StoreService& store) {
    router_.emplace(*bench_.status, *bench_.api, store, *bench_.trigger_api, *bench_.recording, *bench_.recordings,
                    *bench_.reloader, bench_.events);
  }

  // The last reply, or the first event. Replies before the last one are in steps_, events in events_.
  Reply ask(const std::string& method, const std::string& parameters = "{}") {
    const Call call{.method = std::string(kInterface) + "." + method,
                    .parameters = parameters,
                    .more = method == "TakeSnapshot" || method == "Monitor",
                    .upgrade = method == "ReadSnapshot"};
    const auto last = std::make_shared<std::optional<Reply>>();
    AnswerSink sink{.reply =
                        [this, last](const Reply& reply) {
                          if (reply.continues) return steps_.push_back(reply);
                          EXPECT_FALSE(*last) << "answered twice";
                          *last = reply;
                        },
                    .upgrade =
                        [this, last](const Reply& reply, OpenSnapshot opened) {
                          opened_ = std::move(opened);
                          *last = reply;
                        },
                    .listen = {.client = client_, .send = [this, last](const std::string& event) {
                                 events_.push_back(event);
                                 *last = Reply{event, "", true};
                               }}};
    answer(call, bench_.caller, ControlAccess{}, *router_, std::move(sink));
    EXPECT_TRUE(bench_.loop.until([&] { return last->has_value(); })) << method << " is not answered";
    return last->value_or(Reply{"{}", "no reply", false});
  }
  Sidecar take(const std::string& reason = "a test") {
    const Reply reply = ask("TakeSnapshot", fmt::format(R"({{"reason":"{}"}})", reason));
    return sidecar_in(reply);
  }
  static Sidecar sidecar_in(const Reply& reply) {
    const auto sidecar = parse_sidecar(member(reply.parameters, "snapshot"));
    EXPECT_TRUE(sidecar) << reply.error << " " << reply.parameters;
    return sidecar.value_or(Sidecar{});
  }
  // The state that a new client of Monitor gets.
  RecorderEvent first_event() {
    const Reply reply = ask("Monitor");
    const auto event = parse_event(reply.parameters);
    EXPECT_TRUE(event) << reply.error << " " << reply.parameters;
    return event.value_or(RecorderEvent{});
  }
  // One that runs until it is stopped.
  std::string begin_recording() {
    router_->record(bench_.caller, {}, {}, [](const CallResult<std::string>&) {});
    EXPECT_TRUE(bench_.loop.until([this] { return !bench_.recordings->running_id().empty(); }));
    return bench_.recordings->running_id();
  }
  // The parameters of a call; `more` begins with a comma.
  static std::string with_id(const std::string& id, const std::string& more = "") {
    return fmt::format(R"({{"id":"{}"{}}})", id, more);
  }
  // A file of the same snapshot.
  static std::string file_of(const Sidecar& snapshot, std::string_view suffix) {
    return snapshot.path.substr(0, snapshot.path.rfind(kDataSuffix)) + std::string(suffix);
  }
  static std::string error(std::string_view name) { return fmt::format("{}.{}", kInterface, name); }

  DaemonBench bench_;
  std::optional<ControlRouter> router_;
  std::vector<Reply> steps_;
  std::vector<std::string> events_;
  std::optional<OpenSnapshot> opened_;
  const std::shared_ptr<const void> client_ = std::make_shared<int>(0);
};

// Also those that a later version adds: a new method needs a call here, and below a test of what it reaches.
TEST_F(ControlRouterTest, EachMethodOfTheInterfaceIsAnswered) {
  const std::string recording = begin_recording();
  const std::vector<std::pair<std::string, std::string>> good_calls{
      {"GetStatus", "{}"},
      {"Record", R"({"for_ns":1})"},
      {"StopRecording", with_id(recording)},
      {"TakeSnapshot", "{}"},
      {"ListSnapshots", "{}"},
      {"DescribeSnapshot", R"({"id":"latest"})"},
      {"ReadSnapshot", R"({"id":"latest"})"},
      {"PinSnapshot", R"({"id":"latest","pinned":true})"},
      {"Vacuum", "{}"},
      {"RemoveSnapshot", R"({"id":"latest"})"},
      {"ListTriggers", "{}"},
      {"FireTrigger", R"({"name":"deploy"})"},
      {"SetTrigger", R"({"name":"deploy","enabled":false})"},
      {"Reload", "{}"},
      {"GetConfig", "{}"},
      {"SetRecording", R"({"recording":false})"},
      {"Monitor", "{}"},
  };
  std::set<std::string> asked;
  for (const auto& [method, parameters] : good_calls) {
    const Reply reply = ask(method, parameters);
    EXPECT_EQ(reply.error, "") << method << ": " << reply.parameters;
    asked.insert(method);
  }
  EXPECT_EQ(asked, methods_of_interface());
}

TEST_F(ControlRouterTest, TheStatusIsTheServices) {
  const auto status = parse_status(member(ask("GetStatus").parameters, "status"));
  ASSERT_TRUE(status) << status.error().what;
  EXPECT_THAT(status->warnings, Contains("a warning of the start"));
  EXPECT_EQ(status->broker.pid, FakeBroker::kPid);
}

TEST_F(ControlRouterTest, ASnapshotIsItsCallersAndShowsItsProgress) {
  const Sidecar taken = take("to see it");
  EXPECT_EQ(taken.reason, "to see it");
  ASSERT_EQ(taken.requests.size(), 1U);
  EXPECT_EQ(taken.requests[0].comm, bench_.caller.comm);
  EXPECT_EQ(taken.requests[0].pid, bench_.caller.pid);
  ASSERT_TRUE(bench_.api->last());
  EXPECT_EQ(bench_.api->last()->id, taken.id);
  std::vector<std::string> steps;
  for (const Reply& step : steps_) steps.push_back(parse_progress(step.parameters).value_or(SnapshotProgress{}).step);
  EXPECT_THAT(steps, Contains("writing"));
}

TEST_F(ControlRouterTest, TheStoreAnswersForItsSnapshots) {
  const Sidecar taken = take();
  const auto rows = parse_rows(member(ask("ListSnapshots").parameters, "snapshots"));
  ASSERT_TRUE(rows) << rows.error().what;
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ(rows->front().id, taken.id);
  EXPECT_EQ(sidecar_in(ask("DescribeSnapshot", with_id(taken.id))).path, taken.path);
  const auto read = parse_read_reply(ask("ReadSnapshot", with_id(taken.id, R"(,"what":"sidecar")")).parameters);
  ASSERT_TRUE(read && opened_);
  EXPECT_EQ(opened_->name, read->name);
  EXPECT_EQ(opened_->name, std::filesystem::path(file_of(taken, kSidecarSuffix)).filename().string());
  EXPECT_EQ(read->size_bytes, std::filesystem::file_size(file_of(taken, kSidecarSuffix)));
  for (const bool pinned : {true, false}) {
    EXPECT_EQ(ask("PinSnapshot", with_id(taken.id, fmt::format(R"(,"pinned":{})", pinned))).error, "");
    EXPECT_EQ(std::filesystem::exists(file_of(taken, kPinSuffix)), pinned);
  }
  EXPECT_EQ(ask("RemoveSnapshot", with_id(taken.id)).error, "");
  EXPECT_FALSE(std::filesystem::exists(taken.path));
  EXPECT_EQ(ask("DescribeSnapshot", with_id(taken.id)).error, error("NoSuchSnapshot"));
}

TEST_F(ControlRouterTest, ARecordingIsItsCallersAndIsStoppedByItsId) {
  const std::string id = begin_recording();
  const auto stopped = parse_record_result(member(ask("StopRecording", with_id(id)).parameters, "recording"));
  ASSERT_TRUE(stopped) << stopped.error().what;
  EXPECT_EQ(stopped->id, id);
  const Sidecar part = sidecar_in(ask("DescribeSnapshot", with_id(id)));
  ASSERT_EQ(part.requests.size(), 1U);
  EXPECT_EQ(part.requests[0].comm, bench_.caller.comm);
  EXPECT_EQ(ask("StopRecording", with_id(id)).error, error("NoSuchRecording"));
}

// The vacuum removes a snapshot without its data file.
TEST_F(ControlRouterTest, AVacuumIsTheStoresAndADryOneRemovesNothing) {
  const Sidecar taken = take();
  ASSERT_TRUE(std::filesystem::remove(taken.path));
  for (const bool dry : {true, false}) {
    const Reply reply = ask("Vacuum", fmt::format(R"({{"dry_run":{}}})", dry));
    EXPECT_THAT(member(reply.parameters, "removed"), HasSubstr(fmt::format(R"("id":"{}")", taken.id))) << reply.error;
    EXPECT_EQ(std::filesystem::exists(file_of(taken, kSidecarSuffix)), dry);
  }
}

TEST_F(ControlRouterTest, TriggersAreListedFiredAndSwitched) {
  const auto row = [this] {
    const auto rows = parse_listed_triggers(member(ask("ListTriggers").parameters, "triggers"));
    if (rows && rows->size() == 1) return rows->front();
    ADD_FAILURE() << "there is one trigger";
    return ListedTrigger{};
  };
  EXPECT_EQ(row().name, "deploy");
  EXPECT_TRUE(row().enabled);
  const Reply fired = ask("FireTrigger", R"({"name":"deploy","reason":"a release"})");
  ASSERT_EQ(fired.error, "") << fired.parameters;
  const Sidecar taken = sidecar_in(ask("DescribeSnapshot", with_id("latest")));
  EXPECT_EQ(member(fired.parameters, "id"), '"' + taken.id + '"');
  EXPECT_EQ(taken.trigger, "deploy");
  EXPECT_EQ(taken.reason, "a release");
  ASSERT_EQ(taken.requests.size(), 1U);
  EXPECT_EQ(taken.requests[0].comm, bench_.caller.comm);
  EXPECT_EQ(ask("SetTrigger", R"({"name":"deploy","enabled":false})").error, "");
  EXPECT_FALSE(row().enabled);
  EXPECT_EQ(ask("FireTrigger", R"({"name":"deploy"})").error, error("TriggerDisabled"));
}

TEST_F(ControlRouterTest, RecordingIsSwitchedInTheNameOfItsCaller) {
  EXPECT_EQ(ask("SetRecording", R"({"recording":false})").error, "");
  EXPECT_FALSE(bench_.recording->on());
  EXPECT_EQ(bench_.broker().asked(Request::disable), 1);
  EXPECT_EQ(bench_.seen.back().event, kRecordingPaused);
  EXPECT_THAT(bench_.seen.back().message, HasSubstr(name_of(bench_.caller)));
  EXPECT_EQ(ask("SetRecording", R"({"recording":true})").error, "");
  EXPECT_TRUE(bench_.recording->on());
}

TEST_F(ControlRouterTest, AReloadIsTheReloadersAndSoAreItsErrors) {
  bench_.write_config("{ \"snapshot\": { \"capture\": \"live\" } }\n");
  const Reply reply = ask("Reload");
  const auto report = parse_reload_report(reply.parameters);
  ASSERT_TRUE(report) << reply.error << " " << reply.parameters;
  EXPECT_EQ(report->digest, bench_.load_config_file()->digest);
  EXPECT_EQ(bench_.applied.size(), 1U);
  EXPECT_EQ(bench_.seen.back().event, kReloaded);
  EXPECT_THAT(bench_.seen.back().message, HasSubstr(name_of(bench_.caller)));
  const auto config = parse_config_report(ask("GetConfig").parameters);
  ASSERT_TRUE(config) << config.error().what;
  EXPECT_EQ(config->digest, report->digest);
  bench_.write_config("{ broken");
  EXPECT_EQ(ask("Reload").error, error("BadConfig"));
  EXPECT_EQ(bench_.applied.size(), 1U);
}

TEST_F(ControlRouterTest, AMonitorGetsTheStateOfNowAndThenTheEvents) {
  const RecorderEvent before = first_event();
  EXPECT_EQ(before.event, kMonitoring);
  EXPECT_EQ(before.recording, true);
  EXPECT_EQ(before.message, "");
  EXPECT_EQ(ask("SetRecording", R"({"recording":false})").error, "");
  EXPECT_THAT(events_, ElementsAre(HasSubstr(R"("monitoring")"), HasSubstr(R"("recording_paused")")));
  EXPECT_EQ(first_event().recording, false);
}

TEST_F(ControlRouterTest, AMonitorGetsTheDisksTrouble) {
  bench_.snapshots.refuse_room(Error{std::make_error_code(std::errc::io_error), "a bad disk"});
  EXPECT_EQ(ask("TakeSnapshot").error, error("WriteFailed"));
  EXPECT_THAT(first_event().message, HasSubstr("a bad disk"));
}

TEST_F(ControlRouterTest, AMonitorGetsTheTroubleOfAStoreThatDoesNotAnswer) {
  StoreService silent(bench_.loop.io, TaskThread::start("silent").value(),
                      StoreService::Setup{.folder = bench_.snapshots.recorder.snapshots(),
                                          .state_dir = bench_.snapshots.recorder.folder,
                                          .boot_id = "boot",
                                          .config = {},
                                          .take_state = []() -> Result<StateFolder> {
                                            return fail(std::errc::io_error, "it is not asked");
                                          }},
                      [] {});
  route_to(silent);
  EXPECT_THAT(first_event().message, HasSubstr("no snapshot can be written"));
  route_to(*bench_.store);
}

}  // namespace
}  // namespace flight::daemon
