// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/sidecar.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/unit/store/sample_sidecar.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

TEST(Sidecar, IsWrittenKeyByKeyAsTheManualHasIt) {
  EXPECT_EQ(
      to_json_line(sample_sidecar()),
      R"({"id":"42","path":"/s/flight-web3-20261120T031204.123Z-manual-42.perf.data","host":"web3","boot_id":"b","kernel":"6.1.0","kallsyms":"kallsyms-b-0123456789abcdef.zst","version":"0.1.0","config_digest":"0123456789abcdef",)"
      R"("trigger":"lopsided","fired":{"metric":"cpu.lopsided","value":93.5,"threshold":80.0,"baseline":12.25,"since_ns":5,"stolen":2.5},)"
      R"("reason":"why","requests":[{"uid":1000,"pid":12,"comm":"flightctl","time":"2026-11-20T03:12:04.000Z","reason":"slow"}],)"
      R"("capture":"pause","compression":"zstd","size_bytes":100,"raw_bytes":1000,"samples":7,)"
      R"("window":{"begin_ns":1000000000,"end_ns":3500000000,"seconds":2.5,"begin":"2026-11-20T03:12:01.000Z","end":"2026-11-20T03:12:03.500Z"},)"
      R"("common_window":{"begin_ns":2000000000,"end_ns":3500000000,"seconds":1.5,"begin":"2026-11-20T03:12:02.000Z","end":"2026-11-20T03:12:03.500Z"},)"
      R"("blackout":{"max_us":52.5,"lost":3,"lost_exact":false},)"
      R"("holes":[{"channel":"stacks","cpu":1,"begin_ns":10,"end_ns":20,"lost":4}],)"
      R"("rings":[{"channel":"stacks","cpu":0,"ring_bytes":2097152,"oldest_ns":1,"newest_ns":2,"records":9,"samples":7,"blackout_us":52.5,"lost":3,"torn_bytes":40,"unknown_ids":1}],)"
      R"("tracker":{"processes":5,"exited":2,"stale":true,"evicted":1,"lost":9,"unsure":4},)"
      R"("timings_us":{"queued":1,"freeze":2,"walk":3,"merge":4,"write":5,"total":15},)"
      R"("top_units":[],"top_programs":[],)"
      R"("top":[{"comm":"hog","pid":99,"cgroup":"/user.slice","unit":"","units":0,"samples":6,"share":0.857,"share_before":null,"share_now":null,"cpus_before":null,"cpus_now":null,"cpus":[0,1]}],)"
      R"("warnings":["one"],"messages":[{"severity":"warning","text":"one"}]})");
}

TEST(Sidecar, UnitsProgramsAndForksAreWrittenAndRead) {
  const std::string text = to_json_line(ranked_sidecar());
  EXPECT_THAT(
      text,
      HasSubstr(
          R"("top_units":[{"name":"docker-0123456789ab","unit":"docker-x.scope","container":"0123456789abc",)"
          R"("cgroup":"/system.slice/docker-x.scope","program":"worker","path":"/opt/worker","units":1,"processes":24,"pid":98,"comm":"worker-7","pid_share":0.25,)"
          R"("forks_per_second":12.5,"forked_by":"sh",)"
          R"("samples":5,"share":0.75,"share_before":0.5,"share_now":1.0,"cpus_before":0.25,"cpus_now":1.5,"cpus":[0,1]}],)"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"("forks":{"complete":false,"count":7500,"per_second":3000.0,"per_second_before":2.0,)"
          R"("per_second_now":4500.5,"by_unit":[{"name":"h.service","pid":0,"unit":"h.service",)"
          R"("cgroup":"/system.slice/h.service","count":7400,"per_second":2960.0,"per_second_before":null,"per_second_now":null}],)"
          R"("by_program":[{"name":"sh",)"));
  EXPECT_THAT(text, HasSubstr(R"(}],"unit_unknown":100})"));
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json_line(*read), text);
  EXPECT_FALSE(parse_sidecar(R"({"id":"7","path":"/p","trigger":"t","forks":{"by_pid":[{"pid":"x"}]}})"));
}

