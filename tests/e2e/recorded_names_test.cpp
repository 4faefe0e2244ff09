// SPDX-License-Identifier: Apache-2.0
// The names in a recording over a pause, or over lost records: never those of another process, and right again when a
// look at the processes has confirmed them. A snapshot of the same samples has the same names, and both say why some
// are missing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/record_fixture.hpp"

namespace flight {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr const char* kNotLookedUp = "could not be looked up in time";

bool is_nameless(const NamedSample& sample) { return sample.comm == "[lost]" || sample.comm.starts_with(":"); }

std::string warnings_in(const Json& sidecar) { return sidecar.value("warnings", Json::array()).dump(); }

class RecordedNames : public Record {
 protected:
  void start_recording(const Json& parameters = Json::object()) { begun_.emplace(begin(parameters)); }
  void pause() {
    pausing_ns_ = now_ns();
    ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
    paused_ns_ = now_ns();
  }
  // Resumes recording. While `meanwhile` runs, the rings are filled again, and flightd does not know it: it is stopped,
  // as where it gets no CPU.
  void resume_unnoticed(const std::function<void()>& meanwhile) {
    ASSERT_EQ(::kill(daemon_.broker_pid(), SIGSTOP), 0);
    RawSocket resumer = RawSocket::connect(daemon_.socket());
    EXPECT_TRUE(resumer.call(R"({"method": "io.flightd.Recorder.SetRecording", "parameters": {"recording": true}})"));
    const auto was_asked = [&] { return warnings_in(daemon_.status()).find("has not answered") != std::string::npos; };
    EXPECT_TRUE(wait_until(was_asked, 20s)) << "the broker has no request";
    daemon_.process().signal(SIGSTOP);
    EXPECT_EQ(::kill(daemon_.broker_pid(), SIGCONT), 0);
    meanwhile();
    daemon_.process().signal(SIGCONT);
    const std::string reply = resumer.receive().value_or("no reply");
    EXPECT_TRUE(reply.starts_with("{") && reply.find("\"error\"") == std::string::npos) << reply;
  }
  // Rounds of the recording with samples of later than `time_ns` are in its file.
  [[nodiscard]] bool has_written_samples_after(std::uint64_t time_ns) const {
    const auto has_written = [&] {
      const JournalContents journal = journal_in(daemon_.snapshots_dir());
      return !journal.entries.empty() && journal.entries.back().newest_ns > time_ns;
    };
    return wait_until(has_written, 60s);
  }
  // Takes a snapshot, ends the recording, and reads both.
  void end_recording() {
    snapshot_ = daemon_.snapshot();
    EXPECT_EQ(stop(begun_->second)["ended"], "asked");
    const std::vector<Json> parts = sidecars_of(daemon_, begun_->second);
    ASSERT_EQ(parts.size(), 1U);
    part_ = parts[0];
    recorded_ = named_samples(folder_, part_["path"]);
    taken_ = named_samples(folder_, snapshot_["path"]);
  }

  // Samples that both files have, by time and CPU. While the rings are paused one after the other, a recording may have
  // written names that are in doubt a moment later. `may_differ`: and so it may at other times.
  void expect_alike(bool may_differ = false) const {
    std::map<std::pair<std::uint64_t, int>, const NamedSample*> taken;
    for (const NamedSample& one : taken_) taken.emplace(std::pair(one.time_ns, one.cpu), &one);
    std::size_t both = 0, nameless_in_one = 0, differ = 0;
    std::string example;
    for (const NamedSample& one : recorded_) {
      const auto found = taken.find(std::pair(one.time_ns, one.cpu));
      if (found == taken.end() || one.pid <= 0 || one.tid <= 0) continue;
      if (one.time_ns >= pausing_ns_ && one.time_ns <= paused_ns_) continue;
      ++both;
      const NamedSample& other = *found->second;
      if ((one.comm == other.comm && one.tid == other.tid) || (is_nameless(one) && is_nameless(other))) continue;
      const bool one_has_none = is_nameless(one) || is_nameless(other);
      ++(one_has_none ? nameless_in_one : differ);
      if (!one_has_none || example.empty()) example = one.line + "\n" + other.line;
    }
    fmt::print("{} samples in both files; {} have a name in one of them\n", both, nameless_in_one);
    EXPECT_GT(both, 300U);
    EXPECT_EQ(differ, 0U) << example;
    // A round does not wait longer than a second for the look at the processes.
    if (!may_differ && warnings_in(part_).find(kNotLookedUp) == std::string::npos) {
      EXPECT_EQ(nameless_in_one, 0U) << example;
    }
  }

