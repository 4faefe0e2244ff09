// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/poll.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>

#include "libcore/base/unique_fd.hpp"

namespace flight {
namespace {

class WaitForAny : public testing::Test {
 protected:
  WaitForAny() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    read_ = UniqueFd(ends[0]);
    write_ = UniqueFd(ends[1]);
    ::getrlimit(RLIMIT_NOFILE, &before_);
  }
  ~WaitForAny() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void limit(rlim_t number) const {
    const rlimit lower{number, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  [[nodiscard]] std::array<pollfd, 3> watched() const {
    return {pollfd{-1, POLLIN, 0}, pollfd{read_.get(), POLLIN, 0}, pollfd{write_.get(), POLLOUT, 0}};
  }
  UniqueFd read_, write_;
  rlimit before_{};
};

TEST_F(WaitForAny, WhatIsReadyIsSeenAlsoBeyondTheLimitOfDescriptors) {
  ASSERT_EQ(::write(write_.get(), "x", 1), 1);
  for (const rlim_t number : {before_.rlim_cur, rlim_t{1}}) {
    limit(number);
    for (const auto wait : {std::chrono::seconds(60), std::chrono::seconds(-1)}) {
      auto all = watched();
      wait_for_any(all, wait);
      EXPECT_EQ(all[0].revents, 0);
      EXPECT_EQ(all[1].revents, POLLIN);
      EXPECT_EQ(all[2].revents, POLLOUT);
    }
  }
}

TEST_F(WaitForAny, BeyondTheLimitThereIsAPause) {
  limit(1);
  auto all = watched();
  all[2].fd = -1;
  const auto begin = std::chrono::steady_clock::now();
  wait_for_any(all, std::chrono::seconds(60));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  EXPECT_EQ(all[1].revents, 0);
}

}  // namespace
}  // namespace flight
