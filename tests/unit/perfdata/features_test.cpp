// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/features.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <span>

#include "libcore/perfdata/tracing_data.hpp"
#include "tests/unit/perfdata/records.hpp"

namespace flight {
namespace {

using test::Bytes;
using test::put;
using test::put_text;

// The only section of that bit; empty if there is none.
Bytes section(const Features& features, unsigned bit, std::span<const FileEvent> events = {}) {
  for (const EncodedFeature& feature : encode_features(features, events))
    if (feature.bit == bit) return feature.bytes;
  return {};
}

void put_string(Bytes& out, std::string_view text, std::size_t padded = 64) {
  put(out, static_cast<std::uint32_t>(padded));
  put_text(out, text);
  out.resize(out.size() + padded - text.size());
}

std::vector<unsigned> bits(const Features& features, std::span<const FileEvent> events = {}) {
  std::vector<unsigned> found;
  for (const EncodedFeature& feature : encode_features(features, events)) found.push_back(feature.bit);
  return found;
}

TEST(Features, WhatHasNoContentHasNoSection) {
  EXPECT_THAT(bits({}), testing::ElementsAre(kFeatureClockId));
  EXPECT_THAT(bits({.clock_resolution_ns = 0}), testing::IsEmpty());
}

TEST(Features, SectionsAscendByBit) {
  Features all;
  all.tracing_data = TracingData{.header_page = "x", .header_event = {}, .systems = {}};
  all.build_ids = {{.kernel = false, .id = {1}, .name = "/bin/a"}};
  all.hostname = all.os_release = all.version = all.arch = all.cpu_description = all.cpu_id = "text";
  all.cpus_available = all.cpus_online = 1;
  all.total_memory_kb = 1;
  all.command_line = {"flightd"};
  all.cpu_topology.cpus.resize(1);
  all.numa.resize(1);
  all.pmus = {{1, "software"}};
  all.sample_time = {1, 2};
  all.compressed = CompressedFeature{};
  all.clock_data.wall_ns = 1;
  const std::vector<FileEvent> events(1);
  EXPECT_THAT(bits(all, events), testing::ElementsAre(1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 10U, 11U, 12U, 13U, 14U, 16U,
                                                      21U, 23U, 27U, 29U));
}

TEST(Features, StringsArePaddedTo64WithRoomForTheNul) {
  for (const auto& [length, padded] : {std::pair{1, 64}, {63, 64}, {64, 128}, {127, 128}, {128, 192}}) {
    const std::string text(static_cast<std::size_t>(length), 'x');
    Bytes expected;
    put_string(expected, text, static_cast<std::size_t>(padded));
    EXPECT_EQ(section({.hostname = text}, kFeatureHostname), expected) << length;
  }
}

TEST(Features, StringsHaveAnEnd) {
  const Bytes bytes = section({.hostname = std::string(10U << 20U, 'x')}, kFeatureHostname);
  EXPECT_EQ(bytes.size(), 4 + (256U << 10U));
  EXPECT_EQ(bytes.back(), std::byte{0});
}

TEST(Features, TracingData) {
  using namespace std::string_view_literals;
  TracingData tracing{.header_page = "page text", .header_event = "event", .systems = {}};
  tracing.systems = {{"sched", {"format one", "format 2"}}, {"oom", {"third"}}};
  Bytes expected;
  put_text(expected, "\027\010\104tracing0.6\0\0\010"sv);
  put(expected, std::uint32_t{4096});
  put_text(expected, "header_page\0"sv);
  put(expected, std::uint64_t{9});
  put_text(expected, "page text");
  put_text(expected, "header_event\0"sv);
  put(expected, std::uint64_t{5});
  put_text(expected, "event");
  put(expected, std::uint32_t{0});
  put(expected, std::uint32_t{2});
  put_text(expected, "sched\0"sv);
  put(expected, std::uint32_t{2});
  put(expected, std::uint64_t{10});
  put_text(expected, "format one");
  put(expected, std::uint64_t{8});
  put_text(expected, "format 2");
  put_text(expected, "oom\0"sv);
  put(expected, std::uint32_t{1});
  put(expected, std::uint64_t{5});
  put_text(expected, "third");
  put(expected, std::uint32_t{0});
  put(expected, std::uint32_t{0});
  put(expected, std::uint64_t{0});
  EXPECT_EQ(section({.tracing_data = tracing}, kFeatureTracingData), expected);

  const auto back = read_tracing_data(expected);
  ASSERT_TRUE(back) << back.error().what;
  ASSERT_EQ(back->size(), 3U);
  EXPECT_EQ(back->at(1).system + ":" + back->at(1).format, "sched:format 2");
  EXPECT_EQ(back->at(2).system + ":" + back->at(2).format, "oom:third");
  constexpr std::size_t kBehindFormats = 16;  // kallsyms, printk formats and command lines, which are not read
  for (std::size_t size = 0; size + kBehindFormats < expected.size(); ++size)
    EXPECT_FALSE(read_tracing_data(std::span(expected).first(size))) << size;
  Bytes other_order = expected;
  other_order[14] = std::byte{1};
  EXPECT_EQ(read_tracing_data(other_order).error().errno_value(), ENOTSUP);
}

TEST(Features, BuildIds) {
  const std::vector<std::uint8_t> long_id(20, 0xab), short_id{1, 2, 3, 4, 5, 6, 7, 8};
  Features features;
  features.build_ids = {{.kernel = true, .id = long_id, .name = "[kernel.kallsyms]_text"},
                        {.kernel = false, .id = short_id, .name = "/usr/bin/" + std::string(60, 'p')}};
  Bytes expected;
  put(expected, std::uint32_t{0});
  put(expected, std::uint16_t{0x8001});
  put(expected, std::uint16_t{104});
  put(expected, std::int32_t{-1});
  for (int i = 0; i < 20; ++i) put(expected, std::uint8_t{0xab});
  put(expected, std::uint32_t{20});  // size and three zeros
  put_text(expected, "[kernel.kallsyms]");
  expected.resize(104);
  put(expected, std::uint32_t{0});
  put(expected, std::uint16_t{0x8002});
  put(expected, std::uint16_t{168});
  put(expected, std::int32_t{-1});
  for (std::uint8_t i = 1; i <= 8; ++i) put(expected, i);
  expected.resize(expected.size() + 12);
  put(expected, std::uint32_t{8});
  put_text(expected, features.build_ids[1].name);
  expected.resize(104 + 168);
  EXPECT_EQ(section(features, kFeatureBuildId), expected);
}

TEST(Features, BuildIdsThatWouldBreakAReaderAreLeftOut) {
  Features features;
  features.build_ids = {{.kernel = false, .id = {}, .name = "/no/id"},
                        {.kernel = false, .id = {1}, .name = ""},
                        {.kernel = false, .id = {1}, .name = std::string(4032, 'n')}};
  EXPECT_THAT(bits(features), testing::ElementsAre(kFeatureClockId));
  features.build_ids = {{.kernel = false, .id = std::vector<std::uint8_t>(32, 9), .name = std::string(4031, 'n')}};
  const Bytes bytes = section(features, kFeatureBuildId);
  ASSERT_EQ(bytes.size(), 36U + 4036U);
  EXPECT_EQ(test::get<std::uint8_t>(bytes, 32), 20) << "an id has at most 20 bytes";
}

TEST(Features, CpuCounts) {
  Bytes expected;
  put(expected, std::uint32_t{8});
  put(expected, std::uint32_t{6});
  EXPECT_EQ(section({.cpus_available = 8, .cpus_online = 6}, kFeatureCpus), expected);
  expected.clear();
  put(expected, std::uint32_t{9});
  put(expected, std::uint32_t{9});
  EXPECT_EQ(section({.cpus_available = 8, .cpus_online = 9}, kFeatureCpus), expected) << "online <= available";
}

TEST(Features, NumbersAndCommandLine) {
  Features features{.total_memory_kb = 0x123456789a, .command_line = {"flightd", ""}, .clock_resolution_ns = 4};
  features.sample_time = {7, 9};
  features.clock_data = {.clockid = 1, .wall_ns = 1'700'000'000'000'000'000, .clockid_ns = 55};
  Bytes memory, command_line, times, resolution, clock;
  put(memory, std::uint64_t{0x123456789a});
  put(command_line, std::uint32_t{2});
  put_string(command_line, "flightd");
  put_string(command_line, "");
  put(times, std::uint64_t{7});
  put(times, std::uint64_t{9});
  put(resolution, std::uint64_t{4});
  put(clock, std::uint32_t{1});
  put(clock, std::uint32_t{1});
  put(clock, std::uint64_t{1'700'000'000'000'000'000});
  put(clock, std::uint64_t{55});
  EXPECT_EQ(section(features, kFeatureTotalMemory), memory);
  EXPECT_EQ(section(features, kFeatureCommandLine), command_line);
  EXPECT_EQ(section(features, kFeatureSampleTime), times);
  EXPECT_EQ(section(features, kFeatureClockId), resolution);
  EXPECT_EQ(section(features, kFeatureClockData), clock);
}

TEST(Features, EventDescriptionsMatchTheStoredAttrs) {
  const std::vector<FileEvent> events{{test::sideband_attr(), "flightd:sideband", {3, 4}},
                                      {test::clock_attr(), "cpu-clock", {5}}};
  Bytes expected;
  put(expected, std::uint32_t{2});
  put(expected, std::uint32_t{128});
  for (const FileEvent& event : events) {
    perf_event_attr attr = event.attr;
    attr.size = 128;
    test::put_bytes(expected, std::as_bytes(std::span(&attr, 1)).first(128));
    put(expected, static_cast<std::uint32_t>(event.ids.size()));
    put_string(expected, event.name);
    for (const std::uint64_t id : event.ids) put(expected, id);
  }
  EXPECT_EQ(section({}, kFeatureEventDescription, events), expected);
}

TEST(Features, CpuTopology) {
  Features features{.cpus_available = 2, .cpus_online = 2};
  CpuTopologyFeature& topology = features.cpu_topology;
  topology = {{"0-1"}, {"0", "1"}, {"0-1"}, {{.core_id = 4, .socket_id = 1, .die_id = 7}, {5, 1, 7}}};
  Bytes expected;
  put(expected, std::uint32_t{1});
  put_string(expected, "0-1");
  put(expected, std::uint32_t{2});
  put_string(expected, "0");
  put_string(expected, "1");
  for (const std::uint32_t field : {4U, 1U, 5U, 1U}) put(expected, field);
  const Bytes without_dies = expected;
  put(expected, std::uint32_t{1});
  put_string(expected, "0-1");
  put(expected, std::uint32_t{7});
  put(expected, std::uint32_t{7});
  EXPECT_EQ(section(features, kFeatureCpuTopology), expected);
  topology.die_siblings.clear();
  EXPECT_EQ(section(features, kFeatureCpuTopology), without_dies);

  topology.cpus[1].socket_id = 128;  // VMware; perf stops reading features at a socket > CPUs that is not -1
  EXPECT_EQ(test::get<std::uint32_t>(section(features, kFeatureCpuTopology), without_dies.size() - 4), 0xffffffffU);
  topology.core_siblings = {"0", "1", "2"};
  EXPECT_TRUE(section(features, kFeatureCpuTopology).empty()) << "more lists than CPUs";
  topology.core_siblings.clear();
  features.cpus_available = 3;
  EXPECT_TRUE(section(features, kFeatureCpuTopology).empty()) << "perf would read one CPU too many";
}

TEST(Features, NumaPmusCompressed) {
  Features features;
  features.numa = {{.node = 0, .total_kb = 100, .free_kb = 50, .cpu_list = "0-1"}, {1, 200, 20, ""}};
  features.pmus = {{1, "software"}, {4, "cpu"}};
  features.compressed = CompressedFeature{.level = 3, .ratio = 9, .mmap_bytes = 262'144};
  Bytes numa, pmus, compressed;
  put(numa, std::uint32_t{2});
  put(numa, std::uint32_t{0});
  put(numa, std::uint64_t{100});
  put(numa, std::uint64_t{50});
  put_string(numa, "0-1");
  put(numa, std::uint32_t{1});
  put(numa, std::uint64_t{200});
  put(numa, std::uint64_t{20});
  put_string(numa, "");
  put(pmus, std::uint32_t{2});
  put(pmus, std::uint32_t{1});
  put_string(pmus, "software");
  put(pmus, std::uint32_t{4});
  put_string(pmus, "cpu");
  for (const std::uint32_t field : {0U, 1U, 3U, 9U, 262'144U}) put(compressed, field);
  EXPECT_EQ(section(features, kFeatureNumaTopology), numa);
  EXPECT_EQ(section(features, kFeaturePmuMappings), pmus);
  EXPECT_EQ(section(features, kFeatureCompressed), compressed);

  features.compressed = CompressedFeature{.level = 1, .ratio = 0, .mmap_bytes = 4097};
  EXPECT_EQ(test::get<std::uint32_t>(section(features, kFeatureCompressed), 12), 1U);
  EXPECT_EQ(test::get<std::uint32_t>(section(features, kFeatureCompressed), 16), 8192U) << "whole pages";
}

}  // namespace
}  // namespace flight
