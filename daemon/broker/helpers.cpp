// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/helpers.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "daemon/broker/helper_messages.hpp"
#include "daemon/broker/helper_process.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {
namespace {

using HelperClock = std::chrono::steady_clock;

// After a crash: a file that ends every helper that reads it must not keep the machine busy.
constexpr std::chrono::milliseconds kCrashPause{1000};
// How often a helper's pace is looked at.
constexpr std::chrono::milliseconds kStep{100};

const char* subject_of(Helpers::Kind kind) {
  return kind == Helpers::Kind::reader ? "mapped files" : "the maps of processes";
}

// 0: it ended.
std::uint64_t used_cpu_ns(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0;
  return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(used.tv_nsec);
}

// Whether a process uses a CPU, or waits for one.
class Pace {
 public:
  explicit Pace(pid_t pid) : pid_(pid), used_ns_(used_cpu_ns(pid)) {}
  // Since the last call.
  [[nodiscard]] bool goes_on() {
    const std::uint64_t before_ns = std::exchange(used_ns_, used_cpu_ns(pid_));
    return used_ns_ != before_ns || state() == 'R';
  }

 private:
  // The letter behind the name in proc_pid_stat(5).
  [[nodiscard]] char state() const {
    constexpr std::size_t kMaxStatBytes = 4096;
    const auto text = read_file(fmt::format("/proc/{}/stat", pid_), kMaxStatBytes);
    const std::size_t end = text ? text->rfind(") ") : std::string::npos;
    return end == std::string::npos || end + 2 >= text->size() ? '?' : (*text)[end + 2];
  }
  pid_t pid_;
  std::uint64_t used_ns_;
};

}  // namespace

struct Helpers::Shared {
  struct Slot {
    Kind kind = Kind::reader;
    UniqueFd socket;
    pid_t pid = -1;  // -1: it ended
    bool busy = false;
    bool lent = false;                   // busy only because it makes another one
    HelperClock::time_point not_before;  // when it may be made again
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::array<Slot, 2 * kOfEach> slots;
  std::uint64_t ended_cpu_ns = 0;  // of those that ended

  Slot* take(Kind kind);
  Slot* lend();
  [[nodiscard]] bool may_get_free(Kind kind);
  void wait_for_change();
  void give(Slot& slot);
  Result<void> make_again(Slot& slot);
  void make_all_again();
  Result<std::vector<std::byte>> exchange(Slot& slot, FrameKind frame_kind, std::span<const std::byte> body,
                                          const Notices& notices);
  Failure ended(Slot& slot, bool killed);
};

// The broker's side of one exchange with a helper, which is killed if it waits.
namespace {

class HelperReply {
 public:
  HelperReply(int socket, pid_t pid) : socket_(socket), pid_(pid), pace_(pid) {}
  // False: the helper ended.
  [[nodiscard]] bool receive(void* out, std::size_t bytes) {
    auto* to = static_cast<std::byte*>(out);
    while (bytes > 0) {
      pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&readable, 1, may_kill_ ? static_cast<int>(kStep.count()) : -1);
      if (ready == 0) {
        idle_ = pace_.goes_on() ? std::chrono::milliseconds(0) : idle_ + kStep;
        if (idle_ >= Helpers::kKillAfter || HelperClock::now() - begun_ >= Helpers::kKillAtLast) kill();
        continue;
      }
      const ssize_t got = ::recv(socket_, to, bytes, MSG_DONTWAIT);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) return false;
      to += got;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }
  // Whether to kill it if it waits.
  void expect_process(bool may_hang) {
    may_kill_ = may_hang && !killed_;
    idle_ = std::chrono::milliseconds(0);
    begun_ = HelperClock::now();
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    killed_ = true;
    may_kill_ = false;
  }
  [[nodiscard]] bool killed() const { return killed_; }

 private:
  int socket_;
  pid_t pid_;
  Pace pace_;
  std::chrono::milliseconds idle_{0};
  HelperClock::time_point begun_ = HelperClock::now();
  bool may_kill_ = true, killed_ = false;
};

}  // namespace

