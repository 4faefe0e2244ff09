// SPDX-License-Identifier: Apache-2.0
// How FileWatch has files read: tasks, what hangs, what is tried again, and what it cost.
#include <linux/perf_event.h>

#include <algorithm>
#include <utility>

#include "daemon/broker/files/file_watch.hpp"
#include "daemon/broker/files/file_watch_read.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight::broker {
namespace {

// The file was not read (Helpers::call), and can be later.
bool is_the_helpers(const Error& error) {
  return error.code == std::errc::timed_out || error.code == std::errc::device_or_resource_busy;
}

}  // namespace

void FileWatch::put_failed(const MappedAt& at) {
  if (at.by_name)
    table_.put_check(at, nullptr);
  else
    table_.put_failed(at.file);
}

// A slow disk looks like one that hangs, so the files that are given up now are read when the disk answers.
void FileWatch::defer(MappedAt at, uid_t uid) {
  put_failed(at);
  if (at.by_name) return;  // the next client asks again
  if (deferred_.size() < kMaxDeferred)
    deferred_.push_back({.at = std::move(at), .uid = uid});
  else
    ++left_out_;
}

void FileWatch::retry_deferred() {
  const auto now = clocks_.now();
  for (Deferred& one : std::exchange(deferred_, {})) {
    if (!may_read(device_of(one.at), one.at.pid, one.uid))
      deferred_.push_back(std::move(one));
    else if (table_.wants_again(one.at, now))
      queue(std::move(one.at));
  }
}

void FileWatch::collect() {
  bool came_back = false;
  const auto now = clocks_.now();
  const bool any_hangs = std::any_of(reads_.begin(), reads_.end(), [this](const std::shared_ptr<Read>& read) {
    return !read->ended.load(std::memory_order_acquire) && hangs(*read);
  });
  std::erase_if(reads_, [&](const std::shared_ptr<Read>& read) {
    const bool ended = read->ended.load(std::memory_order_acquire);
    const std::size_t done = read->done.load(std::memory_order_acquire);
    for (; read->collected < done; ++read->collected) {
      const MappedAt& at = read->files[read->collected];
      done_for_[read->owner] += kNoted;
      auto& facts = read->facts[read->collected];
      if (facts || at.by_name) {
        put(*read, at, facts);
      } else if (is_the_helpers(facts.error())) {
        if (read->collected <= read->given_up_at) defer(at, read->uid);
        read->helper_failed = true;
      } else {
        table_.put_failed(at.file);
      }
    }
    if (read->helper_failed)
      retry_at_ = retry_at_.value_or(now + kRetryDeferredAfter);
    else
      came_back = came_back || (ended && (read->given_up || read->kept_others || !any_hangs));
    if (ended) queues_.note_used(read->owner, std::chrono::nanoseconds(read->used_ns.load()), now);
    if (ended) share_.charge(read->owner, std::chrono::nanoseconds(read->cpu_ns.load()), now);
    if (ended && read->process_is_silent)
      note_silent(*read, now);
    else if (ended)
      silent_.erase(read->number);  // only slow: a large process forks, or the machine has no time for the helper
    return ended;
  });
  came_back = std::erase_if(silent_, [now](const auto& one) { return one.second.until <= now; }) > 0 || came_back;
  if (retry_at_ && now >= *retry_at_) {
    retry_at_.reset();
    came_back = true;
  }
  for (const auto& read : reads_) {
    if (!hangs(*read)) continue;
    if (!read->process_answered) note_silent(*read, now);
    if (read->given_up) continue;
    read->given_up = true;
    read->given_up_at = read->collected;
    // The file that is being read may still come back.
    if (read->collected < read->files.size()) put_failed(read->files[read->collected]);
    for (std::size_t i = read->collected + 1; i < read->files.size(); ++i) defer(read->files[i], read->uid);
  }
  if (came_back) retry_deferred();
}

void FileWatch::put(const Read& read, const MappedAt& at, Result<MappedFileFacts>& facts) {
  if (at.by_name) {
    table_.put_check(at, facts ? &*facts : nullptr);
    return;
  }
  if (facts->served_by.empty())
    served_.erase(read.disk);  // the number may be another disk's by now
  else if (served_.size() < kMaxServedDisks || served_.contains(read.disk))
    served_[read.disk] = facts->served_by;
  table_.put(at, std::move(*facts));
}

void FileWatch::note_silent(const Read& read, Clock::time_point now) {
  if (silent_.size() < kMaxSilent || silent_.contains(read.number))
    silent_[read.number] = {.until = now + kNotAgainFor, .uid = read.uid, .mapped_ns = read.mapped_ns};
}

// A process that began after the mapping has the pid of one that hangs, and is another one. What its user's processes
// have done still counts for the user.
void FileWatch::note_begun(std::uint32_t pid, EventTime begun_ns) {
  const std::uint64_t number = ++renumbered_ << 32U;
  for (const auto& read : reads_)
    if (read->number == pid && read->mapped_ns < begun_ns) read->number = number;
  const auto silent = silent_.find(pid);
  if (silent == silent_.end() || silent->second.mapped_ns >= begun_ns) return;
  auto renumbered = silent_.extract(silent);
  renumbered.key() = number;
  silent_.insert(std::move(renumbered));
  retry_at_ = clocks_.now();
}

