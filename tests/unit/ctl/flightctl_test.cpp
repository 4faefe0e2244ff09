// SPDX-License-Identifier: Apache-2.0
// What scripts rely on: exit codes, --json, and what goes to stdout and to stderr.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <regex>

#include "libcore/base/version.hpp"
#include "tests/unit/control/varlink_idl.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"

namespace flight {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(FlightctlTest, HelpAndVersionAreNoErrors) {
  const Outcome help = bare({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word :
       {"status", "snapshot", "record", "list",   "info",   "get",    "remove",   "pin",      "unpin",
        "pause",  "resume",   "report", "vacuum", "reload", "config", "triggers", "fire",     "monitor",
        "doctor", "bridge",   "help",   "export", "stacks", "html",   "--json",   "--socket", "--host"})
    EXPECT_THAT(help.out, HasSubstr(word));
  EXPECT_THAT(bare({"snapshot", "--help"}).out, AllOf(HasSubstr("--last"), HasSubstr("--capture"), HasSubstr("-o")));
  EXPECT_EQ(bare({"snapshot", "--help"}).code, 0);
  EXPECT_EQ(bare({"--version"}).out, std::string("flightctl ") + std::string(kVersion) + "\n");
  EXPECT_EQ(bare({"--version"}).code, 0);
}

// Each command's help lists its arguments and an example, and `help COMMAND` prints the same.
TEST_F(FlightctlTest, EveryCommandExplainsItself) {
  const std::string all = bare({"help"}).out;
  EXPECT_EQ(all, bare({"--help"}).out);
  EXPECT_LT(std::count(all.begin(), all.end(), '\n'), 24) << "it does not fit on a screen";
  int commands = 0;
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LT(line.size(), 80U) << line;
    std::smatch found;
    if (!std::regex_search(line, found, std::regex("^  ([a-z][a-z, ()]*[a-z)])  "))) continue;
    const std::string names = found[1];
    const std::regex name("\\(?[a-z]+");  // another name of the same command is in parentheses
    for (auto at = std::sregex_iterator(names.begin(), names.end(), name); at != std::sregex_iterator(); ++at) {
      const std::string command = at->str();
      if (command[0] == '(') continue;
      SCOPED_TRACE(command);
      ++commands;
      const Outcome help = bare({command, "--help"});
      EXPECT_EQ(help.code, 0);
      EXPECT_THAT(help.out, AllOf(HasSubstr("Usage: flightctl " + command), HasSubstr("Example:\n  ")));
      EXPECT_EQ(bare({"help", command}).out, help.out);
    }
  }
  EXPECT_EQ(commands, 26);
  EXPECT_EQ(bare({"help", "rm"}).out, bare({"remove", "--help"}).out);
  for (const char* own : {"list", "enable", "disable", "test"}) {
    const std::string help = bare({"triggers", own, "--help"}).out;
    EXPECT_THAT(help, HasSubstr(std::string("Usage: flightctl triggers ") + own));
    EXPECT_EQ(bare({"help", "triggers", own}).out, help);
  }
}

TEST_F(FlightctlTest, EveryUsageErrorIsTwo) {
  const std::vector<std::vector<std::string>> wrong{
      {"nonsense"},
      {"--nonsense"},
      {"status", "extra"},
      {"list", "status"},
      {"info", "abc"},
      {"info", "-1"},
      {"remove"},
      {"remove", "1", "x"},
      {"rm", "latest", "latest"},
      {"remove", "7", "8", "7"},
      {"pin"},
      {"pin", "x"},
      {"unpin", "1", "1"},
      {"get", "x"},
      {"get", "1", "1"},
      {"get", "1", "2", "-o", "x"},
      {"get", "-o", ""},
      {"get", "--with-symbols", "x"},
      {"get", "--with-symbols", "--plain"},
      {"report", "--stdio"},
      {"report", "seven", "--stdio"},
      {"report", "--perf", "", "1"},
      {"vacuum", "1"},
      {"vacuum", "--dry"},
      {"list", "-n", "0"},
      {"list", "-n", "-3"},
      {"list", "-1", "-n", "3"},
      {"list", "--since", "soon"},
      {"list", "--until", ""},
      {"list", "--trigger", ""},
      {"list", "--since", "-1h", "--until", "-2h"},
      {"pause", "now"},
      {"record", "extra"},
      {"record", "--for", "0s"},
      {"record", "--past", "soon"},
      {"record", "--max-size", "1"},
      {"record", "--switch-size", "2G"},
      {"record", "--layout", "folder"},
      {"record", "-o", "-"},
      {"record", "--stop", "latest"},
      {"record", "--stop", "7", "--for", "1s"},
      {"resume", "1"},
      {"monitor", "1"},
      {"doctor", "1"},
      {"bridge", "1"},
      {"help", "nonsense"},
      {"help", "triggers", "nonsense"},
      {"help", "status", "triggers"},
      {"help", "list", "get"},
      {"get", "--force=maybe"},
      {"--host", "web3;x", "list"},
      {"--host"},
      {"--host=", "list"},
      {"--reason=", "snapshot"},
      {"reload", "1"},
      {"config", "x", "y"},
      {"--socket"},
      {"--socket", "", "list"},
      {"snapshot", "--last"},
      {"snapshot", "--last", "10"},
      {"snapshot", "--last", "10parsecs"},
      {"snapshot", "--last", "0s"},
      {"snapshot", "--last", ""},
      {"snapshot", "--last=-5s"},
      {"snapshot", "--last", "2000d"},
      {"snapshot", "--last", "10s", "--since", "03:10"},
      {"snapshot", "--last", "10s", "--until", "03:10"},
      {"snapshot", "--until", "03:10"},
      {"snapshot", "--since", "when it began"},
      {"snapshot", "--since", "-10s", "--until", "-20s"},
      {"snapshot", "--post", "61s"},
      {"snapshot", "--post", "2"},
      {"snapshot", "--capture", "fast"},
      {"snapshot", "--reason", "a\nb"},
      {"snapshot", "--reason", std::string(1025, 'x')},
      {"snapshot", "--output"},
      {"snapshot", "stray"},
      {"fire", "probe", "--reason", "a\nb"},
      {"fire", "probe", "--reason", std::string(1025, 'x')},
  };
  run();
  for (auto words : wrong) {
    SCOPED_TRACE(testing::PrintToString(words));
    const Outcome plain = ctl(words);
    EXPECT_EQ(plain.code, 2);
    EXPECT_EQ(plain.out, "");
    EXPECT_THAT(plain.err, testing::StartsWith("flightctl: "));
    words.insert(words.begin(), "--json");
    const Outcome json = ctl(words);
    EXPECT_EQ(json.code, 2);
    EXPECT_EQ(error_of(json), "io.flightd.Client.UsageError");
  }
  EXPECT_EQ(bench.backend.begun, 0);
  EXPECT_THAT(ctl({"fire", "probe", "--reason", "a\nb"}).err,
              testing::StartsWith("flightctl: --reason has control characters"));
}

TEST_F(FlightctlTest, WithoutADaemon) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{}, {"status"}, {"snapshot"}, {"info"}, {"rm", "1", "2"}}) {
    const Outcome plain = ctl(words);
    EXPECT_EQ(plain.code, 1);
    EXPECT_EQ(plain.out, "");
    EXPECT_THAT(plain.err, AllOf(HasSubstr(bench.socket()), HasSubstr("systemctl start flightd")));
    auto with_json = words;
    with_json.emplace_back("--json");
    const Outcome json = ctl(with_json);
    EXPECT_EQ(json.code, 1);
    EXPECT_EQ(error_of(json), "io.flightd.Client.NotConnected");
  }
}

