// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/symbol_ends.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/sideband/process_tracker.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kArea = 0xffffffffc0000000;
constexpr std::uint32_t kMiB = 1U << 20U;

class Fitted : public testing::Test {
 protected:
  void state(std::uint64_t at, std::uint32_t bytes, bool guessed = true) {
    add(prologue_, at, bytes, guessed, false, 0);
  }
  void load(std::uint64_t at, std::uint32_t bytes, bool guessed = true) { add(log_, at, bytes, guessed, false, 5); }
  void end(std::uint64_t at) { add(log_, at, 0, false, true, 9); }
  void module(std::uint64_t at, std::uint64_t bytes) {
    kernel_.maps.push_back({.name = "[m]", .address = kArea + at, .bytes = bytes});
  }
  static std::vector<std::string> texts(const RecordBuffer& records) {
    std::vector<std::string> out;
    std::span<const std::byte> rest = records;
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      const auto symbol = parse_ksymbol(record);
      out.push_back(symbol ? fmt::format("{:x}+{:x}{}", symbol->address - kArea, symbol->bytes,
                                         symbol->flags == 0 ? "" : fmt::format(" flags {:x}", symbol->flags))
                           : "comm");
    }
    return out;
  }
  RecordBuffer prologue_, log_;
  KernelWindow kernel_{.maps = {{.name = "[kernel.kallsyms]_text", .address = 0xffffffff81000000, .bytes = 0x1000000}}};

 private:
  static void add(RecordBuffer& out, std::uint64_t at, std::uint32_t bytes, bool guessed, bool gone,
                  EventTime time_ns) {
    const auto flags = static_cast<std::uint16_t>((guessed ? kGuessedSymbolEnd : 0) | (gone ? 1 : 0));
    append_ksymbol(out, {kArea + at, bytes, 1, flags, "bpf_prog_1"}, {.time_ns = time_ns});
    append_comm(out, {.pid = 1, .tid = 1, .name = "x"}, {.time_ns = time_ns});
  }
};

TEST_F(Fitted, AGuessEndsAtTheNextSymbolAlsoIfThatIsLoadedLater) {
  state(0, kMiB);
  state(0x200000, kMiB);
  load(0x1000, 64, false);
  load(0x3000, kMiB);
  fit_symbols(prologue_, log_, kernel_);
  EXPECT_THAT(texts(prologue_), ElementsAre("0+1000", "comm", "200000+100000", "comm"));
  EXPECT_THAT(texts(log_), ElementsAre("1000+40", "comm", "3000+100000", "comm"));
}

TEST_F(Fitted, WhatTheKernelReportedKeepsItsEnd) {
  state(0, 0x2000, false);
  load(0x1000, 64, false);
  end(0);
  fit_symbols(prologue_, log_, kernel_);
  EXPECT_THAT(texts(prologue_), ElementsAre("0+2000", "comm"));
  EXPECT_THAT(texts(log_), ElementsAre("1000+40", "comm", "0+0 flags 1", "comm"));
}

TEST_F(Fitted, AGuessEndsAtAModule) {
  state(0, kMiB);
  module(0x800, 0x1000);
  fit_symbols(prologue_, log_, kernel_);
  EXPECT_THAT(texts(prologue_), ElementsAre("0+800", "comm"));
}

// Otherwise perf would give the symbol's name to the module's code, and remove the module's map with the symbol's end.
TEST_F(Fitted, AnAddressThatAModuleUsesHasNoOtherSymbol) {
  state(0x1000, 64);
  state(0x5000, 64, false);
  end(0x1000);
  load(0x1fff, 64);
  load(0x2000, 64);
  module(0x1000, 0x1000);
  fit_symbols(prologue_, log_, kernel_);
  EXPECT_THAT(texts(prologue_), ElementsAre("comm", "5000+40", "comm"));
  EXPECT_THAT(texts(log_), ElementsAre("comm", "comm", "2000+40", "comm"));
}

TEST_F(Fitted, NothingIsNoMistake) {
  fit_symbols(prologue_, log_, kernel_);
  EXPECT_THAT(prologue_, IsEmpty());
}

}  // namespace
}  // namespace flight
