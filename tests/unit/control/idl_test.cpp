// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "libcore/control/config_report.hpp"
#include "libcore/control/events.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/control/record_messages.hpp"
#include "libcore/control/trigger_messages.hpp"
#include "tests/unit/control/varlink_idl.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

using test::Idl;
using test::IdlParser;
using test::IdlType;
using test::mismatch;

std::string file_text(const std::string& name) {
  std::ifstream file(test::source_root() + "/libcore/control/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Every named type in `type` exists.
void expect_types_known(const Idl& idl, const IdlType& type) {
  if (type.kind == IdlType::Kind::named) {
    EXPECT_EQ(idl.types.count(type.name), 1U) << type.name;
  }
  for (const auto& [name, field] : type.fields) expect_types_known(idl, field);
  for (const IdlType& element : type.element) expect_types_known(idl, element);
}

TEST(Idl, IsServedVerbatim) {
  EXPECT_EQ(recorder_idl(), file_text("io.flightd.Recorder.varlink"));
  EXPECT_EQ(service_idl(), file_text("org.varlink.service.varlink"));
  EXPECT_EQ(nlohmann::json::parse(description_reply(recorder_idl()))["description"], recorder_idl());
}

TEST(Idl, FollowsTheGrammarAndKnowsItsTypes) {
  for (const std::string_view text : {recorder_idl(), service_idl()}) {
    const Idl idl = IdlParser::parse(text);
    for (const auto& [name, type] : idl.types) expect_types_known(idl, type);
    for (const auto& [name, type] : idl.errors) expect_types_known(idl, type);
    for (const auto& [name, method] : idl.methods) {
      expect_types_known(idl, method.first);
      expect_types_known(idl, method.second);
    }
  }
  EXPECT_EQ(IdlParser::parse(recorder_idl()).interface, kInterface);
  EXPECT_THROW(IdlParser::parse("interface a.b\ntype X (a_: int)"), std::runtime_error);
  EXPECT_THROW(IdlParser::parse("interface a.b\ntype X (a int)"), std::runtime_error);
}

TEST(Idl, DescribesEveryError) {
  const Idl idl = IdlParser::parse(recorder_idl());
  const Idl service = IdlParser::parse(service_idl());
  const std::vector<CallError> errors{no_such_snapshot("7"),
                                      store_full("full"),
                                      write_failed(ENOSPC, "/kept", "no space"),
                                      bad_config("/etc/x", 3, "channels.a", "no"),
                                      stopping(),
                                      no_such_recording("7", "none"),
                                      recording_refused("two run"),
                                      no_such_trigger("x", "none"),
                                      trigger_disabled("x", "off"),
                                      suppressed("x", "2026-11-20T03:12:04Z", "later"),
                                      invalid_parameter("x", "no"),
                                      method_not_found("a.b.C"),
                                      method_not_implemented("a.b.C"),
                                      interface_not_found("a.b"),
                                      expected_more("a.b.C"),
                                      permission_denied("no")};
  for (const CallError& error : errors) {
    SCOPED_TRACE(error.name);
    const std::size_t dot = error.name.rfind('.');
    const Idl& owner = error.name.starts_with(std::string(kInterface) + '.') ? idl : service;
    EXPECT_EQ(error.name.substr(0, dot), owner.interface);
    const auto found = owner.errors.find(error.name.substr(dot + 1));
    ASSERT_NE(found, owner.errors.end());
    EXPECT_EQ(mismatch(owner, found->second, nlohmann::json::parse(error.parameters), "error"), "") << error.parameters;
    EXPECT_NE(error_message({error.parameters, error.name, false}), error.name);
  }
}

TEST(Idl, DescribesStatusProgressAndParameters) {
  const Idl idl = IdlParser::parse(recorder_idl());
  Status status;
  status.rings.push_back({"stacks", 1, 4096, 2.5});
  status.channels.push_back({"stacks", {{"cycles", 99.0, 1000.0}}, 1, 2});
  status.channels.push_back({"net", {{"cycles", 99.0, 1000.0}}, 1, 2, "0-3,8"});
  status.warnings.emplace_back("careful");
  status.build_ids_waiting = 1;
  for (const auto& last : {std::optional<std::string>("7"), std::optional<std::string>()}) {
    status.last_snapshot = last;
    if (last) status.last = StatusLast{"2026-11-20T03:12:04.123Z", "manual", 1, 2, 3, 4, 5, 15, 2.5};
    const auto reply = nlohmann::json::parse(status_reply(to_json(status)));
    EXPECT_EQ(mismatch(idl, idl.methods.at("GetStatus").second, reply, "reply"), "");
  }
  const auto& take = idl.methods.at("TakeSnapshot");
  EXPECT_EQ(mismatch(idl, take.second, nlohmann::json::parse(progress_reply("writing", 42)), "progress"), "");
  SnapshotParameters all{"why", 1, "2026-11-20T03:12:04Z", "2026-11-20T03:12:05Z", 2, "live"};
  EXPECT_EQ(mismatch(idl, take.first, nlohmann::json::parse(to_json(all)), "parameters"), "");
  EXPECT_EQ(take.first.fields.size(), 6U);
}

TEST(Idl, DescribesTheSidecar) {
  const Idl idl = IdlParser::parse(recorder_idl());
  Sidecar sidecar = ranked_sidecar();
  for (int filled = 0; filled < 2; ++filled) {
    const auto json = nlohmann::json::parse(to_json(sidecar));
    EXPECT_EQ(mismatch(idl, idl.types.at("Snapshot"), json, "snapshot"), "");
    sidecar.record = SidecarRecord{.first = "7", .part = 2, .ended = "killed", .holes_known = false};
    sidecar.stacks = SidecarStacks{.checked = 1, .unchecked = 2, .callers = 4, .garbage_frames = 3};
    sidecar.holes = {{.channel = "net", .cause = "disk", .bytes = 5, .estimated = true}};
    sidecar.forks.reset();
    sidecar.channel_cpus = {{"net", "0-3,8"}};
    sidecar.top_cpus = "0-3,8";
    sidecar.compared.emplace();
    sidecar.metrics.emplace();
    sidecar.warnings.clear();
  }
}

TEST(Idl, DescribesRecordings) {
  const Idl idl = IdlParser::parse(recorder_idl());
  const auto& record = idl.methods.at("Record");
  const RecordParameters all{.past_ns = 1,
                             .for_ns = 2,
                             .max_bytes = 3,
                             .part_bytes = 4,
                             .channels = {"stacks"},
                             .layout = "directory",
                             .reason = "why"};
  EXPECT_EQ(mismatch(idl, record.first, nlohmann::json::parse(to_json(all)), "parameters"), "");
  EXPECT_EQ(record.first.fields.size(), 7U);
  RecordProgress progress;
  progress.finished = {"7"};
  for (const auto& some : {std::optional<RecordProgress>(), std::optional(progress)})
    EXPECT_EQ(mismatch(idl, record.second, nlohmann::json::parse(record_reply("7", some)), "step"), "");
  for (const char* ended : {"asked", "max_size", "killed", "disk", "reload", "budget"}) {
    const RecordResult result{.id = "7", .ended = ended, .progress = progress, .paths = {"/x"}, .warnings = {"w"}};
    const auto reply = nlohmann::json::parse(recording_reply(to_json(result)));
    EXPECT_EQ(mismatch(idl, record.second, reply, "reply"), "");
    EXPECT_EQ(mismatch(idl, idl.methods.at("StopRecording").second, reply, "reply"), "");
  }
}

TEST(Idl, DescribesTriggers) {
  const Idl idl = IdlParser::parse(recorder_idl());
  ListedTrigger row{.name = "lopsided", .kind = "metric", .condition = "c", .state = "armed"};
  for (int filled = 0; filled < 2; ++filled) {
    const std::string text = to_json(std::vector<ListedTrigger>{row, row});
    const auto reply = nlohmann::json::parse(triggers_reply(text));
    EXPECT_EQ(mismatch(idl, idl.methods.at("ListTriggers").second, reply, "reply"), "");
    const auto again = parse_listed_triggers(text);
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(to_json(*again), text);
    row = {"x", "external", "", false, "disabled", "why", 1.5, "2026-11-20T03:12:04.123Z", "7", 3, 4, "8", 5, 6};
  }
  const auto& fire = idl.methods.at("FireTrigger");
  EXPECT_EQ(mismatch(idl, fire.first, nlohmann::json::parse(to_json(FireParameters{"x", "why", true})), "in"), "");
  EXPECT_EQ(mismatch(idl, fire.second, nlohmann::json::parse(fired_reply("7")), "out"), "");
  const auto set = nlohmann::json::parse(to_json(SetTriggerParameters{"x", false}));
  EXPECT_EQ(mismatch(idl, idl.methods.at("SetTrigger").first, set, "in"), "");
  for (const std::string_view text : {"", "{}", "[1]", "[[]]"}) EXPECT_FALSE(parse_listed_triggers(text)) << text;
}

TEST(Idl, DescribesReloadAndConfig) {
  const Idl idl = IdlParser::parse(recorder_idl());
  ConfigReport report{
      .values = {{"store.max_files", "7", "/etc/x", 3}, {"user", "flightd", "built-in", 0}},
      .memory = {.ring_bytes = 1, .program_bytes = 4, .sum_bytes = 10, .max_bytes = 20, .ram_bytes = 1000},
      .digest = "d",
      .warnings = {"careful"}};
  const auto config = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(mismatch(idl, idl.methods.at("GetConfig").second, config, "reply"), "");
  EXPECT_FALSE(config["memory"].contains("cgroup_max_bytes"));
  report.memory.tracker_bytes = 30;
  report.memory.cgroup_max_bytes = 40;
  const auto limited = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(mismatch(idl, idl.methods.at("GetConfig").second, limited, "reply"), "");
  EXPECT_EQ(limited["memory"]["cgroup_max_bytes"], 40);
  const auto again = parse_config_report(to_json(report));
  ASSERT_TRUE(again);
  EXPECT_EQ(to_json(*again), to_json(report));
  ReloadReport reload{.digest = "d", .changed = true, .changes = {}, .warnings = {"careful"}};
  for (int filled = 0; filled < 3; ++filled) {
    EXPECT_EQ(mismatch(idl, idl.methods.at("Reload").second, nlohmann::json::parse(to_json(reload)), "reply"), "");
    EXPECT_EQ(to_json(parse_reload_report(to_json(reload)).value()), to_json(reload));
    EXPECT_EQ(nlohmann::json::parse(to_json(reload)).contains("changes"), filled > 0);
    reload.changes.emplace();
    reload.lost_history.emplace(static_cast<std::size_t>(filled), "net");
    if (filled > 0)
      reload.changes = std::vector<ReportedChange>{{"store.max_use", "1G", "2G", "/etc/x", 3},
                                                   {"channels.net.ring", std::nullopt, "1M", "/etc/y", 4},
                                                   {"channels.disk.ring", "2M", std::nullopt, "/etc/z", 5}};
  }
  for (const char* text : {"", "[]", "7", R"({"config": 1, "memory": [], "warnings": {}, "changed": 3})"}) {
    const auto config_of = parse_config_report(text);
    EXPECT_TRUE(!config_of || config_of->values.empty());
    const auto reload_of = parse_reload_report(text);
    EXPECT_TRUE(!reload_of || !reload_of->changed);
  }
}

TEST(Idl, DescribesReadAndMonitor) {
  const Idl idl = IdlParser::parse(recorder_idl());
  const auto read = nlohmann::json::parse(read_reply({42, "name"}));
  EXPECT_EQ(mismatch(idl, idl.methods.at("ReadSnapshot").second, read, "reply"), "");
  for (const SnapshotFile file : {SnapshotFile::data, SnapshotFile::sidecar, SnapshotFile::kallsyms}) {
    const std::string text = to_json(ReadParameters{.id = "7", .file = file});
    EXPECT_EQ(mismatch(idl, idl.methods.at("ReadSnapshot").first, nlohmann::json::parse(text), "parameters"), "");
    const auto again = parse_read_parameters(text);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->file, file);
    EXPECT_EQ(again->id, "7");
  }
  const auto vacuuming = nlohmann::json::parse(vacuum_progress_reply("deleting", 42));
  EXPECT_EQ(mismatch(idl, idl.methods.at("Vacuum").second, vacuuming, "progress"), "");
  EXPECT_EQ(parse_progress(vacuuming.dump())->percent, 42U);
  for (const char* reason : {"missing", "max_age", "max_files", "max_use", "room", "keep_free"}) {
    const std::string row = fmt::format(R"([{{"id":"7","path":"/x","reason":"{}","bytes":4096}}])", reason);
    const auto vacuumed = nlohmann::json::parse(vacuum_reply(row, 4096));
    EXPECT_EQ(mismatch(idl, idl.methods.at("Vacuum").second, vacuumed, "reply"), "") << reason;
  }
  for (const std::string_view word :
       {kMonitoring, kSnapshotBegun, kSnapshotFinished, kSnapshotFailed, kRecordingPaused, kRecordingResumed, kDegraded,
        kRecovered, kReloaded, kTriggerFired, kTriggersSuppressed, kMissed}) {
    RecorderEvent event{.event = std::string(word), .time = "2026-11-20T03:12:04.123Z"};
    for (int filled = 0; filled < 2; ++filled) {
      EXPECT_EQ(mismatch(idl, idl.methods.at("Monitor").second, nlohmann::json::parse(to_json(event)), "event"), "");
      event = {std::string(word), event.time, "7", "manual", "why", "/x", "words", true, 3};
    }
    const auto again = parse_event(to_json(event));
    ASSERT_TRUE(again);
    EXPECT_EQ(to_json(*again), to_json(event));
  }
}

}  // namespace
}  // namespace flight
