// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/mapping.hpp"

#include <gtest/gtest.h>

#include "tests/unit/vm_flags.hpp"

namespace flight {
namespace {

TEST(Mapping, IsLeftOutOfCoreWhereAsked) {
  const auto plain = Mapping::create(4096);
  const auto secret = Mapping::create(4096);
  ASSERT_TRUE(plain && secret);
  secret->leave_out_of_core();
  EXPECT_FALSE(test::is_left_out_of_core(plain->data()));
  EXPECT_TRUE(test::is_left_out_of_core(secret->data()));
  Mapping().leave_out_of_core();
}

}  // namespace
}  // namespace flight
