// SPDX-License-Identifier: Apache-2.0
// The sideband's ring on the real kernel: COMM records of this thread, whose names are rising numbers, in a ring so
// small that it wraps all the time.
#include "libcore/recorder/rings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/recorder/ring_memory.hpp"
#include "tests/unit/on_cpu.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class Sideband : public test::RootTest {
 protected:
  void SetUp() override {
    const int cpu = here_.cpu();
    ::prctl(PR_GET_NAME, name_.data());
    // The event is of this thread only: an exec of another test on this CPU would fill the ring.
    perf_event_attr attr = sideband_attr(KernelFeatures{});
    constexpr pid_t kThisThread = 0;
    constexpr int kNoGroup = -1;
    UniqueFd event(
        static_cast<int>(::syscall(SYS_perf_event_open, &attr, kThisThread, cpu, kNoGroup, PERF_FLAG_FD_CLOEXEC)));
    ASSERT_TRUE(event) << std::generic_category().message(errno);
    info_ = {.kind = RingKind::sideband, .channel = {}, .cpu = cpu, .ring_bytes = page_bytes()};
    // A hostile or broken flightd could write into the second mapping.
    scribble_fd_.reset(::fcntl(event.get(), F_DUPFD_CLOEXEC, 0));
    auto mapping = map_ring(event.get(), info_, PROT_READ | PROT_WRITE);
    ASSERT_TRUE(mapping) << mapping.error().what;
    scribble_ = std::move(*mapping);
    ASSERT_EQ(::ioctl(event.get(), PERF_EVENT_IOC_ENABLE, 0), 0);
    auto ring = SidebandRing::open(std::move(event), info_);
    ASSERT_TRUE(ring) << ring.error().what;
    ring_.emplace(std::move(*ring));
  }
  void TearDown() override { ::prctl(PR_SET_NAME, name_.data()); }
  void rename(int number) { ::prctl(PR_SET_NAME, fmt::format("n{}", number).c_str()); }
  [[nodiscard]] perf_event_mmap_page* control() const {
    return reinterpret_cast<perf_event_mmap_page*>(scribble_.data());
  }
  // The numbers of this thread's COMM records; -1 for each LOST.
  static std::vector<int> numbers(std::span<const std::byte> records) {
    std::vector<int> out;
    for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
      records = records.subspan(record.size());
      const auto comm = parse_comm(record);
      if (comm && comm->tid == static_cast<std::uint32_t>(::gettid()) && comm->name.starts_with("n"))
        out.push_back(std::stoi(std::string(comm->name.substr(1))));
      perf_event_header header{};
      std::memcpy(&header, record.data(), sizeof header);
      if (header.type == PERF_RECORD_LOST) out.push_back(-1);
    }
    EXPECT_TRUE(records.empty()) << "only whole records come out";
    return out;
  }
  test::OnCpu here_;
  std::array<char, 16> name_{};
  ManifestRing info_;
  UniqueFd scribble_fd_;
  Mapping scribble_;
  std::optional<SidebandRing> ring_;
};

TEST_F(Sideband, EveryRecordComesOutOnceThroughManyWraps) {
  std::vector<int> expected;
  std::vector<std::byte> out;
  for (int round = 0, number = 0; round < 400; ++round) {
    for (int i = 0; i < 7; ++i, ++number) {
      expected.push_back(number);
      rename(number);
    }
    ring_->drain(out);
  }
  EXPECT_GT(__atomic_load_n(&control()->data_head, __ATOMIC_ACQUIRE), 20 * info_.ring_bytes);
  EXPECT_EQ(numbers(out), expected);
}

TEST_F(Sideband, ADrainAppendsAndAnEmptyRingAddsNothing) {
  std::vector<std::byte> out(8, std::byte{1});
  rename(1);
  ring_->drain(out);
  EXPECT_EQ(out[7], std::byte{1});
  EXPECT_EQ(numbers(std::span(out).subspan(8)), std::vector<int>{1});
  const std::size_t before = out.size();
  ring_->drain(out);
  EXPECT_EQ(out.size(), before);
}

