// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/helpers/helpers.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "daemon/broker/helpers/helper_messages.hpp"
#include "daemon/broker/helpers/helper_process.hpp"
#include "daemon/broker/helpers/helper_reply.hpp"
#include "daemon/broker/helpers/pace.hpp"
#include "libcore/base/not_started.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight::broker {
namespace {

using HelperClock = std::chrono::steady_clock;

// After a crash: a file that ends every helper that reads it must not keep the machine busy.
constexpr std::chrono::milliseconds kCrashPause{1000};
// How often a call looks for a helper at least.
constexpr std::chrono::milliseconds kLookForOne{100};

}  // namespace

struct Helpers::Shared {
  struct Slot {
    UniqueFd socket;
    pid_t pid = -1;  // -1: it ended, or was not made yet
    bool busy = false;
    bool lent = false;                   // busy only because it makes another one, or is made
    HelperClock::time_point not_before;  // when it may be made again
    std::uint64_t ended_ns = 0;          // the CPU time that it had used when it ended
    std::uint64_t told_ns = 0;           // what callers know of its CPU time
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::array<Slot, kMost> slots;
  std::uint64_t ended_cpu_ns = 0;  // of those that ended

  Slot* take();
  Slot* lend();
  [[nodiscard]] std::size_t reading() const;
  [[nodiscard]] bool may_get_free();
  void wait_for_change();
  void give(Slot& slot, bool may_help_others = true);
  [[nodiscard]] static std::uint64_t newly_used_ns(Slot& slot, pid_t pid);
  Result<void> make(Slot& slot, std::uint64_t& cpu_ns);
  void keep_idle(std::uint64_t& cpu_ns);
  Result<std::vector<std::byte>> exchange(Slot& slot, FrameKind frame_kind, std::span<const std::byte> body,
                                          const Notices& notices);
  Failure ended(Slot& slot, bool killed);
  void forget(Slot& slot, const rusage& usage, std::chrono::milliseconds pause);
  void note_ends_while_idle();
};

// With the mutex locked. `usage`: what wait4(2) said at its end. `pause`: until it may be made again.
void Helpers::Shared::forget(Slot& slot, const rusage& usage, std::chrono::milliseconds pause) {
  const auto ns_of = [](const timeval& time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_usec) * 1000U;
  };
  slot.ended_ns = ns_of(usage.ru_utime) + ns_of(usage.ru_stime);
  ended_cpu_ns += slot.ended_ns;
  slot.pid = -1;
  slot.socket.reset();
  slot.not_before = HelperClock::now() + pause;
}

// By the OOM killer, or by hand. With the mutex locked.
void Helpers::Shared::note_ends_while_idle() {
  for (Slot& slot : slots) {
    rusage usage{};
    if (slot.busy || slot.pid < 0 || ::wait4(slot.pid, nullptr, WNOHANG, &usage) != slot.pid) continue;
    forget(slot, usage, std::chrono::milliseconds(0));
  }
}

Failure Helpers::Shared::ended(Slot& slot, bool killed) {
  int status = 0;
  rusage usage{};
  const pid_t pid = slot.pid;
  ::kill(pid, SIGKILL);  // where only its socket failed
  while (::wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  {
    const std::lock_guard lock(mutex);
    forget(slot, usage, killed ? std::chrono::milliseconds(0) : kCrashPause);
  }
  if (killed)
    return fail(std::errc::timed_out,
                "read mapped files: a process does not answer, because it waits for a disk or is stuck");
  const std::string how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                              : fmt::format("exit status {}", WEXITSTATUS(status));
  return fail(std::errc::broken_pipe, "read mapped files: the helper {} (pid {}) ended ({})", kHelperTitle, pid, how);
}

Result<std::vector<std::byte>> Helpers::Shared::exchange(Slot& slot, FrameKind frame_kind,
                                                         std::span<const std::byte> body, const Notices& notices) {
  HelperReply reply(slot.socket.get(), slot.pid);
  if (frame_kind == FrameKind::multiply) reply.expect_clone();
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

// The number of helpers that work, or hang.
std::size_t Helpers::Shared::reading() const {
  return static_cast<std::size_t>(
      std::count_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.busy && !slot.lent; }));
}

// One that is alive is left to make others: if only one is idle, it makes the one that is taken.
Helpers::Shared::Slot* Helpers::Shared::take() {
  const std::lock_guard lock(mutex);
  if (reading() >= kCalls) return nullptr;
  note_ends_while_idle();
  Slot* alive = nullptr;
  Slot* missing = nullptr;
  std::size_t idle = 0;
  for (Slot& slot : slots) {
    if (slot.busy) continue;
    if (slot.pid >= 0) {
      alive = &slot;
      ++idle;
    } else if (missing == nullptr || slot.not_before < missing->not_before) {
      missing = &slot;
    }
  }
  Slot* found = idle > 1 ? alive : missing;
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

void Helpers::Shared::give(Slot& slot, bool may_help_others) {
  {
    const std::lock_guard lock(mutex);
    slot.busy = slot.lent = false;
  }
  if (may_help_others) changed.notify_all();
}

bool Helpers::Shared::may_get_free() {
  const std::lock_guard lock(mutex);
  return reading() < kCalls && std::any_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.pid >= 0; });
}

void Helpers::Shared::wait_for_change() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, kLookForOne);
}

