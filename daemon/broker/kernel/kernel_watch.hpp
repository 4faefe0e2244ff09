// SPDX-License-Identifier: Apache-2.0
// Reads the list of the kernel's modules: after the uevent of a load or unload, every ten seconds, and on request. On
// request it also reads /proc/kallsyms, if the client does not know the modules' current state. A separate thread
// reads, because modules.dep can be on a disk that hangs, and kallsyms takes 0.1 s. No function here waits for it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/broker/blocking_threads.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/kernel_names.hpp"

namespace flight::broker {

// Owner thread only.
class KernelWatch {
 public:
  struct Answer {
    KernelNames names;
    UniqueFd kallsyms;  // a sealed memfd, if `names` refers to kallsyms
  };
  // `thread`: one, for this alone. `wake`: any thread; called when a look is done. `root`: for tests.
  KernelWatch(BlockingThreads thread, std::function<void()> wake, std::string root = "");
  KernelWatch(KernelWatch&&) noexcept = default;
  KernelWatch& operator=(KernelWatch&&) noexcept = default;
  // Does not wait for a look that hangs; its thread is left behind.
  ~KernelWatch() = default;

  // Call it when a uevent reports that a module was loaded or unloaded.
  void suspect();
  // Requests a reply that is read after this call. It contains kallsyms unless the digest would be `has`.
  void want(std::string has);
  // Drops the request: the client has disconnected.
  void forget();
  // Begins a look if one is due. Call it after `wake` was called, and at least every look_every().
  void look();
  // When to call look() next.
  [[nodiscard]] std::chrono::milliseconds look_every() const;
  // The reply to want(); nullopt while it is being read. ETIMEDOUT: reading takes longer than kWait.
  [[nodiscard]] std::optional<Result<Answer>> take();
  // Waits for the first look, at most `limit`. Modules that are unloaded later are then known. Only at start.
  void wait_for_first(std::chrono::milliseconds limit);

  static constexpr std::chrono::milliseconds kWait{5000};
  // The minimum time between two looks.
  static constexpr std::chrono::milliseconds kAtMostEvery{100};
  static constexpr std::chrono::milliseconds kRoutine{10'000};
  // The number of memfds with the same kallsyms. A client that connects again and again could keep all of them, 10 MB
  // each, so the last one is kept and sent again.
  static constexpr int kMaxCopies = 3;

 private:
  using Clock = std::chrono::steady_clock;
  struct Shared;
  struct Order;
  static void read(Shared& shared, const Order& order);
  void begin(const Order& order);

  std::shared_ptr<Shared> shared_;
  BlockingThreads thread_;
  Clock::time_point begun_;            // the last look
  Clock::time_point due_;              // the next one at the latest
  std::optional<std::string> wanted_;  // the client's digest; nullopt: no request
  std::uint64_t wanted_look_ = 0;      // the look with the reply; 0: not begun
  Clock::time_point wanted_since_;
  std::uint64_t looks_ = 0;  // number of looks begun
  int settling_ = 0;         // looks after a uevent: a module appears in the list with a delay
};

}  // namespace flight::broker
