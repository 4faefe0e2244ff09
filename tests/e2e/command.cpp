// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/command.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

// Between two looks of wait_until() a sixteenth of the time that has passed, and not less than the last look took,
// within these limits: a look can start a program, which takes a tenth of a second of a CPU.
constexpr int kPartOfTime = 16;
constexpr Milliseconds kLeastInterval = 10ms, kMostInterval = 100ms;

std::string read_fd(int fd) {
  std::string text;
  char buffer[65536];
  for (off_t at = 0;;) {
    ssize_t n = pread(fd, buffer, sizeof buffer, at);
    if (n <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    at += n;
  }
}

// For messages: plain text of bounded length, whatever a program printed (meson's reports are XML).
std::string plain(std::string_view text) {
  constexpr std::size_t kMost = 6000;
  std::string out(text.substr(0, kMost));
  for (char& c : out) {
    if (c != '\n' && (c < ' ' || c > '~')) c = '?';
  }
  return out;
}

int status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

// The pointers of `texts`, and a null at the end.
std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// The test's environment, and `more` over it.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> out = more;
  const auto is_replaced = [&](std::string_view entry) {
    const std::string_view name = entry.substr(0, entry.find('=') + 1);
    return std::any_of(more.begin(), more.end(), [&](const std::string& one) { return one.starts_with(name); });
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_replaced(*entry)) out.emplace_back(*entry);
  }
  return out;
}

struct Program {
  std::vector<char*> arguments, environment;
  int in = -1, out = -1, err = -1;
  int nice = 0;
  const char* folder = nullptr;
  const std::function<void()>* prepare = nullptr;
};

// In the child. After vfork() it uses the parent's memory, so without `prepare` it changes none.
[[noreturn]] void become(const Program& program) {
  // If the test is killed, its children are killed too, except flightd, whose change of uid clears this setting.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(program.in, 0);
  dup2(program.out, 1);
  dup2(program.err, 2);
  if (program.nice != 0) setpriority(PRIO_PROCESS, 0, program.nice);
  if (program.folder != nullptr && chdir(program.folder) != 0) _exit(127);
  if (program.prepare != nullptr) {
    environ = const_cast<char**>(program.environment.data());
    (*program.prepare)();
  }
  execvpe(program.arguments[0], program.arguments.data(),
          program.prepare != nullptr ? environ : program.environment.data());
  dprintf(2, "cannot start %s: %s\n", program.arguments[0], strerror(errno));
  _exit(127);
}

// fork() copies the page tables of the test, which takes as long as the program's start.
pid_t start_program(const Program& program) {
  const pid_t pid = program.prepare != nullptr ? fork() : vfork();
  if (pid == 0) become(program);
  return pid;
}

}  // namespace

std::string Outcome::text() const {
  return fmt::format("$ {}\nexit {}{}\nstdout: {}\nstderr: {}", plain(command), exit_status,
                     timed_out ? " (time limit)" : "", plain(out), plain(err));
}

Child Child::start(const Arguments& arguments, const ChildOptions& options) {
  Child child;
  child.command_ = fmt::format("{}", fmt::join(arguments, " "));
  child.out_.reset(memfd_create("stdout", MFD_CLOEXEC));
  child.err_.reset(memfd_create("stderr", MFD_CLOEXEC));
  // pread() does not change the offset of the writer.
  UniqueFd in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (int ends[2]; options.keep_stdin && pipe2(ends, O_CLOEXEC) == 0) {
    in.reset(ends[0]);
    child.stdin_.reset(ends[1]);
  }
  fcntl(child.out_.get(), F_SETFL, O_APPEND);
  fcntl(child.err_.get(), F_SETFL, O_APPEND);
  const std::vector<std::string> environment = environment_with(options.env);
  child.pid_ = start_program({.arguments = pointers(arguments),
                              .environment = pointers(environment),
                              .in = in.get(),
                              .out = child.out_.get(),
                              .err = child.err_.get(),
                              .nice = options.nice,
                              .folder = options.folder.empty() ? nullptr : options.folder.c_str(),
                              .prepare = options.prepare ? &options.prepare : nullptr});
  child.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, child.pid_, 0)));
  return child;
}

