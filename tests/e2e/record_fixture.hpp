// SPDX-License-Identifier: Apache-2.0
// A flightd whose recordings have the rising numbers of a load, and what is in the store and on the disk of them.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "libcore/store/names.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/journaled.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {

class Record : public testing::Test {
 protected:
  // A channel with the calls of a load, which begins with go(). It is not above the others: a worker of the recording
  // shares its CPU.
  Json calls_config(unsigned per_second, std::string_view ring) {
    closer_.emplace(
        start_load({folder_.load("closer"), std::to_string(load_cpu()), std::to_string(per_second), "200"}, 0, true));
    EXPECT_TRUE(closer_->wait_for_line("ready")) << closer_->err();
    Json config = stacks_config(49, "64K");
    config["channels"] = Json::object();
    config["channels"]["calls"] = {
        {"ring", ring},
        {"events",
         {{{"event", "raw_syscalls:sys_enter"},
           {"filter", fmt::format("id == {} && common_pid == {}", SYS_close, closer_->pid())}}}}};
    return config;
  }
  // About 2.6 MiB of a file in a second: a part of 1 MiB has some 8,000 calls.
  Json plain_calls_config(std::string_view ring = "4M") {
    Json config = calls_config(20'000, ring);
    config["snapshot"]["compression"] = "none";
    return config;
  }
  void start_calls(const Json& config) {
    ASSERT_TRUE(daemon_.start(config, options_));
    closer_->go();
  }

  // Record with `more`. Its first reply has the id.
  [[nodiscard]] std::pair<RawSocket, std::string> begin(const Json& parameters = Json::object()) const {
    RawSocket socket = RawSocket::connect(daemon_.socket());
    const Json call = {{"method", "io.flightd.Recorder.Record"}, {"parameters", parameters}, {"more", true}};
    EXPECT_TRUE(socket.call(call.dump()));
    const Json reply = Json::parse(socket.receive().value_or("{}"), nullptr, false);
    const std::string id = reply.value("/parameters/id"_json_pointer, "");
    EXPECT_FALSE(id.empty()) << reply;
    return {std::move(socket), id};
  }
  // Reads the replies to it, which come once a second, until so many events are in files.
  [[nodiscard]] static bool has_events(RawSocket& socket, std::uint64_t events) {
    const Stopwatch watch;
    while (watch.gone_by() < 60s) {
      const auto text = socket.receive();
      if (!text) return false;
      const Json reply = Json::parse(*text, nullptr, false);
      if (reply.value("/parameters/progress/events"_json_pointer, std::uint64_t(0)) >= events) return true;
    }
    return false;
  }
  // The last reply to it.
  static Json result_of(RawSocket& socket) {
    for (;;) {
      const Json reply = Json::parse(socket.receive(60s).value_or("{}"), nullptr, false);
      if (!reply.value("continues", false)) return reply.value("/parameters/recording"_json_pointer, Json::object());
      EXPECT_TRUE(reply.contains("/parameters/progress"_json_pointer)) << reply;
    }
  }
  [[nodiscard]] Json stop(const std::string& id) const { return daemon_.ctl_json({"record", "--stop", id}); }

  // The rows of the list that belong to a recording; of any, if `first` is empty.
  static std::vector<Json> rows_of(const TestDaemon& daemon, const std::string& first = {}) {
    std::vector<Json> rows;
    for (const Json& row : daemon.ctl_json({"list"}))
      if (row.contains("record") && (first.empty() || row["record"]["first"] == first)) rows.push_back(row);
    return rows;
  }
  static std::vector<Json> sidecars_of(const TestDaemon& daemon, const std::string& first) {
    std::vector<Json> sidecars;
    for (const Json& row : rows_of(daemon, first)) sidecars.push_back(daemon.ctl_json({"info", row["id"]}));
    for (std::size_t i = 0; i < sidecars.size(); ++i) {
      EXPECT_EQ(sidecars[i]["kind"], "recording");
      EXPECT_EQ(sidecars[i]["record"]["first"], first);
      EXPECT_EQ(sidecars[i]["record"]["part"], i + 1);
      EXPECT_EQ(i + 1 != sidecars.size(), sidecars[i]["record"]["ended"].is_null()) << sidecars[i]["record"];
    }
    return sidecars;
  }
  // The sum of the pauses of the load's ring.
  static std::uint64_t paused_ns(const Json& part) {
    std::uint64_t sum = 0;
    for (const Json& hole : part["holes"])
      if (hole["cause"] == "paused" && hole["cpu"] == load_cpu())
        sum += hole["end_ns"].get<std::uint64_t>() - hole["begin_ns"].get<std::uint64_t>();
    return sum;
  }
  // The number of events that were in files, by the last report of flightd before it was killed.
  static std::uint64_t events_reported(RawSocket& socket) {
    std::uint64_t most = 0;
    while (const auto text = socket.receive()) {
      const Json reply = Json::parse(*text, nullptr, false);
      most = std::max(most, reply.value("/parameters/progress/events"_json_pointer, std::uint64_t(0)));
    }
    return most;
  }
  // A pause of the load's ring is in the journal, and so is an event after `from_ns`.
  static bool has_pause_and_events(const JournalContents& journal, std::uint64_t from_ns) {
    if (journal.entries.empty() || journal.entries.back().newest_ns <= from_ns) return false;
    for (const auto& [number, notes] : journal.notes) {
      if (number >= journal.entries.size()) continue;  // its round is not written yet
      for (const JournaledHole& one : notes.holes)
        if (one.cpu == load_cpu() && one.hole.cause == HoleCause::paused) return true;
    }
    return false;
  }
  // The next flightd has neither finished nor removed it yet.
  static bool has_unfinished_part(const TestDaemon& daemon) {
    for (const auto& entry : std::filesystem::directory_iterator(daemon.snapshots_dir()))
      if (parse_part_file(entry.path().filename().string())) return true;
    return false;
  }
  // The bytes of the largest part that is not whole; 0: none is being written.
  [[nodiscard]] std::uintmax_t partial_bytes() const {
    std::uintmax_t most = 0;
    for (const auto& entry : std::filesystem::directory_iterator(daemon_.snapshots_dir())) {
      std::error_code gone;
      if (!entry.path().filename().string().starts_with(".flightd-part-")) continue;
      if (const std::uintmax_t bytes = entry.file_size(gone); !gone) most = std::max(most, bytes);
    }
    return most;
  }

  // `perf script` prints each sample, `perf report` has the load, and neither complains. Without --no-inline perf
  // starts addr2line for programs with debug information, such as flightd.
  void expect_perf_reads(const Json& part, const std::string& comm, bool every_perf = false) const {
    const Json sidecar = as_perf_sees(part);
    SCOPED_TRACE(sidecar["path"]);
    EXPECT_TRUE(every_perf ? all_count_all(folder_, sidecar) : counts_all(Verifier::installed(), folder_, sidecar));
    const Outcome report = Verifier::installed().perf(
        folder_, {"report", "-i", sidecar["path"], "--stdio", "--no-inline", "--sort", "comm"});
    EXPECT_EQ(report.exit_status, 0) << report.text();
    EXPECT_THAT(report.out, testing::HasSubstr(comm));
    EXPECT_TRUE(stderr_is_right(report, !sidecar["holes"].empty()));
  }

  TempFolder folder_;
  StartOptions options_;
  TestDaemon daemon_{folder_};
  std::optional<Child> closer_;
};
using RecordLong = Record;

}  // namespace flight
