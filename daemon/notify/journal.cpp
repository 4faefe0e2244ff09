// SPDX-License-Identifier: Apache-2.0
// Before sd-journal.h: omit the CODE_* fields of the call site.
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "daemon/notify/journal.hpp"

#include <pthread.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "daemon/log/log.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/thread.hpp"

namespace flight::daemon {
namespace {

constexpr std::chrono::seconds kLastSendWait(2);

void log_entry(const JournalEntry& entry) {
  const auto level = entry.priority == Priority::error     ? log::Level::error
                     : entry.priority == Priority::warning ? log::Level::warn
                                                           : log::Level::info;
  log::write(level, entry.message);
}

// Returns 0 if there is no journal.
int send(const JournalEntry& entry) {
  const std::string message = "MESSAGE=" + entry.message;
  const std::string priority = fmt::format("PRIORITY={}", static_cast<int>(entry.priority));
  const std::string identifier = "SYSLOG_IDENTIFIER=flightd";  // journalctl -t
  std::vector<iovec> parts;
  const auto add = [&parts](const std::string& field) {
    parts.push_back({const_cast<char*>(field.data()), field.size()});  // it is only read
  };
  add(message);
  add(priority);
  add(identifier);
  for (const std::string& field : entry.fields) add(field);
  for (;;) {
    // The first entry opens the socket, which then stays.
    const int sent = ::sd_journal_sendv(parts.data(), static_cast<int>(parts.size()));
    if ((sent != -EMFILE && sent != -ENFILE) || !SpareDescriptors::close_one(-sent)) return sent;
  }
}

}  // namespace

struct Journal::State {
  const bool logs_to_journal = log::stderr_is_journal();
  std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<JournalEntry> queue;
  bool sending = false, ending = false, left = false;  // left: the owner no longer waits for the thread
  std::uint64_t dropped = 0;
  std::thread thread;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [this] { return ending || !queue.empty(); });
      if (queue.empty()) return;
      const JournalEntry entry = std::move(queue.front());
      queue.pop_front();
      sending = true;
      lock.unlock();
      const int sent = send(entry);
      lock.lock();
      if (left) return;
      sending = false;
      if (sent < 0 && logs_to_journal) log_entry(entry);
      if (sent >= 0 && dropped > 0)
        log::warn(
            "journald accepted no entries for a while: {} of flightd's were dropped; `flightctl list` shows all "
            "snapshots",
            std::exchange(dropped, 0));
      if (queue.empty()) idle.notify_all();
    }
  }
};

Result<std::unique_ptr<Journal>> Journal::start() {
  std::unique_ptr<Journal> out(new Journal);
  out->state_ = std::make_shared<State>();
  auto thread = start_thread("journal", [state = out->state_] { state->run(); });
  if (!thread) return propagate(thread.error());
  out->state_->thread = std::move(*thread);
  return out;
}

Journal::~Journal() {
  if (!state_->thread.joinable()) return;
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->wake.notify_all();
  const bool done =
      state_->idle.wait_for(lock, kLastSendWait, [this] { return state_->queue.empty() && !state_->sending; });
  state_->left = !done;
  std::thread thread = std::move(state_->thread);
  lock.unlock();
  if (done)
    thread.join();
  else
    thread.detach();
}

void Journal::report(JournalEntry entry) {
  if (!state_->logs_to_journal) log_entry(entry);
  const std::lock_guard lock(state_->mutex);
  if (state_->queue.size() >= kMostQueued) {
    ++state_->dropped;
    return;
  }
  state_->queue.push_back(std::move(entry));
  state_->wake.notify_all();
}

}  // namespace flight::daemon
