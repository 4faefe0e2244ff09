// SPDX-License-Identifier: Apache-2.0
// flightctl report and get --with-symbols: stock perf gets the kernel symbols of the snapshot's boot.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/e2e/daemon_test.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// perf ends its report with a random tip, and prints rows of equal share in any order. This removes both.
std::vector<std::string> rows_of(const std::string& report) {
  auto lines = lines_of(report.substr(0, report.find("# (Tip")));
  std::sort(lines.begin(), lines.end());
  return lines;
}

// A load that spends most of its time in the kernel.
class Report : public DaemonTest {
 protected:
  Report() : DaemonTest(stacks_config(997, "512K")) {}
  void SetUp() override {
    DaemonTest::SetUp();
    ASSERT_FALSE(HasFatalFailure());
    // Others may use the CPUs, too, and the load takes one of them until it has so many samples.
    load_.emplace(start_load({"dd", "if=/dev/zero", "of=/dev/null", "bs=64k"}, kBusy));
    const auto is_sampled = [&] {
      const Json sidecar = daemon_.snapshot();
      for (const Json& row : sidecar.at("top"))
        if (row["comm"] == "dd" && row["samples"] > 300) return true;
      return false;
    };
    ASSERT_TRUE(wait_until(is_sampled, 60s)) << "the load is not sampled";
    load_->kill();
    // They are written after the first snapshot.
    ASSERT_TRUE(wait_until([&] { return !files("kallsyms-").empty(); }, 20s));
    id_ = daemon_.ctl_json({"list", "-1"}).at(0)["id"];
  }
  // A fake perf that prints its arguments.
  [[nodiscard]] std::string fake_perf() const {
    const std::string path = folder_ / "scratch/perf";
    write_text(path,
               "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"
               "while [ $# -gt 0 ]; do [ \"$1\" = --kallsyms ] && cat \"$2\" > " +
                   (folder_ / "scratch/symbols") + "; [ \"$1\" = -i ] && cat \"$2\" > " + (folder_ / "scratch/data") +
                   "; shift; done\nexit 42\n");
    EXPECT_EQ(chmod(path.c_str(), 0755), 0);
    return path;
  }
  [[nodiscard]] std::string kept_symbols() const {
    for (const std::string& name : files("kallsyms-"))
      return run({"zstd", "-dcq", daemon_.snapshots_dir() + "/" + name}).out;
    return "";
  }
  std::optional<Child> load_;
  std::string id_;
};

using ReportLong = Report;

