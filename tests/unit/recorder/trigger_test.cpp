// SPDX-License-Identifier: Apache-2.0
// Kernel events as triggers, on the real kernel: signal:signal_generate of the signals that this process sends itself,
// so that no other process fires them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <thread>

#include "libcore/config/memory_share.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/recorder/plan.hpp"
#include "libcore/recorder/recording.hpp"
#include "libcore/recorder/trigger_rings.hpp"
#include "tests/unit/recorder/on_this_machine.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class RealTriggers : public test::OnThisMachine {
 protected:
  RealTriggers() {
    std::signal(SIGWINCH, SIG_IGN);
    std::signal(SIGURG, SIG_IGN);
    config_.channels = {{.name = "winch", .ring_bytes = 64U << 10U, .events = {{.event = "cpu-clock"}}}};
    config_.triggers = {on_signal("winch", SIGWINCH), on_signal("urgent", SIGURG)};
  }

  // `group` is 1 if the target is the whole process, as for kill(2).
  static TriggerConfig on_signal(const std::string& name, int signal) {
    return {.name = name,
            .event = EventConfig{.event = "signal:signal_generate",
                                 .filter = fmt::format("sig == {} && pid == {}", signal, ::getpid())}};
  }
  void open() {
    auto recording = open_recording();
    ASSERT_TRUE(recording) << recording.error().what;
    recording_.emplace(std::move(*recording));
    follow();
  }
  // Done as flightd does it at each attach.
  void follow() {
    std::vector<SharedForwardRing> rings;
    const Manifest manifest = parse_manifest(encode(recording_->manifest())).value();
    const auto fds = recording_->owner_fds();
    for (std::size_t i = 0; i < fds.size(); ++i) {
      if (manifest.rings[i].kind != RingKind::trigger) continue;
      UniqueFd fd(::fcntl(fds[i], F_DUPFD_CLOEXEC, 0));
      const std::uint64_t id = event_id(fd.get()).value();
      const auto held =
          std::find_if(held_.begin(), held_.end(), [&](const auto& one) { return one->owner_id() == id; });
      if (held != held_.end())
        rings.push_back(*held);
      else
        rings.push_back(std::make_shared<ForwardRing>(ForwardRing::open(std::move(fd), manifest.rings[i]).value()));
    }
    held_ = rings;
    triggers_.follow(rings, manifest.triggers);
  }
  static void send(int cpu, int signal, int times = 1) {
    const test::OnCpu there(cpu);
    for (int i = 0; i < times; ++i) ::kill(::getpid(), signal);
  }

  std::optional<Recording> recording_;
  std::vector<SharedForwardRing> held_;
  TriggerRings triggers_;
};

TEST_F(RealTriggers, ReportTaskCpuTimeAndDetail) {
  open();
  for (const int cpu : cpus_) {
    const EventTime before = monotonic_now();
    send(cpu, SIGWINCH);
    const auto events = triggers_.drain();
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].trigger, "winch");
    EXPECT_EQ(events[0].cpu, cpu);
    EXPECT_GE(events[0].time_ns, before);
    EXPECT_LE(events[0].time_ns, monotonic_now());
    EXPECT_EQ(events[0].pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(events[0].tid, static_cast<std::uint32_t>(::gettid()));
    EXPECT_THAT(events[0].detail, testing::StartsWith(fmt::format("signal:signal_generate: sig={}, ", SIGWINCH)));
    EXPECT_THAT(events[0].detail, HasSubstr(fmt::format("pid={}", ::getpid())));
    EXPECT_EQ(events[0].further + events[0].lost, 0U);
  }
  EXPECT_TRUE(triggers_.drain().empty()) << "each once";
  EXPECT_EQ(triggers_.bad_records(), 0U);
}

TEST_F(RealTriggers, AreNoPartOfTheChannels) {
  open();
  const Manifest& manifest = recording_->manifest();
  ASSERT_EQ(manifest.triggers.size(), 2U);
  EXPECT_EQ(manifest.triggers[0].event, "signal:signal_generate");
  EXPECT_EQ(manifest.triggers[0].off, "");
  EXPECT_EQ(manifest.rings.size(), 4 * cpus_.size());
  EXPECT_EQ(manifest.events.size(), 2U) << "the sideband's and the channel's, also where a trigger has its name";
  EXPECT_TRUE(manifest.tracepoint_formats.empty()) << "what snapshots carry";
  EXPECT_EQ(triggers_.fds().size(), 2 * cpus_.size());
}

