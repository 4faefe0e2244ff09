// SPDX-License-Identifier: Apache-2.0
// A checkpoint that somebody left: whatever is in the file, it is read up to what is no whole record, the process
// tracker stays within its bounds, and a new checkpoint is made of it.
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "libcore/sideband/checkpoint_file.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr flight::TrackerLimits kLimits{.log_bytes = 16U << 10U, .state_bytes = 64U << 10U};
constexpr const char* kBoot = "3f1c0d3e-0f5d-4b0e-9a51-7f1f3c6c1a11";

struct TempFolder {
  TempFolder() {
    if (::mkdtemp(path.data()) == nullptr) std::abort();
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/flight-checkpoint-fuzz.XXXXXX";
};

const std::string& folder() {
  static const TempFolder kept;
  return kept.path;
}

flight::ProcessTracker next_tracker() {
  flight::ProcessTracker tracker(kLimits);
  flight::CheckpointFile checkpoint(folder(), kBoot);
  const auto left = checkpoint.read();
  if (!left) return tracker;
  tracker.replay(std::as_bytes(std::span<const char>(left->records)), left->losses);
  flight::ClockHistory clock;
  clock.look(flight::ClockTriple::now());
  clock.restore(left->clock);
  for (const flight::ClockStep& step : clock.steps(0, UINT64_MAX))
    static_cast<void>(clock.event_at(step.after - step.before - step.slept, step.ns));
  return tracker;
}

}  // namespace

// u8: how much of it is what was drained after the checkpoint, in 256ths; then the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flight::fuzz::Input input(data, size);
  const std::size_t share = input.take<std::uint8_t>();
  const auto bytes = input.bytes();
  const std::string path = folder() + "/" + std::string(flight::CheckpointFile::kName);
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  static_cast<void>(::chmod(path.c_str(), 0600));
  flight::ProcessTracker tracker = next_tracker();
  flight::RecordBuffer drained(bytes.end() - static_cast<std::ptrdiff_t>(bytes.size() * share / 256), bytes.end());
  tracker.drop_known(drained);

  flight::CheckpointFile checkpoint(folder(), kBoot,
                                    {.state_bytes = 4096, .least_growth_bytes = 256, .most_growth_bytes = 4096});
  assert(checkpoint.begin(tracker, 0));
  assert(checkpoint.append(tracker, drained));
  tracker.add(drained);
  assert(checkpoint.keep_up(tracker, 0));
  assert(checkpoint.trouble().empty());
  assert(tracker.stats().log_bytes <= 2 * kLimits.log_bytes);
  const flight::ProcessTracker again = next_tracker();
  static_cast<void>(again.export_window(0, ~flight::EventTime{0}, {1, 2, 3}));
  return 0;
}
