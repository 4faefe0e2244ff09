// SPDX-License-Identifier: Apache-2.0
// The process tracker with the real kernel's records: real forks, execs, threads and reused pids, verified against
// /proc.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <filesystem>
#include <thread>

#include "libcore/base/files.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/sideband/kernel_rings.hpp"
#include "tests/unit/sideband/reader_model.hpp"

namespace flight {
namespace {

std::uint32_t number(pid_t pid) { return static_cast<std::uint32_t>(pid); }

class OnTheKernel : public test::RootTest {
 protected:
  template <typename Body>
  static pid_t start(const Body& body) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a failing test leaves no process behind
      body();
      ::_exit(0);
    }
    return pid;
  }
  static void reap(pid_t pid) { ::waitpid(pid, nullptr, 0); }
  static void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    reap(pid);
  }
  // Polls /proc: the test waits for the kernel, not for a fixed time.
  template <typename Condition>
  static void wait_for(const Condition& condition) {
    for (int i = 0; i < 10000 && !condition(); ++i) ::usleep(1000);
    EXPECT_TRUE(condition());
  }
  static std::string comm(pid_t pid) { return read_line(fmt::format("/proc/{}/comm", pid)).value_or(""); }
  TrackerExport window_of(std::initializer_list<pid_t> pids, EventTime begin) {
    rings_.drain(tracker_);
    std::unordered_set<std::uint32_t> wanted;
    for (const pid_t pid : pids) wanted.insert(number(pid));
    return tracker_.export_window(begin, monotonic_now(), wanted);
  }

  KernelRings rings_;
  ProcessTracker tracker_;
};

// "address-end path" of the executable mappings in /proc.
std::vector<std::string> executable_maps(pid_t pid) {
  std::vector<std::string> found;
  const std::string text = read_file(fmt::format("/proc/{}/maps", pid)).value_or("");
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t space = line.find(' ');
    const std::size_t name = line.find_first_of("/[", space);
    if (line[space + 3] != 'x' || name == std::string::npos || line.substr(name) == "[vsyscall]") continue;
    found.push_back(line.substr(0, space) + " " + line.substr(name));
  }
  return found;
}

std::vector<std::string> maps_of(const ReaderModel& model, pid_t pid) {
  std::vector<std::string> found;
  if (!model.processes.contains(number(pid))) return found;
  for (const auto& map : model.processes.at(number(pid)).maps)
    found.push_back(fmt::format("{:08x}-{:08x} {}", map.begin, map.end, map.name));
  return found;
}

TEST_F(OnTheKernel, AnExecedProgramHasTheMapsThatProcSays) {
  const pid_t pid = start([] { ::execl("/bin/sleep", "sleep", "1000", nullptr); });
  // The process is ready when libc is mapped and it sleeps.
  wait_for([pid] {
    return comm(pid) == "sleep" &&
           read_file(fmt::format("/proc/{}/stat", pid)).value_or("").find(" S ") != std::string::npos &&
           executable_maps(pid).size() >= 4;
  });
  const auto expected = executable_maps(pid);
  const auto window = window_of({pid}, monotonic_now());
  const ReaderModel model = read(window);
  EXPECT_EQ(model.comm_of(number(pid), number(pid)), "sleep");
  EXPECT_THAT(maps_of(model, pid), testing::UnorderedElementsAreArray(expected));
  EXPECT_FALSE(tracker_.stats().stale);
  end(pid);
}

TEST_F(OnTheKernel, TheDeadStayKnown) {
  const pid_t pid = start([] { ::execl("/bin/true", "true", nullptr); });
  reap(pid);
  rings_.drain(tracker_);
  const EventTime after = monotonic_now();
  const auto window = window_of({pid}, 0);
  bool execed = false;
  EventTime last = 0;
  for (std::span<const std::byte> rest = window.log; !rest.empty(); rest = rest.subspan(next_record(rest).size())) {
    const auto record = next_record(rest);
    const auto comm = parse_comm(record);
    if (comm && comm->pid == number(pid) && comm->exec) execed = true;
    if (const auto task = parse_task(record); task && task->pid == number(pid)) last = parse_trailer(record)->time_ns;
  }
  EXPECT_TRUE(execed);
  const ReaderModel dying = read(tracker_.export_window(last, last, {number(pid)}), last - 1);
  EXPECT_EQ(dying.comm_of(number(pid), number(pid)), "true");
  EXPECT_THAT(maps_of(dying, pid), testing::Contains(testing::HasSubstr("/true")));
  tracker_.fold(after);
  EXPECT_FALSE(read(tracker_.export_window(after, after, {number(pid)})).processes.contains(number(pid)));
}

TEST_F(OnTheKernel, AForkWithoutExecHasItsParentsMaps) {
  int input[2] = {};
  ASSERT_EQ(::pipe2(input, O_CLOEXEC), 0);
  // The shell's subshell is a fork of it that does not exec; it waits for a line that never comes.
  const pid_t parent = start([&] {
    ::dup2(input[0], STDIN_FILENO);
    ::execl("/bin/sh", "sh", "-c", "(read line); :", nullptr);
  });
  const std::string children = fmt::format("/proc/{0}/task/{0}/children", parent);
  wait_for([&] { return !read_file(children).value_or("").empty(); });
  const pid_t child = std::stoi(read_file(children).value_or("0"));
  const auto expected = executable_maps(child);
  ASSERT_GE(expected.size(), 3U);
  for (const bool folded : {false, true}) {
    rings_.drain(tracker_);
    if (folded) tracker_.fold(monotonic_now());
    const ReaderModel model = read(window_of({child}, monotonic_now()));
    EXPECT_EQ(model.comm_of(number(child), number(child)), "sh");
    EXPECT_THAT(maps_of(model, child), testing::UnorderedElementsAreArray(expected));
    ASSERT_TRUE(model.processes.contains(number(child)));
    EXPECT_EQ(model.processes.at(number(child)).parent, number(parent));
  }
  ::close(input[1]);  // both read the end and exit
  ::close(input[0]);
  reap(parent);
}

