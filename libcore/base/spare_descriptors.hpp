// SPDX-License-Identifier: Apache-2.0
// Descriptors that are kept for the moment in which there are no more (RLIMIT_NOFILE, fs.file-max): work that must not
// fail then gives them back first. Any thread.
#pragma once

#include <mutex>
#include <vector>

#include "libcore/base/unique_fd.hpp"

namespace flight {

class SpareDescriptors {
 public:
  // More than a snapshot opens at a time, in flightd and in flightd-broker each.
  static constexpr std::size_t kMany = 16;

  // Opens /dev/null until there are kMany, or no more can be had. First thing in main(): the lowest numbers are free
  // for certain below every limit.
  void take();
  void give();

 private:
  std::mutex mutex_;
  std::vector<UniqueFd> kept_;
};

}  // namespace flight
