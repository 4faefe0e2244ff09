// SPDX-License-Identifier: Apache-2.0
// A broker is killed, and the next one gets the descriptors that systemd stored for the first. No record is missing. If
// a descriptor is not usable, the history starts again and the broker reports it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <span>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "tests/unit/daemon/broker/broker_process.hpp"
#include "tests/unit/daemon/broker/service_manager.hpp"

namespace flight {
namespace {

using test::call_on;
using test::calls_config;
using test::heads;
using test::map_rings;
using testing::HasSubstr;

// Records since the ring was made; it must not have been full yet.
std::size_t records_in(const Ring& ring) {
  const std::uint64_t used = 0 - ring.head();
  EXPECT_LT(used, ring.bytes().size());
  std::span<const std::byte> rest = ring.bytes().last(used);
  std::size_t count = 0;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    ++count;
  }
  EXPECT_TRUE(rest.empty());
  return count;
}

class BrokerKept : public test::BrokerProcess {
 protected:
  void begin(const std::string& text) {
    start_listening(text);
    ASSERT_TRUE(manager_.wait_for("READY=1")) << errors();
    attach();
  }
  void attach() {
    client_.reset();
    auto client = connect();
    ASSERT_TRUE(client) << errors();
    client_.emplace(std::move(*client));
    auto attachment = client_->attach();
    ASSERT_TRUE(attachment) << attachment.error().what;
    before_ = std::move(now_);
    now_ = std::move(*attachment);
  }
  void kill_broker() {
    manager_.receive_all();
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(wait_for_end(), 128 + SIGKILL);
  }
  // Starts the next broker with the descriptors that systemd stored.
  void next_broker() {
    pid_ = test::spawn(words({"--socket", socket_path(), "--runtime-dir", folder_ / "run"}), folder_ / "stderr", -1,
                       [this] { manager_.hand_over(); });
    ASSERT_TRUE(manager_.wait_for("READY=1")) << errors();
    attach();
  }
  void restart() {
    ASSERT_NO_FATAL_FAILURE(kill_broker());
    ASSERT_NO_FATAL_FAILURE(next_broker());
  }
  void expect_afresh(const std::string& why) {
    EXPECT_NE(now_.manifest.recording, before_.manifest.recording);
    EXPECT_THAT(now_.manifest.warnings,
                testing::Contains(testing::AllOf(HasSubstr("history starts again"), HasSubstr(why))));
    expect_only_the_recording_is_kept();
  }
  // No event of an older broker is left that records too.
  void expect_only_the_recording_is_kept() {
    manager_.receive_all();
    std::vector<std::uint64_t> kept;
    std::size_t manifests = 0;
    for (const auto& one : manager_.kept()) {
      const auto id = event_id(one.fd.get());
      if (id) kept.push_back(*id);
      if (one.name.front() == 'm') ++manifests;
    }
    EXPECT_EQ(manifests, 1U);
    std::vector<std::uint64_t> recorded;
    for (const ManifestRing& ring : now_.manifest.rings) {
      recorded.insert(recorded.end(), ring.live_ids.begin(), ring.live_ids.end());
      if (std::find(ring.live_ids.begin(), ring.live_ids.end(), ring.owner_id) == ring.live_ids.end())
        recorded.push_back(ring.owner_id);
    }
    EXPECT_THAT(kept, testing::UnorderedElementsAreArray(recorded));
  }

