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

// Programs with CAP_SYS_ADMIN have opened `too_many` files above fs.file-max. What this process closes is counted, and
// so is what it opens.
class FilesAboveTheLimit {
 public:
  explicit FilesAboveTheLimit(int too_many) : too_many_(too_many) {}
  // One was closed since the last call, unless it is the first one.
  int open_one() {
    if (calls_++ < too_many_) {
      errno = ENFILE;
      return -1;
    }
    return open_null();
  }

 private:
  int too_many_, calls_ = 0;
};

TEST(SpareDescriptors, AreEnoughWhereOthersHaveOpenedFilesAboveTheLimitOfTheMachine) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit before = limit;
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_GE(limit.rlim_cur, SpareDescriptors::kLimitForSurplus);
  SpareDescriptors spare;
  ASSERT_TRUE(spare.take());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  FilesAboveTheLimit few(200), many(100);
  EXPECT_FALSE(with_spare([&] { return few.open_one(); })) << "for any work";
  const SpareDescriptors::Use use;
  EXPECT_TRUE(with_spare([&] { return few.open_one(); }));
  EXPECT_FALSE(with_spare([&] { return many.open_one(); })) << "there are no more";
  EXPECT_EQ(errno, ENFILE);
}

TEST(SpareDescriptors, TheAdviceNamesTheLimitThatIsReached) {
  const Error own = sys_error(EMFILE, "open /x").value(), machine = sys_error(ENFILE, "open /x").value();
  EXPECT_EQ(descriptor_advice(own).rfind("; RLIMIT_NOFILE is ", 0), 0U);
  const std::string of_broker = descriptor_advice(own, "flightd-broker");
  EXPECT_EQ(of_broker.rfind("; RLIMIT_NOFILE of flightd-broker is ", 0), 0U) << of_broker;
  EXPECT_EQ(descriptor_advice({.code = own.code, .what = own.what + of_broker}), "") << "its own limit is another one";
  EXPECT_EQ(descriptor_advice(machine).rfind("; fs.file-max is reached", 0), 0U);
  EXPECT_EQ(descriptor_advice({.code = machine.code, .what = machine.what + descriptor_advice(machine)}), "");
  EXPECT_EQ(descriptor_advice(sys_error(EIO, "open /x").value()), "");
  EXPECT_TRUE(lacks_descriptors(own));
  EXPECT_TRUE(lacks_descriptors(machine));
  EXPECT_TRUE(lacks_descriptors({.code = std::make_error_code(std::errc::io_error), .what = machine.what}));
  EXPECT_FALSE(lacks_descriptors(sys_error(EIO, "open /x").value()));
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
