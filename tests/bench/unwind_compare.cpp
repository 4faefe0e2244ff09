// SPDX-License-Identifier: Apache-2.0
// Another program's stacks, unwound here and by libdwfl from the same samples: unwind_compare TID [SECONDS
// [STACK-BYTES]]. TID: a thread that runs. Prints how each unwind ended, how many chains are equal, what each costs,
// and some of the differences.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>

#include "libcore/unwind/splice.hpp"
#include "libcore/unwind/unwinder.hpp"
#include "tests/unit/unwind/libdwfl.hpp"
#include "tests/unit/unwind/live_samples.hpp"

namespace {

using namespace flight;
using Clock = std::chrono::steady_clock;

constexpr std::array<const char*, 8> kStatusNames = {"complete", "spliced",    "truncated",   "no_file",
                                                     "no_cfi",   "no_mapping", "no_progress", "too_deep"};
constexpr int kMaxShown = 6;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::string text_of(const test::ProcessCode& code, const std::vector<std::uint64_t>& pcs) {
  std::string text;
  for (const std::uint64_t pc : pcs) {
    const std::string name = code.name_of(pc);
    const CodeMapping* mapping = code.map().find(pc);
    text += fmt::format(" {:x}({}+{:x})", pc, name.substr(name.rfind('/') + 1),
                        mapping == nullptr ? 0 : pc - mapping->load_bias);
  }
  return text;
}

class Comparison {
 public:
  explicit Comparison(pid_t tid) : code_(tid), libdwfl_(tid) {}

  void add(const test::LiveSample& sample) {
    std::vector<std::uint64_t> pcs(kMaxUnwoundFrames);
    auto begin = Clock::now();
    const Unwound unwound = unwinder_.unwind(sample.registers, sample.copy(), code_.map(), pcs);
    ours_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    pcs.resize(unwound.frames);
    begin = Clock::now();
    const auto theirs = libdwfl_.unwind(sample);
    theirs_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    depths_.push_back(static_cast<double>(pcs.size()));
    ++statuses_[kStatusNames.at(static_cast<std::size_t>(unwound.status))];
    frame_pointer_steps_ += unwound.frame_pointer_steps;
    const std::size_t common = static_cast<std::size_t>(
        std::mismatch(pcs.begin(), pcs.end(), theirs.begin(), theirs.end()).first - pcs.begin());
    equal_frames_ += common;
    frames_ += std::max(pcs.size(), theirs.size());
    ++differences_[pcs == theirs             ? "equal"
                   : common == theirs.size() ? "ours goes on"
                   : common == pcs.size()    ? "theirs goes on"
                                             : "other frames"];
    if (pcs != theirs && common != theirs.size() && shown_++ < kMaxShown)
      fmt::print("{}\n  ours  {}\n  theirs{}\n", kStatusNames.at(static_cast<std::size_t>(unwound.status)),
                 text_of(code_, pcs), text_of(code_, theirs));
    if (unwound.status != UnwindStatus::complete) ++stops_[code_.name_of(unwound.stopped_at)];
  }
  void report() const {
    fmt::print("{} samples, median depth {}, {} frame pointer steps\n", ours_.size(), median(depths_),
               frame_pointer_steps_);
    for (const auto& [name, count] : statuses_) fmt::print("  {}: {}\n", name, count);
    for (const auto& [name, count] : differences_) fmt::print("  beside libdwfl: {}: {}\n", name, count);
    fmt::print("  equal frames: {} of {}\n", equal_frames_, frames_);
    for (const auto& [name, count] : stops_) fmt::print("  stopped in \"{}\": {}\n", name, count);
    fmt::print("  median us: ours {:.2f}, libdwfl {:.2f}\n", median(ours_), median(theirs_));
  }

 private:
  test::ProcessCode code_;
  test::Libdwfl libdwfl_;
  Unwinder unwinder_{test::kThisMachine};
  std::vector<double> ours_, theirs_, depths_;
  std::map<std::string, std::size_t> statuses_, differences_, stops_;
  std::size_t frame_pointer_steps_ = 0, equal_frames_ = 0, frames_ = 0;
  int shown_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: unwind_compare TID [SECONDS [STACK-BYTES]]\n");
    return 2;
  }
  const pid_t tid = std::atoi(argv[1]);
  const int seconds = argc > 2 ? std::atoi(argv[2]) : 3;
  const auto stack_bytes = static_cast<std::uint32_t>(argc > 3 ? std::atoi(argv[3]) : 16384);
  const test::LiveSamples samples(stack_bytes, 4'000'000, tid);
  if (!samples.why_not().empty()) {
    fmt::print(stderr, "{}\n", samples.why_not());
    return 1;
  }
  samples.enable(true);
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  samples.enable(false);
  Comparison comparison(tid);
  for (const auto& sample : samples.take()) comparison.add(sample);
  comparison.report();
  return 0;
}
