// SPDX-License-Identifier: Apache-2.0
// What is sent over the broker protocol: the manifest, the counts, and the kernel's maps. What is taken can be written
// and is taken again, and all its indexes lead somewhere.
#include <cassert>

#include "libcore/broker/kernel_names.hpp"
#include "libcore/broker/protocol.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = flight::fuzz::Input(data, size).text();
  if (const auto manifest = flight::parse_manifest(text)) {
    for (const flight::ManifestEvent& event : manifest->events)
      for (const flight::ManifestId& id : event.ids) assert(id.ring < manifest->rings.size());
    for (const flight::ManifestRing& ring : manifest->rings) assert(ring.ring_bytes <= flight::kMaxRingBytes);
    const std::string written = flight::encode(*manifest);
    const auto again = flight::parse_manifest(written);
    assert(again.has_value());
    assert(flight::encode(*again) == written);
  }
  if (const auto counts = flight::parse_counts(text)) assert(flight::parse_counts(flight::encode(*counts)).has_value());
  if (const auto names = flight::parse_kernel_names(std::as_bytes(std::span(data, size)))) {
    for (const flight::KernelMap& map : names->maps) assert(map.address <= map.address + (map.bytes - 1));
    assert(names->digest.find('/') == std::string::npos);
    const auto written = flight::encode(*names);
    const auto again = flight::parse_kernel_names(written);
    assert(again.has_value());
    assert(flight::encode(*again) == written);
  }
  return 0;
}
