// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/doubtful_time.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/timex.h>

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
  return now - touched <= kMostAhead && touched - now <= kMostAhead;
}

StoreClock StoreClock::read() {
  const std::chrono::nanoseconds since_boot(static_cast<std::int64_t>(boottime_now()));
  const WallTime now = wall_now();
  return {.now = now, .since_boot = since_boot, .synchronised = is_synchronised(now)};
}

std::optional<ClockDoubt> doubt_of(const StoreClock& clock) {
  const std::chrono::nanoseconds since_boot = clock.since_boot;
  const WallTime boot = clock.boot();
  if (since_boot < kFirstOfBoot)
    return ClockDoubt{
        .why = fmt::format("the machine started {} ago, and its clock may not be set yet", format_duration(since_boot)),
        .left = kFirstOfBoot - since_boot};
  if (const auto& ahead = clock.record.ahead; ahead && since_boot - ahead->at < kAfterAhead)
    return ClockDoubt{.why = fmt::format("the clock ran ahead by {}, {} ago", format_duration(ahead->by),
                                         format_duration(since_boot - ahead->at)),
                      .left = kAfterAhead - (since_boot - ahead->at)};
  // It ran ahead before anything was recorded, at the latest at the first look.
  if (clock.first_of_boot && boot - *clock.first_of_boot > kMostAhead &&
      since_boot - clock.record.known_from < kAfterAhead)
    return ClockDoubt{.why = fmt::format("the clock ran ahead by {} or more since a snapshot of this boot was taken",
                                         format_duration(boot - *clock.first_of_boot)),
                      .left = kAfterAhead - (since_boot - clock.record.known_from)};
  if (!clock.synchronised && since_boot < kMostOff && clock.last_of_others && boot - *clock.last_of_others > kMostOff)
    return ClockDoubt{
        .why = fmt::format("by the clock {} lie between the last snapshot and the boot, and it is not known to be "
                           "synchronised",
                           format_duration(boot - *clock.last_of_others)),
        .left = kMostOff - since_boot,
        .or_synchronised = true};
  return std::nullopt;
}

}  // namespace flight