  std::string cpu_ = std::to_string(load_cpu());
  std::optional<std::pair<RawSocket, std::string>> begun_;
  std::uint64_t pausing_ns_ = 0, paused_ns_ = 0;
  Json snapshot_, part_;
  std::vector<NamedSample> recorded_, taken_;
};
using RecordedNamesLong = RecordedNames;

// A process ends, and its number is given to another program, of which no record is kept.
class NumberUsedAgain : public RecordedNames {
 protected:
  enum class Ends { in_the_pause, before_it };
  enum class Begins { before_the_pause, in_it };

  void start_victim() {
    ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
    load_.emplace(start_load({folder_.load("successor"), cpu_, folder_.load("burner"), cpu_, "60"}, kBusy,
                             /*keep_stdin=*/true));
    const auto line = load_->wait_for_line("began", 30s);
    ASSERT_TRUE(line) << load_->err();
    pid_ = static_cast<pid_t>(number_in(*line, "victim"));
  }
  void end_victim() {
    ASSERT_EQ(::kill(pid_, SIGKILL), 0);
    ASSERT_TRUE(load_->wait_for_line("killed")) << load_->err();
  }
  // When recording is paused, the heir runs, and no record is about it.
  void pause_and_replace(Ends victim, Begins recording) {
    ASSERT_NO_FATAL_FAILURE(start_victim());
    if (recording == Begins::before_the_pause) start_recording();
    ASSERT_TRUE(runs_for(pid_, 300ms));
    if (victim == Ends::before_it) {
      ASSERT_NO_FATAL_FAILURE(end_victim());
    }
    ASSERT_NO_FATAL_FAILURE(pause());
    if (recording == Begins::in_it) {
      start_recording({{"past_ns", 10'000'000'000}});
      (void)wait_for_rounds(daemon_.snapshots_dir(), 1, 2s);  // its past may be written now, or with what follows
    }
    if (victim == Ends::in_the_pause) {
      ASSERT_NO_FATAL_FAILURE(end_victim());
    }
    load_->go();
    const auto heir = load_->wait_for_line("started", 30s);
    ASSERT_TRUE(heir) << load_->err();
    ASSERT_EQ(static_cast<pid_t>(number_in(*heir, "pid")), pid_);
  }
  void expect_victim_before(const std::vector<NamedSample>& samples) const {
    std::size_t count = 0;
    for (const NamedSample& sample : samples) {
      if (sample.pid != pid_ || sample.symbol != "hot_in_victim") continue;
      EXPECT_LE(sample.time_ns, paused_ns_) << sample.line;
      EXPECT_EQ(sample.comm, "victim") << sample.line;
      ++count;
    }
    EXPECT_GT(count, 100U);
  }
  // Its samples after the pause.
  [[nodiscard]] std::vector<NamedSample> heirs_in(const std::vector<NamedSample>& samples) const {
    std::vector<NamedSample> out;
    for (const NamedSample& sample : samples)
      if (sample.pid == pid_ && sample.time_ns > paused_ns_) out.push_back(sample);
    return out;
  }
  // The heir ends before flightd looks at the processes: only its EXIT is known.
  void expect_no_name_of_the_unseen() {
    const auto end_heir = [&] {
      EXPECT_TRUE(runs_for(pid_, 300ms));
      ::kill(pid_, SIGKILL);
      EXPECT_EQ(load_->wait(20s), 0) << load_->err();
    };
    ASSERT_NO_FATAL_FAILURE(resume_unnoticed(end_heir));
    ASSERT_NO_FATAL_FAILURE(end_recording());
    expect_alike();
    for (const auto& [file, samples] : {std::pair(&part_, &recorded_), std::pair(&snapshot_, &taken_)}) {
      SCOPED_TRACE((*file)["path"]);
      expect_victim_before(*samples);
      const std::vector<NamedSample> heirs = heirs_in(*samples);
      EXPECT_GT(heirs.size(), 50U);
      for (const NamedSample& sample : heirs) {
        EXPECT_TRUE(is_nameless(sample)) << sample.line;
        EXPECT_TRUE(sample.dso == "[unknown]" || sample.dso.starts_with("[")) << sample.line;
      }
      const std::string warnings = warnings_in(*file);
      EXPECT_THAT(warnings, HasSubstr("called [lost]"));
      EXPECT_THAT(warnings, AnyOf(HasSubstr("nothing was recorded for"), HasSubstr(kNotLookedUp)));
    }
    EXPECT_TRUE(daemon_.stop());
  }

  std::optional<Child> load_;
  pid_t pid_ = -1;
};
using NumberUsedAgainLong = NumberUsedAgain;

TEST_F(NumberUsedAgain, InAPauseGivesTheNextOneNoName) {
  ASSERT_NO_FATAL_FAILURE(pause_and_replace(Ends::in_the_pause, Begins::before_the_pause));
  expect_no_name_of_the_unseen();
}

TEST_F(NumberUsedAgainLong, OfOneThatEndedBeforeThePauseGivesNoName) {
  ASSERT_NO_FATAL_FAILURE(pause_and_replace(Ends::before_it, Begins::before_the_pause));
  expect_no_name_of_the_unseen();
}

TEST_F(NumberUsedAgainLong, GivesNoNameInARecordingThatBeganInThePause) {
  ASSERT_NO_FATAL_FAILURE(pause_and_replace(Ends::in_the_pause, Begins::in_it));
  expect_no_name_of_the_unseen();
}

TEST_F(NumberUsedAgainLong, ByOneThatLivesOnHasItsOwnName) {
  ASSERT_NO_FATAL_FAILURE(pause_and_replace(Ends::in_the_pause, Begins::before_the_pause));
  ASSERT_NO_FATAL_FAILURE(resume_unnoticed([&] { EXPECT_TRUE(runs_for(pid_, 200ms)); }));
  const std::uint64_t resumed_ns = now_ns();
  EXPECT_FALSE(daemon_.snapshot()["tracker"]["stale"]) << "a snapshot waits for the look at the processes";
  const std::uint64_t known_ns = now_ns();
  ASSERT_TRUE(runs_for(pid_, 300ms));
  ASSERT_NO_FATAL_FAILURE(end_recording());
  expect_alike();
  for (const auto* samples : {&recorded_, &taken_}) {
    expect_victim_before(*samples);
    // Until flightd knows that recording was resumed, its name is in doubt.
    const std::uint64_t lost_until_ns = samples == &taken_ ? resumed_ns : known_ns;
    std::size_t named = 0;
    for (const NamedSample& sample : heirs_in(*samples)) {
      const bool may_be_lost = sample.time_ns <= lost_until_ns && is_nameless(sample);
      EXPECT_TRUE(sample.comm == "burner" || may_be_lost) << sample.line;
      named += sample.symbol == "hot_function_for_flightd" ? 1 : 0;
    }
    EXPECT_GT(named, 100U);
  }
  EXPECT_TRUE(daemon_.stop());
}

// The broker does not look at the processes, so a round without names is written. It looks later.
TEST_F(RecordedNamesLong, ComeBackAfterAPauseWithTheLookAtTheProcesses) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  const Child burner = start_load({folder_.load("burner"), cpu_, "120"}, kBusy);
  ASSERT_TRUE(burner.wait_for_line("started"));
  start_recording();
  ASSERT_TRUE(burner.runs_for(200ms));
  ASSERT_NO_FATAL_FAILURE(pause());
  const auto stop_broker = [&] {
    EXPECT_TRUE(burner.runs_for(300ms));
    EXPECT_EQ(::kill(daemon_.broker_pid(), SIGSTOP), 0);
  };
  ASSERT_NO_FATAL_FAILURE(resume_unnoticed(stop_broker));
  const std::uint64_t resumed_ns = now_ns();
  EXPECT_TRUE(has_written_samples_after(resumed_ns));
  ASSERT_EQ(::kill(daemon_.broker_pid(), SIGCONT), 0);
  EXPECT_TRUE(wait_until([&] { return !daemon_.snapshot()["tracker"]["stale"].get<bool>(); }, 20s));
  const std::uint64_t known_ns = now_ns();
  ASSERT_TRUE(burner.runs_for(300ms));
  ASSERT_NO_FATAL_FAILURE(end_recording());
  expect_alike();
  std::size_t before = 0, lost = 0, after = 0;
  for (const NamedSample& sample : recorded_) {
    if (sample.pid != burner.pid()) continue;
    const bool may_be_lost = sample.time_ns >= pausing_ns_ && sample.time_ns <= known_ns;
    EXPECT_TRUE(sample.comm == "burner" || sample.comm == own_comm() || (may_be_lost && is_nameless(sample)))
        << sample.line;
    lost += is_nameless(sample) && sample.time_ns > paused_ns_ ? 1 : 0;
    if (sample.symbol != "hot_function_for_flightd") continue;
    before += sample.time_ns < pausing_ns_ ? 1 : 0;
    after += sample.time_ns > known_ns ? 1 : 0;
  }
  fmt::print("burner: {} samples before the pause, {} lost, {} named again\n", before, lost, after);
  EXPECT_GT(before, 50U);
  EXPECT_GT(lost, 50U) << "the look came before a round was written: nothing is tested";
  EXPECT_GT(after, 100U);
  EXPECT_THAT(warnings_in(part_), HasSubstr(kNotLookedUp));
  // The snapshot was taken after the look.
  for (const NamedSample& sample : taken_) {
    if (sample.pid != burner.pid() || sample.time_ns <= paused_ns_) continue;
    EXPECT_EQ(sample.comm, "burner") << sample.line;
  }
  EXPECT_TRUE(daemon_.stop());
}

// As AfterLostRecordsUncertainNamesAreLost: a process executes another program, and the record is lost.
TEST_F(RecordedNamesLong, ComeBackAfterLostRecords) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  const Child burner = start_load({folder_.load("burner"), cpu_, "120"}, kBusy);
  const Child execer = start_load({folder_.load("execer"), cpu_, "3", folder_.load("burner"), cpu_, "60"}, kBusy);
  ASSERT_TRUE(execer.wait_for_line("started"));
  ASSERT_TRUE(burner.wait_for_line("started"));
  start_recording();
  ASSERT_TRUE(execer.runs_for(200ms)) << "meanwhile flightd, which looks every 100 ms, reads the records of both";
  daemon_.process().signal(SIGSTOP);
  std::vector<Child> togglers;
  for (const int cpu : usable_cpus())
    togglers.push_back(start_load({folder_.load("toggler"), std::to_string(cpu), "1.5", "1"}, kBusy));
  const std::string comm = fmt::format("/proc/{}/comm", execer.pid());
  const bool execed = wait_until([&] { return read_text(comm) == "burner\n"; }, 30s);
  for (Child& toggler : togglers) (void)toggler.wait(30s);
  daemon_.process().signal(SIGCONT);
  ASSERT_TRUE(execed);
  EXPECT_TRUE(wait_until([&] { return !daemon_.snapshot()["tracker"]["stale"].get<bool>(); }, 20s));
  const std::uint64_t known_ns = now_ns();
  ASSERT_TRUE(execer.runs_for(300ms));
  ASSERT_NO_FATAL_FAILURE(end_recording());
  expect_alike(/*may_differ=*/true);
  std::map<pid_t, std::size_t> named_again;
  std::size_t before = 0;
  for (const NamedSample& sample : recorded_) {
    if (sample.pid != execer.pid() && sample.pid != burner.pid()) continue;
    if (sample.symbol == "hot_before_exec") {
      EXPECT_EQ(sample.comm, "execer") << sample.line;
      ++before;
    } else if (sample.symbol == "hot_function_for_flightd") {
      EXPECT_EQ(sample.comm, "burner") << sample.line;
    }
    if (sample.time_ns <= known_ns) continue;
    EXPECT_EQ(sample.comm, "burner") << sample.line;
    ++named_again[sample.pid];
  }
  EXPECT_GT(before, 50U);
  EXPECT_GT(named_again[execer.pid()], 100U);
  EXPECT_GT(named_again[burner.pid()], 100U);
  EXPECT_THAT(warnings_in(part_), AnyOf(HasSubstr("lost within"), HasSubstr(kNotLookedUp)));
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
