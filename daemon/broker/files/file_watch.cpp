// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/file_watch.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perf/record_cut.hpp"

namespace flight::broker {
namespace {

// After new records the rings are checked often for this long.
constexpr std::chrono::seconds kActiveFor(2);

// The file was not read (Helpers::call), and can be later.
bool is_the_helpers(const Error& error) {
  return error.code == std::errc::timed_out || error.code == std::errc::device_or_resource_busy;
}

// nullopt: of no file, or of one whose build-id it has. `record`: MMAP2; the name is in it.
std::optional<Sighting> sighting_of(std::span<const std::byte> record) {
  const auto map = parse_mmap2(record);
  if (!map || map->cpumode != PERF_RECORD_MISC_USER || map->build_id.size != 0 || map->inode == 0 ||
      !map->name.starts_with('/') || map->name.starts_with("//"))
    return std::nullopt;
  const auto trailer = parse_trailer(record);
  return Sighting{
      .pid = map->pid,
      .address = map->address,
      .file = {.major = map->major, .minor = map->minor, .inode = map->inode, .generation = map->inode_generation},
      .name = map->name,
      .time_ns = trailer ? trailer->time_ns : 0};
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

// A task, whose files are read one after the other. Shared with the reading thread, which may outlive the
// watch.
struct FileWatch::Read {
  std::vector<MappedAt> files;
  std::vector<Result<MappedFileFacts>> facts;
  std::atomic<Clock::time_point> begun = Clock::time_point::max();  // of the file that is being read
  std::atomic<std::size_t> done = 0;                                // number of files that were read
  std::atomic<std::chrono::nanoseconds::rep> used_ns = 0;           // of a CPU
  std::atomic<bool> ended = false;
  std::atomic<bool> process_answered = false;   // of the file that is being read: if it hangs now, its disk does
  std::atomic<bool> process_is_silent = false;  // the helper was killed, as the process did not answer
  // Used by the main thread only.
  bool given_up = false;       // it hangs; those behind the file are deferred
  bool kept_others = false;    // others are deferred because it hangs
  bool helper_failed = false;  // a file was not read because of that
  bool by_name = false;        // of MappedAt
  DeviceNumber disk;
  std::uint32_t pid = 0;
  uid_t uid = 0;    // owner of the process
  uid_t owner = 0;  // the same, or kEndedOwner
  std::size_t collected = 0;
  std::size_t given_up_at = SIZE_MAX;
};

FileWatch::FileWatch(const BlockingThreads& threads, ReadFiles read)
    : threads_(&threads), read_files_(std::move(read)) {}

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
  owners_.begin_look();
  copied_.clear();
  for (auto& [id, cursor] : cursors_)
    if (cursor.has_news()) cursor.read(copied_);
  if (!copied_.empty()) {
    news_ = now;
    clear_build_id_marks(copied_);
    note_recorded(copied_);
    symbol_records_ += symbol_records_in(copied_);
  }
  collect();
  for (MappedAt& at : table_.due(now, asked)) queue(std::move(at));
  if (asked && !names_checked_) check_names(now);
  names_checked_ = asked;
  send();
  active_ = now - news_ < kActiveFor || !settled() || queues_.goes_on(now).has_value();
}

std::chrono::milliseconds FileWatch::soon() const {
  const auto now = Clock::now();
  const auto goes_on = queues_.goes_on(now);
  if (!goes_on) return kSoon;
  return std::clamp(std::chrono::ceil<std::chrono::milliseconds>(*goes_on - now), kSoonest, kSoon);
}

std::uint64_t FileWatch::symbol_news() const {
  std::uint64_t news = symbol_records_ + missed_before_;
  for (const auto& [id, cursor] : cursors_) news += cursor.missed_bytes();
  return news;
}

// Not of a scan, whose FORKs have the present parent and not the one that forked.
void FileWatch::note_recorded(std::span<const std::byte> records) {
  owners_.note(records);
  note(records);
}

void FileWatch::note_scan(std::span<const std::byte> records, bool again) {
  note(records, again);
  table_.end_scan();
}

void FileWatch::note(std::span<const std::byte> records, bool again) {
  const auto now = Clock::now();
  owners_.begin_look();
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_MMAP2) continue;
    const auto seen = sighting_of(record);
    if (seen && !(again && table_.touch(*seen))) note_sighting(*seen, now);
  }
}

void FileWatch::note_sighting(const Sighting& seen, Clock::time_point now) {
  if (!table_.wants(seen, now)) return;
  queue({.pid = seen.pid,
         .address = seen.address,
         .file = seen.file,
         .name = std::string(seen.name),
         .seen_ns = seen.time_ns});
}

void FileWatch::queue(MappedAt at) {
  const FileIdentity file = at.file;
  const uid_t owner = owners_.of(at.pid).value_or(kEndedOwner);
  if (queues_.add(owner, std::move(at))) return;
  ++left_out_;
  table_.put_failed(file);
}

// If a user's queue is full, the names that are known of the other files stay.
void FileWatch::check_names(Clock::time_point now) {
  for (FileTable::Check& check : table_.to_check(now))
    if (!queues_.add(check.owner, check.at)) put_failed(check.at);
}

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
  const auto now = Clock::now();
  for (Deferred& one : std::exchange(deferred_, {})) {
    if (!may_read(device_of(one.at), one.at.pid, one.uid))
      deferred_.push_back(std::move(one));
    else if (table_.wants_again(one.at, now))
      queue(std::move(one.at));
  }
}

