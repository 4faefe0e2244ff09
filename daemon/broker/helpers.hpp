// SPDX-License-Identifier: Apache-2.0
// Processes for reads that can block without a limit: files that others have mapped, and the maps of other processes. A
// thread that waits for a FUSE server cannot be ended, and its process with it. A helper has no descriptor of the
// broker but its own socket. Nothing uses them yet: threads of the broker still read (file_watch.hpp, scan.hpp).
//
//   flightd-reader   kOfEach; files       \  one works, the other is there for the time in which it hangs
//   flightd-scanner  kOfEach; maps        /
//
// All are made at start, before the first thread. A helper that waits for the lock of a process's maps is killed and
// made again, by another one, since a program with threads must not fork. One that waits for a disk may not be killed
// by the kernel: it is left behind until the disk answers.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight::broker {

class Helpers {
 public:
  enum class Kind : std::uint32_t { reader, scanner };
  static constexpr std::size_t kOfEach = 2;
  // Unless a disk may hang, a helper is killed if it neither used the CPU nor waited for one for so long,
  static constexpr std::chrono::milliseconds kKillAfter{400};
  // or works for so long: a process can hold the lock of its mappings again and again.
  static constexpr std::chrono::milliseconds kKillAtLast{2000};
  // How long a call waits for a helper that is being made again, or makes another one.
  static constexpr std::chrono::milliseconds kPatience{1500};
  static constexpr std::size_t kMostBytes = 64U << 20U;  // of a request or a reply

  // What a helper says before its reply. The caller may leave both empty.
  struct Notices {
    std::function<void()> answered;                             // from now on a disk may hang, and no process
    std::function<void(std::span<const std::byte> part)> part;  // of the reply; then a process may hang again
  };
  // Runs in a helper, for one request; returns the reply.
  using Work = std::function<std::vector<std::byte>(std::span<const std::byte> request, const Notices& notices)>;

  // Forks the helpers. The program must have no other thread, and the privileges that `work` needs. `command_line`: the
  // program's arguments in memory (main's argv), where ps(1) reads a helper's title; may be empty. EAGAIN: no task is
  // left.
  [[nodiscard]] static Result<Helpers> start(const Work& work, std::span<char> command_line = {});
  Helpers() = default;  // has none: each call fails

  // Any thread. Waits as long as a helper does: call it on a thread that may wait (blocking_threads.hpp).
  // `notices`: called on this thread, when the helper calls its own. ETIMEDOUT: the helper waited and was killed.
  // EPIPE: it ended (a crash, kill -9). EBUSY: none was free, and nothing was read.
  [[nodiscard]] Result<std::vector<std::byte>> call(Kind kind, std::span<const std::byte> request,
                                                    const Notices& notices = {}) const;
  // The helpers that live, for tests.
  [[nodiscard]] std::vector<pid_t> pids() const;
  // False: none is left that could make others. Only the next broker has new ones.
  [[nodiscard]] bool any() const;
  // Of all of them, also of those that ended.
  [[nodiscard]] double cpu_seconds() const;
  // The idle ones end; waits for them, at most `limit`. Without it, the kernel kills them when this program ends.
  void end(std::chrono::milliseconds limit) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace flight::broker