void FileWatch::note_forks(std::span<const std::byte> records) {
  if (silent_.empty() && reads_.empty()) return;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_FORK) continue;
    const auto fork = parse_task(record);
    if (fork && fork->pid != fork->ppid) note_begun(fork->pid, fork->time_ns);  // else it is a thread
  }
}

// In a scan, a FORK has the start of its process, by CLOCK_BOOTTIME: the FORK of the ring can be lost.
void FileWatch::note_starts(std::span<const std::byte> scan) {
  if (silent_.empty() && reads_.empty()) return;
  constexpr auto kUnsureNs = static_cast<EventTime>(ClockHistory::kMostSlept.count());  // of event_at_boottime()
  table_.note_clock(ClockTriple::now());
  for (auto record = next_record(scan); !record.empty(); record = next_record(scan)) {
    scan = scan.subspan(record.size());
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_FORK) continue;
    const auto fork = parse_task(record);
    if (!fork || fork->pid != fork->tid) continue;
    const EventTime begun_ns = table_.clock().event_at_boottime(fork->time_ns);
    note_begun(fork->pid, begun_ns - std::min(begun_ns, kUnsureNs));
  }
}

DeviceNumber FileWatch::device_of(const MappedAt& at) { return {.major = at.file.major, .minor = at.file.minor}; }

bool FileWatch::hangs(const Read& read) const { return clocks_.now() - read.begun.load() >= kHangsAfter; }

// One file of a disk, a process and a user (other than root) is read at a time.
bool FileWatch::is_busy(DeviceNumber disk, std::uint32_t pid, uid_t uid) const {
  return std::any_of(reads_.begin(), reads_.end(), [&](const std::shared_ptr<Read>& read) {
    return !hangs(*read) && (read->disk == disk || (pid != 0 && read->number == pid) || (read->uid == uid && uid != 0));
  });
}

// While a read hangs, the disk or the process that it waits for, and its user, must not take the last helper, too. Nor
// may a user take it with one process after the other.
bool FileWatch::may_read(DeviceNumber disk, std::uint32_t pid, uid_t uid) const {
  if (silent_.contains(pid)) return false;
  const auto of_user = [uid](const auto& one) { return one.second.uid == uid; };
  if (uid != 0 && std::count_if(silent_.begin(), silent_.end(), of_user) >= kMaxSilentOfUser) return false;
  return std::none_of(reads_.begin(), reads_.end(), [&](const std::shared_ptr<Read>& read) {
    if (!hangs(*read)) return false;
    return (read->uid == uid && uid != 0) || (read->process_answered ? read->disk == disk : read->number == pid);
  });
}

void FileWatch::send() {
  const auto is_busy = [this](const MappedAt& at, uid_t owner) {
    return this->is_busy(device_of(at), at.pid, owner == kEndedOwner ? 0 : owner);
  };
  while (reads_.size() < kMaxReads) {
    auto task = queues_.take(is_busy, clocks_.now(), asked_);
    if (!task) return;
    begin(std::move(*task));
  }
}

void FileWatch::begin(OwnerQueues::Task task) {
  std::erase_if(task.files, [&](const MappedAt& at) { return !at.by_name && !table_.begin_read(at); });
  if (task.files.empty()) return;
  auto read = std::make_shared<Read>();
  read->files = std::move(task.files);
  read->facts.resize(read->files.size());
  read->disk = device_of(read->files.front());
  read->number = read->files.front().pid;
  read->by_name = read->process_answered = read->files.front().by_name;
  read->owner = task.owner;
  read->uid = task.owner == kEndedOwner ? 0 : task.owner;
  for (MappedAt& at : read->files) {
    read->mapped_ns = std::max(read->mapped_ns, at.seen_ns);
    if (!at.by_name) at.known = table_.stamp_of(at);
  }
  if (!may_read(read->disk, read->files.front().pid, read->uid)) {
    for (MappedAt& at : read->files) defer(std::move(at), read->uid);
    for (const auto& other : reads_) other->kept_others = other->kept_others || hangs(*other);
    return;
  }
  if (threads_->post([read, read_files = read_files_, clocks = clocks_] { run(*read, read_files, clocks); }))
    reads_.push_back(std::move(read));
  else
    for (const MappedAt& at : read->files) put_failed(at);  // all threads hang
}

// On a thread that reads.
void FileWatch::run(Read& read, const ReadFiles& read_files, const Clocks& clocks) {
  const std::chrono::nanoseconds before = clocks.cpu();
  read_files(read.files, {.has_helper =
                              [&](bool has) {
                                read.process_answered = read.by_name;
                                read.begun.store(has ? clocks.now() : Clock::time_point::max());
                              },
                          .answered = [&] { read.process_answered = true; },
                          .done =
                              [&](Result<MappedFileFacts> facts) {
                                if (!read.by_name && !facts && facts.error().code == std::errc::timed_out)
                                  read.process_is_silent = true;
                                const std::size_t at = read.done.load();
                                read.facts[at] = std::move(facts);
                                // First, or a process would be taken for silent whose disk was slow.
                                read.begun.store(clocks.now());
                                read.process_answered = read.by_name;
                                read.done.store(at + 1, std::memory_order_release);
                              },
                          .used =
                              [&](std::chrono::nanoseconds time, std::chrono::nanoseconds cpu) {
                                read.used_ns += time.count();
                                read.cpu_ns += cpu.count();
                              }});
  read.cpu_ns += (clocks.cpu() - before).count();
  read.ended.store(true, std::memory_order_release);
}

}  // namespace flight::broker