TEST_F(FlightctlTest, TheSocketComesFromTheEnvironmentToo) {
  run();
  EXPECT_EQ(bare({"list"}, {"FLIGHTD_SOCKET=" + bench.socket()}).code, 0);
  EXPECT_EQ(bare({"--socket", bench.socket(), "list"}, {"FLIGHTD_SOCKET=/nowhere"}).code, 0);
  EXPECT_THAT(bare({"list"}, {"FLIGHTD_SOCKET=/nowhere/x"}).err, HasSubstr("/nowhere/x"));
}

TEST_F(FlightctlTest, SnapshotPrintsASummary) {
  bench.backend.snapshot_takes = 20ms;
  run();
  const Outcome outcome =
      ctl({"snapshot", "--reason", "slow checkout", "--last", "10s", "--post", "20ms", "--capture", "live"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "") << "progress is for terminals";
  EXPECT_EQ(outcome.out,
            "id:       1\n"
            "path:     " +
                data_ +
                "\n"
                "top:      evil?[2Jcomm[77] in /system.slice: 81 % of the samples, on CPUs 0,1\n"
                "next:     flightctl stacks 1\n"
                "window:   2026-11-20 03:11:54 .. 2026-11-20 03:12:04 (10.0 s)\n"
                "samples:  1234\n"
                "size:     4.0K\n"
                "ratio:    10.0 : 1\n"
                "blackout: 42.5 us\n"
                "lost:     3\n"
                "\nwarnings:\n"
                "  something is less than it should be\n");
}

// With a time before there is a change to look at; without samples there are no stacks.
TEST_F(FlightctlTest, SnapshotPrintsTheNextCommand) {
  bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters& parameters) {
    Sidecar sidecar = full_sidecar(id, data_);
    if (parameters.reason == "nothing")
      sidecar.samples = 0;
    else
      sidecar.compared = SidecarCompared{1'000'000'000, 5'000'000'000, 11'000'000'000};
    return to_json(sidecar);
  };
  run();
  EXPECT_THAT(ctl({"snapshot"}).out, HasSubstr("\nnext:     flightctl stacks 1 --diff\n"));
  EXPECT_THAT(ctl({"snapshot", "--reason", "nothing"}).out, HasSubstr("\nnext:     flightctl info 2\n"));
}

TEST_F(FlightctlTest, SnapshotAndInfoPrintTheSidecar) {
  run();
  const Outcome taken = ctl({"--json", "snapshot", "--reason", "x"});
  ASSERT_EQ(taken.code, 0) << taken.err;
  EXPECT_EQ(taken.err, "");
  const auto sidecar = nlohmann::json::parse(taken.out);
  EXPECT_EQ(sidecar["id"], "1");
  EXPECT_EQ(sidecar["reason"], "x");
  EXPECT_EQ(sidecar["samples"], 1234);
  EXPECT_EQ(ctl({"info", "--json"}).out, taken.out);
  EXPECT_EQ(ctl({"info", "1", "--json"}).out, taken.out);
  const test::Idl idl = test::IdlParser::parse(recorder_idl());
  EXPECT_EQ(mismatch(idl, idl.types.at("Snapshot"), sidecar, "snapshot"), "") << "the IDL and the sidecar differ";
}

TEST_F(FlightctlTest, InfoShowsEverythingWithoutTerminalCodes) {
  run();
  ASSERT_EQ(ctl({"snapshot"}).code, 0);
  const Outcome info = ctl({"info", "latest"});
  ASSERT_EQ(info.code, 0) << info.err;
  EXPECT_THAT(info.out, AllOf(HasSubstr("top processes:"), HasSubstr("81 %"), HasSubstr("evil?[2Jcomm"),
                              HasSubstr("holes"), HasSubstr("42.0 us wide"), HasSubstr("something is less")));
  EXPECT_THAT(info.out, Not(HasSubstr("\x1b")));
  std::string joined = info.out;  // joins the lines as a shell does
  for (std::size_t at = 0; (at = joined.find("\\\n")) != std::string::npos;) joined.erase(at, 2);
  EXPECT_THAT(joined, HasSubstr("perf report -i " + data_));
}

TEST_F(FlightctlTest, NothingBeyondAsciiWhereTheLocaleHasNone) {
  run();
  const auto in_c = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"--socket", bench.socket()};
    all.insert(all.end(), words.begin(), words.end());
    return bare(all, {"LC_ALL=C", "NO_COLOR=1"});
  };
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"snapshot", "--reason", std::string(300, 'x')},
                                             {"info"},
                                             {"status"},
                                             {"list"},
                                             {"info", "77"},
                                             {"record", "--help"},
                                             {"--help"}}) {
    const Outcome outcome = in_c(words);
    for (const std::string& text : {outcome.out, outcome.err})
      EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c < 0x7f); }))
          << words[0] << ": " << text;
    EXPECT_NE(outcome.out + outcome.err, "");
  }
}

