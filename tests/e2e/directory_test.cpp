// SPDX-License-Identifier: Apache-2.0
// flightctl record --layout directory: stock perf reads each part in place, a load's rising numbers are in them, each
// once, and the commands on snapshots take a directory as they take a file.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <vector>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/numbered_calls.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class RecordFolders : public testing::Test {
 protected:
  [[nodiscard]] static Json in_directories(Json config) {
    config["record"]["layout"] = "directory";
    return config;
  }
  // A channel with the calls of a load, which begins with go().
  Json calls_config(unsigned per_second, std::string_view ring) {
    closer_.emplace(
        start_load({folder_.load("closer"), std::to_string(load_cpu()), std::to_string(per_second), "200"}, 0, true));
    EXPECT_TRUE(closer_->wait_for_line("ready")) << closer_->err();
    Json config = in_directories(stacks_config(49, "64K"));
    config["channels"] = Json::object();
    config["channels"]["calls"] = {
        {"ring", ring},
        {"events",
         {{{"event", "raw_syscalls:sys_enter"},
           {"filter", fmt::format("id == {} && common_pid == {}", SYS_close, closer_->pid())}}}}};
    return config;
  }
  // The parts of the recordings in the store, in their order.
  static std::vector<Json> parts_in(const TestDaemon& daemon) {
    std::vector<Json> parts;
    for (const Json& row : daemon.ctl_json({"list"}))
      if (row.contains("record")) parts.push_back(daemon.ctl_json({"info", row["id"]}));
    return parts;
  }
  static std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  // It may get another name meanwhile.
  static std::uint64_t bytes_in(const std::string& path) {
    std::uint64_t sum = 0;
    std::error_code gone;
    for (fs::directory_iterator at(path, gone), end; !gone && at != end; at.increment(gone)) {
      std::error_code unknown;
      const std::uint64_t bytes = at->file_size(unknown);
      if (!unknown) sum += bytes;
    }
    return sum;
  }
  // A directory that perf takes: root owns the files, and nothing else begins with "data.".
  static void expect_folder(const Json& part, std::size_t workers) {
    const std::string path = part["path"];
    SCOPED_TRACE(path);
    ASSERT_TRUE(fs::is_directory(path));
    std::vector<std::string> expected{"data"};
    for (std::size_t i = 0; i < workers; ++i) expected.push_back(fmt::format("data.{}", i));
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(names_in(path), expected);
    EXPECT_EQ(part["size_bytes"], bytes_in(path));
    for (const std::string& name : expected) {
      struct stat found {};
      ASSERT_EQ(::stat((path + "/" + name).c_str(), &found), 0);
      EXPECT_EQ(found.st_uid, 0U) << name;
    }
  }
  // A part has no LOST records, so perf does not know of its holes. --no-inline: as in record_test.
  void expect_perf_reads(Json part, const std::string& comm, bool every_perf = false) const {
    SCOPED_TRACE(part["path"]);
    part["holes"] = Json::array();
    EXPECT_TRUE(every_perf ? all_count_all(folder_, part) : counts_all(Verifier::installed(), folder_, part));
    const Outcome report =
        Verifier::installed().perf(folder_, {"report", "-i", part["path"], "--stdio", "--no-inline", "--sort", "comm"});
    EXPECT_EQ(report.exit_status, 0) << report.text();
    EXPECT_THAT(report.out, HasSubstr(comm));
    EXPECT_TRUE(stderr_is_right(report, false));
  }
  [[nodiscard]] std::uint64_t open_part_bytes() const {
    std::uint64_t most = 0;
    for (const auto& entry : fs::directory_iterator(daemon_.snapshots_dir()))
      if (entry.path().filename().string().starts_with(".flightd-part-") && entry.is_directory())
        most = std::max(most, bytes_in(entry.path()));
    return most;
  }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::optional<Child> closer_;
};
using RecordFoldersLong = RecordFolders;

