// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/broker_thread.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "libcore/base/thread.hpp"

namespace flight::daemon {
namespace {

// A disk that has not made a file by then may be slow, or the broker does not answer.
constexpr std::chrono::milliseconds kProbeAfter(2000);

}  // namespace

Result<std::unique_ptr<BrokerThread>> BrokerThread::start(BrokerClient broker, std::shared_ptr<Attached> attached,
                                                          std::string path, Callbacks callbacks, std::string refusal,
                                                          const WaitingClock& clock) {
  auto wake = TaskQueue::make_wake("broker");
  if (!wake) return propagate(wake.error());
  std::unique_ptr<BrokerThread> out(new BrokerThread(std::move(broker), std::move(attached), std::move(path),
                                                     std::move(callbacks), clock, std::move(*wake)));
  if (!refusal.empty()) {
    out->refusal_ = std::move(refusal);
    out->lost_ns_ = monotonic_now();
    out->gone_ = true;
  }
  auto thread = start_thread("broker", [self = out.get()] { self->run(); });
  if (!thread) return propagate(thread.error());
  out->thread_ = std::move(*thread);
  // At once, for a snapshot that is written after the broker died.
  static_cast<void>(out->refresh_kernel());
  return out;
}

BrokerThread::~BrokerThread() {
  cut();
  tasks_.post([this] { stopping_ = true; });
  if (thread_.joinable()) thread_.join();
}

void BrokerThread::cut() {
  cut_ = true;
  const std::lock_guard lock(mutex_);
  ::shutdown(broker_.fd(), SHUT_RDWR);
  if (next_fd_ >= 0) ::shutdown(next_fd_, SHUT_RDWR);
  cut_wake_.notify_all();
}

template <typename Call>
auto BrokerThread::timed(Call call) -> decltype(call()) {
  const std::uint64_t replaced = replaced_;
  asked_ns_ = monotonic_now();
  auto answer = call();
  asked_ns_ = 0;
  check_broker();
  // The broker died during this request; retry once on its successor.
  if (answer || replaced == replaced_) return answer;
  asked_ns_ = monotonic_now();
  answer = call();
  asked_ns_ = 0;
  check_broker();
  return answer;
}

template <typename Call>
auto BrokerThread::ask_within(std::chrono::milliseconds wait, Call call) -> decltype(call()) {
  auto promise = std::make_shared<std::promise<decltype(call())>>();
  auto answer = promise->get_future();
  tasks_.post([this, promise, call] { promise->set_value(timed(call)); });
  if (answer.wait_for(wait) == std::future_status::ready) return answer.get();
  return fail(std::errc::timed_out, "flightd-broker did not answer within {} ms", wait.count());
}

std::shared_ptr<Attached> BrokerThread::attached() const {
  const std::lock_guard lock(mutex_);
  return attached_;
}

Result<PartialFile> BrokerThread::file(std::chrono::seconds wait, bool spare) {
  constexpr std::chrono::seconds kNow(0);
  const auto began = std::chrono::steady_clock::now(), until = began + wait;
  const auto too_late = [wait](bool is_silent) {
    if (is_silent)
      return fail(kBrokerSilent,
                  "flightd-broker, which makes the files, did not answer within {} s: it was stopped, or it hangs "
                  "(`systemctl status flightd-broker`)",
                  wait.count());
    return fail(std::errc::timed_out, "the disk did not create an empty file within {} s", wait.count());
  };
  {
    std::unique_lock lock(file_mutex_);
    if (!file_free_.wait_until(lock, until, [this] { return !file_asked_; })) return too_late(false);
    file_asked_ = true;
  }
  const auto release = [this](void*) {
    const std::lock_guard lock(file_mutex_);
    file_asked_ = false;
    file_free_.notify_one();
  };
  const std::unique_ptr<void, decltype(release)> one_call(this, release);
  // The result of an earlier request that timed out: a late file can be used; a late error is ignored.
  if (file_under_way_.valid() && file_under_way_.wait_for(kNow) == std::future_status::ready)
    if (auto late = file_under_way_.get()) return late;
  if (!file_under_way_.valid()) {
    auto promise = std::make_shared<std::promise<Result<PartialFile>>>();
    file_under_way_ = promise->get_future();
    tasks_.post([this, promise, spare] {
      // If the broker is gone, that is detected below, and the request goes to the next one.
      const auto asked = broker_.ask_for_file(spare);
      if (!asked && asked.error().code == std::errc::device_or_resource_busy)
        return promise->set_value(propagate(asked.error()));
      file_wanted_ = std::move(*promise);
      spare_wanted_ = spare;
    });
  }
  const auto probe_at = began + std::min(kProbeAfter, std::chrono::milliseconds(wait) / 2);
  if (file_under_way_.wait_until(probe_at) == std::future_status::ready) return file_under_way_.get();
  const auto answers = std::make_shared<std::atomic<bool>>(wait == kNow);
  if (wait != kNow)
    tasks_.post([this, answers] {
      static_cast<void>(timed([this] { return broker_.counts(); }));
      *answers = true;
    });
  if (file_under_way_.wait_until(until) == std::future_status::ready) return file_under_way_.get();
  return too_late(!*answers);
}

void BrokerThread::deliver_file() {
  if (!file_wanted_) return;
  auto file = broker_.take_file();
  if (!file && (gone_ || cut_)) file.emplace(fail(std::errc::connection_reset, "flightd-broker is gone"));
  if (!file) return;
  file_wanted_->set_value(std::move(*file));
  file_wanted_.reset();
}

Result<Counts> BrokerThread::counts() {
  return tasks_.ask([this] { return timed([this] { return broker_.counts(); }); });
}

Result<Counts> BrokerThread::counts(std::chrono::milliseconds wait) {
  return ask_within(wait, [this] { return broker_.counts(); });
}

Result<Mapping> BrokerThread::processes() {
  return tasks_.ask([this] { return ask_processes(); });
}

Result<Mapping> BrokerThread::ask_processes() {
  auto records = timed([this] { return broker_.processes(); });
  if (!records) return records;
  std::string warning = broker_.processes_warning();
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    is_new = !warning.empty() && warning != scan_warning_;
    scan_warning_ = warning;
  }
  if (is_new) callbacks_.warn({std::make_error_code(std::errc::timed_out), std::move(warning)});
  return records;
}

