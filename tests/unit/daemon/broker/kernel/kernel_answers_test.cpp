// SPDX-License-Identifier: Apache-2.0
// Requests for the kernel's modules and symbols, which are those of a fake /proc.
#include "daemon/broker/kernel/kernel_answers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <span>
#include <string>

#include "libcore/base/files.hpp"
#include "libcore/broker/kernel_names.hpp"
#include "tests/unit/daemon/patience.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight::broker {
namespace {

using testing::HasSubstr;

class KernelReplies : public testing::Test {
 protected:
  KernelReplies() {
    tree_.write("/proc/sys/kernel/osrelease", "6.1.0\n");
    tree_.write("/lib/modules/6.1.0/modules.dep", "kernel/a/ext4.ko:\nkernel/b/xfs.ko:\n");
    load_only("ext4");
    answers_.emplace(KernelWatch(
        BlockingThreads::start("kernel", 1).value(), [] {}, tree_.root()));
  }
  void load_only(const std::string& module) const {
    tree_.write("/proc/modules", module + " 4096 0 - Live 0xffffffffc0001000\n");
    tree_.write("/proc/kallsyms",
                "ffffffff81000000 T _text\nffffffff81001000 T _etext\nffffffffc0001010 t f\t[" + module + "]\n");
  }
  struct Received {
    KernelNames names;
    std::string kallsyms;  // empty: it was not sent
  };
  // The answer of the last request; afterwards none waits.
  Received receive_last() {
    Received out = receive();
    EXPECT_FALSE(answers_->next());
    return out;
  }
  Received receive() {
    Received out;
    std::optional<KernelAnswers::Reply> reply;
    EXPECT_TRUE(test::soon([&] {
      reply = answers_->next();
      return reply.has_value();
    }));
    if (!reply) return out;
    EXPECT_TRUE(reply->document) << reply->document.error().what;
    if (!reply->document) return out;
    const std::string document = read_sealed_memfd(*reply->document, kMaxKernelNamesBytes).value();
    const auto names = parse_kernel_names(std::as_bytes(std::span<const char>(document)));
    EXPECT_TRUE(names) << names.error().what;
    if (names) out.names = *names;
    if (reply->kallsyms >= 0) out.kallsyms = read_sealed_memfd(reply->kallsyms, 1U << 20U).value();
    return out;
  }
  TempTree tree_;
  std::optional<KernelAnswers> answers_;
};

TEST_F(KernelReplies, OfSeveralRequestsTheFirstGetsKallsyms) {
  for (int i = 0; i < 3; ++i) answers_->ask();
  EXPECT_LE(answers_->look_every(), Document::kNewEvery);
  const Received first = receive();
  EXPECT_EQ(first.names.kallsyms, Kallsyms::sent);
  EXPECT_THAT(first.kallsyms, HasSubstr("[ext4]"));
  EXPECT_EQ(first.names.maps.size(), 2U);
  for (int i = 0; i < 2; ++i) {
    const Received other = receive();
    EXPECT_EQ(other.names.kallsyms, Kallsyms::unchanged);
    EXPECT_EQ(other.kallsyms, "");
    EXPECT_EQ(other.names.looked_ns, first.names.looked_ns) << "it is the same answer";
  }
  EXPECT_FALSE(answers_->next());
}

TEST_F(KernelReplies, WhatTheClientHasIsKnownUntilItLeaves) {
  answers_->ask();
  EXPECT_EQ(receive_last().names.kallsyms, Kallsyms::sent);
  answers_->ask();
  EXPECT_EQ(receive_last().names.kallsyms, Kallsyms::unchanged);
  load_only("xfs");
  answers_->ask();
  const Received other_modules = receive_last();
  EXPECT_EQ(other_modules.names.kallsyms, Kallsyms::sent);
  EXPECT_THAT(other_modules.kallsyms, HasSubstr("[xfs]"));
  answers_->forget();
  answers_->ask();
  const Received other_client = receive_last();
  EXPECT_EQ(other_client.names.kallsyms, Kallsyms::sent);
  EXPECT_EQ(other_client.kallsyms, other_modules.kallsyms);
}

TEST_F(KernelReplies, ARequestOfAClientThatLeftGetsNone) {
  answers_->ask();
  static_cast<void>(answers_->next());  // KernelWatch reads
  answers_->forget();
  EXPECT_FALSE(answers_->next());
  answers_->ask();
  EXPECT_EQ(receive_last().names.kallsyms, Kallsyms::sent);
}

}  // namespace
}  // namespace flight::broker
