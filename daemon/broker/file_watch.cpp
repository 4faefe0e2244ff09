// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/file_watch.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight::broker {
namespace {

// After new records the rings are checked often for this long.
constexpr std::chrono::seconds kActiveFor(2);
constexpr std::size_t kMaxDevices = 256;

// For a process that has exited it returns root, which has no limit. Does not need the lock of the process's mappings.
uid_t owner_of(std::uint32_t pid) {
  struct stat status {};
  return ::stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 ? status.st_uid : 0;
}

std::uint64_t symbol_records_in(std::span<const std::byte> records) {
  std::uint64_t count = 0;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    const auto type = load<perf_event_header>(record.data()).type;
    if (type == PERF_RECORD_KSYMBOL || type == PERF_RECORD_LOST) ++count;
  }
  return count;
}

}  // namespace

// Files of one process on one disk, read one after the other. Shared with the reading thread, which may outlive the
// watch.
struct FileWatch::Read {
  std::vector<MappedAt> files;
  std::vector<Result<MappedFileFacts>> facts;
  std::atomic<Clock::time_point> begun = Clock::now();  // of the file that is being read
  std::atomic<std::size_t> done = 0;                    // number of files that were read
  std::atomic<bool> ended = false;
  std::atomic<bool> given_up = false;  // it hangs; the rest may be read through another process
  // Used by the main thread only.
  DeviceNumber disk;
  std::uint32_t pid = 0;
  uid_t uid = 0;  // owner of the process
  std::size_t collected = 0;
};

FileWatch::FileWatch(const BlockingThreads& threads, ReadFile read) : threads_(&threads), read_file_(read) {}

void FileWatch::follow(const std::vector<Ring>& rings, bool rewind) {
  if (!rewind) table_.begin_late();
  std::map<std::uint64_t, SidebandCursor> next;
  for (const Ring& ring : rings) {
    const auto known = cursors_.find(ring.owner_id);
    if (known != cursors_.end()) {
      next.insert(cursors_.extract(known));
      continue;
    }
    SidebandCursor cursor(ring.mapping);
    if (rewind) cursor.rewind();
    next.emplace(ring.owner_id, cursor);
  }
  for (const auto& [id, cursor] : cursors_) missed_before_ += cursor.missed_bytes();
  cursors_ = std::move(next);
}

void FileWatch::look(bool asked) {
  const auto now = Clock::now();
  copied_.clear();
  for (auto& [id, cursor] : cursors_)
    if (cursor.has_news()) cursor.read(copied_);
  if (!copied_.empty()) {
    news_ = now;
    note(copied_);
    symbol_records_ += symbol_records_in(copied_);
  }
  collect();
  for (MappedAt& at : table_.due(now, asked)) queue(std::move(at));
  send();
  active_ = now - news_ < kActiveFor || !settled();
}

std::uint64_t FileWatch::symbol_news() const {
  std::uint64_t news = symbol_records_ + missed_before_;
  for (const auto& [id, cursor] : cursors_) news += cursor.missed_bytes();
  return news;
}

void FileWatch::note(std::span<const std::byte> records) {
  const auto now = Clock::now();
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (load<perf_event_header>(record.data()).type == PERF_RECORD_MMAP2) note_record(record, now);
  }
}

void FileWatch::note_record(std::span<const std::byte> record, Clock::time_point now) {
  const auto map = parse_mmap2(record);
  if (!map || map->cpumode != PERF_RECORD_MISC_USER || map->build_id.size != 0 || map->inode == 0 ||
      !map->name.starts_with('/') || map->name.starts_with("//"))
    return;
  const FileIdentity file{
      .major = map->major, .minor = map->minor, .inode = map->inode, .generation = map->inode_generation};
  const auto trailer = parse_trailer(record);
  const Sighting seen{.pid = map->pid,
                      .address = map->address,
                      .file = file,
                      .name = map->name,
                      .time_ns = trailer ? trailer->time_ns : 0};
  if (!table_.wants(seen, now)) return;
  queue({.pid = seen.pid,
         .address = seen.address,
         .file = file,
         .name = std::string(seen.name),
         .seen_ns = seen.time_ns});
}

