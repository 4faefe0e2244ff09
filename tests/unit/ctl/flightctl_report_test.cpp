// SPDX-License-Identifier: Apache-2.0
// What flightctl report adds to the arguments of perf.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/ctl/flightctl_bench.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// perf is a script that prints its arguments.
class ReportTest : public FlightctlTest {
 protected:
  ReportTest() {
    std::ofstream(perf_) << "#!/bin/sh\n[ \"$1\" = report ] && echo \"<$* > pager ${PERF_PAGER-unset}\" || :\n";
    ::chmod(perf_.c_str(), 0755);
  }
  std::string said(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
    std::vector<std::string> words{"report", "--perf", perf_, "1"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Outcome outcome = on_terminal(words, environment);
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    return outcome.out;
  }
  std::string perf_ = bench.folder() + "/perf";
};

// perf's own page would end with "Your terminal lacks the ability to clear the screen".
TEST_F(ReportTest, ADumbTerminalGetsPlainText) {
  run();
  ASSERT_EQ(ctl({"snapshot"}).code, 0);
  for (const std::vector<std::string>& dumb : std::vector<std::vector<std::string>>{{"TERM=dumb"}, {"TERM="}, {}}) {
    EXPECT_THAT(said({}, dumb), AllOf(HasSubstr(" --stdio --stdio-color=never >"), HasSubstr("pager cat")));
    EXPECT_THAT(said({"--stdio", "-g", "none"}, dumb), HasSubstr(" --stdio-color=never --stdio -g none >"));
    EXPECT_THAT(said({"--tui"}, dumb), Not(HasSubstr("--stdio ")));
  }
  EXPECT_THAT(said({}, {"TERM=dumb", "PAGER=/bin/cat"}), HasSubstr("pager unset"));
  EXPECT_THAT(said({"--children"}, {"TERM=xterm"}), AllOf(Not(HasSubstr("--stdio")), HasSubstr("pager unset")));
}

TEST_F(ReportTest, NoColorIsForPerfToo) {
  run();
  ASSERT_EQ(ctl({"snapshot"}).code, 0);
  EXPECT_THAT(said({"--stdio"}, {"TERM=xterm", "NO_COLOR=1"}), HasSubstr(" --stdio-color=never --stdio >"));
  EXPECT_THAT(said({"--stdio"}, {"TERM=xterm", "NO_COLOR="}), Not(HasSubstr("--stdio-color")));
  EXPECT_THAT(said({}, {"TERM=xterm", "NO_COLOR=1"}), Not(HasSubstr("--stdio >")));
}

TEST_F(ReportTest, AnOptionOfPerfWithoutAnIdIsExplained) {
  EXPECT_THAT(
      ctl({"report", "--stdio"}).err,
      HasSubstr("no option '--stdio': options of perf come after the ID, as in `flightctl report latest --stdio`"));
  EXPECT_THAT(ctl({"report", "--sort", "comm"}).err, HasSubstr("`flightctl report latest --sort`"));
}

}  // namespace
}  // namespace flight
