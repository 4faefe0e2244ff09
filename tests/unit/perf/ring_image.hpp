// SPDX-License-Identifier: Apache-2.0
// A backward ring in memory, filled as by the kernel: downwards, over its oldest bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/ring_walk.hpp"

namespace flight::test {

inline constexpr std::uint64_t kSampleType = kSidebandSampleType | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD;
inline constexpr std::uint64_t kId = 77;

// The fixed part of a SAMPLE of kSampleType.
struct SampleHead {
  perf_event_header header{PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, 0};
  std::uint64_t id = kId, ip = 0;
  std::uint32_t pid = 1, tid = 1;
  std::uint64_t time_ns = 0;
  std::uint32_t cpu = 0, reserved = 0;
  std::uint64_t period = 1;
};
static_assert(sizeof(SampleHead) == 56);

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

// `ip` is a serial number that tests look for; everything after the head is 0xee.
inline std::vector<std::byte> sample(EventTime time_ns, std::uint64_t ip, std::size_t size = sizeof(SampleHead),
                                     std::uint64_t id = kId) {
  SampleHead head;
  head.header.size = static_cast<std::uint16_t>(size);
  head.id = id;
  head.ip = ip;
  head.time_ns = time_ns;
  auto bytes = bytes_of(head);
  bytes.resize(size, std::byte{0xee});
  return bytes;
}

inline std::vector<std::byte> lost_record(EventTime time_ns, std::uint64_t lost) {
  struct Lost {
    perf_event_header header{PERF_RECORD_LOST, 0, sizeof(Lost)};
    std::uint64_t event = kId, lost = 0;
    std::uint32_t pid = 1, tid = 1;
    std::uint64_t time_ns = 0;
    std::uint32_t cpu = 0, reserved = 0;
    std::uint64_t id = kId;
  } record;
  record.lost = lost;
  record.time_ns = time_ns;
  return bytes_of(record);
}

inline EventTable one_event() {
  EventTable events;
  events.add_id(kId, events.add_event(kSampleType));
  return events;
}

class FakeRing {
 public:
  explicit FakeRing(std::size_t bytes) : bytes_(bytes) {}

  void write(std::span<const std::byte> record) {
    head_ -= record.size();
    for (std::size_t i = 0; i < record.size(); ++i) bytes_[(head_ + i) & (bytes_.size() - 1)] = record[i];
  }
  [[nodiscard]] RingImage image() const { return {bytes_, head_, bytes_.size()}; }
  [[nodiscard]] std::uint64_t written() const { return 0 - head_; }
  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }
  // Puts raw bytes at a distance from the head.
  void poke(std::uint64_t above_head, std::span<const std::byte> raw) {
    for (std::size_t i = 0; i < raw.size(); ++i) bytes_[(head_ + above_head + i) & (bytes_.size() - 1)] = raw[i];
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t head_ = 0;
};

// The serial numbers of the records, read through record_bytes.
inline std::vector<std::uint64_t> serials(const RingImage& image, const WalkResult& walk) {
  std::vector<std::byte> scratch(65536);
  std::vector<std::uint64_t> all;
  for (const RecordRef& ref : walk.records) {
    const auto bytes = record_bytes(image, ref, scratch);
    all.push_back(bytes.size() < sizeof(SampleHead) ? 0 : load<SampleHead>(bytes.data()).ip);
  }
  return all;
}

}  // namespace flight::test