TEST(Sidecar, WhoHasNamedATaskIsWrittenUnlessItIsTheTaskItself) {
  Sidecar sidecar = ranked_sidecar();
  EXPECT_THAT(to_json_line(sidecar), testing::Not(HasSubstr("named_by")));
  sidecar.top[0].named_by = NamedBy::flightd;
  sidecar.top_units[0].named_by = sidecar.forks->by_pid[0].named_by = NamedBy::kernel;
  const std::string text = to_json_line(sidecar);
  EXPECT_THAT(text, HasSubstr(R"("forked_by":"sh","named_by":"kernel","samples":5)"));
  EXPECT_THAT(text, HasSubstr(R"("units":0,"named_by":"flightd","samples":6)"));
  EXPECT_THAT(text, HasSubstr(R"("cgroup":"","named_by":"kernel","count":7400)"));
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json_line(*read), text);
  const auto later = parse_sidecar(R"({"id":"7","path":"/p","trigger":"t","top":[{"comm":"x","named_by":"new"}]})");
  ASSERT_TRUE(later) << later.error().what;
  EXPECT_EQ(later->top.at(0).named_by, NamedBy::process);
}

TEST(Sidecar, CallersThatWereDroppedAreWrittenAndRead) {
  EXPECT_THAT(to_json_line(sample_sidecar()), testing::Not(HasSubstr("stacks\":{")));
  Sidecar sidecar = sample_sidecar();
  sidecar.stacks = SidecarStacks{.checked = 11, .unchecked = 12, .callers = 30, .garbage_frames = 29};
  const std::string text = to_json_line(sidecar);
  EXPECT_THAT(text,
              HasSubstr(R"("stacks":{"checked":11,"unchecked":12,"callers":30,"garbage_frames":29},"timings_us":{)"));
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json_line(*read), text);
}

// Without the keys, as in sidecars of older versions, these are all CPUs.
TEST(Sidecar, CpusThatAreNotAllAreWrittenAndRead) {
  EXPECT_THAT(to_json_line(sample_sidecar()),
              testing::Not(testing::AnyOf(HasSubstr("channel_cpus"), HasSubstr("top_cpus"))));
  Sidecar sidecar = sample_sidecar();
  sidecar.channel_cpus = {{"net", "0-3,8"}, {"disk", "1"}};
  sidecar.top_cpus = "0-3,8";
  const std::string text = to_json_line(sidecar);
  EXPECT_THAT(text, HasSubstr(R"("channel_cpus":[{"channel":"net","cpus":"0-3,8"},{"channel":"disk","cpus":"1"}],)"));
  EXPECT_THAT(text, HasSubstr(R"("top_cpus":"0-3,8","top_units":[])"));
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json_line(*read), text);
  EXPECT_TRUE(summarize_sidecar(to_json(sidecar)));
}

TEST(Sidecar, MessagesHaveSeveritiesAndWarningsHasTheSevere) {
  Sidecar sidecar = sample_sidecar();
  sidecar.errors = {"bad"};
  sidecar.notes = {"no PMU here"};
  const std::string text = to_json_line(sidecar);
  EXPECT_THAT(text, HasSubstr(R"("warnings":["bad","one"],"messages":[{"severity":"error","text":"bad"},)"
                              R"({"severity":"warning","text":"one"},{"severity":"info","text":"no PMU here"}]})"));
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json_line(*read), text);
  sidecar.errors.clear();
  sidecar.warnings.clear();
  EXPECT_THAT(to_json_line(sidecar), testing::Not(HasSubstr("\"warnings\"")));
  const auto old = parse_sidecar(R"({"id":"7","path":"/p","trigger":"t","warnings":["of 0.1"]})");
  ASSERT_TRUE(old);
  EXPECT_EQ(old->warnings, std::vector<std::string>{"of 0.1"});
  const auto row = parse_sidecar(
      R"({"id":"7","path":"/p","trigger":"t","top":[{"comm":"x","pid":1,"cpu_before":0.25,"cpu_now":0.5}]})");
  ASSERT_TRUE(row) << row.error().what;
  ASSERT_EQ(row->top.size(), 1U);
  EXPECT_EQ(row->top[0].cpus_before, 0.25) << "the name in 0.1";
  EXPECT_EQ(row->top[0].cpus_now, 0.5);
}