TEST_F(FlightctlTest, TheDaemonSaysNo) {
  run();
  const Outcome unknown = ctl({"info", "99"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, testing::MatchesRegex("flightctl: [^\n]*no snapshot 99;[^\n]*`flightctl list`[^\n]*\n"));
  const Outcome json = ctl({"--json", "info", "99"});
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(error_of(json), "io.flightd.Recorder.NoSuchSnapshot");
  EXPECT_EQ(error_of(ctl({"info", "--json"})), "io.flightd.Recorder.NoSuchSnapshot");
}

TEST_F(FlightctlTest, ARefusalsTextCannotDriveTheTerminal) {
  bench.backend.refuse_snapshots = store_full("full \x1b[31mof\x07 it");
  run();
  EXPECT_EQ(ctl({"snapshot"}).err, "flightctl: full ?[31mof? it\n");
  EXPECT_EQ(error_of(ctl({"snapshot", "--json"})), "io.flightd.Recorder.StoreFull");
}

TEST_F(FlightctlTest, RemoveContinuesAfterAMissingOne) {
  run();
  for (int number = 0; number < 3; ++number) ASSERT_EQ(ctl({"snapshot"}).code, 0);
  const Outcome some = ctl({"remove", "1", "77", "2"});
  EXPECT_EQ(some.code, 1);
  EXPECT_EQ(some.out, "removed 1\nremoved 2\n");
  EXPECT_THAT(some.err, HasSubstr("no snapshot 77"));
  EXPECT_EQ(error_of(ctl({"--json", "remove", "88", "77"})), "io.flightd.Recorder.NoSuchSnapshot");
  const Outcome last = ctl({"--json", "rm", "3"});
  EXPECT_EQ(last.code, 0);
  EXPECT_EQ(nlohmann::json::parse(last.out), nlohmann::json::array({"3"}));
}

TEST_F(FlightctlTest, PinAndUnpin) {
  run();
  for (int number = 0; number < 2; ++number) ASSERT_EQ(ctl({"snapshot"}).code, 0);
  EXPECT_EQ(ctl({"pin", "1", "2"}).out, "pinned 1\npinned 2\n");
  EXPECT_EQ(bench.on_loop([&] { return bench.backend.pins; }), (std::set<std::string>{"1", "2"}));
  EXPECT_EQ(ctl({"unpin", "2"}).out, "unpinned 2\n");
  EXPECT_EQ(ctl({"pin", "latest"}).out, "pinned 2\n") << "the one that it was";
  EXPECT_EQ(ctl({"unpin", "latest"}).out, "unpinned 2\n");
  EXPECT_EQ(bench.on_loop([&] { return bench.backend.pins; }), std::set<std::string>{"1"});
  EXPECT_EQ(error_of(ctl({"--json", "pin", "7"})), "io.flightd.Recorder.NoSuchSnapshot");
}

TEST_F(FlightctlTest, PauseAndResume) {
  run();
  EXPECT_THAT(ctl({"pause"}).out, HasSubstr("flightctl resume"));
  EXPECT_EQ(ctl({"resume"}).out, "recording\n");
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "pause"}).out)["recording"], false);
}

