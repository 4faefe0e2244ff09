// SPDX-License-Identifier: Apache-2.0
#include "daemon/wall_thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

namespace flight {
namespace {

// A broker that a service manager starts again is back in less than a second.
constexpr EventTime kReconnectForNs = 30'000'000'000;
constexpr std::chrono::milliseconds kReconnectEvery(50);
// One that was given the recording of the one before. Later it is taken for lost, and what the rings hold is saved.
constexpr EventTime kSameForNs = 5'000'000'000;
// A socket that systemd listens on takes a connection long before there is a broker.
constexpr std::chrono::seconds kNextAnswersWithin(5);

}  // namespace

Result<std::unique_ptr<WallThread>> WallThread::start(BrokerClient broker, std::shared_ptr<Attached> attached,
                                                      std::string path, Told told) {
  auto wake = TaskQueue::make_wake("wall");
  if (!wake) return pass(wake.error());
  std::unique_ptr<WallThread> out(
      new WallThread(std::move(broker), std::move(attached), std::move(path), std::move(told), std::move(*wake)));
  out->thread_ = std::thread([wall = out.get()] { wall->run(); });
  return out;
}

WallThread::~WallThread() {
  cut();
  tasks_.post([this] { stopping_ = true; });
  thread_.join();
}

void WallThread::cut() {
  cut_ = true;
  const std::lock_guard lock(mutex_);
  ::shutdown(broker_.fd(), SHUT_RDWR);
  if (next_fd_ >= 0) ::shutdown(next_fd_, SHUT_RDWR);
}

template <typename Call>
auto WallThread::timed(Call call) -> decltype(call()) {
  const std::uint64_t replaced = replaced_;
  asked_ns_ = monotonic_now();
  auto answer = call();
  asked_ns_ = 0;
  check_broker();
  // It died over this question, and the next one can be asked as well. Once: one that kills each of them is an answer.
  if (answer || replaced == replaced_) return answer;
  asked_ns_ = monotonic_now();
  answer = call();
  asked_ns_ = 0;
  check_broker();
  return answer;
}

std::shared_ptr<Attached> WallThread::attached() const {
  const std::lock_guard lock(mutex_);
  return attached_;
}

Result<PartialFile> WallThread::file(std::chrono::seconds wait, bool spare) {
  constexpr std::chrono::seconds kNow(0);
  // What came too late for the one who asked: a file is as good as a new one, an error is an old story.
  if (file_under_way_.valid() && file_under_way_.wait_for(kNow) == std::future_status::ready)
    if (auto late = file_under_way_.get()) return late;
  if (!file_under_way_.valid()) {
    auto promise = std::make_shared<std::promise<Result<PartialFile>>>();
    file_under_way_ = promise->get_future();
    tasks_.post([this, promise, spare] {
      // A broker that is gone is noticed below, and the next one is asked.
      const auto asked = broker_.ask_for_file(spare);
      if (!asked && asked.error().code == std::errc::device_or_resource_busy)
        return promise->set_value(pass(asked.error()));
      file_wanted_ = std::move(*promise);
      spare_wanted_ = spare;
    });
  }
  if (file_under_way_.wait_for(wait) == std::future_status::ready) return file_under_way_.get();
  return fail(std::errc::timed_out, "the disk did not make an empty file within {} s", wait.count());
}

void WallThread::deliver_file() {
  if (!file_wanted_) return;
  auto file = broker_.take_file();
  if (!file && (gone_ || cut_)) file.emplace(fail(std::errc::connection_reset, "flightd-broker is gone"));
  if (!file) return;
  file_wanted_->set_value(std::move(*file));
  file_wanted_.reset();
}

Result<Counts> WallThread::counts() {
  return tasks_.ask([this] { return timed([this] { return broker_.counts(); }); });
}

Result<std::string> WallThread::processes() {
  return tasks_.ask([this] { return timed([this] { return broker_.processes(); }); });
}

void WallThread::counts(std::function<void(Result<Counts>)> done) {
  tasks_.post([this, done = std::move(done)] { done(timed([this] { return broker_.counts(); })); });
}

void WallThread::processes(std::function<void(Result<std::string>)> done) {
  tasks_.post([this, done = std::move(done)] { done(timed([this] { return broker_.processes(); })); });
}

void WallThread::set_recording(bool recording, std::function<void(Result<void>)> done) {
  tasks_.post([this, recording, done = std::move(done)] {
    auto switched = timed([&] { return recording ? broker_.enable() : broker_.disable(); });
    if (switched) recording_ = recording;
    if (!switched && !recording) static_cast<void>(timed([&] { return broker_.enable(); }));  // some may be off
    done(std::move(switched));
  });
}

void WallThread::reload(std::function<void(Result<bool>)> done) {
  tasks_.post([this, done = std::move(done)] {
    const std::shared_ptr<Attached> before = attached();
    const auto reloaded = timed([this] { return broker_.reload(); });
    if (!reloaded) return done(pass(reloaded.error()));
    // Where no ring changed nothing was told, but the digest and the warnings are others.
    if (attached() == before)
      if (auto again = timed([this] { return attach(broker_); }); !again)
        return done(wrap(again.error(), "flightd-broker has the new configuration, but could not be followed"));
    done(attached()->manifest.generation != before->manifest.generation);
  });
}

void WallThread::run() {
  ::pthread_setname_np(::pthread_self(), "wall");
  while (!stopping_) {
    std::array<pollfd, 2> fds{pollfd{tasks_.fd(), POLLIN, 0}, pollfd{gone_ ? -1 : broker_.fd(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    tasks_.run();
    check_broker();
    deliver_file();
  }
}

void WallThread::check_broker() {
  if (gone_ || cut_) return;
  const auto changed = broker_.take_changed();
  if (!changed) {
    lost_ns_ = monotonic_now();
    if (const auto found = find_same(); found || cut_) return;
    gone_ = true;  // first, so that whoever is told knows
    told_.lost(changed.error(), lost_ns_);
  } else if (*changed) {
    asked_ns_ = monotonic_now();
    const auto again = attach(broker_);
    asked_ns_ = 0;
    if (!again) told_.warn(wrap(again.error(), "the set of CPUs or rings changed, and it was not followed").value());
  }
}

Result<void> WallThread::attach(BrokerClient& broker) {
  auto attachment = broker.attach();
  if (!attachment) return pass(attachment.error());
  return publish(std::move(*attachment));
}

Result<void> WallThread::publish(Attachment attachment) {
  auto next = Attached::open(std::move(attachment), attached().get());
  if (!next) return pass(next.error());
  {
    const std::lock_guard lock(mutex_);
    attached_.swap(*next);
  }
  told_.changed(*attached());
  return {};
}

// The first broker that answers an attach; its rings are not mapped.
Result<WallThread::Next> WallThread::look_for_next(EventTime until_ns) {
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
      attachment = pass(broker.error());
    }
    if (cut_) return fail(std::errc::operation_canceled, "flightd is ending");
    if (attachment) return Next{std::move(*broker), std::move(*attachment)};
    if (monotonic_now() >= until_ns) return pass(attachment.error());
    std::this_thread::sleep_for(kReconnectEvery);
  }
}

Result<void> WallThread::take_next(Next next) {
  if (auto published = publish(std::move(next.attachment)); !published) return published;
  if (!recording_)
    if (auto off = next.broker.disable(); !off) return off;
  {
    const std::lock_guard lock(mutex_);
    broker_ = std::move(next.broker);
  }
  if (file_wanted_) static_cast<void>(broker_.ask_for_file(spare_wanted_));
  return {};
}

// Nobody is told of a broker that died while this looks: its events may live on. `asked_ns_` says how long it takes.
Result<void> WallThread::find_same() {
  if (path_.empty()) return fail(std::errc::no_such_process, "it was our own child");
  asked_ns_ = lost_ns_.load();
  auto next = look_for_next(lost_ns_ + kSameForNs);
  asked_ns_ = 0;
  if (!next) return pass(next.error());
  if (next->attachment.manifest.recording != attached()->manifest.recording)
    return fail(std::errc::no_such_device, "the next flightd-broker has another recording");
  if (auto taken = take_next(std::move(*next)); !taken) return taken;
  ++replaced_;
  told_.replaced(lost_ns_);
  return {};
}

void WallThread::reconnect(std::function<void(Result<bool>)> done) {
  tasks_.post([this, done = std::move(done)] {
    auto next = look_for_next(monotonic_now() + kReconnectForNs);
    if (!next) return done(pass(next.error()));
    const bool same = next->attachment.manifest.recording == attached()->manifest.recording;
    if (auto taken = take_next(std::move(*next)); !taken) return done(pass(taken.error()));
    gone_ = false;
    done(same);
  });
}

}  // namespace flight
