// SPDX-License-Identifier: Apache-2.0
// A ring's image as a writer may leave it that is no kernel: any bytes, any head, any number of them valid. What the
// walk returns lies in the image and ascends in time.
#include <cassert>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/ring_walk.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr std::size_t kMaxRecordBytes = 65536;

flight::EventTable known_events() {
  flight::EventTable events;
  const auto plain = flight::kSidebandSampleType | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD;
  events.add_id(77, events.add_event(plain));
  events.add_id(78, events.add_event(plain | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | PERF_SAMPLE_CGROUP));
  events.add_id(79, events.add_event(plain | PERF_SAMPLE_CALLCHAIN | flight::kUserCopies | PERF_SAMPLE_CGROUP, 0b111));
  return events;
}

}  // namespace

// u64 head, u32 valid bytes, u8 log2 of the ring's size; then the ring from its beginning.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const flight::EventTable events = known_events();
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
  }
  assert(total + walk.torn_bytes <= image.valid_bytes);
  return 0;
}