TEST(Sidecar, APartOfARecordingIsMarked) {
  Sidecar written = sample_sidecar();
  EXPECT_EQ(to_json(written).find("\"kind\""), std::string::npos);
  EXPECT_EQ(to_json(written).find("\"record\""), std::string::npos);
  EXPECT_EQ(to_json(written).find("\"cause\""), std::string::npos);
  written.record = SidecarRecord{.first = "40", .part = 3, .ended = std::nullopt};
  written.holes[0].cause = "disk";
  written.holes[0].bytes = 4096;
  written.holes[0].estimated = true;
  EXPECT_NE(to_json_line(written).find(R"("kind":"recording","record":{"first":"40","part":3,"ended":null})"),
            std::string::npos);
  for (const std::optional<std::string>& ended : {std::optional<std::string>(), std::optional<std::string>("killed")}) {
    written.record->ended = ended;
    const std::string text = to_json(written);
    const auto read = parse_sidecar(text);
    ASSERT_TRUE(read && read->record);
    EXPECT_EQ(read->record->first, "40");
    EXPECT_EQ(read->record->part, 3U);
    EXPECT_EQ(read->record->ended, ended);
    EXPECT_EQ(read->holes[0].cause, "disk");
    EXPECT_EQ(read->holes[0].bytes, 4096U);
    EXPECT_TRUE(read->holes[0].estimated);
    const auto summary = summarize_sidecar(text);
    ASSERT_TRUE(summary && summary->record);
    EXPECT_EQ(summary->record->first, "40");
    EXPECT_EQ(summary->record->part, 3U);
    EXPECT_EQ(summary->record->ended, ended);
  }
  for (const std::optional<bool>& known : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    written.record->holes_known = known;
    const auto read = parse_sidecar(to_json(written));
    ASSERT_TRUE(read && read->record);
    EXPECT_EQ(read->record->holes_known, known);
  }
}

TEST(Sidecar, ATestOfATriggerIsMarked) {
  Sidecar sidecar = sample_sidecar();
  EXPECT_THAT(to_json_line(sidecar), testing::Not(HasSubstr("\"test\"")));
  EXPECT_FALSE(parse_sidecar(to_json_line(sidecar))->test);
  sidecar.test = true;
  EXPECT_THAT(to_json_line(sidecar), HasSubstr(R"("trigger":"lopsided","test":true,"fired":)"));
  EXPECT_TRUE(parse_sidecar(to_json_line(sidecar))->test);
  EXPECT_TRUE(summarize_sidecar(to_json_line(sidecar)));
}

TEST(Sidecar, OneOf01DoesNotSayWhichSymbolsItNeeds) {
  Sidecar sidecar = sample_sidecar();
  for (const std::optional<std::string>& kallsyms : {std::optional<std::string>(), {""}, {"kallsyms-b-00.zst"}}) {
    sidecar.kallsyms = kallsyms;
    EXPECT_EQ(parse_sidecar(to_json(sidecar))->kallsyms, kallsyms);
    EXPECT_EQ(summarize_sidecar(to_json(sidecar))->kallsyms, kallsyms);
  }
  EXPECT_EQ(kallsyms_of(std::nullopt, "b"), "kallsyms-b.zst");
  EXPECT_EQ(kallsyms_of("", "b"), "");
  EXPECT_EQ(kallsyms_of("../x", "b"), "");
  EXPECT_EQ(kallsyms_of(std::nullopt, "../x"), "");
}

TEST(Sidecar, SummaryHasTheUnitsOfARow) {
  Sidecar sidecar = ranked_sidecar();
  sidecar.top_units.push_back({.name = "", .unit = "x.service"});
  sidecar.top_units.push_back({.name = std::string(kUnknownUnit)});
  for (const char* name : {"a.service", "b.service", "a.service", "c.service", "d.service"})
    sidecar.top_units.push_back({.name = name, .unit = "inside"});
  const std::vector<std::string> first{"docker-0123456789ab", "a.service", "b.service", "c.service"};
  for (const std::string& text : {to_json(sidecar), to_json_line(sidecar)}) {
    const auto summary = summarize_sidecar(text);
    ASSERT_TRUE(summary) << summary.error().what;
    EXPECT_EQ(summary->units, first);
  }
  const auto old =
      summarize_sidecar(R"({"id":"7","path":"/p","trigger":"t","samples":3,"top":[{"comm":"x","unit":"y.service"}]})");
  ASSERT_TRUE(old);
  EXPECT_EQ(old->units, std::vector<std::string>{"y.service"});
  EXPECT_EQ(old->samples, 3U);
}

