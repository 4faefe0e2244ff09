// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/empty_chains.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kSwitchType = kSidebandSampleType | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW;
constexpr std::uint64_t kSwitchId = 31, kClockId = 21;

Manifest manifest_with(std::uint64_t clock_type) {
  Manifest manifest;
  ManifestEvent event;
  event.attr.sample_type = kSidebandSampleType;
  event.ids = {{1, 0, 0}};
  manifest.events.push_back(event);
  event.attr.sample_type = clock_type;
  event.ids = {{kClockId, 0, 0}};
  manifest.events.push_back(event);
  event.attr.sample_type = kSwitchType;
  event.ids = {{kSwitchId, 0, 0}};
  manifest.events.push_back(event);
  return manifest;
}

// IDENTIFIER, IP, TID, TIME, CPU, PERIOD, then RAW: u32 size, bytes.
RecordBuffer switch_sample(std::uint64_t id) {
  const std::vector<std::uint64_t> body{id, 0x401000, 7, 1000, 0, 1, 0x1122334400000004};
  perf_event_header header{PERF_RECORD_SAMPLE, 1, static_cast<__u16>(sizeof header + body.size() * 8)};
  RecordBuffer out(header.size);
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, body.data(), body.size() * 8);
  return out;
}

std::vector<FileEvent> marked(const EmptyChains& chains, const Manifest& manifest) {
  std::vector<FileEvent> events;
  for (const ManifestEvent& event : manifest.events) events.push_back({.attr = event.attr, .name = "", .ids = {}});
  chains.mark(events);
  return events;
}

TEST(EmptyChains, AreGivenBesideEventsThatHaveChains) {
  const Manifest manifest = manifest_with(kSidebandSampleType | PERF_SAMPLE_CALLCHAIN);
  const EventTable events = event_table(manifest);
  EmptyChains chains(manifest);
  const auto attrs = marked(chains, manifest);
  EXPECT_EQ(attrs[0].attr.sample_type, kSidebandSampleType) << "the dummy has no samples";
  EXPECT_EQ(attrs[2].attr.sample_type, kSwitchType | PERF_SAMPLE_CALLCHAIN);
  const RecordBuffer before = switch_sample(kSwitchId);
  const auto after = chains.fill(before, record_key(before, events));
  ASSERT_EQ(after.size(), before.size() + 8);
  EXPECT_EQ(load<perf_event_header>(after.data()).size, after.size());
  EXPECT_EQ(load<std::uint64_t>(after.data() + 48), 1U) << "the period is where it was";
  EXPECT_EQ(load<std::uint64_t>(after.data() + 56), 0U) << "the chain's length";
  EXPECT_EQ(load<std::uint64_t>(after.data() + 64), 0x1122334400000004U) << "the raw bytes are behind it";
}

TEST(EmptyChains, OtherRecordsStayAsTheyAre) {
  const Manifest manifest = manifest_with(kSidebandSampleType | PERF_SAMPLE_CALLCHAIN);
  const EventTable events = event_table(manifest);
  EmptyChains chains(manifest);
  for (const std::uint64_t id : {kClockId, std::uint64_t{99}}) {
    const RecordBuffer before = switch_sample(id);
    EXPECT_EQ(chains.fill(before, record_key(before, events)).data(), before.data()) << id;
  }
  RecordBuffer comm;
  append_comm(comm, {.pid = 7, .tid = 7, .name = "made"}, {.time_ns = 1, .id = kSwitchId});
  EXPECT_EQ(chains.fill(comm, record_key(comm, events)).data(), comm.data());
}

TEST(EmptyChains, AFileWithoutChainsGetsNone) {
  const Manifest manifest = manifest_with(kSidebandSampleType);
  const EventTable events = event_table(manifest);
  EmptyChains chains(manifest);
  EXPECT_EQ(marked(chains, manifest)[2].attr.sample_type, kSwitchType);
  const RecordBuffer before = switch_sample(kSwitchId);
  EXPECT_EQ(chains.fill(before, record_key(before, events)).data(), before.data());
}

}  // namespace
}  // namespace flight
