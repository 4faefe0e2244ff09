// SPDX-License-Identifier: Apache-2.0
// The process tracker, fed with what the rings of a hostile machine may hold: it stays within its bounds, and all that
// it hands out for a file is whole records in the order of time.
#include <cassert>

#include "libcore/sideband/process_tracker.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr flight::TrackerLimits kLimits{.log_bytes = 16U << 10U, .state_bytes = 64U << 10U};

void check_export(const flight::TrackerExport& window) {
  flight::EventTime last_ns = 0;
  std::span<const std::byte> log = window.log;
  for (auto record = flight::next_record(log); !record.empty(); record = flight::next_record(log)) {
    log = log.subspan(record.size());
    const auto trailer = flight::parse_trailer(record);
    assert(trailer && trailer->time_ns >= last_ns);
    last_ns = trailer->time_ns;
  }
  assert(log.empty());
  std::span<const std::byte> prologue = window.prologue;
  for (auto record = flight::next_record(prologue); !record.empty(); record = flight::next_record(prologue))
    prologue = prologue.subspan(record.size());
  assert(prologue.empty());
}

}  // namespace

// Steps: u8 what to do, u8 and u16 its numbers; then what is added.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flight::fuzz::Input input(data, size);
  flight::ProcessTracker tracker(kLimits);
  for (int steps = 0; steps < 64 && !input.bytes().empty(); ++steps) {
    const auto step = input.take<std::uint8_t>();
    const auto number = input.take<std::uint8_t>();
    const auto length = input.take<std::uint16_t>();
    // Times of the seeds are small; all bits set is a time as well.
    const flight::EventTime time_ns = step >= 0xf0 ? ~flight::EventTime{0} : flight::EventTime{length} << (number % 32);
    switch (step % 5) {
      case 0:
        tracker.add(input.take_bytes(length));
        break;
      case 1:
        tracker.add_scan(input.take_bytes(length), flight::EventTime{number} << 24U);
        break;
      case 2:
        tracker.fold(time_ns);
        break;
      case 3:
        check_export(tracker.export_window(time_ns / 2, time_ns, {1, 2, 3, number, length}));
        break;
      default:
        tracker.add_gap(time_ns / 2, time_ns);
    }
    const flight::TrackerStats stats = tracker.stats();
    assert(stats.log_bytes <= 2 * kLimits.log_bytes);
    static_cast<void>(stats.state_bytes);
  }
  check_export(tracker.export_window(0, ~flight::EventTime{0}, {1, 2, 3}));
  return 0;
}