std::string BrokerThread::refusal() const {
  const std::lock_guard lock(mutex_);
  return gone_ ? refusal_ : std::string();
}

void BrokerThread::note_refusal(std::string refusal) {
  const std::lock_guard lock(mutex_);
  refusal_ = std::move(refusal);
}

std::string BrokerThread::scan_warning() const {
  const std::lock_guard lock(mutex_);
  return scan_warning_;
}

std::string BrokerThread::attach_warning() const {
  const std::lock_guard lock(mutex_);
  return gone_ ? std::string() : attach_warning_;
}

std::future<Result<void>> BrokerThread::refresh_kernel() {
  auto promise = std::make_shared<std::promise<Result<void>>>();
  auto answer = promise->get_future();
  tasks_.post([this, promise] { promise->set_value(ask_kernel()); });
  return answer;
}

Result<void> BrokerThread::ask_kernel() {
  if (gone_) return fail(std::errc::connection_reset, "flightd-broker is gone");
  auto reply = timed([this] { return broker_.kernel(); });
  Result<std::shared_ptr<const KernelSymbols>> next;
  if (reply)
    next = KernelSymbols::of(std::move(*reply), *kernel());
  else
    next = propagate(reply.error());
  std::string warning = next ? (*next)->names.warning : next.error().what;
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    if (next) kernel_ = *next;
    is_new = !warning.empty() && warning != kernel_warning_;
    kernel_warning_ = warning;
  }
  if (is_new && !gone_ && !cut_) callbacks_.warn({std::make_error_code(std::errc::no_message), std::move(warning)});
  if (!next) return propagate(next.error());
  return {};
}

std::shared_ptr<const KernelSymbols> BrokerThread::kernel() const {
  const std::lock_guard lock(mutex_);
  return kernel_;
}

