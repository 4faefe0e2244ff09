// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/clock_record.hpp"

#include "libcore/json/parse.hpp"
#include "libcore/json/reader.hpp"

namespace flight {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kJitter = std::chrono::seconds(1);  // the two clocks are not read at the same moment
constexpr nanoseconds kDay = std::chrono::hours(24);
// With these no difference of times overflows: the year 2160, and 36 years of uptime.
constexpr std::int64_t kMostWallNs = 6'000'000'000'000'000'000, kMostUptimeNs = 1LL << 60U;

}  // namespace

bool ClockRecord::look(std::string_view boot_id_now, WallTime now, nanoseconds since_boot) {
  const nanoseconds boot_now = now - since_boot;
  // Also if CLOCK_BOOTTIME is before what was recorded: then the id of the boot is not unique (containers).
  if (boot_id != boot_id_now || since_boot < boot_at) {
    *this = {.boot_id = std::string(boot_id_now), .known_from = since_boot, .boot = boot_now, .boot_at = since_boot};
    return true;
  }
  const bool grew = boot_now - boot > kMostAhead;
  if (grew) ahead = Ahead{.at = since_boot, .by = boot_now - boot};
  if (!grew && boot_now >= boot - kJitter && since_boot - boot_at <= kDay) return false;
  boot = boot_now;
  boot_at = since_boot;
  return true;
}

std::string to_json(const ClockRecord& record) {
  json::Object out{{"boot_id", record.boot_id},
                   {"known_from_ns", record.known_from.count()},
                   {"boot_ns", record.boot.count()},
                   {"boot_at_ns", record.boot_at.count()}};
  if (record.ahead) {
    out.add("ahead_at_ns", record.ahead->at.count());
    out.add("ahead_by_ns", record.ahead->by.count());
  }
  return json::dump(out) + '\n';
}

Result<ClockRecord> parse_clock_record(std::string_view text) {
  const auto value = json::parse(text, {.max_bytes = kMaxClockRecordBytes});
  if (!value) return wrap(value.error(), "the record of the clock");
  ClockRecord out;
  std::uint64_t known_from_ns = 0, boot_at_ns = 0, ahead_at_ns = 0, ahead_by_ns = 0;
  std::int64_t boot_ns = 0;  // negative: the clock was set to 1970
  const auto read = json::read_object(*value, json::Missing::keeps_default, [&](const json::Reader& in) {
    in.need("boot_id", out.boot_id);
    in.count("known_from_ns", known_from_ns, kMostUptimeNs);
    in.read("boot_ns", boot_ns);
    if (boot_ns > kMostWallNs || boot_ns < -kMostUptimeNs) in.refuse("boot_ns", "a time");
    in.count("boot_at_ns", boot_at_ns, kMostUptimeNs);
    in.count("ahead_at_ns", ahead_at_ns, kMostUptimeNs);
    in.count("ahead_by_ns", ahead_by_ns, kMostWallNs);
  });
  if (!read) return wrap(read.error(), "the record of the clock");
  out.known_from = nanoseconds(known_from_ns);
  out.boot = nanoseconds(boot_ns);
  out.boot_at = nanoseconds(boot_at_ns);
  if (ahead_by_ns > 0) out.ahead = ClockRecord::Ahead{.at = nanoseconds(ahead_at_ns), .by = nanoseconds(ahead_by_ns)};
  return out;
}

}  // namespace flight