TEST(Sidecar, MetricsAreListsOfNumbersAndWhatIsNotKnownIsNull) {
  Sidecar sidecar = ranked_sidecar();
  EXPECT_THAT(to_json_line(sidecar), testing::Not(HasSubstr("metrics")));
  sidecar.metrics.emplace();
  sidecar.metrics->recent = {
      .begin_ns = 7, .step_ns = 100, .values = {{"cpu.busy", {1.5, std::numeric_limits<double>::quiet_NaN(), 3}}}};
  sidecar.metrics->cpus.values = {{"0", {}}, {"1", {99}}};
  const std::string text = to_json_line(sidecar);
  EXPECT_THAT(text, HasSubstr(R"("metrics":{"recent":{"begin_ns":7,"step_ns":100,"values":{"cpu.busy":[1.5,null,3]}},)"
                              R"("minutes":{"begin_ns":0,"step_ns":0,"values":{}},)"
                              R"("cpus":{"begin_ns":0,"step_ns":0,"values":{"0":[],"1":[99]}}})"));
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json_line(*read), text);
  const auto indented = parse_sidecar(to_json(sidecar));
  ASSERT_TRUE(indented) << indented.error().what;
  EXPECT_EQ(to_json(*indented), to_json(sidecar));
  EXPECT_THAT(to_json(sidecar), HasSubstr("\n    \"recent\": {\"begin_ns\":7,"));
  // A list reads only what comes before them, and before the programs.
  const std::string whole = to_json(sidecar);
  const auto all = summarize_sidecar(to_json_line(sidecar));
  ASSERT_TRUE(all);
  ASSERT_FALSE(all->units.empty());
  for (const std::string_view rest : {kProgramsLine, kMetricsLine}) {
    const std::size_t at = whole.find(rest);
    ASSERT_NE(at, std::string::npos) << rest;
    const std::string head = whole.substr(0, at + rest.size());
    const auto summary = summarize_sidecar(head);
    ASSERT_TRUE(summary) << head;
    EXPECT_EQ(summary->samples, sidecar.samples);
    EXPECT_EQ(summary->reason, sidecar.reason);
    EXPECT_EQ(summary->seconds, sidecar.window.seconds);
    EXPECT_EQ(summary->kallsyms, all->kallsyms);
    EXPECT_EQ(summary->units, all->units);
  }
}

TEST(Sidecar, WithoutAFiringItIsNullAndWithoutWarningsThereIsNoKey) {
  const std::string text = to_json_line(Sidecar{});
  EXPECT_THAT(text, HasSubstr(R"("fired":null)"));
  EXPECT_THAT(text, HasSubstr(R"("holes":[],"rings":[],)"));
  EXPECT_THAT(text, testing::Not(HasSubstr("warnings")));
}

TEST(Sidecar, TheFileIsIndentedByTwoAndEndsInANewline) {
  const std::string text = to_json(sample_sidecar());
  EXPECT_THAT(text, testing::StartsWith("{\n  \"id\": \"42\",\n  \"path\""));
  EXPECT_THAT(text, testing::EndsWith("\n}\n"));
}

TEST(Sidecar, ReadsWhatItWrote) {
  for (const std::string& text : {to_json(sample_sidecar()), to_json_line(sample_sidecar())}) {
    const auto read = parse_sidecar(text);
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(to_json(*read), to_json(sample_sidecar()));
  }
}

