// SPDX-License-Identifier: Apache-2.0
// Captures of real rings while a thread writes rising numbers into them as fast as possible: close(-n) on
// raw_syscalls:sys_enter. The numbers in an image must have no gap except at blackouts.
#include "libcore/capture/capture.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "tests/unit/on_cpu.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/vm_flags.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kRingBytes = 1U << 20U;

// header, IDENTIFIER, IP, TID, TIME, CPU, PERIOD, then RAW: u32 size, 8 common bytes, long id, args[0]
constexpr std::size_t kFirstArgument = 8 + 6 * 8 + 4 + 8 + 8;

// Less than half of what the ring holds: if no more is written during a copy, most of the ring can be kept.
constexpr long kFewMeanwhile = 3'000;

class Writer {
 public:
  explicit Writer(int cpu)
      : thread_([this, cpu] {
          const test::OnCpu there(cpu);
          tid_ = ::gettid();
          for (long n = 1; !stop_; ++n) {
            ::syscall(SYS_close, -n);
            written_ = n;
          }
        }) {}
  ~Writer() {
    stop_ = true;
    thread_.join();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  void wait_for(long n) const {
    while (written_ < n) std::this_thread::yield();
  }
  [[nodiscard]] long written() const { return written_; }
  [[nodiscard]] pid_t tid() const {
    wait_for(1);
    return tid_;
  }

 private:
  std::atomic<pid_t> tid_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<long> written_ = 0;
  std::thread thread_;
};

class Capture : public test::RootTest {
 protected:
  void SetUp() override {
    const auto tracefs = find_or_mount_tracefs();
    ASSERT_TRUE(tracefs) << tracefs.error().what;
    const KernelFeatures features{};
    const auto spec = parse_event("raw_syscalls:sys_enter", {.tracefs = *tracefs, .sysfs = "/sys"});
    ASSERT_TRUE(spec) << spec.error().what;
    auto owner = open_event(owner_attr(features), 0, "owner");
    ASSERT_TRUE(owner) << owner.error().what;
    const ManifestRing info{.kind = RingKind::channel, .channel = "calls", .cpu = 0, .ring_bytes = kRingBytes};
    const int owner_fd = owner->get();
    auto ring = Ring::open(std::move(*owner), info);
    ASSERT_TRUE(ring) << ring.error().what;
    rings_.push_back(std::make_shared<const Ring>(std::move(*ring)));

    const perf_event_attr attr = event_attr(*spec, {}, features);
    auto event = open_event(attr, 0, spec->name);
    ASSERT_TRUE(event) << event.error().what;
    event_ = std::move(*event);
    ASSERT_EQ(::ioctl(event_.get(), PERF_EVENT_IOC_SET_OUTPUT, owner_fd), 0);
    const auto id = event_id(event_.get());
    ASSERT_TRUE(id);
    events_.add_id(*id, events_.add_event(attr.sample_type));
  }

  // Only the calls of this thread are recorded, so only these can be lost.
  void record(pid_t tid) const {
    const std::string filter = fmt::format("id == {} && common_pid == {}", SYS_close, tid);
    ASSERT_EQ(::ioctl(event_.get(), PERF_EVENT_IOC_SET_FILTER, filter.c_str()), 0);
    ASSERT_EQ(::ioctl(event_.get(), PERF_EVENT_IOC_ENABLE, 0), 0);
  }

  // The numbers in the image in time order. lost: the events that are missing between two of them. A LOST is written
  // with the first sample after the loss, and its time is a moment later: one that follows the first number of the
  // image is about numbers before it.
  std::vector<long> numbers(const Staging& staging, std::uint64_t* lost = nullptr) const {
    std::vector<long> out;
    std::vector<std::byte> scratch(65536);
    const RingImage image = staging.image(0);
    const WalkResult walk = walk_ring(image, events_);
    EXPECT_EQ(walk.bad_records, 0U);
    EXPECT_EQ(walk.unknown_ids, 0U);
    for (const RecordRef& ref : walk.records) {
      const auto record = record_bytes(image, ref, scratch);
      if (ref.type == PERF_RECORD_LOST && lost != nullptr && out.size() > 1) *lost += lost_fields(record)->lost;
      if (ref.type != PERF_RECORD_SAMPLE) continue;
      const auto argument = load<long>(record.data() + kFirstArgument);
      if (argument < 0) out.push_back(-argument);
    }
    return out;
  }

