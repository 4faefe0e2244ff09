// SPDX-License-Identifier: Apache-2.0
// A recording of many CPUs, made in memory: full rings that were overwritten, with samples with stacks, as the input
// of the pipeline after the freeze. Every sample's `period` is its serial number in its ring.
#pragma once

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

class MadeRecording {
 public:
  static constexpr EventTime kEnd = 1'000'000'000'000;  // of every ring

  MadeRecording(std::size_t rings, std::size_t ring_bytes)
      : memory_(std::move(Mapping::create(rings * ring_bytes).value())) {
    ManifestEvent dummy;
    dummy.name = "dummy:HG";
    dummy.attr.type = PERF_TYPE_SOFTWARE;
    dummy.attr.config = PERF_COUNT_SW_DUMMY;
    dummy.attr.sample_type = kSidebandSampleType;
    dummy.ids = {{1, 0, 0}};
    ManifestEvent clock = dummy;
    clock.channel = "stacks";
    clock.name = "cpu-clock";
    clock.attr.config = PERF_COUNT_SW_CPU_CLOCK;
    clock.attr.sample_type = kSampleType;
    clock.ids.clear();
    for (ManifestEvent* event : {&dummy, &clock}) {
      event->attr.size = kStoredAttrBytes;
      event->attr.sample_id_all = 1;
    }
    for (std::size_t ring = 0; ring < rings; ++ring) {
      const int cpu = static_cast<int>(ring);
      manifest.rings.push_back(
          {.kind = RingKind::channel, .channel = "stacks", .cpu = cpu, .ring_bytes = ring_bytes, .enabled_ns = 1});
      clock.ids.push_back({id_of(ring), cpu, static_cast<std::uint32_t>(ring)});
      images.push_back(fill(ring, memory_.bytes().subspan(ring * ring_bytes, ring_bytes)));
    }
    manifest.events = {dummy, clock};
    events = event_table(manifest);
    channel_rings.resize(rings);
    std::iota(channel_rings.begin(), channel_rings.end(), std::size_t{0});
  }

  [[nodiscard]] Selection selection(WorkerPool& workers, WindowRequest window = {}) const {
    return select(images, manifest, channel_rings, events, window, kEnd, BlackoutLog(images.size()), workers);
  }
  [[nodiscard]] static std::uint64_t id_of(std::size_t ring) { return 100 + ring; }

  Manifest manifest;
  std::vector<RingImage> images;
  std::vector<std::size_t> channel_rings;
  EventTable events;

  static constexpr std::uint64_t kSampleType =
      kSidebandSampleType | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN;
  struct Sample {
    perf_event_header header{PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, sizeof(Sample)};
    std::uint64_t id = 0, ip = 0;
    std::uint32_t pid = 0, tid = 0;
    std::uint64_t time_ns = 0;
    std::uint32_t cpu = 0, reserved = 0;
    std::uint64_t period = 0, depth = 0;
    std::array<std::uint64_t, 32> chain{};
  };

 private:
  // From the newest to the oldest, upwards from the head, until the ring is full: the last one is truncated.
  static RingImage fill(std::size_t ring, std::span<std::byte> bytes) {
    std::mt19937 random(0);
    std::vector<Sample> kinds(64);  // the stacks of this machine, the same on every CPU; each occurs repeatedly
    for (Sample& kind : kinds) {
      kind.depth = 4 + random() % 28;
      kind.header.size = static_cast<std::uint16_t>(sizeof(Sample) - (32 - kind.depth) * 8);
      kind.pid = kind.tid = 1000 + random() % 16;
      kind.cpu = static_cast<std::uint32_t>(ring);
      kind.id = id_of(ring);
      for (std::uint64_t& frame : kind.chain) frame = 0x555500000000 + random() % 100'000;
      kind.ip = kind.chain[0];
    }
    random.seed(static_cast<unsigned>(ring));
    std::uint64_t serial = bytes.size();
    EventTime time_ns = kEnd;
    for (std::size_t at = 0; at < bytes.size(); --serial) {
      Sample sample = kinds[random() % kinds.size()];
      time_ns -= 1 + random() % 20'000;
      sample.time_ns = time_ns;
      sample.period = serial;
      const std::size_t size = std::min<std::size_t>(sample.header.size, bytes.size() - at);
      std::memcpy(bytes.data() + at, &sample, size);
      at += size;
    }
    // The head is a multiple of the size, far below 0: many revolutions.
    return {.bytes = bytes, .head = std::uint64_t{0} - 16 * bytes.size(), .valid_bytes = bytes.size()};
  }

  Mapping memory_;
};

}  // namespace flight