TEST(Sidecar, WhatIsComparedIsReadAndWritten) {
  Sidecar sidecar = sample_sidecar();
  sidecar.compared = SidecarCompared{1, 2, 3};
  sidecar.fired->baseline = std::numeric_limits<double>::quiet_NaN();
  sidecar.top[0].unit = "hog.service";
  sidecar.top[0].share_before = 0.0;
  sidecar.top[0].cpus_now = 1.5;
  const std::string text = to_json_line(sidecar);
  EXPECT_THAT(text, HasSubstr(R"("compared":{"before_begin_ns":1,"now_begin_ns":2,"now_end_ns":3},"top_units":)"));
  EXPECT_THAT(text, HasSubstr(R"("unit":"hog.service")"));
  EXPECT_THAT(text, HasSubstr(R"("share_before":0.0,"share_now":null,"cpus_before":null,"cpus_now":1.5)"));
  EXPECT_THAT(text, HasSubstr(R"("baseline":null)"));
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json_line(*read), text);
  EXPECT_FALSE(parse_sidecar(R"({"id":"7","path":"/p","trigger":"t","top":[{"cpus_now":"x"}]})"));
  EXPECT_FALSE(parse_sidecar(R"({"id":"7","path":"/p","trigger":"t","compared":7})"));
}

TEST(Sidecar, NamesThatDifferInBytesThatAreNoUtf8StayDifferent) {
  Sidecar sidecar = ranked_sidecar();
  sidecar.top[0].comm = "h\xffog";
  sidecar.top_units = {{.name = "h\xc3.service", .cgroup = "/h\xc3.service"},
                       {.name = "h\xc4.service", .cgroup = "/h\xc4.service"}};
  sidecar.forks->by_unit[0].cgroup = "/h\xc4.service";
  const auto read = parse_sidecar(to_json(sidecar));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->top[0].comm, R"(h\xffog)");
  ASSERT_EQ(read->top_units.size(), 2U);
  EXPECT_EQ(read->top_units[0].name, R"(h\xc3.service)");
  EXPECT_EQ(read->top_units[1].cgroup, R"(/h\xc4.service)");
  EXPECT_EQ(read->forks->by_unit[0].cgroup, R"(/h\xc4.service)");
}

TEST(Sidecar, NumbersThatJsonDoesNotHaveBecomeZero) {
  Sidecar sidecar = sample_sidecar();
  sidecar.blackout.max_us = std::numeric_limits<double>::infinity();
  sidecar.top[0].share = std::numeric_limits<double>::quiet_NaN();
  const auto read = parse_sidecar(to_json(sidecar));
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->blackout.max_us, 0);
  EXPECT_EQ(read->top[0].share, 0);
}

TEST(Sidecar, TimesKeepAll64Bits) {
  Sidecar sidecar = sample_sidecar();
  sidecar.window.begin_ns = UINT64_MAX;
  EXPECT_EQ(parse_sidecar(to_json(sidecar))->window.begin_ns, UINT64_MAX);
}

TEST(Sidecar, FromOutsideUnknownKeysAreIgnoredAndMissingOnesKeepDefaults) {
  const auto read =
      parse_sidecar(R"({"id": "7", "path": "/p", "trigger": "t", "new": {"deep": [1]}, "window": {"end_ns": 5}})");
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->id, "7");
  EXPECT_EQ(read->window.end_ns, 5U);
  EXPECT_TRUE(read->blackout.lost_exact);
  EXPECT_FALSE(read->fired);
}

TEST(Sidecar, FromOutsideWrongOnesAreRefusedWithTheirPath) {
  const auto refused = [](const std::string& members) {
    const auto read = parse_sidecar(R"({"id": "7", "path": "/p", "trigger": "t")" + members + "}");
    EXPECT_FALSE(read) << members;
    return read ? std::string() : read.error().what;
  };
  EXPECT_THAT(refused(R"(, "samples": "7")"), HasSubstr("samples"));
  EXPECT_THAT(refused(R"(, "samples": -7)"), HasSubstr("samples"));
  EXPECT_THAT(refused(R"(, "samples": 1.5)"), HasSubstr("samples"));
  EXPECT_THAT(refused(R"(, "samples": 99999999999999999999)"), HasSubstr("samples"));
  EXPECT_THAT(refused(R"(, "reason": 5)"), HasSubstr("reason"));
  EXPECT_THAT(refused(R"(, "window": [])"), HasSubstr("window"));
  EXPECT_THAT(refused(R"(, "window": {"seconds": "x"})"), HasSubstr("window.seconds"));
  EXPECT_THAT(refused(R"(, "blackout": {"lost_exact": 1})"), HasSubstr("blackout.lost_exact"));
  EXPECT_THAT(refused(R"(, "fired": 5)"), HasSubstr("fired"));
  EXPECT_THAT(refused(R"(, "holes": {})"), HasSubstr("holes"));
  EXPECT_THAT(refused(R"(, "holes": [5])"), HasSubstr("holes[0]"));
  EXPECT_THAT(refused(R"(, "rings": [{}, {"cpu": 5000000000}])"), HasSubstr("rings[1].cpu"));
  EXPECT_THAT(refused(R"(, "top": [{"cpus": [0, "1"]}])"), HasSubstr("top[0].cpus"));
  EXPECT_THAT(refused(R"(, "warnings": [1])"), HasSubstr("warnings"));
  EXPECT_THAT(refused(R"(, "metrics": {"recent": {"values": {"cpu.busy": [1, "2"]}}})"),
              HasSubstr("metrics.recent.values.cpu.busy"));
  EXPECT_THAT(refused(R"(, "metrics": {"recent": {"values": {"cpu.busy": 1}}})"),
              HasSubstr("metrics.recent.values.cpu.busy"));
}

