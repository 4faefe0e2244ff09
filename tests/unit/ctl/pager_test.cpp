// SPDX-License-Identifier: Apache-2.0
// Which pager perf would start, and whether it exists.
#include "ctl/pager.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>

namespace flight::ctl {
namespace {

class PagerTest : public testing::Test {
 protected:
  PagerTest() {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (const char* value = std::getenv(kNames.at(i)); value != nullptr) before_.at(i) = value;
      ::unsetenv(kNames.at(i));
    }
    ::setenv("PATH", "/no-such-folder:/usr/bin:/bin", 1);
  }
  ~PagerTest() override {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      ::unsetenv(kNames.at(i));
      if (before_.at(i)) ::setenv(kNames.at(i), before_.at(i)->c_str(), 1);
    }
  }
  static constexpr std::array<const char*, 3> kNames{"PERF_PAGER", "PAGER", "PATH"};
  std::array<std::optional<std::string>, 3> before_;
};

TEST_F(PagerTest, OneThatDoesNotExistIsNamedWithItsVariable) {
  EXPECT_EQ(missing_pager(), "") << "perf uses its own";
  ::setenv("PAGER", "no-such-pager -R", 1);
  EXPECT_EQ(missing_pager(), "$PAGER is 'no-such-pager -R', and there is no program 'no-such-pager'");
  ::setenv("PERF_PAGER", "LESS=-R /no/such/pager", 1);
  EXPECT_EQ(missing_pager(), "$PERF_PAGER is 'LESS=-R /no/such/pager', and there is no program '/no/such/pager'");
  ::setenv("PERF_PAGER", "cat", 1);
  EXPECT_EQ(missing_pager(), "") << "perf does not look at $PAGER then";
  ::setenv("PERF_PAGER", "", 1);
  EXPECT_EQ(missing_pager(), "") << "nor here: it uses none";
}

TEST_F(PagerTest, WhatAShellCanStartIsThere) {
  for (const char* pager : {"cat", "cat -v", "  cat", "/bin/cat", "LESS=-R cat", "exec no-such-pager", "cat | no-such",
                            "\"no such\"", "$MINE", "LESS=-R", " "}) {
    ::setenv("PAGER", pager, 1);
    EXPECT_EQ(missing_pager(), "") << pager;
  }
  for (const char* pager : {"/etc", "/etc/passwd", "./cat-that-is-not-here"}) {
    ::setenv("PAGER", pager, 1);
    EXPECT_THAT(missing_pager(), testing::HasSubstr(std::string("no program '") + pager + "'"));
  }
  ::setenv("PAGER", "cat", 1);
  ::setenv("PATH", "/no-such-folder:", 1);
  EXPECT_THAT(missing_pager(), testing::HasSubstr("no program 'cat'"));
  ::unsetenv("PATH");
  EXPECT_EQ(missing_pager(), "");
}

}  // namespace
}  // namespace flight::ctl
