// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/generated_code.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/files.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string line(std::uint64_t address, std::string_view name, std::string_view module = {}) {
  return fmt::format("{:016x} t {}{}\n", address, name, module.empty() ? "" : fmt::format("\t[{}]", module));
}

constexpr std::uint64_t kImage = 0xffffffff81000000, kArea = 0xffffffffc0000000, kMiB = 1U << 20U;

class Generated : public testing::Test {
 protected:
  GeneratedCode read(const std::string& kallsyms) const {
    tree_.write("/proc/kallsyms", kallsyms);
    auto code = read_generated_code(tree_.root());
    EXPECT_TRUE(code) << code.error().what;
    return code ? *code : GeneratedCode{};
  }
  static std::vector<std::string> texts(const GeneratedCode& code) {
    std::vector<std::string> out;
    for (const GeneratedSymbol& one : code.symbols)
      out.push_back(
          fmt::format("{:x}+{:x} {} {}", one.address - kArea, one.bytes, one.bpf ? "bpf" : "other", one.name));
    return out;
  }
  TempTree tree_;
};

TEST_F(Generated, ASymbolEndsAtTheNextOneAndAtMostAMebibyteOn) {
  const auto code =
      read(line(0, "fixed_percpu_data") + line(kImage, "_text") + line(kArea + 0x800, "ext4_init", "ext4") +
           line(kArea + 0x2000, "xfs_init", "xfs") + line(kArea + 0x900000, "kprobe_insn_page", "__builtin__kprobes") +
           line(kArea + 0x1000, "bpf_prog_6deef7357e7b4530_one", "bpf") +
           line(kArea, "bpf_prog_0123456789abcdef", "bpf") + line(kArea + 0x3000, "bpf_trampoline_17", "bpf") +
           line(kArea + 0x3040, "ftrace_trampoline", "__builtin__ftrace"));
  EXPECT_TRUE(code.has_addresses);
  EXPECT_FALSE(code.no_bpf);
  EXPECT_THAT(texts(code), ElementsAre("0+800 bpf bpf_prog_0123456789abcdef",          // ends where ext4 begins
                                       "1000+1000 bpf bpf_prog_6deef7357e7b4530_one",  // at xfs
                                       "3000+40 bpf bpf_trampoline_17",                // at the next generated one
                                       fmt::format("3040+{:x} other ftrace_trampoline", kMiB),
                                       fmt::format("900000+{:x} other kprobe_insn_page", kMiB)));
}

TEST_F(Generated, TheLastAddressesDoNotWrap) {
  const auto code = read(line(0xfffffffffffff000, "bpf_prog_1", "bpf"));
  ASSERT_EQ(code.symbols.size(), 1U);
  EXPECT_EQ(code.symbols[0].bytes, 0x1000U);
}

TEST_F(Generated, HiddenAddressesAreNotTaken) {
  const auto code = read(line(0, "_text") + line(0, "bpf_prog_1", "bpf"));
  EXPECT_FALSE(code.has_addresses);
  EXPECT_THAT(code.symbols, IsEmpty());
}

// In an earlier version each scan read 5 to 10 MB of zeros.
TEST_F(Generated, HiddenAddressesEndTheReading) {
  std::string text;
  while (text.size() < 2 * kHiddenKallsymsBytes) text += line(0, "hidden");
  const auto code = read(text + line(kArea, "bpf_prog_1", "bpf"));
  EXPECT_FALSE(code.has_addresses) << "it read on";
  EXPECT_THAT(code.symbols, IsEmpty());
  text.resize(kHiddenKallsymsBytes / 2);
  text.resize(text.rfind('\n') + 1);
  EXPECT_TRUE(read(text + line(kArea, "bpf_prog_1", "bpf")).has_addresses) << "symbols that are at 0";
}

TEST_F(Generated, NoBpfIsReportedOnlyIfTheKernelCompilesIt) {
  const std::string without = line(kImage, "_text") + line(kArea, "ftrace_trampoline", "__builtin__ftrace");
  EXPECT_FALSE(read(without).no_bpf);
  tree_.write("/proc/sys/net/core/bpf_jit_enable", "1\n");
  EXPECT_TRUE(read(without).no_bpf);
  EXPECT_FALSE(read(without + line(kArea + 64, "bpf_prog_1", "bpf")).no_bpf);
  tree_.write("/proc/sys/net/core/bpf_jit_enable", "0\n");
  EXPECT_FALSE(read(without).no_bpf);
}

TEST_F(Generated, LinesAcrossTheEndsOfPiecesAreWhole) {
  std::string text = line(kImage, "_text");
  for (std::uint64_t i = 0; i < 5000; ++i) text += line(kArea + i * 64, fmt::format("bpf_prog_{:x}", i), "bpf");
  const auto code = read(text);
  ASSERT_EQ(code.symbols.size(), 5000U);
  for (std::uint64_t i = 0; i < 5000; ++i) EXPECT_EQ(code.symbols[i].name, fmt::format("bpf_prog_{:x}", i));
}

TEST_F(Generated, IsBounded) {
  std::string text;
  for (std::uint64_t i = 0; i < kMostGeneratedSymbols + 3; ++i) text += line(kArea + i * 64, "bpf_prog_1", "bpf");
  const auto code = read(text);
  EXPECT_EQ(code.symbols.size(), kMostGeneratedSymbols);
  EXPECT_EQ(code.left_out, 3U);
  EXPECT_EQ(code.symbols.back().bytes, 64U) << "where a left out one begins";
}

TEST_F(Generated, TheRestOfTheListStays) {
  const std::string kept = line(kImage, "_text") + line(kArea, "f", "ext4") + line(kArea + 64, "bpf_f", "bpfilter");
  std::string text = line(kArea + 128, "bpf_prog_1", "bpf") + line(kImage, "_text") + line(kArea, "f", "ext4") +
                     line(kArea + 256, "kprobe_insn_page", "__builtin__kprobes") +
                     line(kArea + 64, "bpf_f", "bpfilter") + line(kArea + 512, "bpf_prog_2", "bpf");
  text.pop_back();
  drop_generated_code(text);
  EXPECT_EQ(text, kept);
}

TEST(GeneratedCode, OfThisMachine) {
  auto text = read_file("/proc/kallsyms");
  if (!text) GTEST_SKIP() << text.error().what;
  const auto code = read_generated_code();
  ASSERT_TRUE(code) << code.error().what;
  for (const GeneratedSymbol& one : code->symbols) EXPECT_GT(one.bytes, 0U) << one.name;
  drop_generated_code(*text);
  EXPECT_THAT(*text, Not(HasSubstr("\t[bpf]")));
  EXPECT_THAT(*text, Not(HasSubstr("\t[__builtin__")));
}

}  // namespace
}  // namespace flight