void FileWatch::queue(MappedAt at) {
  if (queue_.size() >= kMaxQueued || queued_bytes_ + at.name.size() > kMaxQueuedBytes) {
    ++left_out_;
    table_.put_failed(at.file);
    return;
  }
  queued_bytes_ += at.name.size();
  queue_.push_back(std::move(at));
}

// A slow disk looks like one that hangs, so the files that are given up now are read when the disk answers.
void FileWatch::defer(MappedAt at) {
  table_.put_failed(at.file);
  if (deferred_.size() < kMaxDeferred)
    deferred_.push_back(std::move(at));
  else
    ++left_out_;
}

void FileWatch::retry_deferred() {
  const auto now = Clock::now();
  for (MappedAt& at : std::exchange(deferred_, {})) {
    if (table_.wants_again(at, now)) queue(std::move(at));
  }
}

void FileWatch::collect() {
  bool came_back = false;
  std::erase_if(reads_, [&](const std::shared_ptr<Read>& read) {
    const bool ended = read->ended.load(std::memory_order_acquire);
    const std::size_t done = read->done.load(std::memory_order_acquire);
    if (read->collected < done) answered_[read->disk] = Clock::now();
    for (; read->collected < done; ++read->collected) {
      const MappedAt& at = read->files[read->collected];
      auto& facts = read->facts[read->collected];
      if (facts) {
        if (facts->served_by.empty())
          served_.erase(read->disk);  // the number may be another disk's by now
        else if (served_.size() < kMaxServedDisks || served_.contains(read->disk))
          served_[read->disk] = facts->served_by;
        table_.put(at, std::move(*facts));
      } else {
        table_.put_failed(at.file);
      }
    }
    came_back = came_back || (ended && read->given_up);
    return ended;
  });
  if (answered_.size() > kMaxDevices) answered_.clear();
  for (const auto& read : reads_) {
    if (read->given_up || !hangs(*read)) continue;
    read->given_up = true;
    // The file that is being read may still come back.
    if (read->collected < read->files.size()) table_.put_failed(read->files[read->collected].file);
    for (std::size_t i = read->collected + 1; i < read->files.size(); ++i) defer(read->files[i]);
  }
  if (came_back) retry_deferred();
}

DeviceNumber FileWatch::device_of(const MappedAt& at) { return {.major = at.file.major, .minor = at.file.minor}; }

bool FileWatch::hangs(const Read& read) { return Clock::now() - read.begun.load() >= kHangsAfter; }

// Whether a later read has finished: then the process of `read` hangs, not its disk.
bool FileWatch::disk_answers(const Read& read) const {
  const auto at = answered_.find(read.disk);
  return at != answered_.end() && at->second > read.begun.load();
}

// One file per disk is read at a time.
bool FileWatch::disk_is_busy(DeviceNumber disk) const {
  return std::any_of(reads_.begin(), reads_.end(),
                     [disk](const std::shared_ptr<Read>& read) { return read->disk == disk && !hangs(*read); });
}

// A disk hangs, or a process that holds the lock of its mappings; it is not known which. So neither is given up at the
// first read that hangs: the disk is read through another process, and a file on another disk is read through the
// process, while enough threads are left.
bool FileWatch::may_read(DeviceNumber disk, std::uint32_t pid, uid_t uid) const {
  std::size_t of_disk = 0, of_process = 0, of_user = 0;
  for (const auto& read : reads_) {
    if (!hangs(*read)) continue;
    const bool same_disk = read->disk == disk;
    const bool same_process = read->pid == pid;
    if (same_process && same_disk) return false;
    if (same_process) ++of_process;
    if (same_disk && !disk_answers(*read)) ++of_disk;
    if (read->uid == uid && uid != 0) ++of_user;
  }
  const std::size_t left = kMaxReads - reads_.size();
  const bool too_many = of_process >= kMaxHungOfProcess || of_user >= kMaxHungOfUser;
  return !too_many && left >= (of_disk + of_process) * kLeftForEachHung;
}