// The only one that the gate runs.
TEST_F(RecordFolders, EveryPerfReadsThemInPlace) {
  Json config = stacks_config(997, "256K");
  config["record"]["workers"] = 3;
  ASSERT_TRUE(daemon_.start(config));
  Child recorder = Child::start(daemon_.ctl_command({"--json", "record", "--layout", "directory"}));
  ASSERT_TRUE(wait_until([&] { return open_part_bytes() > 0; }, 20s)) << recorder.err();
  EXPECT_TRUE(parts_in(daemon_).empty()) << "a part that is not whole is listed";
  // It begins meanwhile: its names come from `data`, its samples from the other files.
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "1"});
  EXPECT_EQ(burner.finish(30s).exit_status, 0);
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(30s);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const Json result = Json::parse(outcome.out);
  const std::vector<Json> parts = parts_in(daemon_);
  ASSERT_EQ(parts.size(), 1U);
  const Json& part = parts[0];
  const std::string path = part["path"];
  EXPECT_EQ(part["path"], result["paths"][0]);
  EXPECT_EQ(part["samples"], result["progress"]["events"]);
  ASSERT_NO_FATAL_FAILURE(expect_folder(part, 3));
  expect_perf_reads(part, "burner", true);
  std::size_t hot = 0;
  for (const NamedSample& sample : named_samples(folder_, path))
    if (sample.comm == "burner" && sample.has_symbol() && sample.dso.ends_with("/burner")) ++hot;
  EXPECT_GT(hot, 100U);

  const Verifier& perf = Verifier::installed();
  const Outcome header = perf.perf(folder_, {"report", "-i", path, "--header-only"});
  EXPECT_EQ(header.err, "");
  EXPECT_THAT(header.out, HasSubstr("# time of first sample"));
  EXPECT_THAT(header.out, HasSubstr("# compressed : Zstd"));
  const std::string cpu = std::to_string(load_cpu());
  const Outcome one_cpu = perf.perf(folder_, {"script", "-i", path, "--cpu", cpu, "-F", "cpu"});
  EXPECT_EQ(one_cpu.err, "");
  EXPECT_GT(count_lines(one_cpu.out), 100U);
  const Outcome all_cpus = perf.perf(folder_, {"script", "-i", path, "-F", "cpu"});
  EXPECT_EQ(count_lines(one_cpu.out), count_of(all_cpus.out, fmt::format("[{:0>3}]", cpu)));
  EXPECT_EQ(count_lines(one_cpu.out), count_of(one_cpu.out, fmt::format("[{:0>3}]", cpu)));
  // A user whose only group is the snapshots'.
  EXPECT_TRUE(counts_all(perf, folder_, part, Reader::member));
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(daemon_.stop());
}