TEST(Sidecar, MinusZeroIsNoughtToAListToo) {
  const std::string text = R"({"id": "7", "path": "/p", "trigger": "t", "size_bytes": -0, "samples": -0})";
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(read->size_bytes, 0U);
  EXPECT_TRUE(summarize_sidecar(text));
}

TEST(Sidecar, NestsAtMostSixteenDeepAndHasNoNul) {
  const auto with = [](const std::string& value) {
    return R"({"id": "7", "path": "/p", "trigger": "t", "new": )" + value + "}";
  };
  const std::string deep = with(std::string(15, '[') + std::string(15, ']'));
  EXPECT_TRUE(parse_sidecar(deep));
  EXPECT_TRUE(summarize_sidecar(deep));
  const std::string deeper = with(std::string(16, '[') + std::string(16, ']'));
  EXPECT_FALSE(parse_sidecar(deeper));
  EXPECT_FALSE(summarize_sidecar(deeper));
  EXPECT_FALSE(parse_sidecar(with("1") + std::string(1, '\0')));
  EXPECT_FALSE(summarize_sidecar(with("1") + std::string(1, '\0') + "{}"));
}

TEST(Sidecar, IdPathAndTriggerMustBeThere) {
  EXPECT_THAT(parse_sidecar(R"({"path": "/p", "trigger": "t"})").error().what, HasSubstr("id"));
  EXPECT_THAT(parse_sidecar(R"({"id": 7, "path": "/p", "trigger": "t"})").error().what, HasSubstr("id"));
  EXPECT_THAT(parse_sidecar(R"({"id": "7", "trigger": "t"})").error().what, HasSubstr("path"));
  EXPECT_THAT(parse_sidecar(R"({"id": "7", "path": "/p"})").error().what, HasSubstr("trigger"));
}

TEST(Sidecar, HostileTextsEndInAnError) {
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("null"), std::string("{"), std::string(1000000, '['),
        "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", std::string((16U << 20U) + 1, ' ')})
    EXPECT_FALSE(parse_sidecar(text)) << text.substr(0, 40);
}

void expect_same(const Sidecar& sidecar, const std::string& text) {
  const auto summary = summarize_sidecar(text);
  ASSERT_TRUE(summary) << text;
  EXPECT_EQ(summary->boot_id, sidecar.boot_id) << text;
  EXPECT_EQ(summary->reason, sidecar.reason) << text;
  EXPECT_EQ(summary->size_bytes, sidecar.size_bytes) << text;
  EXPECT_EQ(summary->samples, sidecar.samples) << text;
  EXPECT_EQ(summary->seconds, sidecar.window.seconds) << text;
}