// A holder of the tracepoint's own descriptor could remove its filter.
TEST_F(RealTriggers, OnlyDummiesAreHandedOut) {
  open();
  const std::uint64_t period = 1;
  for (const int fd : triggers_.fds()) {
    EXPECT_NE(::ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "sig > 0"), 0);
    EXPECT_NE(::ioctl(fd, PERF_EVENT_IOC_PERIOD, &period), 0);
  }
}

TEST_F(RealTriggers, WakeTheirPollerForEach) {
  open();
  const UniqueFd poller(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : triggers_.fds()) {
    epoll_event wanted{.events = EPOLLIN, .data = {}};
    ASSERT_EQ(::epoll_ctl(poller.get(), EPOLL_CTL_ADD, fd, &wanted), 0);
  }
  epoll_event ready{};
  EXPECT_EQ(::epoll_wait(poller.get(), &ready, 1, 0), 0);
  constexpr int kDeadlineMs = 60'000;
  for (int i = 0; i < 20; ++i) {
    send(cpus_[static_cast<std::size_t>(i) % cpus_.size()], i % 2 == 0 ? SIGWINCH : SIGURG);
    ASSERT_EQ(::epoll_wait(poller.get(), &ready, 1, kDeadlineMs), 1) << "event " << i;
    const auto events = triggers_.drain();
    ASSERT_EQ(events.size(), 1U) << "event " << i;
    EXPECT_EQ(events[0].trigger, i % 2 == 0 ? "winch" : "urgent");
  }
}

// A full ring stops. After it is drained, it continues, and every loss was counted. It used no space of the other
// trigger.
TEST_F(RealTriggers, AHotOneIsCountedAndTakesNothingFromARareOne) {
  open();
  constexpr std::uint64_t kMany = 5000;
  send(cpus_.front(), SIGURG);
  send(cpus_.front(), SIGWINCH, kMany);
  send(cpus_.front(), SIGURG);
  const auto count = [](const std::vector<TriggerEvent>& events, const std::string& trigger) {
    std::uint64_t sum = 0;
    for (const TriggerEvent& event : events)
      if (event.trigger == trigger) sum += 1 + event.further + event.lost;
    return sum;
  };
  auto events = triggers_.drain();
  EXPECT_EQ(count(events, "urgent"), 2U);
  EXPECT_LE(events.size(), kMaxReportedEvents + 2);
  const std::uint64_t first = count(events, "winch");
  EXPECT_LT(first, kMany) << "the ring is small";
  send(cpus_.front(), SIGWINCH);  // the kernel reports the loss with the next record
  events = triggers_.drain();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_GT(events[0].lost, 0U);
  EXPECT_EQ(first + count(events, "winch"), kMany + 1);
}

TEST_F(RealTriggers, StopWithTheRecordingAndGoOnWithIt) {
  open();
  ASSERT_TRUE(recording_->enable_all(false));
  send(cpus_.front(), SIGWINCH);
  EXPECT_TRUE(triggers_.drain().empty());
  ASSERT_TRUE(recording_->enable_all(true));
  send(cpus_.front(), SIGWINCH);
  EXPECT_EQ(triggers_.drain().size(), 1U);
}

TEST_F(RealTriggers, FollowTheirCpuIntoTheSameRing) {
  open();
  const auto fds = triggers_.fds();
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(recording_->follow_cpus({}, Probe::none, 1));
    send(cpus_.back(), SIGWINCH);
    EXPECT_TRUE(triggers_.drain().empty()) << "it is believed offline";
    ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
    follow();
    EXPECT_EQ(triggers_.fds(), fds);
    for (const int cpu : cpus_) {
      send(cpu, SIGWINCH);
      const auto events = triggers_.drain();
      ASSERT_EQ(events.size(), 1U);
      EXPECT_EQ(events[0].cpu, cpu);
      EXPECT_THAT(events[0].detail, HasSubstr("sig="));
    }
  }
}