Failure Helpers::Shared::ended(Slot& slot, bool killed) {
  int status = 0;
  rusage usage{};
  const pid_t pid = slot.pid;
  ::kill(pid, SIGKILL);  // where only its socket failed
  while (::wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  const auto ns_of = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_usec) * 1000U;
  };
  const char* subject = subject_of(slot.kind);
  {
    const std::lock_guard lock(mutex);
    ended_cpu_ns += ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
    slot.pid = -1;
    slot.socket.reset();
    slot.not_before = HelperClock::now() + (killed ? std::chrono::milliseconds(0) : kCrashPause);
  }
  if (killed)
    return fail(std::errc::timed_out, "read {}: a process does not answer, because it waits for a disk or is stuck",
                subject);
  const std::string how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                              : fmt::format("exit status {}", WEXITSTATUS(status));
  return fail(std::errc::broken_pipe, "read {}: process {} ({}), which does it, ended ({})", subject, pid,
              title_of(slot.kind), how);
}

Result<std::vector<std::byte>> Helpers::Shared::exchange(Slot& slot, FrameKind frame_kind,
                                                         std::span<const std::byte> body, const Notices& notices) {
  HelperReply reply(slot.socket.get(), slot.pid);
  // A request fits into the socket's buffer, and the helper waits for it.
  if (frame_kind != FrameKind::multiply && !send_frame(slot.socket.get(), frame_kind, body)) {
    Failure failure = ended(slot, false);
    failure.value().code = std::make_error_code(std::errc::connection_reset);
    return failure;
  }
  for (;;) {
    Frame frame;
    if (!reply.receive(&frame, sizeof frame)) return ended(slot, reply.killed());
    if (frame.bytes > kMostBytes) {
      reply.kill();
      return ended(slot, false);
    }
    std::vector<std::byte> out(frame.bytes);
    if (!reply.receive(out.data(), out.size())) return ended(slot, reply.killed());
    if (frame.kind == FrameKind::reply) {
      if (reply.killed()) static_cast<void>(ended(slot, true));  // it answered just before
      return out;
    }
    reply.expect_process(frame.kind == FrameKind::part);
    if (frame.kind == FrameKind::part && notices.part) notices.part(out);
    if (frame.kind == FrameKind::answered && notices.answered) notices.answered();
  }
}

// Rather one that lives.
Helpers::Shared::Slot* Helpers::Shared::take(Kind kind) {
  const std::lock_guard lock(mutex);
  Slot* found = nullptr;
  for (Slot& slot : slots) {
    if (slot.kind != kind || slot.busy) continue;
    if (found == nullptr || (found->pid < 0 && slot.pid >= 0)) found = &slot;
  }
  if (found != nullptr) found->busy = true;
  return found;
}

Helpers::Shared::Slot* Helpers::Shared::lend() {
  const std::lock_guard lock(mutex);
  for (Slot& slot : slots) {
    if (slot.busy || slot.pid < 0) continue;
    slot.busy = slot.lent = true;
    return &slot;
  }
  return nullptr;
}

void Helpers::Shared::give(Slot& slot) {
  {
    const std::lock_guard lock(mutex);
    slot.busy = slot.lent = false;
  }
  changed.notify_all();
}

// Whether one of the kind is not busy with a read, and a helper lives that could make it if it ended.
bool Helpers::Shared::may_get_free(Kind kind) {
  const std::lock_guard lock(mutex);
  bool any_lives = false, any_free = false;
  for (const Slot& slot : slots) {
    any_lives = any_lives || slot.pid >= 0;
    any_free = any_free || (slot.kind == kind && (!slot.busy || slot.lent));
  }
  return any_lives && any_free;
}

void Helpers::Shared::wait_for_change() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, kStep);
}

Result<void> Helpers::Shared::make_again(Slot& slot) {
  const char* title = title_of(slot.kind);
  if (HelperClock::now() < slot.not_before)
    return fail(std::errc::resource_unavailable_try_again, "a {} ended just now, and is made again soon", title);
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return sys_error(errno, "make a socket for a {}", title);
  UniqueFd own(pair[0]), its(pair[1]);
  Slot* parent = lend();
  if (parent == nullptr)
    return fail(std::errc::resource_unavailable_try_again, "no helper is idle, which could make a {}", title);
  const NewHelper order{.kind = slot.kind};
  const Frame frame{.kind = FrameKind::multiply, .bytes = sizeof order};
  const int socket = parent->socket.get();
  const bool sent = send_with_descriptor(socket, frame, its.get()) && send_exactly(socket, &order, sizeof order);
  its.reset();
  auto reply =
      sent ? exchange(*parent, FrameKind::multiply, {}, {}) : Result<std::vector<std::byte>>(ended(*parent, false));
  give(*parent);
  if (!reply) return propagate(reply.error());
  std::int64_t pid = -EBADMSG;
  if (reply->size() == sizeof pid) std::memcpy(&pid, reply->data(), sizeof pid);
  if (pid <= 0) return sys_error(static_cast<int>(-pid), "make a {}", title);
  const std::lock_guard lock(mutex);
  slot.pid = static_cast<pid_t>(pid);
  slot.socket = std::move(own);
  return {};
}

