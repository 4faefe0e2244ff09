// SPDX-License-Identifier: Apache-2.0
// A recording of many CPUs, made in memory: full rings that were overwritten, with samples with stacks, as the input
// of the pipeline after the freeze. Every sample's `period` is its serial number in its ring.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

class MadeRecording {
 public:
  static constexpr EventTime kEnd = 1'000'000'000'000;  // of every ring
  // of_programs: marked as the program's, most callers in the code of processes(), some nowhere.
  enum class Stacks { plain, of_programs };

  MadeRecording(std::size_t rings, std::size_t ring_bytes, Stacks stacks = Stacks::plain)
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
      images.push_back(fill(ring, memory_.bytes().subspan(ring * ring_bytes, ring_bytes), stacks));
    }
    manifest.events = {dummy, clock};
    events = event_table(manifest);
    channel_rings.resize(rings);
    std::iota(channel_rings.begin(), channel_rings.end(), std::size_t{0});
  }

  [[nodiscard]] Selection selection(WorkerPool& workers, WindowRequest window = {}) const {
    return select(images, manifest, channel_rings, events, window, kEnd, BlackoutLog(images.size()), workers);
  }
  // The same for another window, without another walk. Nothing else can be done with `selection` then.
  [[nodiscard]] Selection again(Selection& selection, WorkerPool& workers, WindowRequest window) const {
    return select_from(take_walked(selection), manifest, channel_rings, events, window, kEnd,
                       BlackoutLog(images.size()), workers);
  }
  [[nodiscard]] static std::uint64_t id_of(std::size_t ring) { return 100 + ring; }
  // The processes of all samples, known from the beginning on. At `time_ns`, half of them execute their program again,
  // and the others exit, although they are sampled later, too.
  [[nodiscard]] static TrackerExport processes(EventTime time_ns) {
    TrackerExport out;
    out.maps_from_ns = 0;
    for (std::uint32_t pid = kFirstPid; pid < kFirstPid + kPids; ++pid) {
      append_comm(out.prologue, {.pid = pid, .tid = pid, .name = "made"}, {});
      append_mappings(out.prologue, {.pid = pid, .tid = pid});
      const Trailer then{.pid = pid, .tid = pid, .time_ns = time_ns, .id = 1};
      if (pid % 2 == 0) {
        append_comm(out.log, {.pid = pid, .tid = pid, .name = "again", .exec = true}, then);
        append_mappings(out.log, then);
      } else {
        append_exit(out.log, {.pid = pid, .ppid = 1, .tid = pid, .ptid = 1, .time_ns = time_ns}, then);
      }
    }
    return out;
  }

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
  static constexpr std::uint32_t kFirstPid = 1000, kPids = 16;
  static constexpr std::uint64_t kProgram = 0x555500000000, kProgramBytes = 100'000;
  static constexpr std::uint64_t kLibrary = 0x7f0000000000, kLibraryBytes = 1U << 20U, kLibraryApart = 4U << 20U;
  static constexpr std::uint64_t kLibraries = 32, kVdso = 0x7ffff7fc0000, kStack = 0x7ffc00000000;

  static void append_mappings(RecordBuffer& out, const Trailer& trailer) {
    const auto map = [&](std::uint64_t address, std::uint64_t bytes, std::string_view name) {
      append_mmap2(out, {.pid = trailer.pid, .tid = trailer.tid, .address = address, .bytes = bytes, .name = name},
                   trailer);
    };
    map(kProgram, kProgramBytes, "/bin/made");
    for (std::uint64_t i = 0; i < kLibraries; ++i) map(kLibrary + i * kLibraryApart, kLibraryBytes, "/lib/made.so");
    map(kVdso, 0x2000, "[vdso]");
  }

  static void put_frames_of_programs(Sample& kind, std::mt19937& random) {
    for (std::uint64_t& frame : kind.chain) {
      switch (random() % 8) {
        case 0:
          frame = random() % 4096;  // what a register without a frame pointer has
          break;
        case 1:
          frame = kStack + 8 * (random() % 4096);
          break;
        case 2:
        case 3:
          frame = kProgram + random() % kProgramBytes;
          break;
        default:
          frame = kLibrary + random() % kLibraries * kLibraryApart + random() % kLibraryBytes;
      }
    }
    kind.chain[0] = PERF_CONTEXT_USER;
    kind.ip = kind.chain[1] = kProgram + random() % kProgramBytes;
  }

  // From the newest to the oldest, upwards from the head, until the ring is full: the last one is truncated.
  static RingImage fill(std::size_t ring, std::span<std::byte> bytes, Stacks stacks) {
    std::mt19937 random(0);
    std::vector<Sample> kinds(64);  // the stacks of this machine, the same on every CPU; each occurs repeatedly
    for (Sample& kind : kinds) {
      kind.depth = 4 + random() % 28;
      kind.header.size = static_cast<std::uint16_t>(sizeof(Sample) - (32 - kind.depth) * 8);
      kind.pid = kind.tid = 1000 + random() % 16;  // of processes()
      kind.cpu = static_cast<std::uint32_t>(ring);
      kind.id = id_of(ring);
      for (std::uint64_t& frame : kind.chain) frame = kProgram + random() % kProgramBytes;
      kind.ip = kind.chain[0];
      if (stacks == Stacks::of_programs) put_frames_of_programs(kind, random);
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