// The CPU time that the helper has used since the last call; it may have ended meanwhile. The slot must be busy.
std::uint64_t Helpers::Shared::newly_used_ns(Slot& slot, pid_t pid) {
  const std::uint64_t all_ns = std::max(slot.pid == pid ? used_cpu_ns(pid) : slot.ended_ns, slot.told_ns);
  return all_ns - std::exchange(slot.told_ns, all_ns);
}

// Adds the CPU time that it takes to `cpu_ns`.
Result<void> Helpers::Shared::make(Slot& slot, std::uint64_t& cpu_ns) {
  if (HelperClock::now() < slot.not_before)
    return fail(std::errc::operation_in_progress, "a {} ended just now, and is made again soon", kHelperTitle);
  auto pair = socket_pair(SOCK_STREAM);
  if (!pair) return wrap(pair.error(), "for the process '{}'", kHelperTitle);
  Slot* parent = lend();
  if (parent == nullptr)
    return fail(std::errc::operation_in_progress, "start a {}: all of them are busy", kHelperTitle);
  const pid_t parent_pid = parent->pid;
  const bool sent = send_with_descriptor(parent->socket.get(), {.kind = FrameKind::multiply}, pair->other.get());
  pair->other.reset();
  auto reply =
      sent ? exchange(*parent, FrameKind::multiply, {}, {}) : Result<std::vector<std::byte>>(ended(*parent, false));
  cpu_ns += newly_used_ns(*parent, parent_pid);
  give(*parent);
  if (!reply) return propagate(reply.error());
  std::int64_t pid = -EBADMSG;
  if (reply->size() == sizeof pid) std::memcpy(&pid, reply->data(), sizeof pid);
  if (pid <= 0) return sys_error(static_cast<int>(-pid), "make a {}", kHelperTitle);
  const std::lock_guard lock(mutex);
  slot.pid = static_cast<pid_t>(pid);
  slot.socket = std::move(pair->own);
  slot.told_ns = 0;
  return {};
}

// As many as at the start, so that the next call need not make one. What fails is tried by the next call.
void Helpers::Shared::keep_idle(std::uint64_t& cpu_ns) {
  Slot* missing = nullptr;
  {
    const std::lock_guard lock(mutex);
    std::size_t idle = 0;
    for (Slot& slot : slots) {
      if (slot.busy) continue;
      if (slot.pid >= 0)
        ++idle;
      else if (HelperClock::now() >= slot.not_before)
        missing = &slot;
    }
    if (idle >= kAtStart || missing == nullptr) return;
    missing->busy = missing->lent = true;
  }
  const bool made = make(*missing, cpu_ns).has_value();
  give(*missing, made);
}

Result<Helpers> Helpers::start(const Work& work, std::span<char> command_line) {
  Helpers out;
  out.shared_ = std::make_shared<Shared>();
  const pid_t broker = ::getpid();
  const auto give_up = [&out](Failure failure) {
    out.end(std::chrono::milliseconds(1000));
    return failure;
  };
  for (Shared::Slot& slot : std::span(out.shared_->slots).first(kAtStart)) {
    auto pair = socket_pair(SOCK_STREAM);
    if (!pair) return give_up(wrap(pair.error(), "for the process '{}'", kHelperTitle));
    const pid_t pid = ::fork();
    if (pid == 0) run_helper(work, command_line, broker, pair->other.get());
    if (pid < 0) return give_up(not_started(errno, fmt::format("the process '{}'", kHelperTitle)));
    slot.pid = pid;
    slot.socket = std::move(pair->own);
  }
  return out;
}

Result<std::vector<std::byte>> Helpers::call(std::span<const std::byte> request, const Notices& notices) const {
  const auto until = HelperClock::now() + kPatience;
  std::uint64_t cpu_ns = 0;
  const auto tell = [&](std::chrono::nanoseconds time) {
    if (notices.used) notices.used(time, std::chrono::nanoseconds(std::exchange(cpu_ns, 0)));
  };
  for (std::size_t died_idle = 0;;) {
    Shared::Slot* slot = shared_ ? shared_->take() : nullptr;
    Result<void> alive;
    if (slot != nullptr && slot->pid < 0) alive = shared_->make(*slot, cpu_ns);
    if (slot == nullptr || !alive) {
      if (slot != nullptr) shared_->give(*slot, false);
      const bool may_wait = alive || alive.error().code == std::errc::operation_in_progress;
      if (shared_ && may_wait && HelperClock::now() < until && shared_->may_get_free()) {
        shared_->wait_for_change();
        continue;
      }
      tell(std::chrono::nanoseconds(0));
      return fail(std::errc::device_or_resource_busy, "read mapped files: {}",
                  alive ? "all helpers (flightd-reader) work, or wait for a disk" : alive.error().what);
    }
    if (notices.has_helper) notices.has_helper(true);
    const pid_t pid = slot->pid;
    const auto begun = HelperClock::now();
    auto reply = shared_->exchange(*slot, FrameKind::request, request, notices);
    const bool lives = slot->pid == pid;
    const std::chrono::nanoseconds passed = HelperClock::now() - begun;
    const std::chrono::nanoseconds used(Shared::newly_used_ns(*slot, pid));
    cpu_ns += static_cast<std::uint64_t>(used.count());
    if (notices.has_helper) notices.has_helper(false);
    shared_->give(*slot);
    shared_->keep_idle(cpu_ns);
    tell(lives ? used : passed);
    // One that was killed just now, while it was idle, has read nothing: the next one does it.
    if (reply || reply.error().code != std::errc::connection_reset) return reply;
    if (++died_idle > kMost) return fail(std::errc::device_or_resource_busy, "{}", reply.error().what);
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
