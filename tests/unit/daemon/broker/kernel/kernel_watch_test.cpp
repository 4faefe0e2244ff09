// SPDX-License-Identifier: Apache-2.0
// Modules that are loaded and unloaded, in a fake /proc and /sys.
#include "daemon/broker/kernel/kernel_watch.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "daemon/broker/kernel/module_history.hpp"
#include "libcore/base/files.hpp"
#include "libcore/sysinfo/generated_code.hpp"
#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight::broker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

LoadedModule module(std::string name, std::uint64_t address, std::uint64_t inode = 1) {
  return {.name = std::move(name), .address = address, .bytes = 4096, .inode = inode};
}

const ModuleHistory::NameOf kInBrackets = [](const std::string& name) { return "[" + name + "]"; };

TEST(ModuleHistory, AModuleLivesFromTheLookBeforeItWasSeenToTheOneThatMissesIt) {
  ModuleHistory history;
  history.note({module("ext4", 0x1000)}, 10, 11, kInBrackets);
  history.note({module("ext4", 0x1000), module("xfs", 0x3000)}, 20, 21, kInBrackets);
  history.note({module("ext4", 0x1000)}, 30, 31, kInBrackets);
  const KernelNames names = history.names();
  EXPECT_EQ(names.since_ns, 10U);
  EXPECT_EQ(names.looked_ns, 31U);
  ASSERT_EQ(names.maps.size(), 2U);
  EXPECT_EQ(names.maps[0].name, "[ext4]");
  EXPECT_EQ(names.maps[0].begin_ns, 0U);
  EXPECT_EQ(names.maps[0].end_ns, 0U);
  EXPECT_EQ(names.maps[1].name, "[xfs]");
  EXPECT_EQ(names.maps[1].begin_ns, 10U);
  EXPECT_EQ(names.maps[1].end_ns, 31U);
}

TEST(ModuleHistory, AnotherInodeIsAnotherLife) {
  ModuleHistory history;
  history.note({module("ext4", 0x1000, 1)}, 10, 11, kInBrackets);
  history.note({module("ext4", 0x1000, 2)}, 20, 21, kInBrackets);
  const KernelNames names = history.names();
  ASSERT_EQ(names.maps.size(), 2U);
  EXPECT_EQ(names.maps[0].begin_ns, 10U);
  EXPECT_EQ(names.maps[1].end_ns, 21U);
}

TEST(ModuleHistory, ASizeThatShrinksIsNoOtherLife) {
  ModuleHistory history;
  LoadedModule ext4 = module("ext4", 0x1000);
  history.note({ext4}, 10, 11, kInBrackets);
  ext4.bytes = 2048;
  history.note({ext4}, 20, 21, kInBrackets);
  ASSERT_EQ(history.names().maps.size(), 1U);
  EXPECT_EQ(history.names().maps[0].bytes, 2048U);
}

TEST(ModuleHistory, OfTheGoneOnesTheNewestAreKept) {
  ModuleHistory history;
  history.note({}, 1, 1, kInBrackets);
  constexpr std::uint64_t kLoads = ModuleHistory::kMaxGone + 10;
  for (std::uint64_t i = 1; i <= kLoads; ++i) {
    history.note({module("ext4", 0x1000, i)}, 10 * i, 10 * i + 1, kInBrackets);
    history.note({}, 10 * i + 2, 10 * i + 3, kInBrackets);
  }
  const KernelNames names = history.names();
  EXPECT_EQ(names.maps.size(), ModuleHistory::kMaxGone);
  EXPECT_EQ(names.maps[0].end_ns, 10 * kLoads + 3) << "the latest first";
  EXPECT_EQ(names.forgotten, 10U);
  EXPECT_EQ(names.since_ns, 103U) << "from the end of the last forgotten one on nothing is missing";
}

class ModuleWatch : public testing::Test {
 protected:
  ModuleWatch() {
    tree_.write("/proc/sys/kernel/osrelease", "6.1.0\n");
    tree_.write("/lib/modules/6.1.0/modules.dep", "kernel/a/ext4.ko:\nkernel/b/xfs.ko:\n");
    load("ext4 4096 0 - Live 0xffffffffc0001000\n");
    symbols("ext4");
    watch_.emplace(
        BlockingThreads::start("kernel", 1).value(), [] {}, tree_.root());
  }
  void load(const std::string& modules) const { tree_.write("/proc/modules", modules); }
  void symbols(const std::string& module) const {
    tree_.write("/proc/kallsyms",
                "ffffffff81000000 T _text\nffffffff81001000 T _etext\nffffffffc0001010 t f\t[" + module + "]\n");
  }
  Result<KernelWatch::Answer> ask(const std::string& has = "") {
    watch_->want(has);
    for (int i = 0; i < 1000; ++i) {
      watch_->look();
      if (auto answer = watch_->take()) return std::move(*answer);
      std::this_thread::sleep_for(10ms);
    }
    return fail(std::errc::timed_out, "no answer");
  }
  static std::string text_of(const KernelWatch::Answer& answer) {
    return read_sealed_memfd(answer.kallsyms.get(), 1U << 20U).value();
  }
  TempTree tree_;
  std::optional<KernelWatch> watch_;
};

