// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace flight {
namespace {

using testing::HasSubstr;

// The name of the invalid parameter; empty if all are valid.
template <typename T>
std::string blamed(const CallResult<T>& result) {
  if (result) return "";
  EXPECT_EQ(result.error().name, "org.varlink.service.InvalidParameter");
  const std::string name = member(result.error().parameters, "parameter");
  return name.size() < 2 ? name : name.substr(1, name.size() - 2);
}

TEST(SnapshotParametersTest, GoThereAndBack) {
  const SnapshotParameters all{"why \"not\" é", std::nullopt, "2026-11-20T03:12:04.123Z", "2026-11-20T03:12:05+01:00",
                               60'000'000,      "live"};
  // 03:12:05+01:00 is before 03:12:04Z; but the clock may have been set back in between, as only flightd knows.
  EXPECT_EQ(blamed(parse_snapshot_parameters(to_json(all))), "");
  SnapshotParameters good = all;
  good.until = "2026-11-20T04:12:05+01:00";
  const auto back = parse_snapshot_parameters(to_json(good));
  ASSERT_TRUE(back) << back.error().parameters;
  EXPECT_EQ(back->reason, good.reason);
  EXPECT_EQ(back->since, good.since);
  EXPECT_EQ(back->until, good.until);
  EXPECT_EQ(back->post_usec, good.post_usec);
  EXPECT_EQ(back->capture, good.capture);
  EXPECT_FALSE(back->last_usec);
  EXPECT_EQ(to_json(SnapshotParameters{}), "{}");
  EXPECT_EQ(parse_snapshot_parameters(R"({"last_usec":10000000,"reason":null,"since":null})")->last_usec, 10'000'000U);
}

TEST(SnapshotParametersTest, BlamesTheOneThatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"reasn":"x"})", "reasn"},
      {R"({"reason":1})", "reason"},
      {R"({"reason":["x"]})", "reason"},
      {"{\"reason\":\"" + std::string(kMaxReasonBytes + 1, 'x') + "\"}", "reason"},
      {R"({"reason":"a\u001b[2J"})", "reason"},
      {R"({"reason":"a\u0000b"})", "reason"},
      {R"({"reason":"a\u007fb"})", "reason"},
      {R"({"reason":"a\u009bb"})", "reason"},
      {R"({"reason":"a\u2028b"})", "reason"},
      {R"({"reason":"a\u202eb"})", "reason"},
      {R"({"last_usec":0})", "last_usec"},
      {R"({"last_usec":1.5})", "last_usec"},
      {R"({"last_usec":1e6})", "last_usec"},
      {R"({"last_usec":-5})", "last_usec"},
      {R"({"last_usec":true})", "last_usec"},
      {R"({"last_usec":18446744073709551615})", "last_usec"},
      {R"({"last_usec":18446744073709551616})", "last_usec"},
      {R"({"last_usec":1,"since":"2026-11-20T03:12:04Z"})", "last_usec"},
      {R"({"since":"03:10"})", "since"},
      {R"({"since":"2026-11-20T03:12:04"})", "since"},
      {R"({"since":"2026-11-20 03:12:04Z"})", "since"},
      {R"({"since":"2026-11-20T03:12:04Zjunk"})", "since"},
      {R"({"since":5})", "since"},
      {R"({"since":"-30"})", "since"},
      {R"({"since":"tomorrow"})", "since"},
      {R"({"until":"2026-11-20T03:12:04Z"})", "until"},
      {R"({"since":"2026-11-20T03:12:04Z","until":"2026-11-20T03:12:04Z"})", "until"},
      {R"({"since":"-10s","until":"-10s"})", "until"},
      {R"({"since":"-10s","until":"10 s ago"})", "until"},
      {R"({"since":"-10s","until":"-1min"})", "until"},
      {R"({"post_usec":60000001})", "post_usec"},
      {R"({"post_usec":-1})", "post_usec"},
      {R"({"capture":"PAUSE"})", "capture"},
      {R"({"capture":""})", "capture"},
      {"[]", "parameters"},
      {"", "parameters"},
      {std::string(1000, '['), "parameters"},
  };
  for (const auto& [text, parameter] : cases)
    EXPECT_EQ(blamed(parse_snapshot_parameters(text)), parameter) << text.substr(0, 80);
  EXPECT_EQ(blamed(parse_snapshot_parameters("{\"reason\":\"" + std::string(kMaxReasonBytes, 'x') + "\"}")), "");
  EXPECT_EQ(blamed(parse_snapshot_parameters("{\"reason\":\"\xc2\xa0 \xe2\x82\xac\"}")), "");
}