// The files of a process on a disk are one task: each end of a task wakes the main thread.
std::shared_ptr<FileWatch::Read> FileWatch::take_from(std::size_t first) {
  auto read = std::make_shared<Read>();
  read->disk = device_of(queue_[first]);
  read->pid = queue_[first].pid;
  for (std::size_t i = first; i < std::min(queue_.size(), kLookAhead) && read->files.size() < kMaxOfTask;) {
    const auto at = queue_.begin() + static_cast<std::ptrdiff_t>(i);
    if (at->pid != read->pid || device_of(*at) != read->disk) {
      ++i;
      continue;
    }
    queued_bytes_ -= at->name.size();
    read->files.push_back(std::move(*at));
    read->files.back().known = table_.stamp_of(read->files.back());
    queue_.erase(at);
  }
  read->facts.resize(read->files.size());
  return read;
}

void FileWatch::send() {
  for (std::size_t i = 0; i < std::min(queue_.size(), kLookAhead) && reads_.size() < kMaxReads;) {
    if (disk_is_busy(device_of(queue_[i]))) {
      ++i;
      continue;
    }
    auto read = take_from(i);
    read->uid = owner_of(read->pid);
    if (!may_read(read->disk, read->pid, read->uid)) {
      for (MappedAt& at : read->files) defer(std::move(at));
      continue;
    }
    const bool posted = threads_->post([read, read_file = read_file_] {
      for (std::size_t at = 0; at < read->files.size() && !read->given_up.load(); ++at) {
        read->facts[at] = read_file(read->files[at]);
        read->begun.store(Clock::now());
        read->done.store(at + 1, std::memory_order_release);
      }
      read->ended.store(true, std::memory_order_release);
    });
    if (posted)
      reads_.push_back(std::move(read));
    else
      for (const MappedAt& at : read->files) table_.put_failed(at.file);  // all threads hang
  }
}

bool FileWatch::settled() const {
  return queue_.empty() && !table_.has_due() &&
         std::all_of(reads_.begin(), reads_.end(), [](const std::shared_ptr<Read>& read) { return hangs(*read); });
}

FileWatch::Waiting FileWatch::waiting() const {
  Waiting out;
  const auto add = [&](DeviceNumber disk) {
    if (out.disks.size() < kMaxUnansweredDevices) out.disks.insert(disk);
  };
  for (const auto& read : reads_) {
    if (hangs(*read) && disk_answers(*read))
      ++out.processes;
    else
      add(read->disk);
  }
  for (const MappedAt& at : queue_) add(device_of(at));
  return out;
}

Result<int> FileWatch::answer() {
  const auto now = Clock::now();
  std::uint64_t missed = missed_before_ + left_out_;
  for (const auto& [id, cursor] : cursors_) missed += cursor.missed_bytes();
  Waiting waiting = this->waiting();
  const bool same =
      document_version_ == table_.version() + missed && document_waiting_ == waiting && document_served_ == served_;
  if (document_ && (same || now - document_made_ < kSameFor)) return document_.get();
  KnownFiles known = table_.known();
  known.missed_bytes = missed;
  known.unanswered = {waiting.disks.begin(), waiting.disks.end()};
  known.hung_processes = waiting.processes;
  for (const auto& [disk, type] : served_) known.served.push_back({.disk = disk, .type = type});
  const auto bytes = encode(known);
  const SpareDescriptors::Use use;
  auto memfd = sealed_memfd("flightd-build-ids", bytes);
  if (!memfd) return propagate(memfd.error());
  document_ = std::move(*memfd);
  document_version_ = table_.version() + missed;
  document_served_ = served_;
  document_waiting_ = std::move(waiting);
  document_made_ = now;
  return document_.get();
}

}  // namespace flight::broker
