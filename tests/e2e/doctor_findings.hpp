// SPDX-License-Identifier: Apache-2.0
// What flightctl doctor prints as JSON, checked for its form.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/e2e/daemon_fixture.hpp"

namespace flight {

using DoctorFindings = std::map<std::string, Json>;

// The findings by their check, as `flightctl --json doctor` prints them. If a check appears several times, the last one
// counts.
inline DoctorFindings doctor_findings(const Outcome& outcome) {
  const Json json = Json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(json.is_array()) << outcome.text();
  DoctorFindings found;
  bool fails = false;
  for (const Json& finding : json) {
    EXPECT_EQ(finding.size(), 5U) << finding;
    for (const char* key : {"check", "state", "found", "why"}) EXPECT_NE(finding.value(key, ""), "") << finding;
    const std::string state = finding.value("state", "");
    EXPECT_THAT(state, testing::AnyOf("ok", "note", "warn", "fail"));
    // Facts of the machine that flightd reports need nothing to be done.
    const bool is_fact = state == "note" && finding.value("why", "") == "reported by flightd";
    EXPECT_TRUE(state == "ok" || is_fact || !finding.value("do", "").empty()) << finding;
    fails = fails || state == "fail";
    found[finding.value("check", "")] = finding;
  }
  EXPECT_EQ(outcome.exit_status, fails ? 1 : 0) << outcome.text();
  EXPECT_EQ(outcome.err, "");
  return found;
}

}  // namespace flight