TEST(Parameters, Ids) {
  for (const char* id : {"0", "7", "latest", "18446744073709551615"})
    EXPECT_EQ(parse_id_parameter(fmt::format(R"({{"id":"{}"}})", id)).value_or("?"), id);
  for (const char* text :
       {"{}", R"({"id":null})", R"({"id":7})", R"({"id":""})", R"({"id":"-1"})", R"({"id":"+1"})", R"({"id":" 1"})",
        R"({"id":"1/../2"})", R"({"id":"Latest"})", R"({"id":"123456789012345678901"})"})
    EXPECT_EQ(blamed(parse_id_parameter(text)), "id") << text;
  EXPECT_EQ(blamed(parse_id_parameter(R"({"id":"1","force":true})")), "force");
}

TEST(Parameters, NoneAndInterface) {
  EXPECT_TRUE(parse_no_parameters("{}"));
  EXPECT_EQ(blamed(parse_no_parameters(R"({"x":null})")), "x");
  EXPECT_EQ(parse_interface_parameter(R"({"interface":"a.b"})").value_or("?"), "a.b");
  EXPECT_EQ(blamed(parse_interface_parameter("{}")), "interface");
  EXPECT_EQ(blamed(parse_interface_parameter(R"({"interface":[]})")), "interface");
}

TEST(Replies, AreObjectsWithTheirMember) {
  EXPECT_EQ(snapshot_reply(R"({"id":"1"})"), R"({"snapshot":{"id":"1"}})");
  EXPECT_EQ(snapshots_reply("[]"), R"({"snapshots":[]})");
  EXPECT_EQ(member(snapshot_reply("{ \"z\": 1,\n \"a\": [0.5, 18446744073709551615] }\n"), "snapshot"),
            R"({"z":1,"a":[0.5,18446744073709551615]})");
  for (const char* text : {"", "[]", "nonsense", "{}", R"({"other":1})"})
    EXPECT_EQ(member(text, "snapshot"), "") << text;
  EXPECT_EQ(progress_reply("merging", 250), R"({"progress":{"step":"merging","percent":100}})");
  EXPECT_EQ(parse_progress(progress_reply("merging", 7))->percent, 7U);
  for (const char* text : {"", "[]", "{}", R"({"progress":1})", R"({"progress":{"step":1,"percent":1}})",
                           R"({"progress":{"step":"x","percent":-1}})"})
    EXPECT_FALSE(parse_progress(text)) << text;
  EXPECT_EQ(error_line("a.b.C", "it \"says\"\nno"), R"({"error":"a.b.C","message":"it \"says\"\nno"})");
  EXPECT_EQ(to_json(std::vector<std::string>{"1", "2"}), R"(["1","2"])");
  EXPECT_EQ(to_json(std::vector<std::string>{}), "[]");
  EXPECT_EQ(indented(R"({"b":1,"a":[]})"), "{\n  \"b\": 1,\n  \"a\": []\n}\n");
  EXPECT_EQ(indented("nonsense"), "nonsense");
}

TEST(Replies, OnlyAWholeObjectMayBecomeAPart) {
  for (const char* text : {"", "[]", "1", "{", "{} {}", "{\"a\":\"\xff\"}"}) EXPECT_FALSE(is_json_object(text)) << text;
  EXPECT_FALSE(is_json_object(std::string("{}\0{}", 5)));
  EXPECT_TRUE(is_json_object("{\n \"a\": 1 }\n"));
}

