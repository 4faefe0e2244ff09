// SPDX-License-Identifier: Apache-2.0
// The broker's reply to `kernel`, correct and wrong.
#include "libcore/broker/kernel_names.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace flight {
namespace {

KernelNames some_names() {
  return {.maps = {{.name = "[kernel.kallsyms]_text",
                    .address = 0xffffffff81000000,
                    .bytes = 0x1000,
                    .page_offset = 0xffffffff81000000,
                    .build_id = {1, 2, 255}},
                   {.name = "/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz",
                    .address = 0xffffffffc0000000,
                    .bytes = 4096,
                    .begin_ns = 70,
                    .end_ns = 90}},
          .since_ns = 50,
          .looked_ns = 100,
          .forgotten = 3,
          .digest = "0123456789abcdef",
          .kallsyms = Kallsyms::sent,
          .warning = "a warning"};
}

TEST(KernelNames, ComeBackAsTheyWere) {
  const auto bytes = encode(some_names());
  const auto names = parse_kernel_names(bytes);
  ASSERT_TRUE(names) << names.error().what;
  ASSERT_EQ(names->maps.size(), 2U);
  EXPECT_TRUE(names->maps[0].is_kernel());
  EXPECT_EQ(names->maps[0].build_id, (std::vector<std::uint8_t>{1, 2, 255}));
  EXPECT_EQ(names->maps[0].page_offset, 0xffffffff81000000U);
  EXPECT_EQ(names->maps[1].name, "/lib/modules/6.1.0/kernel/fs/ext4/ext4.ko.xz");
  EXPECT_EQ(names->maps[1].begin_ns, 70U);
  EXPECT_EQ(names->maps[1].end_ns, 90U);
  EXPECT_EQ(names->since_ns, 50U);
  EXPECT_EQ(names->looked_ns, 100U);
  EXPECT_EQ(names->forgotten, 3U);
  EXPECT_EQ(names->digest, "0123456789abcdef");
  EXPECT_EQ(names->kallsyms, Kallsyms::sent);
  EXPECT_EQ(names->warning, "a warning");
  EXPECT_EQ(encode(*names), bytes);
}

TEST(KernelNames, CutOffAnywhereAreRefused) {
  auto bytes = encode(some_names());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(parse_kernel_names(std::span(bytes).first(length))) << length;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(parse_kernel_names(bytes)) << "and more";
}

TEST(KernelNames, ImpossibleMapsAreRefused) {
  const auto refused = [](const std::function<void(KernelNames&)>& change) {
    KernelNames names = some_names();
    change(names);
    return !parse_kernel_names(encode(names));
  };
  EXPECT_FALSE(refused([](KernelNames&) {}));
  EXPECT_TRUE(refused([](KernelNames& names) { names.maps[1].end_ns = 60; })) << "times reversed";
  EXPECT_TRUE(refused([](KernelNames& names) { names.maps[1].begin_ns = names.maps[1].end_ns = 101; }));
  EXPECT_TRUE(refused([](KernelNames& names) { names.since_ns = 101; }));
  EXPECT_TRUE(refused([](KernelNames& names) { names.maps[1].bytes = 0; }));
  EXPECT_TRUE(refused([](KernelNames& names) { names.maps[1].address = UINT64_MAX - 5; })) << "the range wraps";
  EXPECT_TRUE(refused([](KernelNames& names) { names.maps[1].name = names.maps[0].name; })) << "two kernels";
  for (const std::string& name : {std::string(), std::string("ext4"), std::string("[ext4\0]", 7)})
    EXPECT_TRUE(refused([&](KernelNames& names) { names.maps[1].name = name; })) << name;
  for (const char* digest : {"", "0123", "../../../../etc/p", "0123456789ABCDEF"})
    EXPECT_TRUE(refused([&](KernelNames& names) { names.digest = digest; })) << digest;
  EXPECT_TRUE(refused([](KernelNames& names) { names.kallsyms = static_cast<Kallsyms>(3); }));
}

TEST(KernelNames, ACountWithoutEntriesAllocatesNothing) {
  auto bytes = encode(KernelNames{.digest = "0123456789abcdef"});
  ASSERT_TRUE(parse_kernel_names(bytes));
  for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{kMaxKernelMaps}, UINT64_MAX}) {
    std::memcpy(bytes.data(), &count, sizeof count);
    EXPECT_FALSE(parse_kernel_names(bytes)) << count;
  }
}

}  // namespace
}  // namespace flight
