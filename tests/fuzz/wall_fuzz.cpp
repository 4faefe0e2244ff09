// SPDX-License-Identifier: Apache-2.0
// What crosses the wall as JSON: the manifest and the counts. What is taken can be written and is taken again, and all
// its indexes lead somewhere.
#include <cassert>

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
  return 0;
}
