// SPDX-License-Identifier: Apache-2.0
// The fields of the journal's entries, and the catalog that explains them.
#include "daemon/notify/journal_entries.hpp"

#include <gmock/gmock.h>

#include <array>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "libcore/base/text.hpp"
#include "libcore/store/headline.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight::daemon {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string text_of(const std::string& name) {
  std::ifstream file(test::source_root() + "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(JournalEntries, ASnapshotHasItsFieldsAndTheHeadline) {
  const Sidecar sidecar = sample_sidecar();
  const JournalEntry entry = snapshot_entry(sidecar);
  EXPECT_EQ(entry.message, "snapshot 42: " + headline(sidecar));
  EXPECT_EQ(entry.priority, Priority::warning) << "a trigger's";
  EXPECT_THAT(entry.fields,
              ElementsAre("MESSAGE_ID=569dd7ad7633419d8fb3a32326c62f33", "FLIGHTD_SNAPSHOT_ID=42",
                          "FLIGHTD_PATH=" + sidecar.path, "FLIGHTD_TRIGGER=lopsided", "FLIGHTD_REASON=why",
                          "FLIGHTD_WINDOW_USEC=2500000", "FLIGHTD_BLACKOUT_USEC=52", "FLIGHTD_LOST=3",
                          "FLIGHTD_SIZE=100", "FLIGHTD_TOP_PID=99", "FLIGHTD_REQUESTED_BY=flightctl[12] uid 1000"));
}

TEST(JournalEntries, WhatAPersonRequestedIsANotice) {
  Sidecar sidecar = sample_sidecar();
  sidecar.test = true;
  EXPECT_EQ(snapshot_entry(sidecar).priority, Priority::notice);
  sidecar.test = false;
  sidecar.trigger = "manual";
  EXPECT_EQ(snapshot_entry(sidecar).priority, Priority::notice);
}

TEST(JournalEntries, ASnapshotNamesTheBusiestAndTheForker) {
  Sidecar sidecar = ranked_sidecar();
  sidecar.top_units.push_back({.name = "busier.service", .cpus_now = 1.75});
  sidecar.top_units.push_back({.name = "", .cpus_now = 9});  // outside all units
  sidecar.top_units.push_back({.name = std::string(kUnknownUnit), .cpus_now = 9});
  EXPECT_THAT(snapshot_entry(sidecar).fields,
              testing::IsSupersetOf({"FLIGHTD_TOP_UNIT=busier.service", "FLIGHTD_TOP_PROGRAM=hog", "FLIGHTD_TOP_PID=99",
                                     "FLIGHTD_FORKS_PER_SECOND=4500", "FLIGHTD_FORKED_BY=h.service"}));
  sidecar.forks->by_unit[0].name = "";
  EXPECT_THAT(snapshot_entry(sidecar).fields, Contains("FLIGHTD_FORKED_BY=sh"));
  // A storm: the busiest process of the program is one of thousands.
  sidecar.top_programs[0].name = "true";
  sidecar.top_programs[0].pid = 12345;
  EXPECT_THAT(snapshot_entry(sidecar).fields, Contains("FLIGHTD_TOP_PID=99"));
  sidecar.top.insert(sidecar.top.begin(), {.comm = "true", .pid = 12345, .samples = 5});
  EXPECT_THAT(snapshot_entry(sidecar).fields, Contains("FLIGHTD_TOP_PID=99"));
  // As with the unit and the program: the one that is busy now, not the one that was busy before. Pid 0 is the idle
  // tasks.
  sidecar.top = {{.comm = "cc1", .pid = 55, .samples = 900, .share = 0.5, .cpus_now = 0.02},
                 {.comm = "burn", .pid = 1234, .samples = 600, .share = 0.4, .cpus_now = 0.97},
                 {.comm = "swapper", .pid = 0, .samples = 2000, .share = 0.9, .cpus_now = 1.2}};
  EXPECT_THAT(snapshot_entry(sidecar).fields, Contains("FLIGHTD_TOP_PID=1234"));
  sidecar.top.clear();
  EXPECT_THAT(snapshot_entry(sidecar).fields, testing::Not(Contains(testing::StartsWith("FLIGHTD_TOP_PID"))));
}

TEST(JournalEntries, APersonsSnapshotIsANotice) {
  Sidecar sidecar = sample_sidecar();
  for (const char* trigger : {"manual", "signal", "stop"}) {
    sidecar.trigger = trigger;
    EXPECT_EQ(snapshot_entry(sidecar).priority, Priority::notice) << trigger;
  }
  sidecar.trigger = "broker-lost";
  EXPECT_EQ(snapshot_entry(sidecar).priority, Priority::warning);
}

