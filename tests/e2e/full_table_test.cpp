// SPDX-License-Identifier: Apache-2.0
// A machine on which no file can be opened. A program that starts meanwhile has no build-id, and snapshots say so, so
// this test runs alone.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/e2e/limits_fixture.hpp"

namespace flight {
namespace {

using FullTableLong = Limits;

// fs.file-max is reached, and others take at once what is closed. It is the whole machine's, so it is not lowered here:
// see tests/e2e/loads/full_table.cpp.
TEST_F(FullTableLong, WithNoFileLeftOnTheMachineASnapshotIsTakenAndItEndsInOrder) {
  const std::string control = folder_ / "full";
  write_text(control, "0");
  options_.prefix = without_leak_check();
  options_.prefix.insert(options_.prefix.end(), {folder_.load("full_table"), control});
  add_trigger();
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  RawSocket socket = RawSocket::connect(daemon.socket());
  const auto prepared = [&] { return is_prepared(daemon.pid()) && is_prepared(daemon.broker_pid()); };
  // How often flightd's main thread was refused a file.
  const auto refused = [&] {
    const std::string text = read_text(control);
    const std::size_t at = text.rfind(' ');
    return at == std::string::npos ? 0 : std::stoul(text.substr(at));
  };
  // Reading a file for its build-id opens some: what runs must be known before there are none.
  const auto all_known = [&] { return daemon.snapshot().value("warnings", Json::array()).empty(); };
  for (const Way& way : ways(daemon, socket)) {
    ASSERT_TRUE(wait_until(all_known, 30s)) << daemon.ctl({"info", "latest"}).text();
    ASSERT_TRUE(wait_until(prepared, 30s)) << "they are taken again as soon as they can be had";
    write_text(control, "1");
    expect_snapshot(daemon, way);
    ASSERT_TRUE(wait_until([&] { return refused() > 0; }, 30s));
    write_text(control, "0");
    const Json sidecar = daemon.ctl_json({"info", "latest"});
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
    EXPECT_EQ(sidecar["blackout"]["lost_exact"], true);
    EXPECT_EQ(sidecar.value("warnings", Json::array()), Json::array());
  }
  write_text(control, "1");
  EXPECT_TRUE(daemon.stop());
}

TEST_F(FullTableLong, WhereRootHasOpenedFilesAboveTheLimitASnapshotIsTaken) {
  const std::string control = folder_ / "full";
  write_text(control, "0");
  options_.prefix = without_leak_check();
  options_.prefix.insert(options_.prefix.end(), {folder_.load("full_table"), control});
  add_trigger();
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  RawSocket socket = RawSocket::connect(daemon.socket());
  const auto prepared = [&] { return is_prepared(daemon.pid()) && is_prepared(daemon.broker_pid()); };
  const auto all_known = [&] { return daemon.snapshot().value("warnings", Json::array()).empty(); };
  ASSERT_TRUE(wait_until(all_known, 30s)) << daemon.ctl({"info", "latest"}).text();
  ASSERT_TRUE(wait_until(prepared, 30s));
  write_text(control, "2");
  expect_snapshot(daemon, ways(daemon, socket).front());
  write_text(control, "0");
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, daemon.ctl_json({"info", "latest"})));
  EXPECT_TRUE(daemon.stop());
}

}  // namespace
}  // namespace flight
