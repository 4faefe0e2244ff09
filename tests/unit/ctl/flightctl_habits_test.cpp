// SPDX-License-Identifier: Apache-2.0
// Common habits of typing: misspelled commands, patterns, several ids, other names of commands.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "ctl/screen.hpp"
#include "libcore/base/columns.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST_F(FlightctlTest, AMisspelledCommandOrOptionSuggestsTheOneMeant) {
  EXPECT_THAT(ctl({"snapsht"}).err, HasSubstr("there is no command 'snapsht': did you mean 'snapshot'?"));
  EXPECT_THAT(ctl({"list", "--sinc", "today"}).err, HasSubstr("there is no option '--sinc': did you mean '--since'?"));
  EXPECT_THAT(ctl({"list", "--jsn"}).err, HasSubstr("did you mean '--json'?"));
  EXPECT_THAT(ctl({"triggers", "tset", "x"}).err,
              HasSubstr("there is no command 'triggers tset': did you mean 'triggers test'?"));
  EXPECT_THAT(ctl({"help", "snapsht"}).err, HasSubstr("did you mean 'snapshot'?"));
  EXPECT_THAT(ctl({"frobnicate"}).err, AllOf(HasSubstr("no command 'frobnicate'"), Not(HasSubstr("did you mean"))));
}

TEST_F(FlightctlTest, OtherNamesOfCommandsAndOptionsOfOthersAreExplained) {
  EXPECT_THAT(ctl({"ls"}).err, HasSubstr("there is no command 'ls': did you mean 'list'? See flightctl --help"));
  EXPECT_THAT(ctl({"delete", "7"}).err, HasSubstr("did you mean 'remove'?"));
  EXPECT_THAT(ctl({"version"}).err, HasSubstr("did you mean '--version'?"));
  EXPECT_THAT(ctl({"triggers", "ls"}).err, HasSubstr("there is no command 'triggers ls'"));
  EXPECT_THAT(ctl({"list", "--last", "10s"}).err,
              HasSubstr("there is no option '--last' here: `flightctl snapshot` has it; see flightctl list --help"));
  EXPECT_THAT(ctl({"--reason=x", "snapshot"}).err,
              HasSubstr("'--reason' here: `flightctl snapshot`, `flightctl record`, `flightctl fire` have it"));
  EXPECT_THAT(ctl({"list", "-x"}).err, AllOf(HasSubstr("no option '-x'"), Not(HasSubstr("did you mean"))));
}

// If there are several faults, the one that was typed first is reported. The order of the options in --help has no
// effect on that.
TEST_F(FlightctlTest, TheFirstTypedFaultIsReported) {
  const auto said = [this](const std::vector<std::string>& words) { return ctl(words).err; };
  EXPECT_THAT(said({"list", "-n", "0", "--sinc", "today"}), StartsWith("flightctl: -n: "));
  EXPECT_THAT(said({"list", "--sinc", "today", "-n", "0"}), StartsWith("flightctl: there is no option '--sinc'"));
  EXPECT_THAT(said({"list", "--until", "soon", "--since", "later"}), StartsWith("flightctl: --until: 'soon' is not a"));
  EXPECT_THAT(said({"list", "--since=later", "--until=soon"}), StartsWith("flightctl: --since: 'later' is not a time"));
  EXPECT_THAT(said({"record", "--max-size", "x", "--past", "y"}), StartsWith("flightctl: --max-size: 'x' is not a"));
  EXPECT_THAT(said({"snapshot", "--post", "x", "--last", "y"}), StartsWith("flightctl: --post: 'x' is not a"));
  EXPECT_THAT(said({"info", "x", "--bogus"}), StartsWith("flightctl: ID: 'x' is not a snapshot id"));
  EXPECT_THAT(said({"info", "--bogus", "x"}), StartsWith("flightctl: there is no option '--bogus'"));
  EXPECT_THAT(said({"list", "--bogus", "--since"}), StartsWith("flightctl: there is no option '--bogus'"));
  EXPECT_THAT(said({"snapsht", "list"}), StartsWith("flightctl: there is no command 'snapsht'"));
  // What is missing comes last.
  EXPECT_THAT(said({"pin", "--bogus"}), StartsWith("flightctl: there is no option '--bogus'"));
  EXPECT_THAT(said({"pin"}), StartsWith("flightctl: ID is required; see flightctl pin --help"));
  EXPECT_THAT(said({"triggers", "enable"}), HasSubstr("NAME is required; see flightctl triggers enable --help"));
  EXPECT_THAT(said({"snapshot", "--since", "now", "--last", "x"}), StartsWith("flightctl: --last: 'x' is not a"));
}

