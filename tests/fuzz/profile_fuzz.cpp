// SPDX-License-Identifier: Apache-2.0
// The profile of a perf.data file of anybody's. Files of programs are not read: FunctionTable has unwind's ELF reader,
// and tests of its own. Its seeds are those of perfdata.
#include <cstdlib>

#include "libcore/profile/profile.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr std::uint64_t kMostExpanded = 16U << 20U;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const flight::fuzz::Input input(data, size);
  const auto file = flight::FileReader::parse(input.bytes());
  if (!file) return 0;
  flight::ProfileOrder order;
  order.only.program = "*";  // so that lives are followed
  order.kallsyms = "ffffffff81000000 T _text\nffffffff81000100 t second\nffffffffc0000000 T third\t[module]\n";
  order.compared = {.before_begin_ns = 1, .now_begin_ns = 1'000'000, .now_end_ns = 1'000'000'000'000};
  order.read_files = false;
  std::uint64_t passed_on = 0;
  order.each = [&passed_on](const flight::CountedSample&) { ++passed_on; };
  order.most_expanded_bytes = kMostExpanded;
  const auto profile = flight::SnapshotProfile::read(*file, order);
  if (!profile) return 0;
  const auto totals = profile->tree.totals();
  if (totals.front().all.samples != profile->counts.counted || passed_on != profile->counts.counted) std::abort();
  volatile std::size_t sum = 0;
  for (std::uint32_t i = 0; i < profile->frames.size(); ++i)
    sum = sum + profile->text_of(i).size() + profile->object_of(i).size();
  return 0;
}