void FileWatch::collect() {
  bool came_back = false;
  const auto now = Clock::now();
  const bool any_hangs = std::any_of(reads_.begin(), reads_.end(), [](const std::shared_ptr<Read>& read) {
    return !read->ended.load(std::memory_order_acquire) && hangs(*read);
  });
  std::erase_if(reads_, [&](const std::shared_ptr<Read>& read) {
    const bool ended = read->ended.load(std::memory_order_acquire);
    const std::size_t done = read->done.load(std::memory_order_acquire);
    for (; read->collected < done; ++read->collected) {
      const MappedAt& at = read->files[read->collected];
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
    if (ended && read->process_is_silent)
      note_silent(*read, now);
    else if (ended)
      silent_.erase(read->pid);  // only slow: a large process forks, or the machine has no time for the helper
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
  if (silent_.size() < kMaxSilent || silent_.contains(read.pid))
    silent_[read.pid] = {.until = now + kNotAgainFor, .uid = read.uid};
}

DeviceNumber FileWatch::device_of(const MappedAt& at) { return {.major = at.file.major, .minor = at.file.minor}; }

bool FileWatch::hangs(const Read& read) { return Clock::now() - read.begun.load() >= kHangsAfter; }

// One file of a disk, a process and a user (other than root) is read at a time.
bool FileWatch::is_busy(DeviceNumber disk, std::uint32_t pid, uid_t uid) const {
  return std::any_of(reads_.begin(), reads_.end(), [&](const std::shared_ptr<Read>& read) {
    return !hangs(*read) && (read->disk == disk || (pid != 0 && read->pid == pid) || (read->uid == uid && uid != 0));
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
    return (read->uid == uid && uid != 0) || (read->process_answered ? read->disk == disk : read->pid == pid);
  });
}

void FileWatch::send() {
  const auto is_busy = [this](const MappedAt& at, uid_t owner) {
    return this->is_busy(device_of(at), at.pid, owner == kEndedOwner ? 0 : owner);
  };
  while (reads_.size() < kMaxReads) {
    auto task = queues_.take(is_busy, Clock::now());
    if (!task) return;
    begin(std::move(*task));
  }
}

void FileWatch::begin(OwnerQueues::Task task) {
  auto read = std::make_shared<Read>();
  read->files = std::move(task.files);
  read->facts.resize(read->files.size());
  read->disk = device_of(read->files.front());
  read->pid = read->files.front().pid;
  read->by_name = read->process_answered = read->files.front().by_name;
  read->owner = task.owner;
  read->uid = task.owner == kEndedOwner ? 0 : task.owner;
  for (MappedAt& at : read->files)
    if (!at.by_name) at.known = table_.stamp_of(at);
  if (!may_read(read->disk, read->pid, read->uid)) {
    for (MappedAt& at : read->files) defer(std::move(at), read->uid);
    for (const auto& other : reads_) other->kept_others = other->kept_others || hangs(*other);
    return;
  }
  const bool posted = threads_->post([read, read_files = read_files_] {
    read_files(read->files, {.has_helper =
                                 [&read](bool has) {
                                   read->process_answered = read->by_name;
                                   read->begun.store(has ? Clock::now() : Clock::time_point::max());
                                 },
                             .answered = [&read] { read->process_answered = true; },
                             .done =
                                 [&read](Result<MappedFileFacts> facts) {
                                   if (!read->by_name && !facts && facts.error().code == std::errc::timed_out)
                                     read->process_is_silent = true;
                                   const std::size_t at = read->done.load();
                                   read->facts[at] = std::move(facts);
                                   // First, or a process would be taken for silent whose disk was slow.
                                   read->begun.store(Clock::now());
                                   read->process_answered = read->by_name;
                                   read->done.store(at + 1, std::memory_order_release);
                                 },
                             .used = [&read](std::chrono::nanoseconds time,
                                             std::chrono::nanoseconds) { read->used_ns += time.count(); }});
    read->ended.store(true, std::memory_order_release);
  });
  if (posted)
    reads_.push_back(std::move(read));
  else
    for (const MappedAt& at : read->files) put_failed(at);  // all threads hang
}

bool FileWatch::settled() const {
  const bool all_hang =
      std::all_of(reads_.begin(), reads_.end(), [](const std::shared_ptr<Read>& read) { return hangs(*read); });
  // If every helper hangs, no file in the queue is read. The files of users above their share of a CPU are not waited
  // for.
  return all_hang && (reads_.size() >= kMaxReads || (queues_.all_wait(Clock::now()) && !table_.has_due()));
}

FileWatch::Waiting FileWatch::waiting() const {
  Waiting out;
  const auto add = [&](DeviceNumber disk) {
    if (out.disks.size() < kMaxUnansweredDevices) out.disks.insert(disk);
  };
  for (const auto& read : reads_)
    if (!read->by_name && (!hangs(*read) || read->process_answered)) add(read->disk);
  out.processes = silent_.size();
  queues_.each([&](const MappedAt& at) {
    if (!at.by_name) add(device_of(at));
  });
  for (const Deferred& one : deferred_)
    if (!silent_.contains(one.at.pid)) add(device_of(one.at));
  return out;
}

Result<int> FileWatch::answer() {
  const auto now = Clock::now();
  names_checked_ = false;
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