// The place of a word is not that of an equal one: a command's name, or the value of an option.
TEST_F(FlightctlTest, AWordThatIsTypedTwiceIsTheOneThatIsWrong) {
  const auto said = [this](const std::vector<std::string>& words) { return ctl(words).err; };
  EXPECT_EQ(said({"status", "status"}), "flightctl: too many arguments: 'status'; see flightctl status --help\n");
  EXPECT_EQ(said({"list", "list"}), "flightctl: too many arguments: 'list'; see flightctl list --help\n");
  EXPECT_THAT(said({"triggers", "triggers"}),
              AllOf(StartsWith("flightctl: there is no command 'triggers triggers'"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(said({"snapshot", "--reason", "foo", "--last", "x", "foo"}), StartsWith("flightctl: --last: 'x' is not"));
  EXPECT_THAT(said({"--host", "list", "list", "list"}), HasSubstr("too many arguments: 'list'; see flightctl list"));
  EXPECT_THAT(said({"config", "store", "store"}), HasSubstr("too many arguments: 'store'; see flightctl config"));
}

TEST_F(FlightctlTest, ADoubleDashEndsTheOptions) {
  run();
  EXPECT_EQ(ctl({"--", "pause"}).out, ctl({"pause"}).out);
  EXPECT_EQ(ctl({"--", "pause"}).code, 0);
  EXPECT_THAT(ctl({"--", "lst"}).err, StartsWith("flightctl: there is no command 'lst': did you mean 'list'?"));
  EXPECT_THAT(ctl({"pause", "--", "x"}).err, StartsWith("flightctl: too many arguments: 'x'"));
}

TEST_F(FlightctlTest, AnOptionThatIsGivenTwiceIsSaidSo) {
  EXPECT_EQ(ctl({"list", "-u", "a", "-u", "b"}).err,
            "flightctl: --unit can be given only once; see flightctl list --help\n");
  EXPECT_THAT(ctl({"list", "--trigger", "a", "--trigger=b"}).err, HasSubstr("--trigger can be given only once"));
}

TEST_F(FlightctlTest, ExtraWordsAreNamedInOrder) {
  EXPECT_THAT(ctl({"pause", "one", "two", "three"}).err, HasSubstr("too many arguments: 'one' 'two' 'three'"));
}

TEST_F(FlightctlTest, AWrongValueIsAnsweredWithTheRightOnes) {
  EXPECT_THAT(ctl({"list", "-n", "0"}).err, HasSubstr("-n: it must be a whole number from 1 to 1000000000, not '0'"));
  EXPECT_THAT(ctl({"list", "-n", "1x"}).err, HasSubstr("not '1x'"));
  EXPECT_THAT(ctl({"snapshot", "--capture", "x"}).err, HasSubstr("--capture: it must be pause or live, not 'x'"));
  EXPECT_THAT(ctl({"list", "--since"}).err, HasSubstr("--since needs a value: TIME"));
}

TEST_F(FlightctlTest, MessagesHaveOptionsAndNotTheInterfacesNames) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"snapshot", "--post", "61s"},
                                             {"snapshot", "--last", "0s"},
                                             {"snapshot", "--last", "2000d"},
                                             {"snapshot", "--since", "-10s", "--until", "-20s"},
                                             {"snapshot", "--reason", "a\nb"}}) {
    const std::string said = ctl(words).err;
    EXPECT_THAT(said, AllOf(HasSubstr(words[words.size() - 2]), Not(HasSubstr("_usec")), Not(HasSubstr("'since'"))))
        << said;
  }
  EXPECT_THAT(ctl({"snapshot", "--post", "61s"}).err, HasSubstr("--post may be at most 60 s"));
  EXPECT_THAT(ctl({"record", "--switch-size", "5G"}).err, HasSubstr("--switch-size must be from 1M to 1G"));
  EXPECT_THAT(ctl({"record", "--switch-size", "1K"}).err, HasSubstr("--switch-size must be from 1M to 1G"));
  EXPECT_THAT(ctl({"record", "--max-size", "1K"}).err, HasSubstr("--max-size must be from 1M to "));
  EXPECT_THAT(ctl({"record", "--past", "2000d"}).err, HasSubstr("--past may be at most 366 days"));
  EXPECT_THAT(ctl({"record", "--for", "0s"}).err, HasSubstr("--for must be more than 0"));
  EXPECT_THAT(ctl({"record", "--for", "0"}).err, HasSubstr("--for: '0' is not a duration"));
}

