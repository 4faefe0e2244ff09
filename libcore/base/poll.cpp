// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/poll.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <thread>

namespace flight {

void wait_for_any(std::span<pollfd> watched, std::chrono::nanoseconds limit) {
  constexpr std::chrono::nanoseconds kPause = std::chrono::milliseconds(20);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (limit - seconds).count()};
  if (::ppoll(watched.data(), watched.size(), limit.count() < 0 ? nullptr : &timeout, nullptr) >= 0) return;
  const bool interrupted = errno == EINTR;
  for (pollfd& one : watched) one.revents = 0;
  if (interrupted) return;
  std::this_thread::sleep_for(limit.count() < 0 ? kPause : std::min(limit, kPause));
  for (pollfd& one : watched)
    if (::poll(&one, 1, 0) < 0) one.revents = 0;
}

}  // namespace flight