std::string BrokerThread::kernel_warning() const {
  const std::lock_guard lock(mutex_);
  return kernel_warning_;
}

Result<KnownFiles> BrokerThread::build_ids(std::chrono::milliseconds wait) {
  return ask_within(wait, [this] { return broker_.build_ids(); });
}

void BrokerThread::counts(std::function<void(Result<Counts>)> done) {
  tasks_.post([this, done = std::move(done)] { done(timed([this] { return broker_.counts(); })); });
}

void BrokerThread::processes(std::function<void(Result<Mapping>)> done) {
  tasks_.post([this, done = std::move(done)] { done(ask_processes()); });
}

void BrokerThread::set_recording(bool recording, std::function<void(Result<void>)> done) {
  tasks_.post([this, recording, done = std::move(done)] {
    auto switched = timed([&] { return recording ? broker_.enable() : broker_.disable(); });
    if (switched) recording_ = recording;
    if (!switched && !recording) static_cast<void>(timed([&] { return broker_.enable(); }));  // some events may be off
    done(std::move(switched));
  });
}

void BrokerThread::reload(std::function<void(Result<bool>)> done) {
  tasks_.post([this, done = std::move(done)] {
    const std::shared_ptr<Attached> before = attached();
    const auto reloaded = timed([this] { return broker_.reload(); });
    if (!reloaded) return done(propagate(reloaded.error()));
    // If no ring changed, there was no new attach, but the digest and the warnings may have changed.
    if (attached() == before) attach_again();
    if (gone_ || cut_) return done(fail(std::errc::connection_reset, "flightd-broker ended after it reloaded"));
    done(attach_again_ns_ != 0 || attached()->manifest.generation != before->manifest.generation);
  });
}

void BrokerThread::attach_again() {
  const std::shared_ptr<Attached> before = attached();
  const auto again = timed([this] { return attach(broker_); });
  if (again || gone_ || cut_ || attached() != before) return;
  attach_again_ns_ = after(kAttachAgain);
  std::string warning = fmt::format(
      "the set of CPUs or rings changed, and flightd cannot use the new one: {}; it goes on with the old one, and "
      "tries "
      "again every {} s",
      again.error().what, kAttachAgain.count());
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    is_new = warning != attach_warning_;
    attach_warning_ = warning;
  }
  if (is_new) callbacks_.warn({again.error().code, std::move(warning)});
}

void BrokerThread::run() {
  while (!stopping_) {
    std::array<pollfd, 2> fds{pollfd{tasks_.fd(), POLLIN, 0}, pollfd{gone_ ? -1 : broker_.fd(), POLLIN, 0}};
    clock_.poll_until(fds, attach_due_ns());
    tasks_.run();
    check_broker();
    if (clock_.now() >= attach_due_ns()) attach_again();
    deliver_file();
  }
}

// While the broker is gone there is nothing to attach, and run() would turn without a pause. The next broker is
// attached when it is found.
EventTime BrokerThread::attach_due_ns() const {
  return gone_ || cut_ || attach_again_ns_ == 0 ? WaitingClock::kNever : attach_again_ns_;
}

void BrokerThread::check_broker() {
  if (gone_ || cut_) return;
  const auto changed = broker_.take_changed();
  if (!changed) {
    lost_ns_ = monotonic_now();
    if (const auto found = find_same(); found || cut_) return;
    gone_ = true;  // before the callback, which may read it
    callbacks_.lost(changed.error(), lost_ns_);
  } else if (*changed) {
    attach_again();
  }
}

Result<void> BrokerThread::attach(BrokerClient& broker) {
  auto attachment = broker.attach();
  if (!attachment) return propagate(attachment.error());
  return publish(std::move(*attachment));
}

Result<void> BrokerThread::publish(Attachment attachment) {
  auto next = Attached::open(std::move(attachment), attached().get());
  if (!next) return propagate(next.error());
  {
    const std::lock_guard lock(mutex_);
    attached_.swap(*next);
    attach_warning_.clear();
  }
  attach_again_ns_ = 0;
  callbacks_.changed(*attached());
  return {};
}

}  // namespace flight::daemon