// So that one that hangs takes no time and no task when the next one is needed. What fails is tried after the next
// call.
void Helpers::Shared::make_all_again() {
  for (Slot& slot : slots) {
    {
      const std::lock_guard lock(mutex);
      if (slot.busy || slot.pid >= 0 || HelperClock::now() < slot.not_before) continue;
      slot.busy = true;
    }
    static_cast<void>(make_again(slot));
    give(slot);
  }
}

Result<Helpers> Helpers::start(const Work& work, std::span<char> command_line) {
  Helpers out;
  out.shared_ = std::make_shared<Shared>();
  const pid_t broker = ::getpid();
  const auto give_up = [&out](Failure failure) {
    out.end(std::chrono::milliseconds(1000));
    return failure;
  };
  std::size_t number = 0;
  for (Shared::Slot& slot : out.shared_->slots) {
    slot.kind = number++ < kOfEach ? Kind::reader : Kind::scanner;
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
      return give_up(sys_error(errno, "make a socket for a {}", title_of(slot.kind)));
    UniqueFd own(pair[0]), its(pair[1]);
    const pid_t pid = ::fork();
    if (pid == 0) run_helper(work, command_line, broker, its.get(), slot.kind);
    if (pid < 0)
      return give_up(sys_error(errno, "start the process '{}' (TasksMax= of the unit, pids.max or RLIMIT_NPROC)",
                               title_of(slot.kind)));
    slot.pid = pid;
    slot.socket = std::move(own);
  }
  return out;
}

Result<std::vector<std::byte>> Helpers::call(Kind kind, std::span<const std::byte> request,
                                             const Notices& notices) const {
  const auto until = HelperClock::now() + kPatience;
  for (std::size_t died_idle = 0;;) {
    Shared::Slot* slot = shared_ ? shared_->take(kind) : nullptr;
    Result<void> alive;
    if (slot != nullptr && slot->pid < 0) alive = shared_->make_again(*slot);
    if (slot == nullptr || !alive) {
      if (slot != nullptr) shared_->give(*slot);
      if (shared_ && HelperClock::now() < until && shared_->may_get_free(kind)) {
        shared_->wait_for_change();
        continue;
      }
      return fail(std::errc::device_or_resource_busy, "read {}: {}", subject_of(kind),
                  alive ? "no process that does it is free: they wait for a disk, or work" : alive.error().what);
    }
    auto reply = shared_->exchange(*slot, FrameKind::request, request, notices);
    shared_->give(*slot);
    shared_->make_all_again();
    // One that was killed while it was idle is noticed now, and has read nothing: the next one does it.
    if (reply || reply.error().code != std::errc::connection_reset || ++died_idle > kOfEach) return reply;
  }
}

std::vector<pid_t> Helpers::pids() const {
  std::vector<pid_t> out;
  if (!shared_) return out;
  const std::lock_guard lock(shared_->mutex);
  for (const Shared::Slot& slot : shared_->slots)
    if (slot.pid > 0) out.push_back(slot.pid);
  return out;
}

bool Helpers::any() const { return !pids().empty(); }

double Helpers::cpu_seconds() const {
  if (!shared_) return 0;
  const std::lock_guard lock(shared_->mutex);
  std::uint64_t used_ns = shared_->ended_cpu_ns;
  for (const Shared::Slot& slot : shared_->slots)
    if (slot.pid > 0) used_ns += used_cpu_ns(slot.pid);
  return static_cast<double>(used_ns) / 1e9;
}

void Helpers::end(std::chrono::milliseconds limit) const {
  if (!shared_) return;
  const auto until = HelperClock::now() + limit;
  const std::lock_guard lock(shared_->mutex);
  for (Shared::Slot& slot : shared_->slots) {
    if (slot.busy || slot.pid < 0) continue;
    ::shutdown(slot.socket.get(), SHUT_RDWR);
  }
  for (Shared::Slot& slot : shared_->slots) {
    if (slot.busy || slot.pid < 0) continue;
    slot.busy = true;  // no later call takes it
    pid_t ended = 0;
    while ((ended = ::waitpid(slot.pid, nullptr, WNOHANG)) == 0 && HelperClock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (ended == 0) ::kill(slot.pid, SIGKILL);
    slot.pid = -1;
  }
}

}  // namespace flight::broker
