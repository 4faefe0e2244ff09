// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/retry.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace flight {
namespace {

TEST(Retry, SoonAtFirstAndThenEveryTenSeconds) {
  std::chrono::seconds waited{0};
  for (std::size_t failed = 0; failed < 6; ++failed) waited += retry_after(failed);
  EXPECT_EQ(waited, std::chrono::seconds(1 + 2 + 5 + 10 + 10 + 10));
  EXPECT_EQ(retry_after(0), std::chrono::seconds(1));
  EXPECT_EQ(retry_after(SIZE_MAX), std::chrono::seconds(10));
}

}  // namespace
}  // namespace flight