TEST_F(ModuleWatch, KallsymsComesOnlyWhereTheModulesAreOthers) {
  const auto first = ask();
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_EQ(first->names.kallsyms, Kallsyms::sent);
  EXPECT_THAT(text_of(*first), HasSubstr("[ext4]"));
  ASSERT_EQ(first->names.maps.size(), 2U);
  EXPECT_EQ(first->names.maps[0].name, "[kernel.kallsyms]_text");
  EXPECT_EQ(first->names.maps[1].name, "/lib/modules/6.1.0/kernel/a/ext4.ko");

  // A changed reference count and BPF programs are no change.
  load("ext4 4096 7 - Live 0xffffffffc0001000\n");
  tree_.write("/proc/kallsyms", "");
  const auto second = ask(first->names.digest);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->names.kallsyms, Kallsyms::unchanged);
  EXPECT_FALSE(second->kallsyms);
  EXPECT_EQ(second->names.maps.size(), 2U) << "the kernel is known from before";

  load("xfs 4096 0 - Live 0xffffffffc0001000\n");
  symbols("xfs");
  const auto third = ask(second->names.digest);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->names.kallsyms, Kallsyms::sent);
  EXPECT_NE(third->names.digest, first->names.digest);
  EXPECT_THAT(text_of(*third), HasSubstr("[xfs]"));
  ASSERT_EQ(third->names.maps.size(), 3U);
  EXPECT_EQ(third->names.maps[1].name, "/lib/modules/6.1.0/kernel/b/xfs.ko");
  EXPECT_EQ(third->names.maps[2].name, "/lib/modules/6.1.0/kernel/a/ext4.ko");
  EXPECT_NE(third->names.maps[2].end_ns, 0U);
}

// In an earlier version the thread waited for it: the broker could not be ended, and no snapshot had kernel symbols.
TEST_F(ModuleWatch, ModulesOnAServerThatHangsHaveNoPaths) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  // With mounts of its own, as its threads have.
  std::thread([this] {
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    ASSERT_EQ(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    const test::HungMount hung(tree_.root() + "/lib/modules");
    watch_.emplace(
        BlockingThreads::start("kernel", 1).value(), [] {}, tree_.root());
    const auto answer = ask();
    ASSERT_TRUE(answer) << answer.error().what;
    EXPECT_EQ(answer->names.kallsyms, Kallsyms::sent);
    ASSERT_EQ(answer->names.maps.size(), 2U);
    EXPECT_EQ(answer->names.maps[1].name, "[ext4]");
    EXPECT_THAT(answer->names.warning, testing::AllOf(HasSubstr("modules have no paths"),
                                                      HasSubstr("/lib/modules/6.1.0"), HasSubstr("fuse.hung")));
  }).join();
}

// The digest does not cover it, so two texts with the same digest would differ.
TEST_F(ModuleWatch, GeneratedCodeIsNotSent) {
  tree_.write("/proc/kallsyms",
              "ffffffff81000000 T _text\nffffffff81001000 T _etext\nffffffffc0001010 t f\t[ext4]\n"
              "ffffffffc0002000 t bpf_prog_1\t[bpf]\nffffffffc0003000 t kprobe_insn_page\t[__builtin__kprobes]\n");
  const auto answer = ask();
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_EQ(text_of(*answer), "ffffffff81000000 T _text\nffffffff81001000 T _etext\nffffffffc0001010 t f\t[ext4]\n");
}