TEST_F(FlightctlTest, ListTakesPatternsOfTriggersAndUnits) {
  std::vector<CatalogueRow> rows;
  for (const auto& [id, trigger, unit] : {std::tuple("1", "cpu-spike", "nginx.service"),
                                          {"2", "cpu-lopsided", "gunicorn.service"},
                                          {"3", "oom", "docker-0123456789ab"}}) {
    CatalogueRow& row = rows.emplace_back();
    row.id = id, row.path = "/x", row.time = "2026-11-20T03:12:04.123Z", row.trigger = trigger;
    row.units = {"other.service", unit};
  }
  bench.backend.rows_to_report = to_json(rows);
  run();
  const auto ids = [this](std::vector<std::string> words) {
    words.insert(words.begin(), {"--json", "list"});
    std::string out;
    for (const auto& row : nlohmann::json::parse(ctl(words).out)) out += row["id"].get<std::string>();
    return out;
  };
  EXPECT_EQ(ids({"--trigger", "cpu*"}), "12");
  EXPECT_EQ(ids({"--trigger", "oom"}), "3");
  EXPECT_EQ(ids({"--trigger", "cpu"}), "");
  EXPECT_EQ(ids({"-u", "nginx"}), "1");
  EXPECT_EQ(ids({"--unit", "nginx.service"}), "1");
  EXPECT_EQ(ids({"-u", "*n*.service"}), "12");
  EXPECT_EQ(ids({"-u", "docker-0123*"}), "3");
  EXPECT_EQ(ids({"-u", "other", "--trigger", "*o*"}), "23");
  const auto all = nlohmann::json::parse(ctl({"--json", "list"}).out);
  EXPECT_EQ(all[0]["units"], nlohmann::json({"other.service", "nginx.service"}));
}

// systemd escapes a '-' in the name of an instance or a mount; `info` prints such a name as it is.
TEST_F(FlightctlTest, ListTakesTheEscapedNamesOfUnits) {
  std::vector<CatalogueRow> rows(2);
  rows[0].id = "1", rows[0].path = "/x", rows[0].time = "2026-11-20T03:12:04.123Z", rows[0].trigger = "oom";
  rows[0].units = {"web\\x2dshop.service"};
  rows[1] = rows[0];
  rows[1].id = "2", rows[1].units = {"shop*.service"};
  bench.backend.rows_to_report = to_json(rows);
  run();
  for (const char* unit : {"web\\x2dshop.service", "web\\x2dshop", "web\\x2d*", "web\\\\x2dshop"}) {
    const Outcome found = ctl({"--json", "list", "-u", unit});
    EXPECT_THAT(found.out, AllOf(HasSubstr("\"1\""), Not(HasSubstr("\"2\"")))) << unit;
  }
  EXPECT_THAT(ctl({"--json", "list", "-u", "shop\\*"}).out, AllOf(HasSubstr("\"2\""), Not(HasSubstr("\"1\""))));
}

