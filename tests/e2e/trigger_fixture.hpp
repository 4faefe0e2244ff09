// SPDX-License-Identifier: Apache-2.0
// A running flightd and the state of its triggers.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/daemon_test.hpp"

namespace flight {

class TriggerTest : public DaemonTest {
 protected:
  explicit TriggerTest(Json triggers, Json storm_guard = Json::object())
      : DaemonTest(with(std::move(triggers), std::move(storm_guard))) {}

  // A row of `flightctl triggers`; null if there is none.
  [[nodiscard]] Json trigger(std::string_view name) const {
    for (const Json& row : daemon_.ctl_json({"triggers"}))
      if (row["name"] == name) return row;
    return {};
  }
  [[nodiscard]] std::map<std::string, std::uint64_t> fired() const {
    std::map<std::string, std::uint64_t> out;
    for (const Json& row : daemon_.ctl_json({"triggers"})) out[row["name"]] = row["fired"];
    return out;
  }
  // The triggers that have fired since `before`.
  [[nodiscard]] std::set<std::string> fired_since(const std::map<std::string, std::uint64_t>& before) const {
    std::set<std::string> out;
    for (const auto& [name, count] : fired())
      if (count != before.at(name)) out.insert(name);
    return out;
  }
  // The newest snapshot with this trigger's name; null if there is none.
  [[nodiscard]] Json newest_of(std::string_view name) const {
    Json newest;
    for (const Json& row : daemon_.ctl_json({"list"}))
      if (row["trigger"] == name) newest = row;
    return newest.is_null() ? Json() : daemon_.ctl_json({"info", newest["id"]});
  }
  [[nodiscard]] Json await_snapshot_of(std::string_view name) const {
    Json found;
    // Looks into the store: a client that polls keeps a CPU busy, which triggers measure.
    const auto is_sidecar = [](const std::string& file) { return file.ends_with(".json"); };
    const auto there = [&] {
      std::this_thread::sleep_for(50ms);
      const std::vector<std::string> written = files(fmt::format("-{}-", name));
      return std::any_of(written.begin(), written.end(), is_sidecar) && !(found = newest_of(name)).is_null();
    };
    EXPECT_TRUE(wait_until(there, 60s)) << name << daemon_.ctl({"triggers"}).text();
    return found;
  }

 private:
  static Json with(Json triggers, Json storm_guard) {
    Json config = stacks_config(199, "1M");
    config["triggers"] = std::move(triggers);
    if (!storm_guard.empty()) config["storm_guard"] = std::move(storm_guard);
    return config;
  }
};

}  // namespace flight
