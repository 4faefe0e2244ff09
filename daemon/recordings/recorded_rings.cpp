// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/recorded_rings.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "daemon/recordings/sample_filter.hpp"
#include "libcore/base/text.hpp"
#include "libcore/snapshot/file_facts.hpp"

namespace flight::daemon {
namespace {

// All events write the same trailer, so that the file can leave out those of other channels.
std::vector<FileEvent> events_of(const Manifest& manifest, const FileSamples& samples,
                                 const std::set<std::string>& channels) {
  std::vector<FileEvent> all = file_events(manifest);
  samples.mark(all);
  std::vector<FileEvent> out;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i == 0 || channels.contains(manifest.events[i].channel)) out.push_back(std::move(all[i]));
  sort_for_readers(out);
  return out;
}

std::string listed_channels(const Manifest& manifest) {
  std::set<std::string> names;
  for (const ManifestRing& ring : manifest.rings)
    if (ring.kind == RingKind::channel) names.insert(ring.channel);
  std::string out;
  for (const std::string& name : names) out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
  return out;
}

bool same_event(const FileEvent& one, const FileEvent& other) { return one.name == other.name && one.ids == other.ids; }

// The reason why this channel has no ring; nullopt: it has one.
std::optional<Failure> refusal_of(const Attached& attached, const std::string& name) {
  const auto is_its_ring = [&](const auto& ring) { return ring->info().channel == name; };
  const auto is_its_event = [&](const ManifestEvent& event) { return event.channel == name; };
  const std::vector<ManifestEvent>& events = attached.manifest.events;
  if (std::any_of(attached.rings.begin(), attached.rings.end(), is_its_ring)) return std::nullopt;
  if (std::any_of(events.begin(), events.end(), is_its_event))
    return fail(
        std::errc::no_message_available,
        "channel '{}' records no CPU now: those in its `cpus` are offline; try again when one of them is online",
        printable(name));
  return fail(std::errc::invalid_argument, "there is no channel '{}'; there are: {}", printable(name),
              listed_channels(attached.manifest));
}

}  // namespace

Result<RecordedRings> RecordedRings::of(std::shared_ptr<Attached> attached, const std::vector<std::string>& channels) {
  const Manifest& manifest = attached->manifest;
  std::set<std::string> wanted(channels.begin(), channels.end());
  for (const std::string& name : channels)
    if (auto refused = refusal_of(*attached, name)) return std::move(*refused);
  RecordedRings out;
  for (const auto& ring : attached->rings) {
    if (channels.empty()) wanted.insert(ring->info().channel);
    if (wanted.contains(ring->info().channel)) out.rings.push_back(ring);
  }
  if (out.rings.empty()) return fail(std::errc::no_message_available, "no channel is recorded now");
  const FileSamples samples(manifest, attached->events);
  out.changes_samples = samples.any();
  out.events = events_of(manifest, samples, wanted);
  out.attached = std::move(attached);
  return out;
}

std::vector<StreamRing> RecordedRings::to_read(const RingPositions& read_to) const {
  std::vector<StreamRing> out;
  for (const auto& ring : rings) {
    StreamRing& one = out.emplace_back();
    one.cpu = ring->info().cpu;
    one.data = ring->bytes();
    one.head = [ring] { return ring->head(); };
    if (const auto known = read_to.find(ring->owner_id()); known != read_to.end()) one.read_to = known->second;
  }
  return out;
}

RingPositions RecordedRings::heads() const {
  RingPositions out;
  for (const auto& ring : rings) out[ring->owner_id()] = ring->head();
  return out;
}

RingPositions RecordedRings::positions(const std::vector<std::uint64_t>& read_to) const {
  RingPositions out;
  for (std::size_t i = 0; i < std::min(rings.size(), read_to.size()); ++i) out[rings[i]->owner_id()] = read_to[i];
  return out;
}

std::vector<MakeFilter> RecordedRings::filters() const {
  if (!changes_samples) return {};
  return {[attached = attached](StreamSink& next) -> std::unique_ptr<StreamSink> {
    return std::make_unique<SampleFilter>(attached, next);
  }};
}

bool RecordedRings::same_as(const RecordedRings& other) const {
  return rings == other.rings && changes_samples == other.changes_samples &&
         std::equal(events.begin(), events.end(), other.events.begin(), other.events.end(), same_event);
}

bool RecordedRings::are_in(const RecordedRings& others) const {
  return std::all_of(rings.begin(), rings.end(), [&](const auto& ring) {
    return std::find(others.rings.begin(), others.rings.end(), ring) != others.rings.end();
  });
}

std::uint64_t RecordedRings::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& ring : rings) sum += ring->info().ring_bytes;
  return sum;
}

}  // namespace flight::daemon