TEST_F(FlightctlTest, InfoOfSeveralIsOneAfterTheOther) {
  run();
  for (int number = 0; number < 2; ++number) ASSERT_EQ(ctl({"snapshot"}).code, 0);
  const Outcome both = ctl({"info", "2", "1"});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, ctl({"info", "2"}).out + "\n" + ctl({"info", "1"}).out);
  EXPECT_THAT(both.out, AllOf(HasSubstr("\nsnapshot 2: "), HasSubstr("\nsnapshot 1: ")));
  const auto json = nlohmann::json::parse(ctl({"--json", "info", "2", "1"}).out);
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[1]["id"], "1");
  EXPECT_EQ(ctl({"show", "1"}).out, ctl({"info", "1"}).out);
  EXPECT_EQ(ctl({"info", "2", "2"}).err, "flightctl: ID: '2' is given twice; see flightctl info --help\n");
  // One that is missing does not hide the others.
  const Outcome one = ctl({"info", "77", "1", "78"});
  EXPECT_EQ(one.code, 1);
  EXPECT_EQ(one.out, ctl({"info", "1"}).out);
  EXPECT_THAT(one.err, AllOf(HasSubstr("77"), HasSubstr("78")));
  EXPECT_EQ(std::count(one.err.begin(), one.err.end(), '\n'), 2) << one.err;
  const Outcome one_json = ctl({"--json", "info", "1", "77"});
  EXPECT_EQ(one_json.code, 1);
  EXPECT_EQ(nlohmann::json::parse(one_json.out)[0]["id"], "1");
  EXPECT_EQ(nlohmann::json::parse(one_json.err)["error"], "io.flightd.Recorder.NoSuchSnapshot");
}

TEST_F(FlightctlTest, InfoHasTheTimeOfTheList) {
  bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters&) {
    Sidecar sidecar = full_sidecar(id, data_);        // its name says that it was frozen at 03:12:04.123
    sidecar.window.end = "2026-11-20T03:11:58.000Z";  // --until
    return to_json(sidecar);
  };
  run();
  ASSERT_EQ(ctl({"snapshot"}).code, 0);
  EXPECT_THAT(ctl({"info"}).out, HasSubstr("\nsnapshot 1: manual on web3, 2026-11-20 03:12:04\n"));
}

TEST(Screen, EscapesOnlyOnATerminalThatKnowsThem) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  for (const char* term : {"xterm", "dumb", ""}) {
    ::setenv("TERM", term, 1);
    EXPECT_EQ(ctl::takes_escapes(terminal), std::string_view(term) == "xterm") << term;
  }
  ::unsetenv("TERM");
  EXPECT_FALSE(ctl::takes_escapes(terminal));
  ::close(terminal);
  std::array<int, 2> ends{-1, -1};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  ::setenv("TERM", "xterm", 1);
  EXPECT_FALSE(ctl::takes_escapes(ends[1]));
  for (const int fd : ends) ::close(fd);
}

// $COLUMNS, as for other programs; the width of a terminal in the same way. A pipe without it gets whole cells.
TEST_F(FlightctlTest, PagesAreAsWideAsTheTerminal) {
  const std::string reason = "checkout is slow, and so is the rest of the shop since the last release";
  std::vector<CatalogueRow> rows(1);
  rows[0].id = "1", rows[0].path = "/x", rows[0].time = "2026-11-20T03:12:04.123Z", rows[0].trigger = "cpu-spike";
  rows[0].reason = reason;
  bench.backend.rows_to_report = to_json(rows);
  const std::string warning = "something that is said here is less than what it should be";
  bench.backend.status_to_report.warnings = bench.backend.vacuum_warnings =
      bench.backend.reload_to_report.warnings = {warning + ", and something else that is said behind it is no better"};
  bench.backend.trigger_note = warning;
  run();
  const auto at = [this](const std::string& width, std::vector<std::string> words) {
    words.insert(words.begin(), {"--socket", bench.socket()});
    return bare(std::move(words), {"COLUMNS=" + width}).out;
  };
  const auto widest = [](const std::string& text) {
    std::istringstream lines(text);
    std::size_t out = 0;
    for (std::string line; std::getline(lines, line);) out = std::max(out, columns(line));
    return out;
  };
  for (const auto& [width, most] : {std::pair("20", 20U), {"40", 40U}, {"100", 100U}, {"7", 20U}, {"5000", 300U}})
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"list"}, {"status"}, {"triggers"}, {"config", "store"}, {"vacuum"}, {"reload"}})
      EXPECT_LE(widest(at(width, words)), words[0] == "config" ? 80U : most) << width << " " << words[0];
  EXPECT_THAT(at("60", {"list"}),
              HasSubstr("\n    checkout is slow, and so is the rest of the shop since\n    the last"));
  for (const char* unknown : {"", "0", "-5", "x", "80x"})
    EXPECT_THAT(at(unknown, {"list"}), HasSubstr("  " + reason + "\n")) << unknown;
  EXPECT_THAT(ctl({"list"}).out, HasSubstr("  " + reason + "\n"));
}