TEST_F(Sideband, AFullRingKeepsTheOldAndSaysHowManyWereLost) {
  for (int i = 0; i < 1000; ++i) rename(i);
  std::vector<std::byte> out;
  ring_->drain(out);
  const auto held = numbers(out);
  ASSERT_FALSE(held.empty());
  EXPECT_EQ(held.front(), 0) << "a forward ring stops at its tail, it does not overwrite";
  EXPECT_LE(out.size(), info_.ring_bytes);
  rename(5000);
  out.clear();
  ring_->drain(out);
  EXPECT_THAT(numbers(out), testing::ElementsAre(-1, 5000));
}

TEST_F(Sideband, ATailThatIsNonsenseIsGivenUpAndSaid) {
  for (const std::uint64_t tail : {UINT64_C(0x123456789abc), UINT64_MAX, UINT64_C(1) << 63U}) {
    rename(1);
    __atomic_store_n(&control()->data_tail, tail, __ATOMIC_RELEASE);
    std::vector<std::byte> out;
    ring_->drain(out);
    EXPECT_EQ(numbers(out), std::vector<int>{-1});
    rename(2);
    out.clear();
    ring_->drain(out);
    EXPECT_EQ(numbers(out), std::vector<int>{2}) << "from the head on all is well again";
  }
}

TEST_F(Sideband, ATailInsideARecordEndsInAnErrorRecord) {
  for (int i = 0; i < 20; ++i) rename(i);
  const std::uint64_t tail = control()->data_tail;
  __atomic_store_n(&control()->data_tail, tail + 4, __ATOMIC_RELEASE);
  std::vector<std::byte> out;
  ring_->drain(out);
  const auto held = numbers(out);
  ASSERT_FALSE(held.empty());
  EXPECT_EQ(held.back(), -1);
  rename(77);
  out.clear();
  ring_->drain(out);
  EXPECT_EQ(numbers(out), std::vector<int>{77});
}

TEST_F(Sideband, TheControlPagesSizeIsNotBelieved) {
  rename(1);
  control()->data_size = UINT64_C(1) << 40U;
  control()->data_offset = UINT64_C(1) << 40U;
  std::vector<std::byte> out;
  ring_->drain(out);
  EXPECT_EQ(numbers(out), std::vector<int>{1});
}

TEST_F(Sideband, ASuccessorContinuesWhereTheLastStopped) {
  rename(1);
  std::vector<std::byte> out;
  ring_->drain(out);
  rename(2);
  ring_.reset();
  auto successor = SidebandRing::open(std::move(scribble_fd_), info_);
  ASSERT_TRUE(successor) << successor.error().what;
  out.clear();
  successor->drain(out);
  EXPECT_EQ(numbers(out), std::vector<int>{2});
}

TEST_F(Sideband, AnotherSizeThanTheRingsIsRefused) {
  ManifestRing wrong = info_;
  wrong.ring_bytes *= 2;
  auto ring = SidebandRing::open(UniqueFd(::fcntl(scribble_fd_.get(), F_DUPFD_CLOEXEC, 0)), wrong);
  ASSERT_FALSE(ring);
  EXPECT_THAT(ring.error().what, HasSubstr("sideband ring of CPU"));
  wrong.ring_bytes = 3 * page_bytes();
  EXPECT_FALSE(SidebandRing::open(UniqueFd(::fcntl(scribble_fd_.get(), F_DUPFD_CLOEXEC, 0)), wrong));
  wrong.ring_bytes = 0;
  EXPECT_FALSE(Ring::open(UniqueFd(::fcntl(scribble_fd_.get(), F_DUPFD_CLOEXEC, 0)), wrong));
}

}  // namespace
}  // namespace flight
