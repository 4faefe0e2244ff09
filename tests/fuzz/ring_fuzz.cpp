// SPDX-License-Identifier: Apache-2.0
// A ring's image as a writer may leave it that is no kernel: any bytes, any head, any number of them valid. What the
// walk returns lies in the image and ascends in time, and what a file gets of a sample can be read.
#include <algorithm>
#include <cassert>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perf/ring_walk.hpp"
#include "libcore/perf/sample_parts.hpp"
#include "libcore/snapshot/file_samples.hpp"
#include "libcore/snapshot/selection.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr std::size_t kMaxRecordBytes = 65536;

flight::Manifest known_events() {
  constexpr auto kPlain = flight::kSidebandSampleType | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD;
  flight::Manifest manifest;
  const auto add = [&manifest](std::uint64_t id, std::uint64_t type, std::uint64_t registers) {
    flight::ManifestEvent event;
    event.attr.sample_type = type;
    event.attr.sample_regs_user = registers;
    event.ids = {{id, 0, 0}};
    manifest.events.push_back(event);
  };
  add(77, kPlain, 0);
  add(78, kPlain | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | PERF_SAMPLE_CGROUP, 0);
  add(79, kPlain | PERF_SAMPLE_CALLCHAIN | flight::kUserCopies | PERF_SAMPLE_CGROUP, 0b111);
  return manifest;
}

// Of the process 1, with code in the lower half of all addresses.
flight::TrackerExport known_process() {
  flight::TrackerExport out;
  out.maps_from_ns = 0;
  for (const char* name : {"/bin/made", "[vdso]"})
    flight::append_mmap2(out.prologue, {.pid = 1, .tid = 1, .bytes = 1ULL << 63U, .name = name}, {});
  return out;
}

// `record`: of the walk.
void check_for_file(flight::FileSamples& samples, std::span<const std::byte> record,
                    const flight::RecordLayout& layout) {
  if (flight::load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE) return;
  const auto kept = samples.file_record(record);
  if (kept.empty()) return;
  assert(kept.size() <= record.size() + 8);
  assert(flight::load<perf_event_header>(kept.data()).size == kept.size());
  const bool measured = sample_parts(record, layout).has_value();
  const auto file_layout = flight::RecordLayout::of(layout.sample_type & ~flight::kUserCopies);
  assert(!measured || layout.sample_type == file_layout.sample_type || sample_parts(kept, file_layout));
}

}  // namespace

// u64 head, u32 valid bytes, u8 log2 of the ring's size; then the ring from its beginning.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const flight::Manifest manifest = known_events();
  static const flight::EventTable events = flight::event_table(manifest);
  static const flight::TrackerExport process = known_process();
  static const flight::MappedCode code(process);
  static flight::FileSamples samples(manifest, events, &code);
  flight::fuzz::Input input(data, size);
  flight::RingImage image;
  image.head = input.take<std::uint64_t>();
  const auto valid_bytes = input.take<std::uint32_t>();
  std::vector<std::byte> ring(std::size_t{1} << (3 + input.take<std::uint8_t>() % 15));
  const auto bytes = input.take_bytes(ring.size());
  std::copy(bytes.begin(), bytes.end(), ring.begin());
  image.bytes = ring;
  image.valid_bytes = std::min<std::uint64_t>(valid_bytes, ring.size());

  const flight::WalkResult walk = flight::walk_ring(image, events);
  std::vector<std::byte> scratch(kMaxRecordBytes);
  flight::EventTime last_ns = 0;
  std::uint64_t total = 0;
  for (const flight::RecordRef& ref : walk.records) {
    assert(ref.time_ns >= last_ns);
    last_ns = ref.time_ns;
    const auto record = flight::record_bytes(image, ref, scratch);
    assert(record.size() == ref.size);
    total += record.size();
    const auto key = flight::record_key(record, events);
    assert(key && key->time_ns == ref.time_ns);
    check_for_file(samples, record, events.layout(key->event));
  }
  assert(total + walk.torn_bytes <= image.valid_bytes);
  return 0;
}