TEST_F(FlightctlTest, AMisspelledCommandHasNoHelp) {
  for (const char* option : {"--help", "-h", "--version"}) {
    const Outcome outcome = ctl({"lst", option});
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("flightctl: there is no command 'lst': did you mean 'list'?"));
  }
  EXPECT_THAT(ctl({"triggers", "tset", "--help"}).err, HasSubstr("did you mean 'triggers test'?"));
  EXPECT_EQ(ctl({"list", "--help"}).code, 0);
  EXPECT_EQ(ctl({"triggers", "--help"}).code, 0);
}

// And no colors, so $NO_COLOR has nothing to do.
TEST_F(FlightctlTest, ATerminalShowsHowFarAVacuumIs) {
  run();
  const Outcome shown = on_terminal({"vacuum"}, {"TERM=xterm"});
  EXPECT_EQ(shown.code, 0) << shown.out;
  EXPECT_EQ(shown.out, "\rdeleting 50%\x1b[K\r\x1b[KNothing is over the store's budget.\r\n");
  EXPECT_EQ(on_terminal({"vacuum"}, {"TERM=dumb"}).out, "Nothing is over the store's budget.\r\n");
  EXPECT_EQ(ctl({"vacuum"}).err, "");
  for (const char* command : {"status", "triggers", "config", "--help"})
    EXPECT_THAT(on_terminal({command}, {"TERM=xterm-256color", "COLORTERM=truecolor"}).out, Not(HasSubstr("\x1b")));
}

TEST_F(FlightctlTest, ATerminalShowsAPageThatFits) {
  run();
  ASSERT_EQ(ctl({"snapshot"}).code, 0);
  const std::string whole = ctl({"info"}).out;
  const auto lines_of = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  ASSERT_GT(lines_of(whole), 24);
  const Outcome brief = on_terminal({"info"}, {"TERM=xterm"});
  EXPECT_EQ(brief.code, 0);
  EXPECT_LT(lines_of(brief.out), 24);
  EXPECT_THAT(brief.out, HasSubstr("\r\nAll of it: `flightctl info --all 1`; in perf: `flightctl report 1`.\r\n"));
  ASSERT_EQ(ctl({"snapshot"}).code, 0);
  const Outcome two = on_terminal({"info", "2", "1"}, {"TERM=xterm"});
  EXPECT_LT(lines_of(two.out), 24) << two.out;
  EXPECT_THAT(two.out, AllOf(HasSubstr("\nsnapshot 1: "), HasSubstr("snapshot 2: "), HasSubstr("All of one: ")));
  for (const char* all : {"-a", "--all"}) {
    std::string shown = on_terminal({"info", "1", all}, {"TERM=xterm"}).out;
    std::erase(shown, '\r');
    EXPECT_EQ(shown, whole);
  }
}

TEST_F(FlightctlTest, ATerminalShowsASummaryThatFits) {
  bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters&) {
    Sidecar sidecar = full_sidecar(id, data_);
    for (int i = 0; i < 12; ++i) {
      sidecar.warnings.push_back(fmt::format("warning {}: {}", i, std::string(100, 'w')));
      sidecar.warnings.push_back(fmt::format("names: {}: {}", i, std::string(100, 'n')));
      sidecar.notes.push_back(fmt::format("note {}", i));
    }
    sidecar.errors = {"the worst"};
    return to_json(sidecar);
  };
  run();
  const std::string whole = ctl({"snapshot"}).out;
  EXPECT_THAT(whole, AllOf(HasSubstr("\n  warning 11:"), HasSubstr("note 11\n"), Not(HasSubstr("All of it"))));
  std::string brief = on_terminal({"snapshot"}, {"TERM=dumb"}).out;
  std::erase(brief, '\r');
  EXPECT_LT(ctl::count_rows(brief, 80), 24U) << brief;
  EXPECT_THAT(
      brief,
      AllOf(HasSubstr("id:       2\n"), HasSubstr("\ntop: "), HasSubstr("\nerrors:\n  the worst"), HasSubstr(" ...\n"),
            testing::EndsWith("\nAll of it: `flightctl info --all 2`; in perf: `flightctl report 2`.\n")));
}

