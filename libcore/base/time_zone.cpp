// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/time_zone.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "libcore/base/kernel_file.hpp"

namespace flight {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The file that glibc reads (time/tzset.c, time/tzfile.c): also for a rule such as "CET-1CEST", for which there could
// be one.
std::string zone_file() {
  if (std::getenv("TZ") == nullptr) return "/etc/localtime";
  std::string zone = variable("TZ");
  if (zone.empty()) zone = "Universal";
  if (zone.front() == ':') zone.erase(0, 1);
  if (zone.starts_with('/')) return zone;
  const std::string folder = variable("TZDIR");
  return fmt::format("{}/{}", folder.empty() ? "/usr/share/zoneinfo" : folder, zone);
}

}  // namespace

std::string settle_time_zone() {
  const std::string file = zone_file();
  std::string why;
  if (const std::string type = waits_below("/", file); !type.empty()) {
    why = fmt::format(
        "local times are UTC: the file of the time zone, {}, is on {}, whose server may never answer (findmnt -T {})",
        file, type, file);
    ::setenv("TZ", "UTC0", 1);
    ::setenv("TZDIR", "/dev/null", 1);  // no file is looked for
  }
  ::tzset();
  return why;
}

}  // namespace flight
