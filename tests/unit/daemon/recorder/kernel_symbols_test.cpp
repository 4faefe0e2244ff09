// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/kernel_symbols.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flight::daemon {
namespace {

using testing::ElementsAre;

KernelMap map(const char* name, EventTime begin_ns = 0, EventTime end_ns = 0) {
  KernelMap out;
  out.name = name;
  out.address = 0x1000;
  out.bytes = 16;
  out.begin_ns = begin_ns;
  out.end_ns = end_ns;
  return out;
}

KernelReply reply(std::vector<KernelMap> maps, EventTime since_ns, EventTime looked_ns) {
  KernelReply out;
  out.names.maps = std::move(maps);
  out.names.since_ns = since_ns;
  out.names.looked_ns = looked_ns;
  return out;
}

std::vector<std::string> lives(const KernelSymbols& kernel) {
  std::vector<std::string> out;
  for (const KernelMap& one : kernel.names.maps)
    out.push_back(fmt::format("{} {} {}", one.name, one.begin_ns, one.end_ns));
  return out;
}

TEST(KernelSymbols, ChangesBetweenTwoBrokersHaveATime) {
  const auto nothing = std::make_shared<const KernelSymbols>();
  const auto first =
      KernelSymbols::of(reply({map("[stays]"), map("[late]", 50), map("[goes]", 60), map("[went]", 0, 70)}, 10, 100),
                        *nothing)
          .value();
  EXPECT_THAT(lives(*first), ElementsAre("[stays] 0 0", "[late] 50 0", "[goes] 60 0", "[went] 0 70"));
  const auto second =
      KernelSymbols::of(reply({map("[stays]"), map("[late]"), map("[comes]")}, 150, 200), *first).value();
  const auto expected = ElementsAre("[stays] 0 0", "[late] 50 0", "[comes] 100 0", "[goes] 60 150", "[went] 0 70");
  EXPECT_THAT(lives(*second), expected);
  // The second broker sends the same symbols again.
  const auto again =
      KernelSymbols::of(reply({map("[stays]"), map("[late]"), map("[comes]")}, 150, 300), *second).value();
  EXPECT_THAT(lives(*again), expected);
}

TEST(KernelSymbols, MissingKallsymsAreAnError) {
  KernelReply unchanged = reply({}, 1, 2);
  unchanged.names.kallsyms = Kallsyms::unchanged;
  EXPECT_FALSE(KernelSymbols::of(std::move(unchanged), KernelSymbols{}));
}

}  // namespace
}  // namespace flight::daemon
