// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/doubtful_time.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/timex.h>

#include <ctime>

#include "libcore/base/units.hpp"

namespace flight {
namespace {

constexpr const char* kTimesyncdFile = "/run/systemd/timesync/synchronized";

// adjtimex(2) reports the state for every program that sets the clock, but ProtectClock= of flightd's unit forbids the
// call. If neither it nor systemd-timesyncd reports a synchronised clock, the clock counts as not synchronised.
bool is_synchronised(WallTime now) {
  timex state{};
  const int answer = ::adjtimex(&state);
  if (answer >= 0) return answer != TIME_ERROR && (static_cast<unsigned>(state.status) & unsigned{STA_UNSYNC}) == 0;
  return timesyncd_vouches(kTimesyncdFile, now);
}

}  // namespace

bool timesyncd_vouches(const char* file, WallTime now) {
  struct stat status {};
  if (::stat(file, &status) != 0) return false;
  const WallTime touched =
      std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  return now - touched <= kMostStep && touched - now <= kMostStep;
}

StoreClock StoreClock::read(WallTime boot_at_start) {
  timespec boot{};
  ::clock_gettime(CLOCK_BOOTTIME, &boot);
  const WallTime now = wall_now();
  return {.now = now,
          .since_boot = std::chrono::seconds(boot.tv_sec) + std::chrono::nanoseconds(boot.tv_nsec),
          .boot_at_start = boot_at_start,
          .synchronised = is_synchronised(now)};
}

std::string why_doubtful(const StoreClock& clock) {
  if (clock.synchronised) return "";
  const WallTime boot = clock.boot();
  if (const auto step = boot - clock.boot_at_start; step > kMostStep)
    return fmt::format("the clock went ahead by {} since flightd started, and is not known to be synchronised",
                       format_duration(step));
  if (clock.first_of_boot && boot - *clock.first_of_boot > kMostStep)
    return fmt::format(
        "the clock went ahead by {} or more since a snapshot of this boot was taken, and is not known to be "
        "synchronised",
        format_duration(boot - *clock.first_of_boot));
  if (clock.last_of_others && boot - *clock.last_of_others > kMostOff)
    return fmt::format(
        "by the clock {} lie between the last snapshot and the boot, and it is not known to be synchronised",
        format_duration(boot - *clock.last_of_others));
  return "";
}

}  // namespace flight