TEST_F(RealTriggers, OneThatDidNotChangeOutlivesAReload) {
  open();
  const auto fds = triggers_.fds();
  send(cpus_.front(), SIGWINCH);
  config_.triggers = {config_.triggers[0], on_signal("channel", SIGCHLD)};
  ASSERT_TRUE(recording_->reload(config_, sources_).value());
  follow();
  EXPECT_EQ(triggers_.fds().size(), fds.size());
  EXPECT_EQ(triggers_.fds()[0], fds[0]) << "the same ring";
  auto events = triggers_.drain();
  ASSERT_EQ(events.size(), 1U) << "what came before the reload is there";
  EXPECT_EQ(events[0].trigger, "winch");
  send(cpus_.front(), SIGURG);
  EXPECT_TRUE(triggers_.drain().empty()) << "that one is gone";

  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  config_.triggers[0].event->filter += " && group == 1";
  EXPECT_TRUE(recording_->reload(config_, sources_).value()) << "another filter is another trigger";
  config_.triggers[0].enabled = false;
  ASSERT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_EQ(recording_->manifest().triggers.size(), 1U);
}

TEST_F(RealTriggers, RecordsOfARemovedRingAreStillReported) {
  open();
  send(cpus_.front(), SIGWINCH);
  config_.triggers.erase(config_.triggers.begin());
  ASSERT_TRUE(recording_->reload(config_, sources_).value());
  follow();
  const auto events = triggers_.drain();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].trigger, "winch");
  EXPECT_THAT(events[0].detail, HasSubstr("sig="));
}

TEST_F(RealTriggers, OneThatIsNotThereIsAnErrorUnlessItWasShipped) {
  config_.triggers[0].event->event = "oom:mark_viktim";
  config_.triggers[0].place = "/etc/flightd/flightd.json:12";
  auto refused = open_recording();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, testing::StartsWith("/etc/flightd/flightd.json:12: trigger 'winch': there is no"));
  EXPECT_THAT(refused.error().what, HasSubstr("oom:mark_victim")) << "the nearest one";
  EXPECT_FALSE(Recording::check(config_, sources_));

  config_.triggers[0].shipped = true;
  open();
  ASSERT_EQ(recording_->manifest().triggers.size(), 2U);
  EXPECT_THAT(recording_->manifest().triggers[0].off, HasSubstr("there is no tracepoint"));
  EXPECT_THAT(recording_->manifest().notes, testing::Contains(HasSubstr("trigger 'winch' is off")));
  EXPECT_EQ(triggers_.fds().size(), cpus_.size());
  EXPECT_THAT(Recording::check(config_, sources_).value().notes,
              testing::Contains(HasSubstr("trigger 'winch' is off")));

  config_.triggers[0] = on_signal("winch", SIGWINCH);
  config_.triggers[0].event->filter = "nonsense == 1";
  refused = open_recording();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("does not understand the filter"));
}

TEST_F(RealTriggers, TheirMemoryCounts) {
  constexpr std::uint64_t kMebi = 1U << 20U;
  const std::vector<ChannelConfig> channels{{.name = "a", .ring_bytes = 2 * kMebi}};
  const std::uint64_t without =
      4 * (2 * 2 * kMebi + kMebi) + kLeastBesideRingsBytes + checkpoint_file_bytes(kLeastBesideRingsBytes);
  EXPECT_EQ(fit_rings(channels, 4, without, kMebi)[0], 2 * kMebi);
  EXPECT_EQ(fit_rings(channels, 4, without, kMebi, 1)[0], 1 * kMebi);
  EXPECT_EQ(fit_rings(channels, 4, without + 4 * trigger_ring_bytes(), kMebi, 1)[0], 2 * kMebi);
}

// Content of the control page or of a record that a compromised flightd or broken memory could leave.
TEST_F(RealTriggers, ACorruptTailOrRecordIsHandled) {
  open();
  // A second mapping, which any holder of the descriptor could make.
  const auto& ring = held_.front();
  auto mapping = Mapping::open(ring->fd(), static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + ring->info().ring_bytes,
                               PROT_READ | PROT_WRITE);
  ASSERT_TRUE(mapping) << mapping.error().what;
  auto* control = reinterpret_cast<perf_event_mmap_page*>(mapping->data());
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    send(cpus_.front(), SIGWINCH, 3);
    const std::uint64_t head = __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
    __atomic_store_n(&control->data_tail, round % 2 == 0 ? random() : head - random() % 200, __ATOMIC_RELEASE);
    control->data_size = random();
    for (const TriggerEvent& event : triggers_.drain()) ASSERT_LE(event.detail.size(), 2 * kMaxTracepointTextBytes);
    send(cpus_.front(), SIGWINCH);
    const auto events = triggers_.drain();
    ASSERT_EQ(events.size(), 1U) << "the next begins at the head again";
    ASSERT_EQ(events[0].trigger, "winch");
  }
  EXPECT_GT(triggers_.bad_records(), 0U);
}

}  // namespace
}  // namespace flight
