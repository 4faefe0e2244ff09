// SPDX-License-Identifier: Apache-2.0
// Which subscriber gets which event, and in which order.
#include "daemon/notify/event_hub.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "libcore/store/headline.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace flight::daemon {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// "journal ID", "status line", and "EVENT" of a client of Monitor, in the order of arrival.
class EventHubTest : public testing::Test {
 protected:
  std::shared_ptr<int> connect(bool recording = true, const std::string& trouble = "") {
    auto client = std::make_shared<int>(0);
    hub_.listen({.client = client,
                 .send =
                     [this](const std::string& text) {
                       const auto event = parse_event(text);
                       ASSERT_TRUE(event) << text;
                       received_.push_back(*event);
                       seen_.push_back(event->event);
                     }},
                trouble, recording);
    return client;
  }
  std::vector<std::string> seen() { return std::exchange(seen_, {}); }

  std::vector<std::string> seen_;
  std::vector<JournalEntry> entries_;
  std::vector<RecorderEvent> received_;
  EventHub hub_{[this](const JournalEntry& entry) {
                  seen_.push_back("journal " + entry.fields.at(0).substr(std::string_view("MESSAGE_ID=").size()));
                  entries_.push_back(entry);
                },
                [this] { seen_.emplace_back("status line"); }};
  const std::string snapshot_ = "journal " + std::string(kSnapshotMessageId),
                    degraded_ = "journal " + std::string(kDegradedMessageId),
                    recovered_ = "journal " + std::string(kRecoveredMessageId),
                    suppressed_ = "journal " + std::string(kSuppressedMessageId);
};

TEST_F(EventHubTest, AClientFirstReceivesTheCurrentState) {
  const auto client = connect(false, "degraded (disk): full");
  ASSERT_THAT(seen(), ElementsAre("monitoring"));
  EXPECT_EQ(received_[0].recording, false);
  EXPECT_EQ(received_[0].message, "degraded (disk): full");
  EXPECT_NE(received_[0].time, "");
}

TEST_F(EventHubTest, AFinishedSnapshotGoesToAll) {
  const auto client = connect();
  hub_.snapshot_begun("lopsided");
  const Sidecar sidecar = sample_sidecar();
  hub_.snapshot_finished(sidecar, false);
  EXPECT_THAT(seen(), ElementsAre("monitoring", "snapshot_begun", snapshot_, "status line", "snapshot_finished"));
  const RecorderEvent& event = received_.back();
  EXPECT_EQ(event.id, "42");
  EXPECT_EQ(event.trigger, "lopsided");
  EXPECT_EQ(event.path, sidecar.path);
  EXPECT_EQ(event.message, headline(sidecar));
  EXPECT_NE(event.time, "");
}

TEST_F(EventHubTest, TheDiskIsDegradedUntilASnapshotIsWritten) {
  const auto client = connect();
  seen();
  hub_.snapshot_failed({.what = "no space", .new_disk_trouble = "degraded (disk): no space"});
  EXPECT_THAT(seen(), ElementsAre(degraded_, "status line", "snapshot_failed", "degraded"));
  EXPECT_THAT(entries_.back().message, StartsWith("degraded (disk): no space"));
  EXPECT_EQ(received_.back().message, "degraded (disk): no space");
  hub_.snapshot_failed({.what = "no space"});
  EXPECT_THAT(seen(), ElementsAre("status line", "snapshot_failed")) << "degraded is reported once";
  EXPECT_EQ(received_.back().message, "no space");
  hub_.snapshot_finished(sample_sidecar(), true);
  EXPECT_THAT(seen(), ElementsAre(recovered_, snapshot_, "status line", "snapshot_finished", "recovered"));
}

TEST_F(EventHubTest, SuppressedFiringsAreOneEntryAndOneEvent) {
  const auto client = connect();
  seen();
  SuppressedWindow window{.trigger = "oom", .count = 7};
  window.by[static_cast<std::size_t>(SuppressedBy::cooldown)] = 7;
  hub_.triggers_suppressed(window);
  EXPECT_THAT(seen(), ElementsAre(suppressed_, "triggers_suppressed"));
  EXPECT_EQ(received_.back().trigger, "oom");
  EXPECT_EQ(received_.back().message, entries_.back().message);
  EXPECT_THAT(received_.back().message, HasSubstr("cooldown"));
}

TEST_F(EventHubTest, TheBrokersLossIsInTheJournalAndTheStatusLine) {
  const auto client = connect();
  seen();
  hub_.broker_lost("gone, saving the rings");
  hub_.broker_recovered("attached to the next");
  hub_.status_changed();
  EXPECT_THAT(seen(), ElementsAre(degraded_, "status line", recovered_, "status line", "status line"));
  EXPECT_THAT(entries_[0].fields, Contains(HasSubstr("broker")));
  EXPECT_THAT(entries_[0].message, HasSubstr("gone, saving the rings"));
  EXPECT_THAT(entries_[1].message, HasSubstr("attached to the next"));
}

TEST_F(EventHubTest, EventsNameTheCaller) {
  const auto client = connect();
  seen();
  hub_.trigger_fired("oom", "somebody was killed");
  EXPECT_EQ(received_.back().reason, "somebody was killed");
  hub_.recording_switched(false, "me");
  EXPECT_EQ(received_.back().message, "by me");
  hub_.recording_switched(true, "me");
  hub_.reloaded("SIGHUP");
  EXPECT_EQ(received_.back().message, "by SIGHUP");
  EXPECT_THAT(seen(), ElementsAre("trigger_fired", "recording_paused", "status line", "recording_resumed",
                                  "status line", "reloaded"));
}

TEST_F(EventHubTest, ADisconnectedClientReceivesNothing) {
  auto gone = connect();
  const auto here = connect();
  seen();
  gone.reset();
  hub_.snapshot_finished(sample_sidecar(), false);
  EXPECT_THAT(seen(), ElementsAre(snapshot_, "status line", "snapshot_finished"));
}

TEST_F(EventHubTest, WithoutClientsTheJournalHasItAllTheSame) {
  hub_.snapshot_failed({.what = "no space", .broker_gone = true});
  EXPECT_THAT(entries_, IsEmpty()) << "the disk is not to blame";
  hub_.snapshot_finished(sample_sidecar(), false);
  EXPECT_THAT(seen(), ElementsAre("status line", snapshot_, "status line"));
}

}  // namespace
}  // namespace flight::daemon
