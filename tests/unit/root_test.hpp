// SPDX-License-Identifier: Apache-2.0
// Cases that need root: for another user they are skipped, so that all others can be run without sudo.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace flight::test {

inline bool is_root() { return ::geteuid() == 0; }

// The base of a fixture. GoogleTest calls neither SetUp() nor TearDown() of one that was skipped in its constructor;
// the constructors and members of derived classes still run, and may not fail.
class RootTest : public testing::Test {
 protected:
  RootTest() { skip_without_root(); }

 private:
  static void skip_without_root() {
    if (!is_root()) GTEST_SKIP() << "needs root";
  }
};

}  // namespace flight::test