  Rings rings_;
  UniqueFd event_;
  EventTable events_;
};

EventTime capture(Staging& staging, CaptureMode mode) {
  const EventTime frozen_ns = monotonic_now();
  staging.copy_ahead();
  staging.cut(mode);
  return frozen_ns;
}

std::size_t gaps(const std::vector<long>& numbers, long* missing = nullptr) {
  std::size_t out = 0;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    if (numbers[i] == numbers[i - 1] + 1) continue;
    ++out;
    EXPECT_GT(numbers[i], numbers[i - 1]) << "time goes backwards";
    if (missing != nullptr) *missing += numbers[i] - numbers[i - 1] - 1;
  }
  return out;
}

TEST_F(Capture, APausedImageHasGapsOnlyAtEarlierBlackoutsAndExactlyAsWide) {
  auto staging = Staging::create(rings_);
  ASSERT_TRUE(staging) << staging.error().what;
  const Writer writer(0);
  record(writer.tid());
  writer.wait_for(writer.written() + 30'000);  // more than the ring holds
  for (int i = 0; i < 20; ++i) {
    const EventTime frozen_ns = capture(*staging, CaptureMode::pause);
    const RingCapture& cut = staging->result(0);
    EXPECT_EQ(cut.error_number, 0);
    EXPECT_GE(cut.pause_begin_ns, frozen_ns);
    EXPECT_GT(cut.pause_end_ns, cut.pause_begin_ns);
    std::uint64_t lost = 0;
    long missing = 0;
    const auto seen = numbers(*staging, &lost);
    EXPECT_GT(seen.size(), 5'000U);
    const std::size_t found = gaps(seen, &missing);
    EXPECT_LE(found, static_cast<std::size_t>(i));
    EXPECT_EQ(static_cast<std::uint64_t>(missing), lost);
    writer.wait_for(writer.written() + 1'000);  // recording goes on
  }
}

TEST_F(Capture, ALiveImageHasNoGapAndNeverPauses) {
  auto staging = Staging::create(rings_);
  ASSERT_TRUE(staging) << staging.error().what;
  const Writer writer(0);
  record(writer.tid());
  writer.wait_for(writer.written() + 30'000);  // more than the ring holds
  long newest = 0;
  std::size_t all = 0;
  for (int i = 0; i < 20; ++i) {
    const long begun = writer.written();
    static_cast<void>(capture(*staging, CaptureMode::live));
    const long meanwhile = writer.written() - begun;
    EXPECT_EQ(staging->result(0).pause_begin_ns, 0U);
    EXPECT_LT(staging->result(0).valid_bytes, kRingBytes) << "something was given up at the oldest end";
    std::uint64_t lost = 0;
    const auto seen = numbers(*staging, &lost);
    all += seen.size();
    if (meanwhile < kFewMeanwhile) {
      ASSERT_GT(seen.size(), 1'000U);
    }
    if (seen.empty()) continue;  // the copying thread lost its CPU for a whole revolution
    EXPECT_EQ(gaps(seen), 0U);
    EXPECT_EQ(lost, 0U);
    EXPECT_GT(seen.back(), newest);
    newest = seen.back();
    writer.wait_for(writer.written() + 1'000);
  }
  EXPECT_GT(all, 20'000U);
}

// However much is written between the two steps, even a whole revolution, the image shows the moment of the cut.
TEST_F(Capture, WhatIsWrittenBetweenCopyAndCutIsCopiedAgain) {
  auto staging = Staging::create(rings_);
  ASSERT_TRUE(staging) << staging.error().what;
  const Writer writer(0);
  record(writer.tid());
  writer.wait_for(writer.written() + 30'000);  // more than the ring holds
  std::size_t all = 0;
  for (const long between : {0L, 1'000L, 5'000L, 30'000L}) {
    for (const CaptureMode mode : {CaptureMode::pause, CaptureMode::live}) {
      staging->copy_ahead();
      const long ahead = writer.written();
      writer.wait_for(ahead + between);
      const long begun = writer.written();
      staging->cut(mode);
      const long meanwhile = writer.written() - begun;
      const RingCapture& cut = staging->result(0);
      EXPECT_LE(cut.catch_up_bytes, kRingBytes);
      EXPECT_LE(cut.delta_bytes, kRingBytes);
      EXPECT_GE(cut.catch_up_bytes, between > 0 ? 1'000U : 0U);
      std::uint64_t lost = 0;
      long missing = 0;
      const auto seen = numbers(*staging, &lost);
      all += seen.size();
      if (meanwhile < kFewMeanwhile) {
        ASSERT_GT(seen.size(), 1'000U);
      }
      if (seen.empty()) continue;  // as above
      EXPECT_GE(seen.back(), ahead + between);
      static_cast<void>(gaps(seen, &missing));
      EXPECT_EQ(static_cast<std::uint64_t>(missing), lost) << between << " between, " << to_string(mode);
    }
  }
  EXPECT_GT(all, 8'000U);
}

// Nothing is written to the ring, so at the cut, at real-time priority, nothing is left to copy.
TEST_F(Capture, OfAQuietRingTheCutCopiesNothing) {
  auto staging = Staging::create(rings_);
  ASSERT_TRUE(staging) << staging.error().what;
  for (const CaptureMode mode : {CaptureMode::pause, CaptureMode::live}) {
    static_cast<void>(capture(*staging, mode));
    EXPECT_EQ(staging->result(0).catch_up_bytes, 0U);
    EXPECT_EQ(staging->result(0).delta_bytes, 0U);
  }
}

TEST(LivePart, WhatWasOverwrittenAndAMarginIsGivenUp) {
  constexpr std::uint64_t kK = 1024;
  const auto kept = [](std::uint64_t size, std::uint64_t written, std::uint64_t meanwhile) {
    RingCapture out;
    const std::uint64_t first = std::uint64_t{0} - written;
    keep_live_part(out, size, first, first - meanwhile);
    EXPECT_EQ(out.head, first);
    return out.valid_bytes;
  };
  // A ring in its first revolution: everything, with reserve for records that may follow.
  EXPECT_EQ(kept(64 * kK, 576, 0), 64 * kK);
  EXPECT_EQ(kept(64 * kK, 31 * kK, kK), 64 * kK);
  EXPECT_EQ(kept(1024 * kK, 900 * kK, 60 * kK), 1024 * kK);
  // A full ring: minus what was written meanwhile, and 64 KiB or half of a small ring.
  EXPECT_EQ(kept(64 * kK, 1000 * kK, 0), 32 * kK);
  EXPECT_EQ(kept(64 * kK, 1000 * kK, 31 * kK), kK);
  EXPECT_EQ(kept(1024 * kK, 5000 * kK, 100 * kK), (1024 - 164) * kK);
  // A request for more than the ring holds.
  EXPECT_EQ(kept(64 * kK, 1000 * kK, 32 * kK), 0U);
  EXPECT_EQ(kept(1024 * kK, 5000 * kK, 5000 * kK), 0U);
}

TEST_F(Capture, AnUnfilledRingIsTakenWhole) {
  auto staging = Staging::create(rings_);
  ASSERT_TRUE(staging) << staging.error().what;
  const test::OnCpu there(0);
  record(::gettid());
  for (long n = 1; n <= 500; ++n) ::syscall(SYS_close, -n);
  for (const CaptureMode mode : {CaptureMode::pause, CaptureMode::live}) {
    static_cast<void>(capture(*staging, mode));
    const auto seen = numbers(*staging);
    ASSERT_EQ(seen.size(), 500U) << to_string(mode);
    EXPECT_EQ(seen.front(), 1);
    EXPECT_EQ(gaps(seen), 0U);
  }
}

TEST_F(Capture, AWipedImageIsEmptyUntilTheNextCapture) {
  auto staging = Staging::create(rings_);
  ASSERT_TRUE(staging) << staging.error().what;
  const test::OnCpu there(0);
  record(::gettid());
  const auto used = [&staging] {
    const std::span<const std::byte> bytes = staging->image(0).bytes;
    return std::any_of(bytes.begin(), bytes.end(), [](std::byte one) { return one != std::byte{0}; });
  };
  for (int i = 1; i <= 2; ++i) {
    for (long n = 1; n <= 100; ++n) ::syscall(SYS_close, -n);
    static_cast<void>(capture(*staging, CaptureMode::pause));
    EXPECT_TRUE(used());
    EXPECT_EQ(numbers(*staging).size(), 100U * static_cast<unsigned>(i));
    staging->wipe();
    EXPECT_FALSE(used());
    EXPECT_EQ(staging->image(0).valid_bytes, 0U);
    EXPECT_TRUE(walk_ring(staging->image(0), events_).records.empty());
  }
}

// Samples may have copies of the memory of other processes.
TEST_F(Capture, RingsAndImagesAreLeftOutOfCore) {
  auto staging = Staging::create(rings_);
  ASSERT_TRUE(staging) << staging.error().what;
  EXPECT_TRUE(test::is_left_out_of_core(rings_[0]->bytes().data())) << "by the kernel";
  EXPECT_TRUE(test::is_left_out_of_core(staging->image(0).bytes.data()));
}

}  // namespace
}  // namespace flight