// perf records the same load into a directory of its own meanwhile: its header, its script of a CPU and its report are
// the same of both.
TEST_F(RecordFoldersLong, PerfReadsThemAsItsOwn) {
  ASSERT_TRUE(daemon_.start(in_directories(stacks_config(997, "256K"))));
  const Verifier& perf = Verifier::installed();
  const std::string own = folder_ / "scratch/own", cpu = std::to_string(load_cpu());
  Child theirs = Child::start({"perf", "record", "-q", "-N", "-a", "-z", "--threads=cpu", "-k", "mono", "-e",
                               "cpu-clock", "-F", "997", "-o", own},
                              {.env = {"HOME=" + folder_ / "scratch"}});
  ASSERT_TRUE(wait_until([&] { return bytes_in(own) > 0 && fs::exists(own + "/data.0"); }, 30s)) << theirs.err();
  Child recorder = Child::start(daemon_.ctl_command({"--json", "record"}));
  ASSERT_TRUE(wait_until([&] { return open_part_bytes() > 0; }, 20s)) << recorder.err();
  Child burner = start_load({folder_.load("burner"), cpu, "2"}, -10);
  EXPECT_EQ(burner.finish(30s).exit_status, 0);
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(30s);
  theirs.signal(SIGINT);
  EXPECT_TRUE(theirs.wait(60s)) << "perf did not end";
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const std::vector<Json> parts = parts_in(daemon_);
  ASSERT_EQ(parts.size(), 1U);
  const std::string path = parts[0]["path"];

  const auto header_of = [&](const std::string& file) {
    return lines_of(perf.perf(folder_, {"report", "-i", file, "--header-only"}).out);
  };
  const auto line_of = [](const std::vector<std::string>& header, const std::string& begin) {
    const auto found =
        std::find_if(header.begin(), header.end(), [&](const std::string& line) { return line.starts_with(begin); });
    return found == header.end() ? std::string() : *found;
  };
  const std::vector<std::string> header = header_of(path), own_header = header_of(own);
  for (const char* fact :
       {"# header version", "# hostname", "# os release", "# arch", "# nrcpus online", "# nrcpus avail", "# cpudesc",
        "# cpuid", "# total memory", "# CPU_TOPOLOGY", "# NUMA_TOPOLOGY", "# clockid frequency",
        "# directory data version", "# clockid: monotonic"}) {
    EXPECT_EQ(line_of(header, fact), line_of(own_header, fact));
  }
  for (const char* fact : {"# directory data version : 1", "# perf version", "# cmdline", "# event : name = cpu-clock",
                           "# pmu mappings", "# time of first sample", "# time of last sample", "# sample duration",
                           "# compressed : Zstd", "# reference time"}) {
    EXPECT_NE(line_of(header, fact), "") << fact;
    EXPECT_NE(line_of(own_header, fact), "") << fact << " is not in perf's own";
  }

  const auto samples_of = [&](const std::string& file) {
    const Outcome script = perf.perf(folder_, {"script", "-i", file, "--cpu", cpu, "-F", "comm,cpu"});
    EXPECT_EQ(count_lines(script.out), count_of(script.out, fmt::format("[{:0>3}]", cpu))) << script.err;
    return static_cast<double>(count_of(script.out, "burner"));
  };
  const double own_samples = samples_of(own);
  EXPECT_GT(own_samples, 500);
  EXPECT_NEAR(samples_of(path), own_samples, own_samples / 10);
  for (const std::string& file : {path, own}) {
    const Outcome report = perf.perf(folder_, {"report", "-i", file, "--stdio", "--no-inline", "--sort", "comm,dso"});
    EXPECT_EQ(report.exit_status, 0) << report.text();
    EXPECT_THAT(report.out, testing::ContainsRegex("burner +burner"));
  }
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(RecordFoldersLong, PartsHaveEachNumberOnce) {
  Json config = calls_config(20'000, "4M");
  config["snapshot"]["compression"] = "none";
  ASSERT_TRUE(daemon_.start(config));
  closer_->go();
  const std::string copy = folder_ / "copy";
  Child recorder =
      Child::start(daemon_.ctl_command({"--json", "record", "--switch-size", "1M", "--channel", "calls", "-o", copy}));
  ASSERT_TRUE(wait_until([&] { return parts_in(daemon_).size() >= 2; }, 30s)) << recorder.err() << daemon_.log();
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(30s);
  closer_->kill();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const std::string id = Json::parse(outcome.out)["id"];
  const std::vector<Json> parts = parts_in(daemon_);
  ASSERT_GE(parts.size(), 3U);
  EXPECT_GT(expect_each_once(parts), 10'000U);
  for (const Json& part : parts) expect_perf_reads(part, "closer");

  // Each was copied as a tar when it was whole; `get` does the same.
  EXPECT_EQ(daemon_.ctl({"get", id, "-o", copy + "-again"}).exit_status, 0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string suffix = i == 0 ? "" : fmt::format(".{}", i + 1);
    EXPECT_TRUE(read_text(copy + suffix) == read_text(copy + "-again" + suffix)) << suffix;
    const std::string path = parts[i]["path"];
    ASSERT_EQ(run({"tar", "-C", folder_ / "scratch", "-xf", copy + suffix}).exit_status, 0);
    const std::string unpacked = folder_ / "scratch/" + fs::path(path).filename().string();
    for (const std::string& name : names_in(path))
      EXPECT_TRUE(read_text(unpacked + "/" + name) == read_text(path + "/" + name)) << unpacked << " " << name;
    EXPECT_EQ(names_in(unpacked), names_in(path));
  }
  EXPECT_EQ(daemon_.ctl({"pin", id}).exit_status, 0);
  EXPECT_TRUE(parts_in(daemon_).size() == parts.size());
  EXPECT_EQ(daemon_.ctl({"remove", id}).exit_status, 0);
  EXPECT_TRUE(parts_in(daemon_).empty());
  for (const Json& part : parts) EXPECT_FALSE(fs::exists(part["path"].get<std::string>()));
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(RecordFoldersLong, ReportGetAndRepairTakeThem) {
  ASSERT_TRUE(daemon_.start(in_directories(stacks_config(997, "256K"))));
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "20"}, -10);
  const Json result = daemon_.ctl_json({"record", "--for", "1s", "--past", "5s"});
  burner.kill();
  const std::string id = result["id"];
  const Json part = daemon_.ctl_json({"info", id});
  const Outcome report = daemon_.ctl({"report", id, "--stdio", "--sort", "comm", "-g", "none"});
  EXPECT_EQ(report.exit_status, 0) << report.text();
  EXPECT_THAT(report.out, HasSubstr("burner"));

  // Without compression it is one file, with the same samples.
  Json plain = part;
  plain["path"] = folder_ / "scratch/plain.perf.data";
  const Outcome got = daemon_.ctl({"get", id, "--plain", "-o", plain["path"]});
  ASSERT_EQ(got.exit_status, 0) << got.text();
  expect_perf_reads(plain, "burner");

  const std::string tar = folder_ / "scratch/x.tar";
  ASSERT_EQ(daemon_.ctl({"get", id, "--with-symbols", "-o", tar}, 120s).exit_status, 0);
  ASSERT_EQ(run({"tar", "-C", folder_ / "scratch", "-xf", tar}).exit_status, 0);
  const std::string name = fs::path(part["path"].get<std::string>()).filename();
  Json there = part;
  there["path"] = folder_ / "scratch/" + name.substr(0, name.size() - 10) + "/" + name;
  expect_perf_reads(there, "burner");

  // A directory whose sidecar is gone gets another one.
  const std::string sidecar = part["path"].get<std::string>().substr(0, part["path"].get<std::string>().size() - 10);
  ASSERT_TRUE(fs::remove(sidecar + ".json"));
  const Json again = daemon_.ctl_json({"info", id});
  EXPECT_EQ(again["samples"], part["samples"]);
  EXPECT_EQ(again["size_bytes"], part["size_bytes"]);
  EXPECT_TRUE(daemon_.stop());
}

// The part that was open is finished by the next flightd.
TEST_F(RecordFoldersLong, AKilledFlightdLeavesWholeDirectories) {
  Json config = calls_config(20'000, "4M");
  config["snapshot"]["compression"] = "none";
  config["record"]["workers"] = 2;
  ASSERT_TRUE(daemon_.start(config));
  closer_->go();
  Child recorder = Child::start(daemon_.ctl_command({"record", "--switch-size", "4M"}));
  ASSERT_TRUE(wait_until([&] { return !parts_in(daemon_).empty(); }, 30s)) << recorder.err() << daemon_.log();
  // More than what it begins with, which is the names of all processes.
  ASSERT_TRUE(wait_until([&] { return open_part_bytes() > 2U << 20U && open_part_bytes() < 7U << 19U; }, 20s));
  daemon_.process().kill();
  EXPECT_EQ(recorder.finish(20s).exit_status, 1);
  TestDaemon next(folder_);
  ASSERT_TRUE(next.start(config));
  const auto last = [&] {
    const std::vector<Json> parts = parts_in(next);
    return parts.empty() ? Json() : parts.back()["record"]["ended"];
  };
  EXPECT_TRUE(wait_until([&] { return last() == "killed"; }, 30s)) << next.log();
  const std::vector<Json> parts = parts_in(next);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_GT(parts.back()["samples"], 1000U);
  expect_each_once(parts);
  for (const Json& part : parts) {
    ASSERT_NO_FATAL_FAILURE(expect_folder(part, 2));
    expect_perf_reads(part, "closer");
  }
  EXPECT_TRUE(no_partials(next.snapshots_dir()));
  EXPECT_TRUE(next.stop());
}

TEST_F(RecordFoldersLong, ASnapshotCanBeOne) {
  Json config = stacks_config(997, "256K");
  config["snapshot"]["layout"] = "directory";
  config["snapshot"]["workers"] = 2;
  ASSERT_TRUE(daemon_.start(config));
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "20"}, -10);
  ASSERT_TRUE(wait_until([&] { return daemon_.snapshot({"--last", "1s"})["samples"] > 500; }, 20s));
  // The second one has the hole that the pause of the first one left.
  static_cast<void>(daemon_.snapshot({"--capture", "pause"}));
  const Json snapshot = daemon_.snapshot({"--capture", "pause"});
  burner.kill();
  ASSERT_NO_FATAL_FAILURE(expect_folder(snapshot, 2));
  EXPECT_GT(bytes_in(snapshot["path"]), 0U);
  EXPECT_TRUE(all_count_all(folder_, snapshot));
  std::size_t hot = 0;
  for (const NamedSample& sample : named_samples(folder_, snapshot["path"]))
    if (sample.comm == "burner" && sample.has_symbol() && sample.dso.ends_with("/burner")) ++hot;
  EXPECT_GT(hot, 100U);
  const Outcome report = daemon_.ctl({"report", snapshot["id"], "--stdio", "--sort", "comm", "-g", "none"});
  EXPECT_EQ(report.exit_status, 0) << report.text();
  EXPECT_THAT(report.out, HasSubstr("burner"));
  EXPECT_EQ(daemon_.ctl({"remove", snapshot["id"]}).exit_status, 0);
  EXPECT_FALSE(fs::exists(snapshot["path"].get<std::string>()));
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(RecordFoldersLong, CompressedPartsHaveEachNumberOnce) {
  ASSERT_TRUE(daemon_.start(calls_config(sanitized() ? 20'000 : 200'000, "16M")));
  closer_->go();
  const Json result = daemon_.ctl_json({"record", "--for", "10s", "--switch-size", "1M"});
  closer_->kill();
  const std::vector<Json> parts = parts_in(daemon_);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_EQ(expect_each_once(parts), result["progress"]["events"]);
  for (const Json& part : parts) expect_perf_reads(part, "closer", &part == &parts.back());
  EXPECT_TRUE(daemon_.stop());
}

// After the recording its parts are over the budget: whole directories go.
TEST_F(RecordFoldersLong, TheBudgetDeletesThem) {
  Json config = calls_config(20'000, "4M");
  config["snapshot"]["compression"] = "none";
  config["store"]["max_files"] = 8;
  config["store"]["keep_first"] = 0;
  config["store"]["keep_last"] = 0;
  ASSERT_TRUE(daemon_.start(config));
  closer_->go();
  for (int i = 0; i < 4; ++i) {
    const Json result = daemon_.ctl_json({"record", "--for", "1500ms", "--switch-size", "1M"});
    EXPECT_EQ(result["ended"], "asked");
  }
  closer_->kill();
  EXPECT_EQ(daemon_.ctl({"vacuum"}).exit_status, 0);
  const std::vector<Json> parts = parts_in(daemon_);
  EXPECT_LE(parts.size(), 8U);
  EXPECT_GE(parts.size(), 1U);
  std::size_t folders = 0;
  for (const auto& entry : fs::directory_iterator(daemon_.snapshots_dir())) folders += entry.is_directory() ? 1 : 0;
  EXPECT_EQ(folders, parts.size());
  for (const Json& part : parts) expect_perf_reads(part, "closer");
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
