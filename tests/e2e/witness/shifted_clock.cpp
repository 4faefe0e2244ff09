// SPDX-License-Identifier: Apache-2.0
// Preloaded into flightd by a test: its wall clock is the machine's, shifted by what is in the file
// $FLIGHT_SHIFTED_CLOCK (tests/e2e/witness/shifted_clock.hpp). The machine's own clock is never set.
#include "tests/e2e/witness/shifted_clock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>

namespace {

const flight::ShiftedClock* shift = nullptr;
std::atomic<int> alarm_fd = -1;

[[gnu::constructor]] void open_shift() {
  const char* path = std::getenv("FLIGHT_SHIFTED_CLOCK");
  const int fd = path != nullptr ? ::open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) std::abort();  // the test would see nothing
  void* memory = ::mmap(nullptr, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) std::abort();
  shift = static_cast<const flight::ShiftedClock*>(memory);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (result != 0 || shift == nullptr) return result;
  std::int64_t by = 0;
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) by = shift->wall_ns;
  if (clock == CLOCK_BOOTTIME) by = shift->slept_ns;
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t all = time->tv_sec * kSecond + time->tv_nsec + by;
  time->tv_sec = all / kSecond;
  time->tv_nsec = all % kSecond;
  return 0;
}

extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

extern "C" int timerfd_create(clockid_t clock, int flags) noexcept {
  if (clock != CLOCK_REALTIME) return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
  const char* path = std::getenv("FLIGHT_SHIFTED_CLOCK");
  if (path == nullptr) std::abort();
  const int fd = ::open(flight::alarm_of(path).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) std::abort();  // the test would only see ticks
  alarm_fd = fd;
  return fd;
}

extern "C" int timerfd_settime(int fd, int flags, const itimerspec* time, itimerspec* old) noexcept {
  if (fd == alarm_fd) return 0;
  return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, time, old));
}