TEST(JournalEntries, ForeignTextIsOnOneLineAndBounded) {
  Sidecar sidecar = sample_sidecar();
  sidecar.reason = "a\nMESSAGE_ID=evil\x1b[2J";
  sidecar.requests.assign(1000, {0, 1, "x\ny", "", ""});
  const JournalEntry entry = snapshot_entry(sidecar);
  EXPECT_THAT(entry.fields, Contains("FLIGHTD_REASON=a?MESSAGE_ID=evil?[2J"));
  EXPECT_THAT(entry.fields, Contains("FLIGHTD_REQUESTED_BY=x?y[1] uid 0").Times(16));
  EXPECT_TRUE(is_printable(entry.message));
  const std::string evil = std::string(100'000, 'x') + "\n";
  for (const JournalEntry& other : {suppressed_entry({.trigger = evil, .count = 3, .by = evil}),
                                    blind_entry({.trigger = evil}), degraded_entry("disk", evil)}) {
    EXPECT_TRUE(is_printable(other.message));
    EXPECT_LE(other.message.size(), 1010U);
  }
}

TEST(JournalEntries, SuppressedOnesAreCounted) {
  const JournalEntry many = suppressed_entry({.trigger = "oom",
                                              .count = 997,
                                              .first = std::chrono::seconds(1'790'000'000),
                                              .last = std::chrono::seconds(1'790'000'060),
                                              .by = "storm guard"});
  EXPECT_THAT(many.message,
              AllOf(StartsWith("oom: 997 firings "), HasSubstr("suppressed by storm guard"),
                    HasSubstr("from 2026-09-21T14:13:20.000Z"), HasSubstr("to 2026-09-21T14:14:20.000Z")));
  EXPECT_THAT(many.fields,
              ElementsAre("MESSAGE_ID=780467055d8b419c8a7c497b4af8dc33", "FLIGHTD_TRIGGER=oom",
                          "FLIGHTD_SUPPRESSED=997", "FLIGHTD_SUPPRESSED_BY=storm guard",
                          "FLIGHTD_FIRST=2026-09-21T14:13:20.000Z", "FLIGHTD_LAST=2026-09-21T14:14:20.000Z"));
  EXPECT_THAT(suppressed_entry({.trigger = "oom", .count = 1, .by = "cooldown"}).message,
              HasSubstr("1 firing suppressed by cooldown, at 1970-01-01"));
}

TEST(JournalEntries, ABlindTriggerSaysUntilWhen) {
  const JournalEntry entry =
      blind_entry({.trigger = "oom", .max_per_day = 10, .until = std::chrono::seconds(1'790'000'000)});
  EXPECT_EQ(entry.priority, Priority::warning);
  EXPECT_THAT(entry.message, AllOf(StartsWith("oom: "), HasSubstr("max_per_day (10)"),
                                   testing::EndsWith("is blind until 2026-09-21T14:13:20.000Z")));
  EXPECT_THAT(entry.fields, ElementsAre("MESSAGE_ID=67101adf90e74eafbb245279e55d8adb", "FLIGHTD_TRIGGER=oom",
                                        "FLIGHTD_MAX_PER_DAY=10", "FLIGHTD_UNTIL=2026-09-21T14:13:20.000Z"));
}

TEST(JournalEntries, DegradedAndRecoveredNameTheirSubject) {
  const JournalEntry degraded = degraded_entry("disk", "it is full");
  EXPECT_EQ(degraded.priority, Priority::error);
  EXPECT_EQ(degraded.message, "it is full");
  EXPECT_THAT(degraded.fields, ElementsAre("MESSAGE_ID=e9b92a3c69c94002a11d5de30652aceb", "FLIGHTD_DEGRADED=disk"));
  EXPECT_THAT(recovered_entry("broker", "back").fields,
              ElementsAre("MESSAGE_ID=738c740d52594a51a8c1c1b70b937f41", "FLIGHTD_DEGRADED=broker"));
}

// Every id has an entry in the catalog, every entry has an id, and it uses only fields of the journal's entry.
TEST(Catalog, ExplainsEveryEntry) {
  std::set<std::string> in_header;
  const std::string header = text_of("daemon/notify/journal_entries.hpp");
  const std::regex id("\"([0-9a-f]{32})\"");
  for (auto at = std::sregex_iterator(header.begin(), header.end(), id); at != std::sregex_iterator(); ++at)
    in_header.insert((*at)[1]);
  EXPECT_EQ(in_header.size(), 5U);

  std::map<std::string, std::string> parts;
  std::istringstream catalog(text_of("systemd/flightd.catalog"));
  std::string current;
  for (std::string line; std::getline(catalog, line);) {
    if (line.starts_with("-- ")) current = line.substr(3);
    if (!current.empty()) parts[current] += line + "\n";
  }
  std::set<std::string> in_catalog;
  for (const auto& [name, text] : parts) in_catalog.insert(name);
  EXPECT_EQ(in_catalog, in_header);

  for (const JournalEntry& entry : {snapshot_entry(sample_sidecar()), suppressed_entry({}), blind_entry({}),
                                    degraded_entry("disk", "x"), recovered_entry("disk", "x")}) {
    std::set<std::string> fields;
    for (const std::string& field : entry.fields) fields.insert(field.substr(0, field.find('=')));
    const std::string message_id = entry.fields[0].substr(entry.fields[0].find('=') + 1);
    const std::string& text = parts[message_id];
    EXPECT_THAT(text, testing::AllOf(HasSubstr("\nSubject: "), HasSubstr("\nDefined-By: flightd\n\n"))) << message_id;
    const std::regex use("@([A-Z_]+)@");
    for (auto at = std::sregex_iterator(text.begin(), text.end(), use); at != std::sregex_iterator(); ++at)
      EXPECT_EQ(fields.count((*at)[1]), 1U) << (*at)[1] << " in " << text;
  }
}

}  // namespace
}  // namespace flight::daemon