TEST(StatusTest, GoesThereAndBack) {
  Status status;
  status.version = "0.1.0";
  status.uptime_seconds = 12.5;
  status.cpus = 2;
  status.recording = RecordingState::on;
  status.rings = {{"stacks", 0, 2U << 20U, 31.25}, {"stacks", 1, 2U << 20U, 30}};
  status.channels = {{"stacks", {{"cpu-clock", 198.5, 20000}, {"page-faults", 1, 2}}, 30, 31.25}};
  status.snapshots = 3;
  status.store_bytes = 1000;
  status.store_max_bytes = 5000;
  status.flightd = {10, 0.25, 1U << 20U};
  status.broker = {11, 0.5, 2U << 20U, 64};
  status.staging_bytes = 4U << 20U;
  status.ring_bytes = 5U << 20U;
  status.tracker_bytes = 3U << 20U;
  status.tracker_max_bytes = 8U << 20U;
  status.last_snapshot = "3";
  status.warnings = {"cycles is not there: cpu-clock instead"};
  const std::string text = to_json(status);
  const auto back = parse_status(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back), text);
  status.last = StatusLast{"2026-11-20T03:12:04.123Z", "manual", 1, 2, 3, 4, 5, 15, 2.5};
  const auto with_last = parse_status(to_json(status));
  ASSERT_TRUE(with_last && with_last->last);
  EXPECT_EQ(with_last->last->age_seconds, 2.5);
  EXPECT_EQ(to_json(*with_last), to_json(status));
  EXPECT_EQ(
      text,
      R"({"version":"0.1.0","uptime_seconds":12.5,"cpus":2,"recording":"on","paused":false,"rings":[)"
      R"({"channel":"stacks","cpu":0,"ring_bytes":2097152,"history_seconds":31.25},)"
      R"({"channel":"stacks","cpu":1,"ring_bytes":2097152,"history_seconds":30.0}],)"
      R"("channels":[{"name":"stacks","events":[{"event":"cpu-clock","per_second":198.5,"bytes_per_second":20000.0},)"
      R"({"event":"page-faults","per_second":1.0,"bytes_per_second":2.0}],"history_seconds":{"min":30.0,"max":31.25}}],)"
      R"("snapshots":3,"store":{"bytes":1000,"max_bytes":5000},)"
      R"("self":{"flightd":{"pid":10,"cpu_seconds":0.25,"rss_bytes":1048576},)"
      R"("broker":{"pid":11,"cpu_seconds":0.5,"rss_bytes":2097152,"uptime_seconds":64.0},"staging_bytes":4194304,"ring_bytes":5242880,)"
      R"("tracker_bytes":3145728,"tracker_max_bytes":8388608},)"
      R"("last_snapshot":"3","warnings":["cycles is not there: cpu-clock instead"],"messages":[{"severity":"warning","text":"cycles is not there: cpu-clock instead"}]})");
}

TEST(StatusTest, FilesThatWaitForTheirBuildIdsAreCounted) {
  Status status;
  EXPECT_EQ(to_json(status).find("build_ids_waiting"), std::string::npos);
  status.build_ids_waiting = 12;
  const std::string text = to_json(status);
  EXPECT_THAT(text, HasSubstr(R"("tracker_max_bytes":0,"build_ids_waiting":12},)"));
  const auto back = parse_status(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->build_ids_waiting, 12U);
  EXPECT_EQ(to_json(*back), text);
}

// Without the key, as of an older flightd, they are all.
TEST(StatusTest, AChannelSaysWhichCpusItRecords) {
  Status status;
  status.channels = {{"net", {}, 1, 2, "0-3,8"}, {"stacks", {}, 1, 2}};
  const std::string text = to_json(status);
  EXPECT_THAT(text, HasSubstr(R"("history_seconds":{"min":1.0,"max":2.0},"cpus":"0-3,8"},)"));
  const auto back = parse_status(text);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->channels.at(0).cpus, "0-3,8");
  EXPECT_EQ(back->channels.at(1).cpus, "");
  EXPECT_EQ(to_json(*back), text);
}

TEST(StatusTest, StrangeOnesAreReadAsFarAsTheyGo) {
  for (const char* text : {"", "[]", "1", "{"}) EXPECT_FALSE(parse_status(text)) << text;
  const auto strange = parse_status(R"({"version":7,"uptime_seconds":"x","cpus":-2,"recording":"yes","rings":{"a":1},
    "channels":[1,{"events":[null,{"event":[]}],"history_seconds":[]}],"snapshots":1.5,"store":[],"self":null,
    "last_snapshot":7,"warnings":[1,"w",{}]})");
  ASSERT_TRUE(strange);
  EXPECT_EQ(strange->channels.size(), 2U);
  EXPECT_EQ(strange->recording, RecordingState::off);
  EXPECT_EQ(strange->warnings, std::vector<std::string>{"w"});
  EXPECT_EQ(parse_status(R"({"cpus":99999999999})")->cpus, 2147483647);
  for (const auto& [json, state] : {std::pair(R"({"recording":"silent"})", RecordingState::silent),
                                    {R"({"recording":"unproven"})", RecordingState::unproven},
                                    {R"({"recording":true,"paused":false})", RecordingState::on},
                                    {R"({"recording":false,"paused":true})", RecordingState::paused},
                                    {R"({"recording":false,"paused":false})", RecordingState::off}})
    EXPECT_EQ(parse_status(json)->recording, state) << json;
  Status odd;
  odd.uptime_seconds = std::nan("");
  EXPECT_THAT(to_json(odd), HasSubstr("\"uptime_seconds\":0.0"));
}

TEST(Texts, GoThereAndBack) {
  const std::vector<std::string> texts{"a", "b \"c\""};
  EXPECT_EQ(parse_texts(to_json(texts)), texts);
  for (const char* text : {"", "{}", "7", "[1]", "null"}) EXPECT_TRUE(parse_texts(text).empty()) << text;
}

}  // namespace
}  // namespace flight