TEST_F(FlightctlTest, ATerminalShowsTheNewestThatFit) {
  std::vector<CatalogueRow> rows;
  for (int i = 1; i <= 40; ++i) {
    CatalogueRow& row = rows.emplace_back();
    row.id = std::to_string(i), row.path = "/x", row.time = "2026-11-20T03:12:04.123Z", row.trigger = "manual";
    row.reason = "checkout is slow, and so is the rest of the shop";  // a second line of each row
  }
  bench.backend.rows_to_report = to_json(rows);
  run();
  const auto shown = [this](std::vector<std::string> words) {
    std::string out = on_terminal(std::move(words), {"TERM=xterm"}).out;
    std::erase(out, '\r');
    return out;
  };
  const std::string page = shown({"list"});
  EXPECT_LT(ctl::count_rows(page, 80), 24U) << page;
  EXPECT_GT(ctl::count_rows(page, 80), 20U) << page;
  EXPECT_THAT(page, AllOf(HasSubstr("  40  manual"), HasSubstr("  31  manual"), Not(HasSubstr("   1  manual")),
                          testing::EndsWith("\n30 older ones not shown: `flightctl list --all` shows all.\n")));
  EXPECT_THAT(shown({"list", "-r"}), AllOf(HasSubstr("  40  manual"), HasSubstr("30 older ones not shown")));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"list", "--all"}, {"list", "-a", "-r"}, {"list", "-n", "40"}})
    EXPECT_THAT(shown(words), AllOf(HasSubstr("   1  manual"), HasSubstr("  40  manual"), Not(HasSubstr("not shown"))));
  EXPECT_THAT(ctl({"list"}).out, HasSubstr("   1  manual")) << "in a pipe";
}

TEST(Screen, ALineThatIsTooLongTakesSeveralRows) {
  EXPECT_EQ(ctl::count_rows("one\n\n12345678901\n1234567890\n", 10), 5U);
  EXPECT_EQ(ctl::count_rows("no end", 10), 1U);
  EXPECT_EQ(ctl::count_rows("", 10), 0U);
}

TEST_F(FlightctlTest, TheHelpOfACommandFitsOnAScreen) {
  for (const char* command :
       {"snapshot", "record", "list",    "info",   "get",    "report", "remove", "pin",      "unpin",
        "status",   "doctor", "vacuum",  "pause",  "resume", "reload", "config", "triggers", "fire",
        "bridge",   "help",   "monitor", "export", "stacks", "diff",   "sched",  "html"}) {
    std::istringstream help(ctl({command, "--help"}).out);
    std::size_t rows = 0;
    for (std::string line; std::getline(help, line); ++rows) EXPECT_LE(columns(line), 80U) << command << ": " << line;
    EXPECT_LT(rows, 24U) << command;
    EXPECT_GT(rows, 5U) << command;
    EXPECT_EQ(help.str().find("\n\n\n"), std::string::npos) << command;
  }
}

TEST_F(FlightctlTest, HelpIsWrappedForTheTerminal) {
  const auto help = [this](const std::vector<std::string>& words, const std::string& width) {
    return bare(words, {"COLUMNS=" + width}).out;
  };
  for (const char* width : {"20", "40", "60", "80", "200"})
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"--help"}, {"help", "record"}, {"get", "--help"}, {"list", "--help"}}) {
      std::istringstream page(help(words, width));
      for (std::string line; std::getline(page, line);)
        EXPECT_LE(columns(line), std::min(std::stoul(width), 80UL)) << width << ": " << line;
    }
  const std::string indent(30, ' ');
  EXPECT_THAT(help({"list", "--help"}, "80"),
              HasSubstr("\n  --since TIME                only snapshots from this time on: 03:10,\n" + indent +
                        "'yesterday 03:10', '1 hour ago', -1h\n"));
  EXPECT_EQ(help({"list", "--help"}, "200"), help({"list", "--help"}, ""));
  EXPECT_THAT(help({"list", "--help"}, "40"), HasSubstr("\n  --until TIME\n      only snapshots up to this time\n"));
}

TEST_F(FlightctlTest, TriggersListIsTriggers) {
  run();
  EXPECT_EQ(ctl({"triggers", "list"}).out, ctl({"triggers"}).out);
  EXPECT_EQ(ctl({"--json", "triggers", "list"}).out, ctl({"--json", "triggers"}).out);
}

}  // namespace
}  // namespace flight
