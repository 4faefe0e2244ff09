// SPDX-License-Identifier: Apache-2.0
// Paths that `meson test` passes to the tests in the environment. As macros they would differ in each folder, and
// ccache could not use there what it has compiled in another one.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace flight::test {

// If it is not set, a path that does not exist.
inline std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr) return value;
  std::fprintf(stderr, "$%s is not set: run the tests with `meson test`\n", name);
  return std::string("/no-such-folder/") + name;
}

inline const std::string& source_root() {
  static const std::string kPath = from_environment("FLIGHT_SOURCE_ROOT");
  return kPath;
}
inline const std::string& flightctl() {
  static const std::string kPath = from_environment("FLIGHTCTL");
  return kPath;
}
inline const std::string& flightd_broker() {
  static const std::string kPath = from_environment("FLIGHTD_BROKER");
  return kPath;
}
inline const std::string& config_child() {
  static const std::string kPath = from_environment("FLIGHT_CONFIG_CHILD");
  return kPath;
}

}  // namespace flight::test