// A client that connects again and again has kept each descriptor.
TEST_F(ModuleWatch, TheSameKallsymsIsNotCopiedForEver) {
  std::vector<UniqueFd> held;
  const auto connect = [&] {
    auto answer = ask();
    ASSERT_TRUE(answer) << answer.error().what;
    ASSERT_EQ(answer->names.kallsyms, Kallsyms::sent) << answer->names.warning;
    EXPECT_THAT(text_of(*answer), HasSubstr("_text"));
    held.push_back(std::move(answer->kallsyms));
  };
  const auto copies = [&] {
    std::set<ino_t> out;
    for (const UniqueFd& fd : held) {
      struct stat info {};
      EXPECT_EQ(::fstat(fd.get(), &info), 0);
      out.insert(info.st_ino);
    }
    return out.size();
  };
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(connect());
  EXPECT_EQ(copies(), static_cast<std::size_t>(KernelWatch::kMaxCopies));
  held.clear();
  load("ext4 4096 0 - Live 0xffffffffc0001000\nxfs 4096 0 - Live 0xffffffffc0009000\n");
  symbols("xfs");
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(connect());
  EXPECT_EQ(copies(), static_cast<std::size_t>(KernelWatch::kMaxCopies));
  auto last = ask();
  ASSERT_TRUE(last);
  EXPECT_THAT(text_of(*last), HasSubstr("[xfs]")) << "not an old one";
}

TEST_F(ModuleWatch, AModuleBetweenTwoRequestsIsKnownByItsUevent) {
  const auto first = ask();
  ASSERT_TRUE(first);
  load("xfs 4096 0 - Live 0xffffffffc0009000\n");
  watch_->suspect();
  for (int i = 0; i < 50; ++i) {
    watch_->look();
    std::this_thread::sleep_for(10ms);
  }
  load("ext4 4096 0 - Live 0xffffffffc0001000\n");
  const auto second = ask(first->names.digest);
  ASSERT_TRUE(second);
  const auto& maps = second->names.maps;
  const auto xfs =
      std::find_if(maps.begin(), maps.end(), [](const KernelMap& map) { return map.address == 0xffffffffc0009000; });
  ASSERT_NE(xfs, maps.end()) << "it was there between the two";
  EXPECT_NE(xfs->end_ns, 0U);
}

TEST_F(ModuleWatch, WithoutAddressesTheAnswerSaysWhy) {
  tree_.write("/proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T _etext\n");
  load("ext4 4096 0 - Live 0x0000000000000000\n");
  const auto answer = ask();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->names.kallsyms, Kallsyms::none);
  // If the first check was before that, ext4's addresses are history.
  EXPECT_THAT(answer->names.maps, testing::Each(testing::Field(&KernelMap::end_ns, testing::Ne(0U))));
  EXPECT_THAT(answer->names.warning, HasSubstr("kptr_restrict"));
}

// Each request would read 5 to 10 MB again.
TEST_F(ModuleWatch, OfHiddenAddressesOnlyTheBeginningIsRead) {
  std::string text;
  while (text.size() < 2 * kHiddenKallsymsBytes) text += "0000000000000000 T hidden\n";
  tree_.write("/proc/kallsyms", text + "ffffffff81000000 T _text\nffffffff81001000 T _etext\n");
  const auto answer = ask();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->names.kallsyms, Kallsyms::none) << "it read on";
  EXPECT_THAT(answer->names.warning, HasSubstr("kptr_restrict"));
}

// A file system that hangs: a FIFO that has no writer.
TEST_F(ModuleWatch, AHangingDiskBlocksNoCaller) {
  ASSERT_TRUE(ask());
  const std::string dep = tree_.root() + "/lib/modules/6.1.0/modules.dep";
  std::filesystem::remove(dep);
  ASSERT_EQ(::mkfifo(dep.c_str(), 0600), 0);
  load("xfs 4096 0 - Live 0xffffffffc0001000\n");
  const auto begun = std::chrono::steady_clock::now();
  watch_->want("");
  std::optional<Result<KernelWatch::Answer>> answer;
  while (!answer && std::chrono::steady_clock::now() - begun < 2 * KernelWatch::kWait) {
    const auto before = std::chrono::steady_clock::now();
    watch_->look();
    answer = watch_->take();
    EXPECT_LT(std::chrono::steady_clock::now() - before, 1s);
    std::this_thread::sleep_for(20ms);
  }
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->error().errno_value(), ETIMEDOUT);
  watch_->want("");
  watch_->look();
  answer = watch_->take();
  ASSERT_TRUE(answer) << "the next one does not wait again";
  EXPECT_FALSE(*answer);
  {
    const auto release = open_file(dep, O_RDWR | O_NONBLOCK);
    ASSERT_TRUE(release);
    std::filesystem::remove(dep);
  }
  Result<KernelWatch::Answer> again = ask();
  for (int i = 0; i < 100 && !again; ++i, again = ask()) std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(again) << "when the disk answers again: " << again.error().what;
  EXPECT_EQ(again->names.kallsyms, Kallsyms::sent);
}

}  // namespace
}  // namespace flight::broker