TEST_F(OnTheKernel, ThreadsAndALeaderThatExitsFirst) {
  const pid_t pid = start([] {
    std::thread([] {
      ::prctl(PR_SET_NAME, "survivor");
      ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);
  });
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  pid_t tid = 0;
  wait_for([&] {
    for (const auto& task : std::filesystem::directory_iterator(tasks))
      if (task.path().filename() != std::to_string(pid)) tid = std::stoi(task.path().filename());
    return tid != 0 && read_line(fmt::format("{}/{}/comm", tasks, tid)).value_or("") == "survivor" &&
           read_file(fmt::format("/proc/{}/stat", pid)).value_or("").find(") Z ") != std::string::npos;
  });
  rings_.drain(tracker_);
  tracker_.fold(monotonic_now());
  EXPECT_EQ(read(window_of({pid}, monotonic_now())).comm_of(number(pid), number(tid)), "survivor");
  end(pid);
  rings_.drain(tracker_);
  tracker_.fold(monotonic_now());
  EXPECT_FALSE(read(window_of({pid}, monotonic_now())).processes.contains(number(pid)));
}

TEST_F(OnTheKernel, AThreadThatExecsTakesTheProcessOver) {
  const pid_t pid = start([] {
    std::thread([] { ::execl("/bin/sleep", "sleep", "1000", nullptr); }).detach();
    ::pause();
  });
  wait_for([pid] { return comm(pid) == "sleep" && executable_maps(pid).size() >= 4; });
  rings_.drain(tracker_);
  tracker_.fold(monotonic_now());
  const ReaderModel model = read(window_of({pid}, monotonic_now()));
  ASSERT_TRUE(model.processes.contains(number(pid)));
  EXPECT_EQ(model.processes.at(number(pid)).threads.size(), 1U);
  EXPECT_EQ(model.comm_of(number(pid), number(pid)), "sleep");
  end(pid);
  rings_.drain(tracker_);
  tracker_.fold(monotonic_now());
  EXPECT_FALSE(read(window_of({pid}, monotonic_now())).processes.contains(number(pid)));
}

// A process with a pid of our choice (clone3(2), set_tid; Linux 5.5).
pid_t fork_as(pid_t wanted) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uintptr_t>(&wanted);
  arguments.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
}

TEST_F(OnTheKernel, ThreeLivesOfOneNumber) {
  const pid_t pid = start([] {});
  reap(pid);
  const EventTime begin = monotonic_now();
  std::vector<EventTime> middle;
  for (const char* name : {"life-one", "life-two", "life-three"}) {
    int ready[2] = {};
    ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    const pid_t child = fork_as(pid);
    ASSERT_GE(child, 0) << "clone3 with set_tid: " << std::generic_category().message(errno);
    if (child == 0) {
      ::prctl(PR_SET_NAME, name);
      [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
      ::pause();
    }
    ASSERT_EQ(child, pid);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    middle.push_back(monotonic_now());
    end(pid);
  }
  const auto window = window_of({pid}, begin);
  EXPECT_EQ(read(window, middle[0]).comm_of(number(pid), number(pid)), "life-one");
  EXPECT_EQ(read(window, middle[1]).comm_of(number(pid), number(pid)), "life-two");
  EXPECT_EQ(read(window, middle[2]).comm_of(number(pid), number(pid)), "life-three");
  EXPECT_FALSE(read(window).processes.contains(number(pid)));
}

TEST_F(OnTheKernel, AThousandShortLivesAllHaveTheirNames) {
  constexpr int kLives = 1000;
  std::vector<std::pair<pid_t, EventTime>> lives;
  const EventTime begin = monotonic_now();
  int done[2] = {};
  ASSERT_EQ(::pipe2(done, O_CLOEXEC), 0);
  for (int i = 0; i < kLives; ++i) {
    const pid_t pid = start([&] {
      ::prctl(PR_SET_NAME, fmt::format("short-{}", i).c_str());
      const EventTime now = monotonic_now();
      [[maybe_unused]] const auto written = ::write(done[1], &now, sizeof now);
    });
    EventTime when = 0;
    ASSERT_EQ(::read(done[0], &when, sizeof when), static_cast<ssize_t>(sizeof when));
    reap(pid);
    lives.emplace_back(pid, when);
    if (i % 5 == 0) rings_.drain(tracker_);  // in time even if sanitizers or other programs use the CPU
  }
  ::close(done[0]);
  ::close(done[1]);
  rings_.drain(tracker_);
  const auto window = tracker_.export_window(begin, monotonic_now(), {});
  for (int i = 0; i < kLives; i += 37) {
    const auto [pid, when] = lives[static_cast<std::size_t>(i)];
    EXPECT_EQ(read(window, when).comm_of(number(pid), number(pid)), fmt::format("short-{}", i));
  }
  EXPECT_FALSE(tracker_.stats().stale);
}

}  // namespace
}  // namespace flight