  test::ServiceManager manager_{folder_ / "notify"};
  Attachment before_, now_;
};

TEST_F(BrokerKept, RecordingDoesNotPause) {
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  const auto rings = map_rings(now_, "calls");
  const auto sideband = map_rings(now_, "");
  ASSERT_FALSE(rings.empty());
  const auto call = [&](int count) {
    for (const Ring& ring : rings) call_on(ring.info().cpu, count);
  };
  call(10);
  ASSERT_NO_FATAL_FAILURE(kill_broker());
  call(20);
  ASSERT_NO_FATAL_FAILURE(next_broker());
  call(30);
  for (const Ring& ring : rings) EXPECT_EQ(records_in(ring), 60U);
  EXPECT_EQ(now_.manifest.recording, before_.manifest.recording);
  EXPECT_EQ(now_.manifest.generation, before_.manifest.generation);
  EXPECT_THAT(now_.manifest.warnings, testing::Not(testing::Contains(HasSubstr("starts again"))));
  // The broker's log thread writes it.
  for (int i = 0; i < 500 && errors().find("adopted the recording") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(errors(), HasSubstr("adopted the recording"));
  // The next client gets the same rings with their begin times.
  ASSERT_EQ(now_.manifest.rings.size(), before_.manifest.rings.size());
  for (std::size_t i = 0; i < now_.manifest.rings.size(); ++i) {
    EXPECT_EQ(now_.manifest.rings[i].owner_id, before_.manifest.rings[i].owner_id);
    EXPECT_EQ(now_.manifest.rings[i].enabled_ns, before_.manifest.rings[i].enabled_ns);
  }
  // Each call was counted, too.
  std::uint64_t counted = 0;
  const auto counts = client_->counts();
  ASSERT_TRUE(counts);
  for (const EventCount& count : counts->events)
    for (const ManifestId& id : now_.manifest.events[1].ids)
      if (id.id == count.id) counted += count.value;
  EXPECT_EQ(counted, 60 * rings.size());
  expect_only_the_recording_is_kept();
  // The same again, with what the second broker stored.
  ASSERT_NO_FATAL_FAILURE(kill_broker());
  call(40);
  ASSERT_NO_FATAL_FAILURE(next_broker());
  for (const Ring& ring : rings) EXPECT_EQ(records_in(ring), 100U);
}

TEST_F(BrokerKept, EventsDisabledByAClientAreEnabledAgain) {
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  const auto rings = map_rings(now_, "calls");
  call_on(rings[0].info().cpu, 10);
  ASSERT_TRUE(client_->disable());
  ASSERT_EQ(rings[0].pause(), 0);
  ASSERT_NO_FATAL_FAILURE(restart());
  call_on(rings[0].info().cpu, 10);
  EXPECT_EQ(records_in(rings[0]), 20U);
  EXPECT_TRUE(now_.manifest.gaps.empty()) << "they were not dead";
}

TEST_F(BrokerKept, EqualChannelsOfAnotherConfigurationContinue) {
  const std::string clock = R"(, "more": {"ring": "64K", "events": [{"event": "cpu-clock", "frequency": 99}]})";
  ASSERT_NO_FATAL_FAILURE(begin(calls_config(clock)));
  const auto rings = map_rings(now_, "calls");
  const auto more = map_rings(now_, "more");
  call_on(rings[0].info().cpu, 10);
  ASSERT_NO_FATAL_FAILURE(kill_broker());
  call_on(rings[0].info().cpu, 10);
  write_config(calls_config(R"(, "more": {"ring": "64K", "events": [{"event": "cpu-clock", "frequency": 199}]})"));
  ASSERT_NO_FATAL_FAILURE(next_broker());
  call_on(rings[0].info().cpu, 10);
  EXPECT_EQ(records_in(rings[0]), 30U);
  EXPECT_EQ(now_.manifest.recording, before_.manifest.recording);
  EXPECT_GT(now_.manifest.generation, before_.manifest.generation);
  for (const Ring& ring : map_rings(now_, "more"))
    for (const Ring& old : more) EXPECT_NE(ring.owner_id(), old.owner_id());
  expect_only_the_recording_is_kept();
}

// A misspelt tracepoint, or one whose module is not loaded yet: the next try has what is stored.
TEST_F(BrokerKept, AConfigurationThatCannotBeRecordedDoesNotEndTheHistory) {
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  const auto rings = map_rings(now_, "calls");
  call_on(rings[0].info().cpu, 10);
  ASSERT_NO_FATAL_FAILURE(kill_broker());
  write_config(calls_config(R"(, "more": {"ring": "64K", "events": ["sched:no_such_event"]})"));
  pid_ = test::spawn(words({"--socket", socket_path(), "--runtime-dir", folder_ / "run"}), folder_ / "stderr", -1,
                     [this] { manager_.hand_over(); });
  ASSERT_TRUE(manager_.wait_for("READY=1")) << errors();
  client_.reset();
  auto client = connect();
  ASSERT_TRUE(client) << errors();
  client_.emplace(std::move(*client));
  EXPECT_FALSE(client_->attach());
  call_on(rings[0].info().cpu, 10);
  write_config(calls_config());
  const auto reloaded = client_->reload();
  ASSERT_TRUE(reloaded) << reloaded.error().what;
  ASSERT_NO_FATAL_FAILURE(attach());
  EXPECT_EQ(now_.manifest.recording, before_.manifest.recording);
  call_on(rings[0].info().cpu, 10);
  EXPECT_EQ(records_in(rings[0]), 30U);
  expect_only_the_recording_is_kept();
}

// The events that a reload opens are added to the store, and those that it closes are removed.
TEST_F(BrokerKept, TheStoreFollowsAReload) {
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  const auto rings = map_rings(now_, "calls");
  write_config(calls_config(R"(, "more": {"ring": "64K", "events": ["cpu-clock"]})"));
  ASSERT_TRUE(client_->reload());
  now_ = std::move(*client_->attach());
  expect_only_the_recording_is_kept();
  const auto more = map_rings(now_, "more");
  call_on(rings[0].info().cpu, 1);  // a ring that is mapped and empty looks like one that was never mapped
  ASSERT_NO_FATAL_FAILURE(restart());
  EXPECT_EQ(now_.manifest.generation, before_.manifest.generation);
  write_config(calls_config());
  ASSERT_TRUE(client_->reload());
  now_ = std::move(*client_->attach());
  expect_only_the_recording_is_kept();
}

// A drop-in with a low FileDescriptorStoreMax=: what is more, PID 1 drops.
TEST_F(BrokerKept, AStoreWithoutRoomForOldAndNewGetsTheNew) {
  const auto sampled_at = [](int frequency) {
    return calls_config(fmt::format(
        R"(, "more": {{"ring": "64K", "events": [{{"event": "cpu-clock", "frequency": {}}}]}})", frequency));
  };
  ASSERT_NO_FATAL_FAILURE(begin(sampled_at(99)));
  const auto rings = map_rings(now_, "calls");
  const auto more = map_rings(now_, "more");
  call_on(rings[0].info().cpu, 1);  // a ring that is mapped and empty looks like one that was never mapped
  ASSERT_NO_FATAL_FAILURE(kill_broker());
  manager_.keep_at_most(manager_.kept().size() + 1);  // for a second manifest
  ASSERT_NO_FATAL_FAILURE(next_broker());
  ASSERT_EQ(now_.manifest.recording, before_.manifest.recording);
  write_config(sampled_at(199));
  const auto reloaded = client_->reload();
  ASSERT_TRUE(reloaded) << reloaded.error().what;
  now_ = std::move(*client_->attach());
  expect_only_the_recording_is_kept();
  const auto again = map_rings(now_, "more");
  ASSERT_NO_FATAL_FAILURE(restart());
  EXPECT_EQ(now_.manifest.recording, before_.manifest.recording);
  EXPECT_EQ(now_.manifest.generation, before_.manifest.generation);
}

TEST_F(BrokerKept, AStoreThatIsTooSmallIsSaid) {
  manager_.keep_at_most(3);
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  EXPECT_THAT(now_.manifest.warnings, testing::Contains(testing::AllOf(HasSubstr("than the 3 that systemd can store"),
                                                                       HasSubstr("or set FileDescriptorStoreMax="))));
}

// By a systemd that does not say how many it takes: the next broker sees it.
TEST_F(BrokerKept, AStoreThatWasTooSmallIsSaidByTheNextBroker) {
  manager_.keep_at_most(3, /*says_it=*/false);
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  EXPECT_THAT(now_.manifest.warnings, testing::Not(testing::Contains(HasSubstr("FileDescriptorStoreMax="))));
  ASSERT_NO_FATAL_FAILURE(restart());
  const auto says_so = [](const std::string& what) {
    return testing::Contains(testing::AllOf(HasSubstr("history starts again"), HasSubstr("systemd gave back " + what),
                                            HasSubstr("FileDescriptorStoreMax=, set it to 8192")));
  };
  EXPECT_THAT(now_.manifest.warnings, says_so("3 descriptors"));
  // The broker's log thread writes it.
  for (int i = 0; i < 500 && errors().find("set it to 8192") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_THAT(errors(), HasSubstr("set it to 8192"));
  // With the manifest, and without one of its events.
  manager_.keep_at_most(1000, /*says_it=*/false);
  ASSERT_NO_FATAL_FAILURE(restart());
  ASSERT_NO_FATAL_FAILURE(kill_broker());
  auto& kept = manager_.kept();
  const auto is_event = [](const auto& one) { return one.name.front() == 'e'; };
  const auto events = std::count_if(kept.begin(), kept.end(), is_event);
  const auto lost = std::find_if(kept.begin(), kept.end(), is_event);
  ASSERT_NE(lost, kept.end());
  kept.erase(lost);
  ASSERT_NO_FATAL_FAILURE(next_broker());
  EXPECT_THAT(now_.manifest.warnings, says_so(fmt::format("{} of {} events", events - 1, events)));
}

// PID 1 does not read for a while: the broker still answers, reports it, and sends the missing descriptors later.
TEST_F(BrokerKept, DescriptorsThatSystemdDidNotReadAreSentAgain) {
  const auto is_about_history = testing::Contains(HasSubstr("the history would end"));
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  manager_.receive_all();
  test::ServiceManager::block();
  client_->answer_within(std::chrono::seconds(5));
  write_config(calls_config(R"(, "more": {"ring": "64K", "events": ["cpu-clock"]})"));
  const auto reloaded = client_->reload();
  ASSERT_TRUE(reloaded) << reloaded.error().what;
  now_ = std::move(*client_->attach());
  EXPECT_THAT(now_.manifest.warnings, is_about_history);
  EXPECT_TRUE(client_->counts());
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  do {
    manager_.receive_all();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    now_ = std::move(*client_->attach());
  } while (std::chrono::steady_clock::now() < until && testing::Value(now_.manifest.warnings, is_about_history));
  EXPECT_THAT(now_.manifest.warnings, testing::Not(is_about_history));
  expect_only_the_recording_is_kept();
  const auto rings = map_rings(now_, "calls");
  const auto more = map_rings(now_, "more");
  call_on(rings[0].info().cpu, 1);  // a ring that is mapped and empty looks like one that was never mapped
  ASSERT_NO_FATAL_FAILURE(restart());
  EXPECT_EQ(now_.manifest.recording, before_.manifest.recording);
  EXPECT_EQ(now_.manifest.generation, before_.manifest.generation);
}

// A socket unit: the next broker serves a client that connected while there was none.
TEST_F(BrokerKept, TheSocketThatSystemdHoldsIsServed) {
  write_config(calls_config());
  ::mkdir((folder_ / "run").c_str(), 0700);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(socket.get(), 4), 0);
  const auto start_on_it = [&](const std::vector<std::string>& more) {
    pid_ = test::spawn(words(more), folder_ / "stderr", -1, [&] { manager_.hand_over({socket.get()}); });
  };
  auto early = connect();
  ASSERT_TRUE(early);
  start_on_it({});
  auto attachment = early->attach();
  ASSERT_TRUE(attachment) << attachment.error().what << errors();
  const auto rings = map_rings(*attachment, "calls");
  for (const Ring& ring : rings) call_on(ring.info().cpu, 10);
  ASSERT_NO_FATAL_FAILURE(kill_broker());
  auto waiting = connect();
  ASSERT_TRUE(waiting);
  // The broker does not make the socket that it would have without systemd.
  start_on_it({"--socket", folder_ / "other/socket"});
  const auto again = waiting->attach();
  ASSERT_TRUE(again) << again.error().what << errors();
  EXPECT_EQ(again->manifest.recording, attachment->manifest.recording);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

// flightd died as well: no process held the memory.
TEST_F(BrokerKept, WithoutTheRingsHistoryBeginsAfresh) {
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  call_on(now_.manifest.rings[0].cpu, 10);
  ASSERT_NO_FATAL_FAILURE(restart());
  expect_afresh("memory was freed");
  const auto rings = map_rings(now_, "calls");
  call_on(rings[0].info().cpu, 10);
  EXPECT_EQ(records_in(rings[0]), 10U);
}

// A ring that the dead broker had opened but its flightd had not mapped yet is made new, and records.
TEST_F(BrokerKept, ARingThatWasNotMappedYetRecords) {
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  auto rings = map_rings(now_, "calls");
  const auto sideband = map_rings(now_, "");
  for (const Ring& ring : rings) call_on(ring.info().cpu, 10);
  const int cpu = rings.back().info().cpu;
  rings.pop_back();
  ASSERT_NO_FATAL_FAILURE(restart());
  call_on(cpu, 10);
  const auto again = map_rings(now_, "calls");
  EXPECT_EQ(records_in(again.back()), 10U);
  EXPECT_EQ(now_.manifest.recording, before_.manifest.recording);
}

TEST_F(BrokerKept, AnInvalidStoreIsReportedAndClosed) {
  ASSERT_NO_FATAL_FAILURE(begin(calls_config()));
  const auto rings = map_rings(now_, "calls");
  for (const Ring& ring : rings) call_on(ring.info().cpu, 10);
  ASSERT_NO_FATAL_FAILURE(kill_broker());
  auto& kept = manager_.kept();
  std::erase_if(kept, [&](const auto& one) { return one.name == kept.front().name; });
  ASSERT_NO_FATAL_FAILURE(next_broker());
  expect_afresh("was not stored");

  ASSERT_NO_FATAL_FAILURE(kill_broker());
  std::erase_if(kept, [](const auto& one) { return one.name.front() == 'm'; });
  ASSERT_NO_FATAL_FAILURE(next_broker());
  expect_afresh("no manifest");

  ASSERT_NO_FATAL_FAILURE(kill_broker());
  const auto replace_manifest = [&](const std::string& text) {
    for (auto& one : kept)
      if (one.name.front() == 'm') one.fd = std::move(*sealed_memfd("test", std::as_bytes(std::span(text))));
  };
  replace_manifest("{}");
  ASSERT_NO_FATAL_FAILURE(next_broker());
  expect_afresh("manifest");

  ASSERT_NO_FATAL_FAILURE(kill_broker());
  Manifest other = now_.manifest;
  other.boot_id = "another";
  replace_manifest(encode(other));
  ASSERT_NO_FATAL_FAILURE(next_broker());
  expect_afresh("another boot");

  // A ring with more events than the manifest lists, a ring of another size, and a descriptor that is no event.
  const auto spoil = [&](const std::function<void(Manifest&)>& change, const std::string& why) {
    ASSERT_NO_FATAL_FAILURE(kill_broker());
    Manifest manifest = now_.manifest;
    change(manifest);
    replace_manifest(encode(manifest));
    ASSERT_NO_FATAL_FAILURE(next_broker());
    expect_afresh(why);
  };
  spoil([](Manifest& one) { one.rings.front().live_ids.push_back(7); }, "events instead of");
  spoil([](Manifest& one) { one.rings.front().owner_id = one.rings.back().owner_id; }, "was not stored");
  spoil([](Manifest& one) { one.events.front().attr.sample_max_stack = 1; }, "its sideband");
  spoil(
      [](Manifest& one) {
        std::erase_if(one.rings, [](auto& ring) { return ring.kind == RingKind::sideband; });
        one.events.clear();
      },
      "");
}

}  // namespace
}  // namespace flight