TEST_F(FlightctlTest, ListIsATableOrAnArray) {
  CatalogueRow row{"7",   data_, "2026-11-20T03:12:04.123Z", "manual", "why\x1b", 4096, 1234,
                   10.25, false, SnapshotState::present};
  CatalogueRow other = row;
  other.id = "12";
  other.state = SnapshotState::orphan;
  bench.backend.rows_to_report = to_json(std::vector{row, other});
  run();
  for (const std::vector<std::string>& words : {std::vector<std::string>{}, {"list"}}) {
    const Outcome plain = ctl(words);
    EXPECT_EQ(plain.code, 0) << plain.err;
    EXPECT_EQ(plain.out,
              "TIME                 ID  TRIGGER  SECONDS  SAMPLES  SIZE  STATE    REASON\n"
              "2026-11-20 03:12:04   7  manual      10.2     1234  4.0K  present  why?\n"
              "2026-11-20 03:12:04  12  manual      10.2     1234  4.0K  orphan   why?\n");
  }
  const auto rows = nlohmann::json::parse(ctl({"--json"}).out);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["id"], "7");
  EXPECT_EQ(rows[1]["state"], "orphan");
  const test::Idl idl = test::IdlParser::parse(recorder_idl());
  for (const auto& one : rows) EXPECT_EQ(mismatch(idl, idl.types.at("SnapshotRow"), one, "row"), "");
}

TEST_F(FlightctlTest, AnEmptyStore) {
  run();
  const Outcome plain = ctl({"list"});
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.out, "");
  EXPECT_THAT(plain.err, HasSubstr("no snapshots yet"));
  EXPECT_EQ(nlohmann::json::parse(ctl({"list", "--json"}).out), nlohmann::json::array());
}

TEST_F(FlightctlTest, StatusIsAScreenOrAnObject) {
  Status& status = bench.backend.status_to_report;
  status.version = "0.1.0";
  status.uptime_seconds = 600;
  status.cpus = 2;
  status.recording = RecordingState::on;
  status.channels = {{"stacks", {{"cpu-clock", 198.5, 20480}, {"page-faults", 3, 512}}, 30, 41}};
  status.flightd = {10, 0.6, 12U << 20U, 600};
  status.last_snapshot = "3";
  status.warnings = {"cycles is not there: \x1b[1mcpu-clock instead"};
  run();
  const Outcome plain = ctl({"status"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out,
              AllOf(HasSubstr("flightd 0.1.0: recording 2 CPUs, 30 s held, up 10 min"), HasSubstr("stacks   cpu-clock"),
                    HasSubstr("30 s     41 s"), HasSubstr("(0.10 % of one)"), HasSubstr("?[1mcpu-clock instead"),
                    Not(HasSubstr("\x1b"))));
  const auto json = nlohmann::json::parse(ctl({"--json", "status"}).out);
  EXPECT_EQ(json["self"]["flightd"]["pid"], 10);
  EXPECT_EQ(json["last_snapshot"], "3");
  EXPECT_EQ(json["messages"][0]["severity"], "warning");
}

}  // namespace
}  // namespace flight
