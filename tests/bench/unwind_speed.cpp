// SPDX-License-Identifier: Apache-2.0
// How long unwinding takes: unwind_speed [FILE...]. Real samples of this process, 16 KiB of stack each, about 30 frames
// without frame pointers; then the time and the size of the table of each FILE.
#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "libcore/unwind/unwinder.hpp"
#include "tests/unit/unwind/deep_calls.hpp"
#include "tests/unit/unwind/live_samples.hpp"

namespace {

using namespace flight;
using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void at_bottom(void* context) {
  const auto& samples = *static_cast<const test::LiveSamples*>(context);
  samples.enable(true);
  static_cast<void>(test::compute(300));
  samples.enable(false);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void measure_unwinds() {
  const test::LiveSamples samples(16384);
  if (!samples.why_not().empty()) return fmt::print("{}\n", samples.why_not());
  static_cast<void>(test::call_deep(22, at_bottom, const_cast<test::LiveSamples*>(&samples)));
  const test::ProcessCode code;
  const auto taken = samples.take();
  std::array<std::uint64_t, kMaxUnwoundFrames> pcs{};
  auto unwinder = std::make_unique<Unwinder>(test::kThisMachine);
  std::vector<double> cold, warm;
  std::size_t frames = 0, complete = 0;
  std::vector<std::byte> other(64U << 20U);  // what other work does to the caches
  for (std::size_t i = 0; i < std::min<std::size_t>(taken.size(), 50); ++i) {
    for (std::size_t at = 0; at < other.size(); at += 64) other[at] ^= std::byte{1};
    unwinder = std::make_unique<Unwinder>(test::kThisMachine);
    const auto begin = Clock::now();
    static_cast<void>(unwinder->unwind(taken[i].registers, taken[i].copy(), code.map(), pcs));
    cold.push_back(microseconds_since(begin));
  }
  for (int round = 0; round < 20; ++round) {
    for (const test::LiveSample& sample : taken) {
      const auto begin = Clock::now();
      const Unwound unwound = unwinder->unwind(sample.registers, sample.copy(), code.map(), pcs);
      warm.push_back(microseconds_since(begin));
      frames += unwound.frames;
      complete += unwound.status == UnwindStatus::complete ? 1 : 0;
    }
  }
  fmt::print(
      "{} samples, {:.1f} frames each, {} of {} complete, {} mappings: warm {:.2f} us, cold {:.2f} us (median)\n",
      taken.size(), static_cast<double>(frames) / static_cast<double>(warm.size()), complete, warm.size(),
      code.map().mappings().size(), median(warm), median(cold));
}

void measure_table(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  const auto file = FileBytes::open(fd.get());
  if (!file) return fmt::print("{}: {}\n", path, file.error().what);
  const auto begin = Clock::now();
  const auto image = ElfImage::parse(*file);
  if (!image) return fmt::print("{}: {}\n", path, image.error().what);
  const auto built = build_unwind_table(*image);
  const double microseconds = microseconds_since(begin);
  if (!built) return fmt::print("{}: {}\n", path, built.error().what);
  const TableCounts& counts = built->counts;
  fmt::print(
      "{}: .eh_frame {} bytes, {} CIEs, {} FDEs, {} rows, {} rule words, {} bytes, {:.1f} ms; refused {} FDEs, {} "
      "rules{}\n",
      path, image->eh_frame()->bytes.size(), counts.cies, counts.fdes, counts.rows, counts.rule_words,
      built->bytes.size(), microseconds / 1000, counts.refused_fdes, counts.refused_rules,
      counts.is_cut ? "; cut" : "");
}

}  // namespace

int main(int argc, char** argv) {
  measure_unwinds();
  for (int i = 1; i < argc; ++i) measure_table(argv[i]);
}
