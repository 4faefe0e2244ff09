// SPDX-License-Identifier: Apache-2.0
// The profile of a perf.data file of anybody's, and its exports. Files of programs are not read: FunctionTable has
// unwind's ELF reader, and tests of its own. Its seeds are those of perfdata.
#include <cstdlib>
#include <string>
#include <vector>

#include "libcore/export/firefox.hpp"
#include "libcore/export/page.hpp"
#include "libcore/export/page_sched.hpp"
#include "libcore/export/pprof.hpp"
#include "libcore/profile/folded.hpp"
#include "libcore/profile/joined.hpp"
#include "libcore/profile/profile.hpp"
#include "libcore/profile/sched.hpp"
#include "libcore/profile/tree_view.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr std::uint64_t kMostExpanded = 16U << 20U;
volatile std::size_t written_bytes = 0;

void export_all(const flight::SnapshotProfile& profile, const flight::LabelledStacks& stacks,
                const flight::TimedSamples& samples, const flight::PageSamples& page_samples,
                const flight::PageSched* sched) {
  const auto write = [](std::span<const std::byte> bytes) -> flight::Result<void> {
    written_bytes = written_bytes + bytes.size();
    return {};
  };
  const std::size_t event = flight::main_event(profile);
  if (!flight::write_pprof(profile, event, stacks, {}, write)) std::abort();
  if (!flight::write_firefox(profile, event, samples, {}, {}, write, sched != nullptr ? &sched->profile : nullptr))
    std::abort();
  const flight::Sidecar sidecar;
  const std::vector<std::string> notes;
  const flight::PageSide side{
      .profile = profile, .event = event, .samples = page_samples, .sidecar = sidecar, .notes = notes, .sched = sched};
  const std::vector<flight::PageSide> sides(2, side);
  if (!flight::write_page_payload(sides, write)) std::abort();
  const auto folded = flight::write_folded(profile, event, [](std::string_view lines) -> flight::Result<void> {
    written_bytes = written_bytes + lines.size();
    return {};
  });
  if (!folded) std::abort();
  const flight::SnapshotProfile both = flight::joined(profile, event, profile, event);
  const auto view = flight::view_of(both.tree, both.events.front().root,
                                    {.by = flight::StackOrder::difference, .without_noise = true});
  if (view.rows.size() != 1) std::abort();  // nothing has changed
}

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
  flight::LabelledStacks stacks({.thread = true, .tid = true, .cpu = true}, 1000, 100);
  flight::TimedSamples samples(10'000, 100);
  flight::PageSamples page_samples(10'000, 100);
  order.each = [&](const flight::CountedSample& sample) {
    ++passed_on;
    stacks.add(sample);
    samples.add(sample);
    page_samples.add(sample);
  };
  order.most_expanded_bytes = kMostExpanded;
  const auto profile = flight::SnapshotProfile::read(*file, order);
  if (!profile) return 0;
  const auto totals = profile->tree.totals();
  if (totals.front().all.samples != profile->counts.counted || passed_on != profile->counts.counted) std::abort();
  volatile std::size_t sum = 0;
  for (std::uint32_t i = 0; i < profile->frames.size(); ++i)
    sum = sum + profile->text_of(i).size() + profile->object_of(i).size();
  samples.arrange(50);
  const auto sched = flight::SchedProfile::read(
      *file, {.lanes = {.ran_ns = 1'000'000'000, .least_off_ns = 1, .most_ran = 20, .most_off = 20},
              .most_records = 1000,
              .limits = {.most_expanded_bytes = kMostExpanded}});
  if (sched && sched->rows.size() > sched->threads.size()) std::abort();
  if (sched && (sched->lanes.all_ran().size() > 20 || sched->lanes.all_off().size() > 60)) std::abort();
  page_samples.arrange();
  const flight::PageSched page_sched{.profile = sched ? *sched : flight::SchedProfile(), .notes = {}};
  export_all(*profile, stacks, samples, page_samples, sched ? &page_sched : nullptr);
  return 0;
}
