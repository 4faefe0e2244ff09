// SPDX-License-Identifier: Apache-2.0
// Before sd-journal.h: where the code is that calls it is nobody's business in the journal.
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "daemon/journal.hpp"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

namespace flight {
namespace {

constexpr std::chrono::seconds kEndWait(2);

void log_entry(const JournalEntry& entry) {
  const auto level = entry.priority == Priority::error     ? spdlog::level::err
                     : entry.priority == Priority::warning ? spdlog::level::warn
                                                           : spdlog::level::info;
  spdlog::log(level, "{}", entry.message);
}

// 0 where there is no journal at all.
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
  return ::sd_journal_sendv(parts.data(), static_cast<int>(parts.size()));
}

}  // namespace

bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat info {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &info) != 0) return false;
  return fmt::format("{}:{}", info.st_dev, info.st_ino) == stream;
}

struct Journal::State {
  const bool logs_to_journal = stderr_is_journal();
  std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<JournalEntry> queue;
  bool sending = false, ending = false, left = false;  // left: nobody waits for the thread any more
  std::uint64_t dropped = 0;
  std::thread thread;

  void run() {
    ::pthread_setname_np(::pthread_self(), "journal");
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
        spdlog::warn(
            "journald did not take entries for a while: {} of flightd's were dropped, `flightctl list` has all "
            "snapshots",
            std::exchange(dropped, 0));
      if (queue.empty()) idle.notify_all();
    }
  }
};

Journal::Journal() : state_(std::make_shared<State>()) {
  state_->thread = std::thread([state = state_] { state->run(); });
}

Journal::~Journal() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->wake.notify_all();
  const bool done = state_->idle.wait_for(lock, kEndWait, [this] { return state_->queue.empty() && !state_->sending; });
  state_->left = !done;
  std::thread thread = std::move(state_->thread);
  lock.unlock();
  if (done)
    thread.join();
  else
    thread.detach();
}

void Journal::tell(JournalEntry entry) {
  if (!state_->logs_to_journal) log_entry(entry);
  const std::lock_guard lock(state_->mutex);
  if (state_->queue.size() >= kMostQueued) {
    ++state_->dropped;
    return;
  }
  state_->queue.push_back(std::move(entry));
  state_->wake.notify_all();
}

}  // namespace flight
