// SPDX-License-Identifier: Apache-2.0
// What the kernel says about a mapping of this process.
#pragma once

#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace flight::test {

// Whether a core dump leaves out the mapping at `address`: "dd" among the VmFlags in /proc/self/smaps.
inline bool is_left_out_of_core(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uint64_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
      inside = begin <= wanted && wanted < end;
    else if (inside && line.starts_with("VmFlags:"))
      return (line + " ").find(" dd ") != std::string::npos;
  }
  ADD_FAILURE() << "no mapping at " << address;
  return false;
}

}  // namespace flight::test
