// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/kernel_strays.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/snapshot/made_recording.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

// The lowest address in the samples of MadeRecording.
constexpr std::uint64_t kSampledAddress = 0x555500000000;

TEST(KernelStrays, AMapIsDroppedIfItsAddressesWereSampledOutsideOfItsLife) {
  const MadeRecording recording(2, 64U << 10U);
  const auto workers = WorkerPool::start(1).value();
  const Selection selection = recording.selection(*workers);
  const auto left = [&](std::uint64_t address, EventTime begin_ns, EventTime end_ns) {
    KernelWindow kernel;
    kernel.maps = {{.name = "[m]", .address = address, .bytes = 100'000, .begin_ns = begin_ns, .end_ns = end_ns},
                   {.name = "[n]", .address = kSampledAddress + 200'000, .bytes = 4096, .begin_ns = selection.end_ns}};
    drop_strays(kernel, selection);
    EXPECT_EQ(kernel.maps.back().name, "[n]") << "nothing of it was sampled";
    EXPECT_EQ(kernel.warnings.size(), 2 - kernel.maps.size());
    for (const std::string& warning : kernel.warnings) EXPECT_THAT(warning, HasSubstr("after they were unloaded: m;"));
    return kernel.maps.size() == 2;
  };
  EXPECT_TRUE(left(kSampledAddress, 0, 0)) << "it was there all the time";
  EXPECT_TRUE(left(kSampledAddress, selection.begin_ns, selection.end_ns));
  EXPECT_FALSE(left(kSampledAddress, selection.end_ns - 1, 0)) << "sampled before it was loaded";
  EXPECT_FALSE(left(kSampledAddress, 0, selection.begin_ns + 1)) << "sampled after it was gone";
  EXPECT_TRUE(left(kSampledAddress - 100'000, selection.end_ns - 1, 0)) << "its last byte is the one before";
  EXPECT_FALSE(left(kSampledAddress + 50'000, selection.end_ns - 1, 0));
}

}  // namespace
}  // namespace flight