Child::Child(Child&& other) noexcept
    : command_(std::move(other.command_)),
      pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      stdin_(std::move(other.stdin_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

Child::~Child() { kill(); }

std::string Child::out() const { return read_fd(out_.get()); }
std::string Child::err() const { return read_fd(err_.get()); }

std::optional<std::string> Child::wait_for_line(std::string_view prefix, Milliseconds limit) const {
  std::optional<std::string> found;
  (void)wait_until(
      [&] {
        std::string text = out();
        text.erase(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
        for (const std::string& line : lines_of(text)) {
          if (!line.starts_with(prefix)) continue;
          found = line.substr(prefix.size());
          return true;
        }
        return false;
      },
      limit);
  return found;
}

void Child::signal(int number) const {
  if (pid_ > 0 && !status_) ::kill(pid_, number);
}

std::optional<int> Child::wait(Milliseconds limit) {
  if (status_ || pid_ <= 0) return status_;
  pollfd watched{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  if (poll(&watched, 1, static_cast<int>(limit.count())) <= 0) return std::nullopt;
  int wait_status = 0;
  if (waitpid(pid_, &wait_status, 0) == pid_) status_ = status_of(wait_status);
  return status_;
}

bool Child::running() { return pid_ > 0 && !wait(0ms); }

void Child::kill() {
  signal(SIGKILL);
  (void)wait(10s);
}

Outcome Child::finish(Milliseconds limit) {
  Outcome outcome;
  outcome.command = command_;
  outcome.timed_out = !wait(limit);
  if (outcome.timed_out) kill();
  outcome.exit_status = status_.value_or(-1);
  outcome.out = out();
  outcome.err = err();
  return outcome;
}

Outcome run(const Arguments& arguments, Milliseconds limit, const ChildOptions& options) {
  return Child::start(arguments, options).finish(limit);
}

bool Child::runs_for(Milliseconds time, Milliseconds limit) const { return flight::runs_for(pid_, time, limit); }

bool runs_for(pid_t pid, Milliseconds time, Milliseconds limit) {
  clockid_t clock{};
  if (clock_getcpuclockid(pid, &clock) != 0) return false;
  const auto used = [&] {
    timespec now{};
    (void)clock_gettime(clock, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  const auto enough = used() + time;
  return wait_until([&] { return used() >= enough; }, limit);
}

Milliseconds fastest_of_three(Milliseconds limit, const std::function<Milliseconds()>& timed_action) {
  Milliseconds fastest = Milliseconds::max();
  for (int i = 0; i < 3 && fastest >= limit; ++i) fastest = std::min(fastest, timed_action());
  return fastest;
}

bool wait_until(const std::function<bool()>& condition, Milliseconds limit) {
  const Stopwatch watch;
  for (Milliseconds begun = 0ms; !condition(); begun = watch.gone_by()) {
    const Milliseconds passed = watch.gone_by();
    if (passed > limit) return condition();
    const Milliseconds pause = std::max(passed / kPartOfTime, passed - begun);
    std::this_thread::sleep_for(std::clamp(pause, kLeastInterval, kMostInterval));
  }
  return true;
}

bool process_exists(pid_t pid) {
  std::string stat = read_text(fmt::format("/proc/{}/stat", pid));
  std::size_t after = stat.rfind(')');  // a zombie has exited
  return after != std::string::npos && stat.compare(after, 3, ") Z") != 0;
}

std::vector<pid_t> living_children_of(pid_t pid) {
  std::vector<pid_t> children = children_of(pid);
  std::erase_if(children, [](pid_t child) { return !process_exists(child); });
  return children;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  DIR* proc = opendir("/proc");
  while (dirent* entry = readdir(proc)) {
    pid_t candidate = std::atoi(entry->d_name);
    if (candidate <= 0) continue;
    std::string stat = read_text(fmt::format("/proc/{}/stat", candidate));
    std::size_t after = stat.rfind(')');
    if (after == std::string::npos || after + 4 > stat.size()) continue;
    if (std::atoi(stat.c_str() + after + 4) == pid) children.push_back(candidate);
  }
  closedir(proc);
  return children;
}

std::string read_text(const std::string& path) {
  constexpr std::size_t kMostBytes = 1U << 30U;
  return read_file(path, kMostBytes).value_or(std::string());
}

void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::size_t count_lines(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::size_t count_of(std::string_view text, std::string_view word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size())) ++count;
  return count;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace flight
