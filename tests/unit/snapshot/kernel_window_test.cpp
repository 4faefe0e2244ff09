// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/kernel_window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flight {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

const KernelMap kKernel{.name = "[kernel.kallsyms]_text", .address = 0x1000, .bytes = 0x1000};

KernelMap life(std::string name, std::uint64_t address, EventTime begin_ns, EventTime end_ns,
               std::vector<std::uint8_t> build_id = {}) {
  return {.name = std::move(name),
          .address = address,
          .bytes = 0x1000,
          .build_id = std::move(build_id),
          .begin_ns = begin_ns,
          .end_ns = end_ns};
}

KernelWindow window(std::vector<KernelMap> maps, EventTime begin_ns, EventTime end_ns) {
  maps.insert(maps.begin(), kKernel);
  return kernel_window({.maps = std::move(maps), .since_ns = 10, .looked_ns = 1000}, begin_ns, end_ns);
}

std::vector<std::string> names_of(const KernelWindow& window) {
  std::vector<std::string> out;
  for (const KernelMap& map : window.maps) out.push_back(map.name);
  return out;
}

TEST(KernelWindow, HasWhatWasLoadedInAnyPartOfIt) {
  const auto found = window({life("[before]", 0x10000, 0, 99), life("[gone]", 0x20000, 0, 150),
                             life("[late]", 0x30000, 190, 0), life("[after]", 0x40000, 201, 0)},
                            100, 200);
  EXPECT_THAT(names_of(found), UnorderedElementsAre(kKernel.name, "[gone]", "[late]"));
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST(KernelWindow, AnAddressWithTwoOwnersHasNoName) {
  const auto found = window(
      {life("/lib/m/new-one.ko.xz", 0x20800, 150, 0), life("[old]", 0x20000, 0, 150), life("[apart]", 0x30000, 0, 0)},
      100, 200);
  EXPECT_THAT(names_of(found), UnorderedElementsAre(kKernel.name, "[apart]"));
  ASSERT_EQ(found.warnings.size(), 1U);
  EXPECT_THAT(found.warnings[0],
              AllOf(HasSubstr("same addresses"), HasSubstr("new_one, old"), Not(HasSubstr("apart"))));
  EXPECT_THAT(names_of(window({life("[new]", 0x20000, 150, 0), life("[old]", 0x20000, 0, 150)}, 160, 200)),
              ElementsAre(kKernel.name, "[new]"))
      << "a window that has only one of them";
  EXPECT_THAT(names_of(window({life("[new]", 0x20000, 150, 0), life("[old]", 0x20000, 0, 150)}, 100, 140)),
              ElementsAre(kKernel.name, "[old]"));
}

TEST(KernelWindow, AWideMapSharesWithAllThatLieInIt) {
  KernelMap wide = life("[wide]", 0x20000, 0, 150);
  wide.bytes = 0x10000;
  const auto found = window(
      {life("[a]", 0x21000, 160, 0), life("[b]", 0x28000, 160, 0), life("[c]", 0x30000, 160, 0), wide}, 100, 200);
  EXPECT_THAT(names_of(found), ElementsAre(kKernel.name, "[c]"));
}

// perf matches the symbols of kallsyms to a module by its name, so it uses those at the module's present address.
TEST(KernelWindow, OfAModuleThatMovedOnlyTheLoadedOneHasAMap) {
  const auto found = window({life("[ext4]", 0x30000, 150, 0), life("[ext4]", 0x20000, 0, 140)}, 100, 200);
  ASSERT_EQ(found.maps.size(), 2U);
  EXPECT_EQ(found.maps[1].address, 0x30000U);
  ASSERT_EQ(found.warnings.size(), 1U);
  EXPECT_THAT(found.warnings[0], AllOf(HasSubstr("more than once"), HasSubstr("ext4")));
  EXPECT_THAT(names_of(window({life("/lib/m/ext4.ko", 0x30000, 300, 0), life("[ext4]", 0x20000, 0, 140)}, 100, 200)),
              ElementsAre(kKernel.name))
      << "also where it came back after the window";
  EXPECT_THAT(names_of(window({life("[ext4]", 0x30000, 150, 190), life("[ext4]", 0x20000, 0, 140)}, 100, 200)),
              ElementsAre(kKernel.name))
      << "and where it is gone again";
}

TEST(KernelWindow, TheSameBuildAtTheSamePlaceIsOneMap) {
  const auto found =
      window({life("[ext4]", 0x20000, 150, 0, {1, 2}), life("[ext4]", 0x20000, 0, 140, {1, 2})}, 100, 200);
  EXPECT_THAT(names_of(found), ElementsAre(kKernel.name, "[ext4]"));
  EXPECT_THAT(found.warnings, IsEmpty());
  for (const std::vector<std::uint8_t>& other : {std::vector<std::uint8_t>{1, 3}, {}})
    EXPECT_THAT(
        names_of(window({life("[ext4]", 0x20000, 150, 0, {1, 2}), life("[ext4]", 0x20000, 0, 140, other)}, 100, 200)),
        ElementsAre(kKernel.name));
}

TEST(KernelWindow, ABrokerThatBeganLaterIsReported) {
  const auto found = window({}, 5, 200);
  EXPECT_THAT(found.warnings, IsEmpty());
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("started within the window")));
  const auto many = kernel_window({.maps = {kKernel}, .since_ns = 10, .looked_ns = 1000, .forgotten = 2}, 5, 200);
  EXPECT_THAT(many.warnings, ElementsAre(HasSubstr("more kernel modules were unloaded")));
  EXPECT_THAT(kernel_window({}, 5, 200).warnings, IsEmpty()) << "nothing is known at all: that is said elsewhere";
}

}  // namespace
}  // namespace flight
