// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/spare_descriptors.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <optional>
#include <vector>

namespace flight {
namespace {

int open_null() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }

// Lowers RLIMIT_NOFILE to the lowest free number.
class NoneLeft {
 public:
  NoneLeft() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &old_), 0);
    rlimit few = old_;
    few.rlim_cur = static_cast<rlim_t>(UniqueFd(open_null()).get());
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  NoneLeft(const NoneLeft&) = delete;
  NoneLeft& operator=(const NoneLeft&) = delete;
  ~NoneLeft() { ::setrlimit(RLIMIT_NOFILE, &old_); }

 private:
  rlimit old_{};
};

std::size_t how_many_can_be_opened() {
  std::vector<UniqueFd> opened;
  for (;;) {
    UniqueFd fd = with_spare(open_null);
    if (!fd) break;
    opened.push_back(std::move(fd));
  }
  EXPECT_EQ(errno, EMFILE);
  return opened.size();
}

TEST(SpareDescriptors, AreClosedOneForOneForWorkThatMustNotFail) {
  SpareDescriptors spare;
  ASSERT_TRUE(spare.take());
  const NoneLeft limit;
  EXPECT_EQ(how_many_can_be_opened(), 0U) << "for any work";
  {
    const SpareDescriptors::Use use;
    const UniqueFd first = with_spare(open_null);
    EXPECT_TRUE(first);
    EXPECT_EQ(UniqueFd(open_null()).get(), -1) << "no more than one was closed";
    EXPECT_EQ(how_many_can_be_opened(), SpareDescriptors::kMany - 1);
  }
  EXPECT_TRUE(spare.take()) << "they are free again";
  const SpareDescriptors::Use use;
  EXPECT_EQ(how_many_can_be_opened(), SpareDescriptors::kMany);
}

TEST(SpareDescriptors, NumbersAreForMessages) {
  SpareDescriptors spare;
  ASSERT_TRUE(spare.take());
  const NoneLeft limit;
  spare.give();
  EXPECT_EQ(how_many_can_be_opened(), SpareDescriptors::kMany);
  const SpareDescriptors::Use use;
  EXPECT_EQ(how_many_can_be_opened(), 2 * SpareDescriptors::kMany);
  EXPECT_TRUE(spare.take());
  EXPECT_EQ(UniqueFd(open_null()).get(), -1);
}

TEST(SpareDescriptors, NumbersAreFreedOneByOneAndThenFiles) {
  SpareDescriptors spare;
  ASSERT_TRUE(spare.take());
  const NoneLeft limit;
  std::vector<UniqueFd> opened;
  for (std::size_t i = 0; i < 2 * SpareDescriptors::kMany; ++i) {
    EXPECT_TRUE(SpareDescriptors::free_number());
    opened.emplace_back(open_null());
    EXPECT_TRUE(opened.back()) << i;
    EXPECT_EQ(how_many_can_be_opened(), 0U);
  }
  EXPECT_FALSE(SpareDescriptors::free_number());
}

TEST(SpareDescriptors, OtherErrorsCloseNone) {
  SpareDescriptors spare;
  ASSERT_TRUE(spare.take());
  const SpareDescriptors::Use use;
  EXPECT_FALSE(with_spare([] { return ::open("/does/not/exist", O_RDONLY | O_CLOEXEC); }));
  EXPECT_EQ(errno, ENOENT);
  const NoneLeft limit;
  EXPECT_EQ(how_many_can_be_opened(), SpareDescriptors::kMany);
}

TEST(SpareDescriptors, WithoutThemAnErrorStaysOne) {
  const SpareDescriptors::Use use;
  { const SpareDescriptors gone; }
  const NoneLeft limit;
  EXPECT_FALSE(with_spare(open_null));
  EXPECT_EQ(errno, EMFILE);
}

TEST(SpareDescriptors, TooFewAreReported) {
  SpareDescriptors spare;
  std::optional<NoneLeft> limit(std::in_place);
  EXPECT_FALSE(spare.take());
  limit.reset();
  EXPECT_TRUE(spare.take());
}

}  // namespace
}  // namespace flight