TEST(Sidecar, ItsSummarySaysTheSame) {
  const std::string needed = R"({"id": "7", "path": "/p", "trigger": "t")";
  for (const std::string& text :
       {to_json(sample_sidecar()), needed + "}", needed + R"(, "window": {"seconds": 1}, "window": null})",
        needed + R"(, "window": {"seconds": 1}, "window": {}})",
        needed + R"(, "rings": [{"samples": 5, "id": 1}], "blackout": {"window": {"seconds": 3}}})",
        needed + R"(, "samples": "0.1.0", "samples": 44, "window": {"seconds": []}, "window": {"seconds": 2}})",
        needed +
            R"(, "window": {"seconds": -2, "begin_ns": 3, "deep": {"seconds": "x"}}, "samples": 6, "samples": 7})"}) {
    const auto read = parse_sidecar(text);
    ASSERT_TRUE(read) << text;
    expect_same(*read, text);
  }
  for (const char* wrong : {R"("id": 7)", R"("path": "")", R"("samples": -7)", R"("samples": 1.5)",
                            R"("size_bytes": "7")", R"("reason": null)", R"("reason": [])", R"("window": [])",
                            R"("window": {"seconds": "x"})", R"("window": {"seconds": {}})"})
    EXPECT_FALSE(summarize_sidecar(needed + ", " + wrong + "}")) << wrong;
  for (const std::string& text : {std::string(), std::string("[]"), std::string("null"), std::string(1000000, '['),
                                  needed + R"(, "x": )" + std::string(100, '[') + std::string(100, ']') + "}",
                                  std::string((16U << 20U) + 1, ' ')})
    EXPECT_FALSE(summarize_sidecar(text)) << text.substr(0, 60);
}

TEST(Sidecar, MangledTexts) {
  const std::string text = to_json_line(sample_sidecar());
  std::mt19937 random(1);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string replaced = text;
    replaced[i] = static_cast<char>(random());
    for (const std::string& mangled : {replaced, text.substr(0, i)}) {
      const auto read = parse_sidecar(mangled);
      if (!read) ++refused;
      if (read) expect_same(*read, mangled);
      EXPECT_TRUE(mangled.size() == text.size() || !summarize_sidecar(mangled)) << mangled;
    }
  }
  EXPECT_GT(refused, text.size());  // all truncations
}

TEST(SidecarWindow, HasBothClocks) {
  const ClockHistory clock(ClockPair{.wall = std::chrono::milliseconds(1795144324123), .monotonic_ns = 10'000'000'000});
  const SidecarWindow window = SidecarWindow::of(7'500'000'000, 10'000'000'000, clock);
  EXPECT_EQ(window.begin_ns, 7'500'000'000U);
  EXPECT_EQ(window.end_ns, 10'000'000'000U);
  EXPECT_EQ(window.seconds, 2.5);
  EXPECT_EQ(window.begin, "2026-11-20T03:12:01.623Z");
  EXPECT_EQ(window.end, "2026-11-20T03:12:04.123Z");
  EXPECT_EQ(SidecarWindow::of(10, 5, clock).seconds, 0);
}

TEST(SidecarClock, StepsAreWrittenReadAndConvertTimes) {
  Sidecar sidecar = sample_sidecar();  // until 3.5 s, 03:12:03.5
  EXPECT_EQ(to_rfc3339(clock_of(sidecar).wall_at(1'000'000'000)), "2026-11-20T03:12:01.000Z");
  sidecar.clock_steps = {{2'000'000'000, "2026-11-20T04:12:02.000Z", "2026-11-20T05:12:02.000Z"},
                         {3'000'000'000, "2026-11-20T05:12:03.000Z", "2026-11-20T03:12:03.000Z"}};
  const std::string text = to_json_line(sidecar);
  EXPECT_THAT(text, HasSubstr(R"(,"clock_steps":[{"ns":2000000000,"before":"2026-11-20T04:12:02.000Z",)"
                              R"("after":"2026-11-20T05:12:02.000Z"},{"ns":3000000000,)"));
  const auto read = parse_sidecar(text);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(to_json_line(*read), text);
  const ClockHistory clock = clock_of(*read);
  EXPECT_EQ(to_rfc3339(clock.wall_at(1'000'000'000)), "2026-11-20T04:12:01.000Z");
  EXPECT_EQ(to_rfc3339(clock.wall_at(2'500'000'000)), "2026-11-20T05:12:02.500Z");
  EXPECT_EQ(to_rfc3339(clock.wall_at(3'500'000'000)), "2026-11-20T03:12:03.500Z");
  EXPECT_FALSE(parse_sidecar(R"({"id":"7","path":"/p","trigger":"t","clock_steps":[{"ns":"x"}]})"));
}

}  // namespace
}  // namespace flight
