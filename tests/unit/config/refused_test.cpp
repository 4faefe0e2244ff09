// SPDX-License-Identifier: Apache-2.0
// Every wrong configuration is refused. The error names the file, line, path and the correct value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "libcore/config/parse.hpp"

namespace flight {
namespace {

struct Refused {
  const char* name;
  std::string text;
  int line;
  const char* path;
  const char* word;  // a word of the message
};

// Meson cannot read a test report that is not UTF-8.
void PrintTo(const Refused& refused, std::ostream* out) {
  for (const char c : std::string_view(refused.text)) *out << (static_cast<unsigned char>(c) < 0x80 ? c : '?');
}

class RefusedConfig : public testing::TestWithParam<Refused> {};

TEST_P(RefusedConfig, IsReportedWithLineAndPath) {
  const Refused& c = GetParam();
  const auto config = parse_config(c.text, "/etc/x.json");
  ASSERT_FALSE(config) << "taken: " << c.text;
  const std::string text = config.error().text();
  EXPECT_EQ(config.error().file, "/etc/x.json");
  EXPECT_EQ(config.error().line, c.line) << text;
  EXPECT_EQ(config.error().path, c.path) << text;
  EXPECT_THAT(config.error().message, testing::HasSubstr(c.word)) << text;
  EXPECT_THAT(text, testing::StartsWith(fmt::format("/etc/x.json:{}: ", c.line)));
}

std::string name_of(const testing::TestParamInfo<Refused>& info) { return info.param.name; }

// The members of a channel or trigger, from line 3 on.
std::string channel(const std::string& members) { return "{\"channels\": {\n\"a\": {\n" + members + "\n}}}"; }
std::string event(const std::string& members) { return channel("\"events\": [\"cycles\",\n{" + members + "}]"); }
std::string trigger(const std::string& members) { return "{\"triggers\": {\n\"t\": {\n" + members + "\n}}}"; }
std::string section(const std::string& name, const std::string& members) {
  return "{\"" + name + "\": {\n" + members + "\n}}";
}
std::string many_masks(int count) {
  std::string out = "0/0";
  for (int i = 1; i < count; ++i) out += ":" + std::to_string(i) + "/" + std::to_string(i);
  return out;
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, RefusedConfig,
    testing::Values(
        Refused{"CommaTooMany", "{\n  \"user\": \"flightd\",\n}\n", 2, "", "extra comma"},
        Refused{"CommaTooManyWithComment", "{\n  \"user\": \"x\", // a comma, and \"text\"\n  /* }\n */\n}\n", 2, "",
                "in line 5"},
        Refused{"CommaTooManyInList", "{\"channels\": {\"a\": {\"events\": [\n\"cycles\",\n]}}}", 2,
                "channels.a.events[1]", "extra comma"},
        Refused{"TextBehindANul", "{\n\"user\": \"x\"}\n" + std::string(1, '\0') + "{}", 3, "", "NUL"},
        Refused{"TwoCommas", "{\n\"user\": \"x\",,\n\"profile\": \"default\"}", 2, "", "extra comma"},
        Refused{"CommaFirst", "{\n,\"user\": \"x\"}", 2, "", "extra comma"},
        Refused{"CommaMissing", "{\n\"user\": \"x\"\n\"profile\": \"default\"}", 2, "", "comma is missing"},
        Refused{"CommaMissingAfterNumber", "{\"store\": {\n\"max_files\": 5\n\"max_age\": \"1d\"}}", 2, "store",
                "comma is missing"},
        Refused{"ColonMissing", "{\n\"user\" \"x\"}", 2, "user", "':'"},
        Refused{"NoQuotesKey", "{\nuser: \"x\"}", 2, "", "double quotes: \"KEY\" instead of user"},
        Refused{"NoQuotesValue", "{\n\"user\": flightd\n}", 2, "user", "'flightd' is not a value"},
        Refused{"SingleQuotes", "{\n\"user\": 'flightd'\n}", 2, "user", "double quotes"},
        Refused{"True", "{\n\"snapshot\": {\"on_stop\": True}}", 2, "snapshot.on_stop", "true, false or null"},
        Refused{"NotClosed", "{\n\"store\": {\n\"max_files\": 3\n", 4, "store", "ends too early"},
        Refused{"TextNotClosed", "{\n\"user\": \"flightd\n}", 2, "user", "double quotes"},
        Refused{"TwoRoots", "{}\n{}", 2, "", "after the end"}, Refused{"BraceTooMany", "{}\n}", 2, "", "an extra '}'"},
        Refused{"Empty", "", 1, "", "empty"}, Refused{"OnlyAComment", "// nothing\n", 1, "", "empty"},
        Refused{"CommentNotClosed", "{ /* \n }", 2, "", "comment"},
        Refused{"HashComment", "{\n# no\n}", 2, "", "double quotes"},
        Refused{"NotUtf8", "{\n\"user\": \"\xff\"}", 2, "user", "double quotes"},
        Refused{"NumberTooBig", "{\"store\": {\n\"max_files\": 1e999}}", 2, "store.max_files", "1e999"},
        Refused{"LeadingPlus", "{\"store\": {\n\"max_files\": +5}}", 2, "store.max_files", "'+5' is not a value"},
        Refused{"NoObject", "[]", 1, "", "object"}, Refused{"JustAText", "\n\"x\"", 2, "", "object"},
        Refused{"Deep", "{\n\"user\": " + std::string(40, '[') + std::string(40, ']') + "}", 2,
                "user[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]", "nested"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Keys, RefusedConfig,
    testing::Values(
        Refused{"Unknown", "{\n\n\"chanels\": {}}", 3, "chanels", "nearest is 'channels'"},
        Refused{"UnknownInChannel", channel("\"size\": \"2M\""), 3, "channels.a.size", "no such key (known here: "},
        Refused{"UnknownInEvent", event("\"event\": \"cycles\",\n\"freq\": 99"), 5, "channels.a.events[1].freq",
                "nearest is 'frequency'"},
        Refused{"UnknownInMemory", section("memory", "\"maximum\": \"2%\""), 2, "memory.maximum", "'max'"},
        Refused{"UnknownInSnapshot", section("snapshot", "\"compress\": \"zstd\""), 2, "snapshot.compress",
                "'compression'"},
        Refused{"Renamed", section("snapshot", "\"crew\": \"1\""), 2, "snapshot.crew",
                "renamed to 'snapshot.workers' in flightd 0.2.0; NEWS.md"},
        Refused{"UnknownInStore", section("store", "\"maxuse\": \"2%\""), 2, "store.maxuse", "'max_use'"},
        Refused{"UnknownInTrigger", trigger("\"metrik\": \"cpu.busy\""), 3, "triggers.t.metrik", "'metric'"},
        Refused{"UnknownInTriggersEvent", trigger("\"event\": {\"event\": \"oom:mark_victim\",\n\"frequency\": 99}"), 4,
                "triggers.t.event.frequency", "there is no such key"},
        Refused{"UnknownEmpty", "{\n\"\": 1}", 2, "", "no such key"},
        Refused{"Duplicate", "{\n\"user\": \"a\",\n\n\"user\": \"b\"}", 4, "user", "twice, first in line 2"},
        Refused{"DuplicateDeep", channel("\"ring\": \"2M\",\n\"ring\": \"2M\",\n\"events\": [\"cycles\"]"), 4,
                "channels.a.ring", "twice"},
        Refused{"DuplicateChannel", "{\"channels\": {\"a\": {\"events\": [\"cycles\"]},\n\"a\": {}}}", 2, "channels.a",
                "twice"},
        Refused{"NullAlone", "{\n\"user\": null}", 2, "user", "null"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Top, RefusedConfig,
    testing::Values(Refused{"ProfileType", "{\n\"profile\": 1}", 2, "profile", "name of a file"},
                    Refused{"ProfilePath", "{\n\"profile\": \"../../etc/shadow\"}", 2, "profile", "a-z"},
                    Refused{"UserType", "{\n\"user\": [\"x\"]}", 2, "user", "\"flightd\""},
                    Refused{"UserEmpty", "{\n\"user\": \"\"}", 2, "user", "empty"},
                    Refused{"UserNumber", "{\n\"user\": \"1000\"}", 2, "user", "not a number"},
                    Refused{"UserColon", "{\n\"user\": \"a:b\"}", 2, "user", "user name"},
                    Refused{"UserNul", "{\n\"user\": \"a\\u0000b\"}", 2, "user", "control"},
                    Refused{"MemoryType", "{\n\"memory\": \"2%\"}", 2, "memory", "an object"},
                    Refused{"MemoryUnit", section("memory", "\"max\": \"2MB\""), 2, "memory.max", "\"10%\""},
                    Refused{"MemoryOver", section("memory", "\"max\": \"120%\""), 2, "memory.max", "not a size"},
                    Refused{"MemoryZero", section("memory", "\"max\": \"0%\""), 2, "memory.max", "too small"},
                    Refused{"MemoryNumber", section("memory", "\"max\": 2"), 2, "memory.max", "\"512M\""}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Channels, RefusedConfig,
    testing::Values(
        Refused{"None", "{\n\"channels\": {}}", 2, "channels", "no channel"},
        Refused{"Type", "{\n\"channels\": []}", 2, "channels", "\"NAME\""},
        Refused{"ChannelType", "{\"channels\": {\n\"a\": \"cycles\"}}", 2, "channels.a", "an object"},
        Refused{"Name", "{\"channels\": {\n\"My Channel\": {}}}", 2, "channels.My Channel", "a-z"},
        Refused{"NameDash", "{\"channels\": {\n\"-a\": {}}}", 2, "channels.-a", "a-z, 0-9 and -"},
        Refused{"NameLong", "{\"channels\": {\n\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\": {}}}", 2,
                "channels.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1 to 32"},
        Refused{"NoEvents", "{\"channels\": {\n\"a\": {\"ring\":\n\"2M\"}}}", 2, "channels.a", "'events' is missing"},
        Refused{"EmptyEvents", channel("\"events\": []"), 3, "channels.a.events", "at least one"},
        Refused{"EventsType", channel("\"events\": \"cycles\""), 3, "channels.a.events", "a list"},
        Refused{"EventType", channel("\"events\": [\n99]"), 4, "channels.a.events[0]", "\"NAME\""},
        Refused{"EventNull", channel("\"events\": [\nnull]"), 4, "channels.a.events[0]", "null"},
        Refused{"RingNoPower", channel("\"ring\": \"3M\""), 3, "channels.a.ring", "\"2M\" or \"4M\""},
        Refused{"RingNoPowerSmall", channel("\"ring\": \"100K\""), 3, "channels.a.ring", "\"64K\" or \"128K\""},
        Refused{"MinHistoryNumber", channel("\"min_history\": 10"), 3, "channels.a.min_history", "\"500ms\""},
        Refused{"MinHistoryZero", channel("\"min_history\": \"0s\""), 3, "channels.a.min_history", "from 1 ms"},
        Refused{"MinHistoryUnit", channel("\"min_history\": \"10\""), 3, "channels.a.min_history", "a time such as"},
        Refused{"CpusEmpty", channel("\"cpus\": \"\""), 3, "channels.a.cpus", "an empty text"},
        Refused{"CpusTurned", channel("\"cpus\":\n\"3-0\""), 4, "channels.a.cpus", "'3-0' is neither a CPU nor"},
        Refused{"CpusTwice", channel("\"cpus\": \"0-3,8,2\""), 3, "channels.a.cpus", "CPU 2 is listed twice"},
        Refused{"CpusNumber", channel("\"cpus\": 0"), 3, "channels.a.cpus", "a list of CPUs such as \"0-3,8\""},
        Refused{"CpusList", channel("\"cpus\": [0, 1]"), 3, "channels.a.cpus", "a list of CPUs such as \"0-3,8\""},
        Refused{"CpusHuge", channel("\"cpus\": \"0-9999999\""), 3, "channels.a.cpus", "'0-9999999' is neither"},
        Refused{"RingSmall", channel("\"ring\": \"4K\""), 3, "channels.a.ring", "from \"64K\" to \"1G\""},
        Refused{"RingLarge", channel("\"ring\": \"2G\""), 3, "channels.a.ring", "from \"64K\" to \"1G\""},
        Refused{"RingUnit", channel("\"ring\": \"2MiB\""), 3, "channels.a.ring", "K, M or G"},
        Refused{"RingPercent", channel("\"ring\": \"2%\""), 3, "channels.a.ring", "K, M or G"},
        Refused{"RingNumber", channel("\"ring\": 2"), 3, "channels.a.ring", "K, M or G"},
        Refused{"RingHuge", channel("\"ring\": \"99999999999999999999G\""), 3, "channels.a.ring", "K, M or G"},
        Refused{"EventMissing", event("\n\"frequency\": 99"), 4, "channels.a.events[1]", "'event' is missing"},
        Refused{"EventEmpty", event("\"event\": \"\""), 4, "channels.a.events[1].event", "empty"},
        Refused{"EventBlank", event("\"event\": \"cpu cycles\""), 4, "channels.a.events[1].event", "blanks"},
        Refused{"EventNumber", event("\"event\": 1"), 4, "channels.a.events[1].event", "perf's syntax"},
        Refused{"Both", event("\"event\": \"cycles\",\n\"frequency\": 99,\n\"period\": 5"), 6,
                "channels.a.events[1].period", "exclude each other"},
        Refused{"BothTurned", event("\"event\": \"cycles\",\n\"period\": 5,\n\"frequency\": 99"), 6,
                "channels.a.events[1].frequency", "exclude each other"},
        Refused{"FrequencyZero", event("\"event\": \"cycles\", \"frequency\": 0"), 4, "channels.a.events[1].frequency",
                "from 1 to 100000"},
        Refused{"FrequencyHigh", event("\"event\": \"cycles\", \"frequency\": 100001"), 4,
                "channels.a.events[1].frequency", "from 1 to 100000"},
        Refused{"FrequencyText", event("\"event\": \"cycles\", \"frequency\": \"99\""), 4,
                "channels.a.events[1].frequency", "without quotes"},
        Refused{"FrequencyHalf", event("\"event\": \"cycles\", \"frequency\": 99.5"), 4,
                "channels.a.events[1].frequency", "99.5"},
        Refused{"PeriodNegative", event("\"event\": \"cycles\", \"period\": -1"), 4, "channels.a.events[1].period",
                "whole number"},
        Refused{"Stack", event("\"event\": \"cycles\", \"stack\": \"dwarf\""), 4, "channels.a.events[1].stack",
                "\"fp\" or \"none\""},
        Refused{"StackTrue", event("\"event\": \"cycles\", \"stack\": true"), 4, "channels.a.events[1].stack",
                "\"fp\""},
        Refused{"MaxStackZero", event("\"event\": \"cycles\", \"max_stack\": 0"), 4, "channels.a.events[1].max_stack",
                "from 1 to 127"},
        Refused{"MaxStackHigh", event("\"event\": \"cycles\", \"max_stack\": 128"), 4, "channels.a.events[1].max_stack",
                "from 1 to 127"},
        Refused{"FilterOnCycles", event("\"event\": \"cycles:u\",\n\"filter\": \"prio < 100\""), 5,
                "channels.a.events[1].filter", "SYSTEM:EVENT"},
        Refused{"FilterOnPmu", event("\"event\": \"cpu/event=0x3c/\",\n\"filter\": \"x\""), 5,
                "channels.a.events[1].filter", "SYSTEM:EVENT"},
        Refused{"FilterType", event("\"event\": \"a:bcd\", \"filter\": 5"), 4, "channels.a.events[1].filter",
                "prio < 100"},
        Refused{"FilterLong", event("\"event\": \"a:bcd\", \"filter\": \"" + std::string(5000, 'x') + "\""), 4,
                "channels.a.events[1].filter", "4000 bytes"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    SnapshotAndStore, RefusedConfig,
    testing::Values(
        Refused{"Capture", section("snapshot", "\"capture\": \"stop\""), 2, "snapshot.capture",
                "\"pause\" or \"live\""},
        Refused{"CaptureType", section("snapshot", "\"capture\": false"), 2, "snapshot.capture", "\"pause\""},
        Refused{"WorkersWord", section("snapshot", "\"workers\": \"socket\""), 2, "snapshot.workers", "\"package\""},
        Refused{"WorkersZero", section("snapshot", "\"workers\": 0"), 2, "snapshot.workers", "1 to 64"},
        Refused{"WorkersMany", section("snapshot", "\"workers\": \"65\""), 2, "snapshot.workers", "1 to 64"},
        Refused{"WorkersType", section("snapshot", "\"workers\": true"), 2, "snapshot.workers", "a number of workers"},
        Refused{"WorkersMask", section("snapshot", "\"workers\": \"0-3/\""), 2, "snapshot.workers", "masks such as"},
        Refused{"WorkersMaskTurned", section("snapshot", "\"workers\": \"3-0/1\""), 2, "snapshot.workers",
                "masks such as"},
        Refused{"WorkersMaskHuge", section("snapshot", "\"workers\": \"0-9999999/1\""), 2, "snapshot.workers", "masks"},
        Refused{"WorkersMaskNoSlash", section("snapshot", "\"workers\": \"0/0:1\""), 2, "snapshot.workers",
                "CPUs/AFFINITY"},
        Refused{"WorkersMasksOverlap", section("snapshot", "\"workers\": \"0-3/0:3-7/1\""), 2, "snapshot.workers",
                "CPU 3 is in the CPUs of two masks"},
        Refused{"WorkersAffinitiesOverlap", section("snapshot", "\"workers\": \"0/0-1:1/1\""), 2, "snapshot.workers",
                "CPU 1 is in the affinities of two masks"},
        Refused{"WorkersMasksMany", section("snapshot", "\"workers\": \"" + many_masks(65) + "\""), 2,
                "snapshot.workers", "more than 64 masks"},
        Refused{"WorkersMaskTail", section("snapshot", "\"workers\": \"0/0:\""), 2, "snapshot.workers", "masks"},
        Refused{"Compression", section("snapshot", "\"compression\": \"gzip\""), 2, "snapshot.compression",
                "\"zstd\" or \"none\""},
        Refused{"Level", section("snapshot", "\"compression_level\": 20"), 2, "snapshot.compression_level", "1 to 19"},
        Refused{"LevelType", section("snapshot", "\"compression_level\": \"1\""), 2, "snapshot.compression_level",
                "without quotes"},
        Refused{"Layout", section("snapshot", "\"layout\": \"folder\""), 2, "snapshot.layout",
                "\"file\" or \"directory\""},
        Refused{"OnStop", section("snapshot", "\"on_stop\": 1"), 2, "snapshot.on_stop", "true or false"},
        Refused{"RecordWorkers", section("record", "\"workers\": \"0-3/\""), 2, "record.workers", "masks"},
        Refused{"RecordMaxSize", section("record", "\"max_size\": \"5%\""), 2, "record.max_size", "K, M or G"},
        Refused{"RecordSwitchSize", section("record", "\"switch_size\": \"2G\""), 2, "record.switch_size", "K, M or G"},
        Refused{"RecordLayout", section("record", "\"layout\": \"folder\""), 2, "record.layout",
                "\"file\" or \"directory\""},
        Refused{"RecordUnknown", section("record", "\"files\": 1"), 2, "record.files", "known here"},
        Refused{"MaxUse", section("store", "\"max_use\": \"10\\u0025%\""), 2, "store.max_use", "\"10%\""},
        Refused{"MaxUseZero", section("store", "\"max_use\": \"0\""), 2, "store.max_use", "too small"},
        Refused{"KeepFree", section("store", "\"keep_free\": \"101%\""), 2, "store.keep_free", "a share"},
        Refused{"MaxFiles", section("store", "\"max_files\": 0"), 2, "store.max_files", "1 to 1000000"},
        Refused{"KeepFirstNegative", section("store", "\"keep_first\": -1"), 2, "store.keep_first", "0 to 1000"},
        Refused{"KeepFirstMany", section("store", "\"keep_first\": 1001"), 2, "store.keep_first", "0 to 1000"},
        Refused{"KeepLastText", section("store", "\"keep_last\": \"2\""), 2, "store.keep_last", "without quotes"},
        Refused{"KeepLastFraction", section("store", "\"keep_last\": 1.5"), 2, "store.keep_last", "0 to 1000"},
        Refused{"MaxFilesText", section("store", "\"max_files\": \"200\""), 2, "store.max_files", "without quotes"},
        Refused{"MaxFilesNegative", section("store", "\"max_files\": -5"), 2, "store.max_files", "-5"},
        Refused{"MaxAgeUnit", section("store", "\"max_age\": \"2w\""), 2, "store.max_age", "\"30d\""},
        Refused{"MaxAgeNumber", section("store", "\"max_age\": 30"), 2, "store.max_age", "\"30d\""},
        Refused{"MaxAgeNoUnit", section("store", "\"max_age\": \"30\""), 2, "store.max_age", "\"30d\""},
        Refused{"MaxAgeZero", section("store", "\"max_age\": \"0s\""), 2, "store.max_age", "from 1.0 s"},
        Refused{"MaxSnapshot", section("store", "\"max_snapshot\": \"5%\""), 2, "store.max_snapshot", "K, M or G"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Triggers, RefusedConfig,
    testing::Values(
        Refused{"Type", "{\n\"triggers\": null}", 2, "triggers", "an object"},
        Refused{"Name", "{\"triggers\": {\n\"CPU\": {\"external\": true}}}", 2, "triggers.CPU", "a-z"},
        Refused{"Reserved", "{\"triggers\": {\n\"manual\": {\"external\": true}}}", 2, "triggers.manual", "another"},
        Refused{"NoCondition", trigger("\"cooldown\": \"1s\""), 2, "triggers.t", "no condition"},
        Refused{"ExternalFalse", trigger("\"external\": false"), 2, "triggers.t", "no condition"},
        Refused{"TwoConditions", trigger("\"event\": \"oom:mark_victim\",\n\"external\": true"), 4,
                "triggers.t.external", "this one also has 'event'"},
        Refused{"Metric", trigger("\"metric\": \"cpu.bsy\",\n\"above\": \"9%\""), 3, "triggers.t.metric",
                "nearest is 'cpu.busy'"},
        Refused{"MetricUnlike", trigger("\"metric\": \"load\",\n\"above\": \"9%\""), 3, "triggers.t.metric",
                "no metric 'load' (known: "},
        Refused{"MetricType", trigger("\"metric\": 5"), 3, "triggers.t.metric", "cpu.busy"},
        Refused{"NoThreshold", trigger("\"metric\": \"cpu.busy\""), 2, "triggers.t", "'above' or 'below'"},
        Refused{"BothThresholds", trigger("\"metric\": \"cpu.busy\", \"above\": \"9%\",\n\"below\": \"5%\""), 4,
                "triggers.t.below", "not both"},
        Refused{"ShareAsNumber", trigger("\"metric\": \"cpu.busy\",\n\"above\": 90"), 4, "triggers.t.above", "\"90%\""},
        Refused{"ShareBeforeMetric", trigger("\"above\": 90,\n\"metric\": \"psi.cpu.full\""), 3, "triggers.t.above",
                "\"90%\""},
        Refused{"ShareNoUnit", trigger("\"metric\": \"cpu.busy\",\n\"above\": \"90\""), 4, "triggers.t.above",
                "\"100%\""},
        Refused{"ShareOver", trigger("\"metric\": \"cpu.busy\",\n\"above\": \"190%\""), 4, "triggers.t.above",
                "\"100%\""},
        Refused{"TasksAsShare", trigger("\"metric\": \"tasks.running\",\n\"above\": \"90%\""), 4, "triggers.t.above",
                "number of tasks"},
        Refused{"TasksNegative", trigger("\"metric\": \"tasks.running\",\n\"below\": -1"), 4, "triggers.t.below",
                "-1 is out of range"},
        Refused{"DeltaUnit", trigger("\"metric\": \"cpu.busy\", \"above\": \"9%\",\n\"delta\": \"3s\""), 4,
                "triggers.t.delta", "a share"},
        Refused{"AboveAll", trigger("\"metric\": \"cpu.busy\",\n\"above\": \"100%\""), 4, "triggers.t.above",
                "ever above 100 %"},
        Refused{"BelowNothing", trigger("\"metric\": \"tasks.running\",\n\"below\": 0"), 4, "triggers.t.below",
                "never below 0"},
        Refused{"NoJump", trigger("\"metric\": \"cpu.busy\",\n\"delta\": \"0%\""), 4, "triggers.t.delta",
                "'delta' must be above 0"},
        Refused{"TooLongAJump", trigger("\"metric\": \"cpu.busy\",\n\"delta\": \"100%\""), 4, "triggers.t.delta",
                "'delta' of a share must be below 100 %"},
        Refused{"RearmAbove", trigger("\"metric\": \"cpu.busy\", \"above\": \"70%\",\n\"rearm\": \"90%\""), 4,
                "triggers.t.rearm", "at most 70"},
        Refused{"RearmBelow", trigger("\"metric\": \"tasks.running\", \"below\": 5,\n\"rearm\": 2"), 4,
                "triggers.t.rearm", "at least 5"},
        Refused{"RearmAlone", trigger("\"metric\": \"cpu.busy\", \"delta\": \"9%\",\n\"rearm\": \"5%\""), 4,
                "triggers.t.rearm", "'above' or 'below'"},
        Refused{"EventNoTracepoint", trigger("\"event\": \"cycles\""), 3, "triggers.t.event", "SYSTEM:EVENT"},
        Refused{"EventModifier", trigger("\"event\": \"cycles:u\""), 3, "triggers.t.event", "SYSTEM:EVENT"},
        Refused{"EventType", trigger("\"event\": 5"), 3, "triggers.t.event", "SYSTEM:EVENT"},
        Refused{"EventObject", trigger("\"event\": {\n\"filter\": \"pid > 1\"}"), 3, "triggers.t.event", "missing"},
        Refused{"EventFilter", trigger("\"event\": {\"event\": \"oom:mark_victim\",\n\"filter\": \"\"}"), 4,
                "triggers.t.event.filter", "empty"},
        Refused{"FilterBeside", trigger("\"event\": \"oom:mark_victim\",\n\"filter\": \"pid > 1\""), 4,
                "triggers.t.filter", "no such key"},
        Refused{"EventWithAbove", trigger("\"event\": \"oom:mark_victim\",\n\"above\": \"5%\""), 4, "triggers.t.above",
                "only a trigger with a 'metric'"},
        Refused{"ExternalWithFor", trigger("\"external\": true,\n\"for\": \"5s\""), 4, "triggers.t.for",
                "only a trigger with a 'metric'"},
        Refused{"ExternalType", trigger("\"external\": \"yes\""), 3, "triggers.t.external", "true or false"},
        Refused{"For", trigger("\"metric\": \"cpu.busy\", \"above\": \"9%\",\n\"for\": 2"), 4, "triggers.t.for",
                "\"500ms\""},
        Refused{"Warmup", trigger("\"metric\": \"cpu.busy\", \"above\": \"9%\",\n\"warmup\": \"1y\""), 4,
                "triggers.t.warmup", "\"500ms\""},
        Refused{"Cooldown", trigger("\"external\": true,\n\"cooldown\": \"5 min\""), 4, "triggers.t.cooldown",
                "\"5min\""},
        Refused{"Post", trigger("\"external\": true,\n\"post\": \"1h\""), 4, "triggers.t.post", "to 10 min"},
        Refused{"Last", trigger("\"external\": true,\n\"last\": \"-1s\""), 4, "triggers.t.last", "not such a time"},
        Refused{"MaxPerHour", trigger("\"external\": true,\n\"max_per_hour\": 0"), 4, "triggers.t.max_per_hour",
                "from 1"},
        Refused{"MaxPerDay", trigger("\"external\": true,\n\"max_per_day\": \"4\""), 4, "triggers.t.max_per_day",
                "without quotes"},
        Refused{"Capture", trigger("\"external\": true,\n\"capture\": \"fast\""), 4, "triggers.t.capture", "\"live\""},
        Refused{"ActionType", trigger("\"external\": true,\n\"action\": \"record\""), 4, "triggers.t.action",
                "\"record\" is not allowed here; use an object { … }"},
        Refused{"ActionUnknown", trigger("\"external\": true, \"action\": {\n\"recor\": \"2min\"}"), 4,
                "triggers.t.action.recor", "there is no such key; the nearest is 'record' (known here: record)"},
        Refused{"ActionEmpty", trigger("\"external\": true,\n\"action\": {}"), 4, "triggers.t.action",
                "the key 'record' is missing; use { \"record\": \"2min\" }, or remove 'action'"},
        Refused{"ActionRecord", trigger("\"external\": true, \"action\": {\n\"record\": \"0s\"}"), 4,
                "triggers.t.action.record",
                "\"0s\" is not such a time; use a time such as \"500ms\", \"2s\", \"5min\", \"1h\" or \"30d\", from "
                "1.0 s to "
                "24.0 h"},
        Refused{"ActionRecordNumber", trigger("\"external\": true, \"action\": {\n\"record\": 120}"), 4,
                "triggers.t.action.record", "120 is not allowed here; use a time such as"},
        Refused{"RecordBesideAction", trigger("\"external\": true,\n\"record\": \"2min\""), 4, "triggers.t.record",
                "there is no such key"},
        Refused{"Enabled", trigger("\"external\": true,\n\"enabled\": \"no\""), 4, "triggers.t.enabled",
                "true or false"}),
    name_of);

}  // namespace
}  // namespace flight
