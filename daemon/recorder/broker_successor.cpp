// SPDX-License-Identifier: Apache-2.0
// How the broker thread finds the next broker: one that adopted the recording, or any other.
#include <chrono>
#include <mutex>

#include "daemon/recorder/broker_thread.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight::daemon {
namespace {

// systemd's socket accepts a connection before the broker runs.
constexpr std::chrono::seconds kNextAnswersWithin(5);

// The broker's own answer, not the end of its connection.
bool is_answer(const Error& error) {
  return error.code != std::errc::connection_reset && error.code != std::errc::broken_pipe &&
         error.code != std::errc::timed_out;
}

}  // namespace

// The first broker that replies to an attach; its rings are not mapped.
Result<BrokerThread::Next> BrokerThread::look_for_next(EventTime until_ns, bool& answered) {
  const SpareDescriptors::Use use;  // without a broker there are no more snapshots
  for (;;) {
    auto broker = BrokerClient::connect(path_);
    Result<Attachment> attachment;
    if (broker) {
      broker->answer_within(kNextAnswersWithin);
      const auto note = [&](int fd) {
        const std::lock_guard lock(mutex_);
        next_fd_ = fd;
      };
      note(broker->fd());
      if (!cut_) attachment = broker->attach();
      note(-1);
      broker->answer_within(kAnswerTimeout);
    } else {
      attachment = propagate(broker.error());
    }
    if (cut_) return fail(std::errc::operation_canceled, "flightd is ending");
    answered = broker && !attachment && is_answer(attachment.error());
    if (answered) note_refusal(attachment.error().what);
    if (attachment) return Next{std::move(*broker), std::move(*attachment)};
    if (clock_.now() >= until_ns) return propagate(attachment.error());
    std::unique_lock lock(mutex_);
    clock_.wait_for(cut_wake_, lock, kReconnectEvery, [this] { return cut_.load(); });
  }
}

Result<void> BrokerThread::take_next(Next next) {
  if (auto published = publish(std::move(next.attachment)); !published) return published;
  if (!recording_)
    if (auto off = next.broker.disable(); !off) return off;
  {
    const std::lock_guard lock(mutex_);
    broker_ = std::move(next.broker);
    refusal_.clear();
  }
  if (file_wanted_) static_cast<void>(broker_.ask_for_file(spare_wanted_));
  static_cast<void>(refresh_kernel());
  return {};
}

// Does not report the loss while it looks for a successor: the events may still exist. `asked_ns_` shows how long it
// takes.
Result<void> BrokerThread::find_same() {
  if (path_.empty()) return fail(std::errc::no_such_process, "it was a child of this flightd");
  asked_ns_ = lost_ns_.load();
  bool answered = false;
  auto next = look_for_next(after(kSameFor), answered);
  asked_ns_ = 0;
  if (!next) return propagate(next.error());
  if (next->attachment.manifest.recording != attached()->manifest.recording)
    return fail(std::errc::no_such_device, "the next flightd-broker has another recording");
  if (auto taken = take_next(std::move(*next)); !taken) return taken;
  ++replaced_;
  callbacks_.replaced(lost_ns_);
  return {};
}

void BrokerThread::reconnect(std::chrono::seconds look_for, std::function<void(Result<bool>)> done) {
  tasks_.post([this, look_for, done = std::move(done)] {
    bool answered = false;
    auto next = look_for_next(after(look_for), answered);
    if (!next && !answered) note_refusal("flightd-broker cannot be reached: " + next.error().what);
    if (!next) return done(propagate(next.error()));
    const bool same = next->attachment.manifest.recording == attached()->manifest.recording;
    if (auto taken = take_next(std::move(*next)); !taken) {
      note_refusal(taken.error().what);
      return done(propagate(taken.error()));
    }
    gone_ = false;
    done(same);
  });
}

}  // namespace flight::daemon