TEST_F(ReportLong, IsStockPerfsOwn) {
  // Only dd: other processes' programs may be deleted between the two.
  const Arguments how{"--stdio", "--comms", "dd", "--sort", "comm,dso,sym", "-g", "none"};
  Arguments by_flightctl{"report", id_};
  by_flightctl.insert(by_flightctl.end(), how.begin(), how.end());
  const Outcome report = daemon_.ctl(by_flightctl, 120s);
  EXPECT_EQ(report.exit_status, 0) << report.text();
  EXPECT_THAT(report.out, AllOf(HasSubstr("Samples:"), HasSubstr("dd"), HasSubstr("[kernel.kallsyms]")));
  EXPECT_THAT(report.err, Not(HasSubstr("flightctl:")));
  // The output of perf without flightctl.
  const std::string symbols = folder_ / "scratch/by-hand";
  write_text(symbols, kept_symbols());
  const std::string path = daemon_.ctl_json({"info", id_})["path"];
  Arguments perf{"perf", "report", "-i", path, "--kallsyms", symbols};
  perf.insert(perf.end(), how.begin(), how.end());
  const Outcome by_hand = run(perf, 120s);
  EXPECT_GT(rows_of(report.out).size(), 3U) << report.text();
  EXPECT_EQ(rows_of(report.out), rows_of(by_hand.out));
  const Outcome wrong = daemon_.ctl({"report", id_, "--no-such-option"});
  EXPECT_EQ(wrong.exit_status, 129) << "perf's status for wrong usage: " << wrong.text();
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Report, ArgumentsAfterTheIdGoToPerf) {
  const std::string perf = fake_perf();
  const Outcome outcome =
      daemon_.ctl({"report", "--perf", perf, id_, "--json", "--socket", "x", "list", "--", "a b", ""});
  EXPECT_EQ(outcome.exit_status, 42) << outcome.text();
  const std::string path = daemon_.ctl_json({"info", id_})["path"];
  const auto lines = lines_of(outcome.out);
  ASSERT_GE(lines.size(), 5U);
  EXPECT_EQ(lines[0], "report");
  EXPECT_EQ(lines[1], "-i");
  EXPECT_EQ(lines[2], path) << "root reads it in place";
  EXPECT_EQ(lines[3], "--kallsyms");
  EXPECT_THAT(outcome.out, HasSubstr("\n--json\n--socket\nx\nlist\n--\na b\n\n"));
  const std::string symbols = read_text(folder_ / "scratch/symbols");
  EXPECT_GT(symbols.size(), 100'000U);
  EXPECT_TRUE(symbols == kept_symbols());
  // $PERF is used too. Without an id, flightctl reports the latest snapshot.
  const Outcome latest = run(daemon_.ctl_command({"report"}), 60s, {.env = {"PERF=" + perf}});
  EXPECT_EQ(latest.exit_status, 42) << latest.text();
  EXPECT_TRUE(daemon_.stop());
}

// A user who can reach the socket but not the store's directory gets the file over the socket.
TEST_F(ReportLong, WithoutAccessToTheStoreTheSocketIsUsed) {
  const std::string perf = fake_perf();
  ASSERT_EQ(chmod(daemon_.snapshots_dir().c_str(), 0700), 0);
  const std::string path = daemon_.ctl_json({"info", id_})["path"];
  const std::string bytes = read_text(path);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);  // only root can read it
  const Outcome outcome = run(own_user_command({"report", "--perf", perf, id_}), 60s);
  EXPECT_EQ(outcome.exit_status, 1) << "flightd itself cannot open it either: " << outcome.text();
  ASSERT_EQ(chmod(path.c_str(), 0640), 0);
  ASSERT_EQ(chown(path.c_str(), 1, snapshot_gid()), 0);  // perf would refuse another user's file
  const Outcome fetched = run(own_user_command({"report", "--perf", perf, id_}), 60s);
  EXPECT_EQ(fetched.exit_status, 42) << fetched.text();
  EXPECT_THAT(lines_of(fetched.out).at(2), HasSubstr("/proc/self/fd/"));
  EXPECT_TRUE(read_text(folder_ / "scratch/data") == bytes);
  const Outcome real = run(own_user_command({"report", id_, "--stdio"}), 120s);
  EXPECT_EQ(real.exit_status, 0) << real.text();
  EXPECT_THAT(real.out, HasSubstr("Samples:"));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(ReportLong, IntoAPipeThatIsClosed) {
  const std::string temporary = folder_ / "scratch/tmp";
  ASSERT_EQ(mkdir(temporary.c_str(), 0777), 0);
  std::string line;
  for (const std::string& word : daemon_.ctl_command({"report", id_, "--stdio"})) line += "'" + word + "' ";
  const Outcome piped = run({"bash", "-c", line + "| head -n 3"}, 120s, {.env = {"TMPDIR=" + temporary}});
  EXPECT_EQ(piped.exit_status, 0) << piped.text();
  EXPECT_EQ(count_lines(piped.out), 3U);
  EXPECT_TRUE(fs::is_empty(temporary)) << "it left something behind";
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Report, SaysWhatIsMissing) {
  const Outcome no_perf = daemon_.ctl({"report", "--perf", "/nowhere/perf", id_});
  EXPECT_EQ(no_perf.exit_status, 1);
  EXPECT_THAT(no_perf.err, AllOf(HasSubstr("/nowhere/perf"), HasSubstr("linux-perf")));
  const Outcome none = daemon_.ctl({"--json", "report", "99"});
  EXPECT_EQ(none.exit_status, 1);
  EXPECT_THAT(none.err, HasSubstr("io.flightd.Recorder.NoSuchSnapshot"));
  EXPECT_EQ(daemon_.ctl({"report", "--stdio"}).exit_status, 2) << "the id comes first";
  EXPECT_EQ(daemon_.ctl({"report", "seven"}).exit_status, 2);
  // A snapshot without a sidecar is reported too. Its boot is unknown.
  const std::string perf = fake_perf();
  std::string sidecar = daemon_.ctl_json({"info", id_})["path"];
  fs::remove(sidecar.replace(sidecar.size() - 10, 10, ".json"));
  const Outcome orphan = daemon_.ctl({"report", "--perf", perf, id_});
  EXPECT_EQ(orphan.exit_status, 42) << orphan.text();
  EXPECT_TRUE(daemon_.stop());
}

// perf refuses the snapshot, and does not say which setting it was.
TEST_F(Report, NamesTheSettingOfPerfThatCanStopIt) {
  const std::string home = folder_ / "scratch", config = home + "/.perfconfig", perf = home + "/perf";
  // Stock perf reads its configuration; its report would take some seconds.
  write_text(perf, "#!/bin/sh\n[ \"$1\" != config ] || exec perf \"$@\"\n");
  ASSERT_EQ(chmod(perf.c_str(), 0755), 0);
  const auto said = [&](const Arguments& environment) {
    Arguments command = {"env", "-u", "PERF_CONFIG", "HOME=" + home};
    command.insert(command.end(), environment.begin(), environment.end());
    for (const std::string& word : daemon_.ctl_command({"report", "--perf", perf, id_})) command.push_back(word);
    const Outcome outcome = run(command, 60s);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.text();
    return outcome.err;
  };
  const std::string setting = "perf's configuration has report.queue-size=";
  write_text(config, "[report]\n\tchildren = false\n\tqueue-size = 0\n");
  EXPECT_THAT(said({}), Not(HasSubstr(setting)));
  write_text(config, "[report]\n\tchildren = false\n\tqueue-size = 1K\n");
  EXPECT_THAT(said({}), HasSubstr(setting + "1K"));
  EXPECT_THAT(said({"PERF_CONFIG=/dev/null"}), Not(HasSubstr(setting)));
}

// perf would start the pager by a shell, and the report would be lost.
TEST_F(Report, APagerThatDoesNotExistIsNamedAndLeftOut) {
  const std::string perf = folder_ / "scratch/perf", given = folder_ / "scratch/pager";
  write_text(perf, "#!/bin/sh\n[ \"$1\" = config ] || echo \"${PERF_PAGER-unset}\" >" + given + "\n");
  ASSERT_EQ(chmod(perf.c_str(), 0755), 0);
  const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_EQ(grantpt(terminal.get()), 0);
  ASSERT_EQ(unlockpt(terminal.get()), 0);
  const std::string path = ptsname(terminal.get());
  // What flightctl itself prints: perf's output goes to the terminal directly.
  const auto said = [&](const std::string& pager, const Arguments& more) {
    Arguments words{"report", "--perf", perf, id_};
    words.insert(words.end(), more.begin(), more.end());
    ChildOptions options;
    options.env = {"PAGER=" + pager, "TERM=xterm"};
    options.prepare = [&path] {
      unsetenv("PERF_PAGER");
      dup2(open(path.c_str(), O_RDWR | O_NOCTTY), STDOUT_FILENO);
    };
    const Outcome outcome = run(daemon_.ctl_command(words), 60s, options);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.text();
    return outcome.err;
  };
  EXPECT_THAT(said("no-such-pager -R", {"--stdio"}),
              HasSubstr("$PAGER is 'no-such-pager -R', and there is no program 'no-such-pager'"));
  EXPECT_EQ(read_text(given), "cat\n");
  EXPECT_THAT(said("no-such-pager", {"--children"}), Not(HasSubstr("$PAGER"))) << "perf may show it without a pager";
  EXPECT_EQ(read_text(given), "cat\n");
  EXPECT_THAT(said("cat -v", {"--stdio"}), Not(HasSubstr("$PAGER")));
  EXPECT_EQ(read_text(given), "unset\n");
  EXPECT_TRUE(daemon_.stop());
}

// Another machine's kernel has other symbols. There perf must use the symbols in the tar.
TEST_F(ReportLong, ATarForAnotherMachine) {
  const std::string tar = folder_ / "scratch/x.tar";
  const Outcome got = daemon_.ctl({"get", id_, "--with-symbols", "-o", tar}, 120s);
  ASSERT_EQ(got.exit_status, 0) << got.text();
  EXPECT_EQ(got.out, tar + "\n");
  ASSERT_EQ(run({"tar", "-xf", tar, "-C", folder_ / "scratch"}).exit_status, 0);
  const Json sidecar = daemon_.ctl_json({"info", id_});
  const std::string stem = fs::path(sidecar["path"].get<std::string>()).stem().stem();
  const std::string unpacked = folder_ / ("scratch/" + stem);
  const std::string data = unpacked + "/" + stem + ".perf.data";
  EXPECT_TRUE(read_text(data) == read_text(sidecar["path"]));
  EXPECT_EQ(Json::parse(read_text(unpacked + "/" + stem + ".json")), sidecar);
  EXPECT_TRUE(read_text(unpacked + "/kallsyms") == kept_symbols());
  EXPECT_THAT(read_text(unpacked + "/README"), HasSubstr("perf report -i " + stem + ".perf.data --kallsyms kallsyms"));

  std::string renamed;  // "… t name" becomes "… t name_there", except for the symbols by which perf locates the kernel
  for (const std::string& line : lines_of(read_text(unpacked + "/kallsyms")))
    renamed += line + (line.ends_with("text") || line.ends_with(']') ? "" : "_there") + "\n";
  write_text(unpacked + "/kallsyms", renamed);
  const Outcome there = run(
      {"bash", "-c",
       "cd '" + unpacked + "' && perf report -i " + stem + ".perf.data --kallsyms kallsyms --stdio --sort sym -g none"},
      120s);
  EXPECT_EQ(there.exit_status, 0) << there.text();
  EXPECT_THAT(there.out, HasSubstr("_there")) << there.text();

  // Writes the tar into a pipe, and under its own name.
  const Outcome piped = daemon_.ctl({"get", id_, "--with-symbols", "-o", "-"}, 120s);
  EXPECT_EQ(piped.exit_status, 0) << piped.err;
  write_text(tar, piped.out);
  fs::remove_all(unpacked);
  ASSERT_EQ(run({"tar", "-xf", tar, "-C", folder_ / "scratch"}).exit_status, 0);
  EXPECT_TRUE(read_text(data) == read_text(sidecar["path"]));
  const Outcome named = run({"bash", "-c",
                             "cd '" + (folder_ / "scratch") + "' && " + daemon_.ctl_command({})[0] + " --socket " +
                                 daemon_.socket() + " get --with-symbols"},
                            120s);
  EXPECT_EQ(named.exit_status, 0) << named.text();
  EXPECT_EQ(named.out, stem + ".tar\n");
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(ReportLong, NoTarWithoutSymbols) {
  ASSERT_TRUE(wait_until([&] { return !files("kallsyms-").empty(); }, 60s));
  for (const std::string& name : files("kallsyms-")) fs::remove(daemon_.snapshots_dir() + "/" + name);
  const std::string tar = folder_ / "scratch/x.tar";
  const Outcome got = daemon_.ctl({"--json", "get", id_, "--with-symbols", "-o", tar}, 60s);
  EXPECT_EQ(got.exit_status, 1);
  EXPECT_THAT(got.err, AllOf(HasSubstr("NoSuchSnapshot"), HasSubstr("kernel's symbols")));
  EXPECT_FALSE(fs::exists(tar));
  EXPECT_FALSE(fs::exists(tar + ".partial"));
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
