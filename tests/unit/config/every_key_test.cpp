// SPDX-License-Identifier: Apache-2.0
// Each key of the configuration with each kind of wrong value: the error names the file, line, path and the correct
// value. The parser itself lists the keys, so a new key cannot be left out of the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "libcore/config/parse.hpp"

namespace flight {
namespace {

// An object of the configuration: the text around its members, and its path.
struct Section {
  std::string path;
  std::string before, after;
};
const std::vector<Section>& sections() {
  static const std::vector<Section> kAll{
      {"", "{\n", "\n}"},
      {"memory", "{\"memory\": {\n", "\n}}"},
      {"channels.a", "{\"channels\": {\"a\": {\n", "\n}}}"},
      {"channels.a.events[0]", "{\"channels\": {\"a\": {\"events\": [{\n", "\n}]}}}"},
      {"snapshot", "{\"snapshot\": {\n", "\n}}"},
      {"record", "{\"record\": {\n", "\n}}"},
      {"store", "{\"store\": {\n", "\n}}"},
      {"triggers.t", "{\"triggers\": {\"t\": {\n", "\n}}}"},
      {"triggers.t.event", "{\"triggers\": {\"t\": {\"event\": {\n", "\n}}}}"},
      {"triggers.t.action", "{\"triggers\": {\"t\": {\"external\": true, \"action\": {\n", "\n}}}}"},
      {"storm_guard", "{\"storm_guard\": {\n", "\n}}"},
  };
  return kAll;
}
const Section& section(const std::string& path) {
  for (const Section& section : sections())
    if (section.path == path) return section;
  throw std::out_of_range(path);
}

struct Key {
  std::string section, name;
  std::string others;              // other members that are needed to make the object valid
  std::vector<std::string> right;  // one value of each valid kind
  std::vector<std::string> wrong;  // invalid values of the right kind; values of other kinds are added
};

const std::string kMetric = R"("metric": "cpu.busy",)", kAbove = R"("metric": "cpu.busy", "above": "50%",)",
                  kExternal = R"("external": true,)", kEvent = R"("event": "sched:sched_switch",)";
const std::vector<std::string> kNoShare{R"("90")", R"("101%")", R"("-1%")", R"("90 %")", R"("1s")", R"("%")"};
const std::vector<std::string> kNoTime{R"("5")", R"("-5s")",  R"("5 s")",   R"("5sec")",
                                       R"("s")", R"("1e3s")", R"("99999d")"};
const std::vector<std::string> kNoSize{R"("5%%")", R"("5MB")", R"("5 M")", R"("-5M")",
                                       R"("0")",   R"("0%")",  R"("101%")"};
const std::vector<std::string> kNoCount{"0", "-1", "1.5", "1001", "1e3", "99999999999999999999"};

const std::vector<Key>& keys() {
  static const std::vector<Key> kAll{
      {"", "profile", "", {R"("default")"}, {R"("../x")", R"("A")", R"("-a")"}},
      {"", "user", "", {R"("flightd")"}, {R"("1000")", R"("a:b")", R"("-a")", R"("a b")"}},
      {"", "memory", "", {"{}"}, {}},
      {"", "channels", "", {R"({"a": {"events": ["cycles"]}})"}, {"{}"}},
      {"", "snapshot", "", {"{}"}, {}},
      {"", "record", "", {"{}"}, {}},
      {"", "store", "", {"{}"}, {}},
      {"", "triggers", "", {"{}"}, {}},
      {"", "storm_guard", "", {"{}"}, {}},
      {"memory", "max", "", {R"("2%")"}, kNoSize},
      {"memory", "sideband", "", {R"("2M")"}, {R"("3M")", R"("256K")", R"("2G")", R"("2%")", R"("2MB")"}},
      {"channels.a",
       "ring",
       R"("events": ["cycles"],)",
       {R"("2M")"},
       {R"("3M")", R"("32K")", R"("2G")", R"("2%")", R"("2MB")"}},
      {"channels.a", "events", "", {R"(["cycles"])"}, {"[]"}},
      {"channels.a",
       "min_history",
       R"("events": ["cycles"],)",
       {R"("10s")"},
       {R"("0s")", R"("5")", R"("-5s")", R"("5 s")", R"("25h")"}},
      {"channels.a",
       "cpus",
       R"("events": ["cycles"],)",
       {R"("0-3,8")", R"("8,0-3")", R"("0")", R"("8191")"},
       {R"("0,")",
        R"(",0")",
        R"("0,,1")",
        R"("3-0")",
        R"("0-3,2")",
        R"("1,1")",
        R"("0-")",
        R"("-1")",
        R"("0--1")",
        R"("0-1-2")",
        R"("0 ,1")",
        R"(" 0")",
        R"("0x1")",
        R"("+1")",
        R"("1.5")",
        R"("all")",
        R"("0-7:2/4")",
        R"("8192")",
        R"("0-8192")",
        R"("99999999999999999999")",
        R"("0-99999999999999999999")"}},
      {"channels.a.events[0]", "event", "", {R"("cycles")"}, {R"("a b")"}},
      {"channels.a.events[0]", "frequency", kEvent, {"99"}, {"0", "-1", "1.5", "100001"}},
      {"channels.a.events[0]", "period", kEvent, {"1"}, {"0", "-1", "1.5", "1e30"}},
      {"channels.a.events[0]", "stack", kEvent, {R"("fp")"}, {R"("dwarf")"}},
      {"channels.a.events[0]", "max_stack", kEvent, {"127"}, {"0", "-1", "128", "1.5"}},
      {"channels.a.events[0]", "filter", kEvent, {R"("prio < 100")"}, {}},
      {"snapshot", "capture", "", {R"("live")"}, {R"("stop")"}},
      {"snapshot", "workers", "", {R"("cpu")", "4"}, {R"("socket")", R"("0")", R"("65")", R"("0-3/")", "0", "65"}},
      {"snapshot", "compression", "", {R"("none")"}, {R"("gzip")"}},
      {"snapshot", "compression_level", "", {"3"}, {"0", "20", "-1", "1.5"}},
      {"snapshot", "layout", "", {R"("directory")", R"("file")"}, {R"("folder")", R"("")"}},
      {"snapshot", "on_stop", "", {"true"}, {}},
      {"record", "workers", "", {R"("cpu")", "4"}, {R"("socket")", R"("0")", R"("65")", R"("0-3/")", "0", "65"}},
      {"record", "max_size", "", {R"("2G")"}, {R"("5%")", R"("5MB")", R"("1023K")", R"("0")", R"("-1G")"}},
      {"record", "switch_size", "", {R"("64M")"}, {R"("5%")", R"("5MB")", R"("1023K")", R"("0")", R"("2G")"}},
      {"record", "layout", "", {R"("directory")", R"("file")"}, {R"("folder")", R"("")"}},
      {"store", "max_use", "", {R"("10%")"}, kNoSize},
      {"store", "keep_free", "", {R"("0%")"}, {R"("5%%")", R"("5MB")", R"("-5M")", R"("101%")"}},
      {"store", "max_files", "", {"5"}, {"0", "-1", "1.5", "1000001"}},
      {"store", "max_age", "", {R"("7d")"}, kNoTime},
      {"store", "max_snapshot", "", {R"("64M")"}, {R"("5%")", R"("5MB")", R"("1K")", R"("0")"}},
      {"store", "keep_first", "", {"0"}, {"-1", "1.5", "1001"}},
      {"store", "keep_last", "", {"2"}, {"-1", "1.5", "1001"}},
      {"triggers.t", "metric", R"("above": "50%",)", {R"("cpu.busy")"}, {R"("cpu")", R"("CPU.BUSY")"}},
      {"triggers.t",
       "event",
       "",
       {R"("oom:mark_victim")", R"({"event": "oom:mark_victim"})"},
       {R"("cycles")", R"("cycles:u")", R"("a b:c")", "{}"}},
      {"triggers.t", "external", "", {"true"}, {}},
      {"triggers.t", "above", kMetric, {R"("90%")"}, kNoShare},
      {"triggers.t", "below", kMetric, {R"("90%")"}, kNoShare},
      {"triggers.t", "delta", kMetric, {R"("90%")"}, kNoShare},
      {"triggers.t", "rearm", kAbove, {R"("40%")"}, {R"("40")", R"("101%")", R"("51%")", R"("1s")"}},
      {"triggers.t", "for", kAbove, {R"("2s")"}, kNoTime},
      {"triggers.t", "warmup", kAbove, {R"("2s")"}, kNoTime},
      {"triggers.t", "cooldown", kExternal, {R"("5min")"}, kNoTime},
      {"triggers.t", "max_per_hour", kExternal, {"4"}, kNoCount},
      {"triggers.t", "max_per_day", kExternal, {"4"}, kNoCount},
      {"triggers.t", "post", kExternal, {R"("1s")"}, kNoTime},
      {"triggers.t", "last", kExternal, {R"("1s")"}, {R"("0s")", R"("5")", R"("25h")", R"("-1s")"}},
      {"triggers.t", "capture", kExternal, {R"("pause")"}, {R"("stop")"}},
      {"triggers.t", "action", kExternal, {R"({"record": "2min"})"}, {"{}"}},
      {"triggers.t", "enabled", kExternal, {"false"}, {}},
      {"triggers.t.event", "event", "", {R"("oom:mark_victim")"}, {R"("cycles")", R"("a b:c")"}},
      {"triggers.t.event", "filter", kEvent, {R"("pid > 1")"}, {}},
      {"triggers.t.action", "record", "", {R"("2min")"}, {R"("0s")", R"("999ms")", R"("5")", R"("25h")", R"("-1s")"}},
      {"storm_guard", "burst", "", {"6"}, kNoCount},
      {"storm_guard", "per_hour", "", {"12"}, kNoCount},
  };
  return kAll;
}

// The value is the only text of line 3.
std::string text_of(const Key& key, const std::string& value) {
  const Section& around = section(key.section);
  return around.before + key.others + "\"" + key.name + "\":\n" + value + around.after;
}
std::string path_of(const Key& key) { return key.section.empty() ? key.name : key.section + "." + key.name; }

enum class Kind { text, number, flag, list, object, null };
Kind kind_of(const std::string& value) {
  switch (value[0]) {
    case '"':
      return Kind::text;
    case '[':
      return Kind::list;
    case '{':
      return Kind::object;
    case 'n':
      return Kind::null;
    case 't':
    case 'f':
      return Kind::flag;
    default:
      return Kind::number;
  }
}

TEST(EveryKey, ThatThereIsStandsInTheTable) {
  for (const Section& section : sections()) {
    const auto config = parse_config(section.before + "\"no-such-key\": 1" + section.after, "/etc/x.json");
    ASSERT_FALSE(config) << section.path;
    const std::string& message = config.error().message;
    const std::size_t list = message.find("known here: ");
    ASSERT_NE(list, std::string::npos) << message;
    std::set<std::string> known, in_table;
    for (std::size_t at = list + 12; at < message.size();) {
      const std::size_t end = message.find_first_of(",)", at);
      ASSERT_NE(end, std::string::npos) << message;
      known.insert(message.substr(at, end - at));
      at = end + 2;
    }
    for (const Key& key : keys())
      if (key.section == section.path) in_table.insert(key.name);
    EXPECT_EQ(known, in_table) << "in section '" << section.path << "'";
  }
}

TEST(EveryKey, TakesWhatIsRight) {
  for (const Key& key : keys())
    for (const std::string& value : key.right) {
      const auto config = parse_config(text_of(key, value), "/etc/x.json");
      EXPECT_TRUE(config) << config.error().text();
    }
}

TEST(EveryKey, RefusesEachKindOfWrongValue) {
  int refused = 0;
  for (const Key& key : keys()) {
    std::set<Kind> kinds;
    for (const std::string& right : key.right) kinds.insert(kind_of(right));
    std::vector<std::string> wrong = key.wrong;
    for (const char* value : {"null", "true", "5", "[]", "{}", "\"\"", "\"\\u0001\"", "\"?!\""}) {
      const bool text = kind_of(value) == Kind::text && kinds.count(Kind::text) != 0;
      // The kernel checks a filter, and an event may have any name.
      const bool any_text = key.name == "filter" || (key.name == "event" && key.section.starts_with("channels"));
      if (kinds.count(kind_of(value)) == 0 || (text && !(any_text && std::string(value) == "\"?!\"")))
        wrong.emplace_back(value);
    }
    for (const std::string& value : wrong) {
      const std::string text = text_of(key, value);
      const auto config = parse_config(text, "/etc/x.json");
      ASSERT_FALSE(config) << "taken: " << text;
      const ConfigError& error = config.error();
      EXPECT_EQ(error.file, "/etc/x.json");
      EXPECT_EQ(error.line, 3) << text << "\n" << error.text();
      EXPECT_EQ(error.path, path_of(key)) << error.text();
      EXPECT_THAT(error.message, testing::AnyOf(testing::HasSubstr("use "), testing::HasSubstr("known: "),
                                                testing::HasSubstr("for example"), testing::HasSubstr("at least one"),
                                                testing::HasSubstr("records at least one")))
          << text << "\n"
          << error.text();
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

// The thresholds of tasks are numbers. In quotes or as a share they are refused, and the error says what to write.
TEST(EveryKey, ThresholdsOfTasks) {
  for (const char* name : {"above", "below", "delta", "rearm"})
    for (const char* value : {"\"16\"", "\"90%\"", "\"x\"", "-1", "1e10", "true", "null", "[]", "{}"}) {
      const std::string other = std::string(name) == "rearm" ? "\"above\": 20,\n" : "\n";
      const auto config = parse_config(
          "{\"triggers\": {\"t\": {\"metric\": \"tasks.running\"," + other + "\"" + name + "\": " + value + "}}}", "x");
      ASSERT_FALSE(config) << name << ": " << value;
      EXPECT_EQ(config.error().line, 2);
      EXPECT_EQ(config.error().path, fmt::format("triggers.t.{}", name));
      EXPECT_THAT(config.error().message, testing::HasSubstr("a number of tasks"));
    }
}

TEST(EveryKey, ReservedNames) {
  for (const char* name : {"manual", "signal", "broker-lost", "stop", "record"}) {
    const auto config = parse_config(fmt::format("{{\"triggers\": {{\n\"{}\": {{\"external\": true}}}}}}", name), "x");
    ASSERT_FALSE(config) << name;
    EXPECT_EQ(config.error().line, 2);
    EXPECT_THAT(config.error().message, testing::HasSubstr("use another"));
  }
}

}  // namespace
}  // namespace flight
