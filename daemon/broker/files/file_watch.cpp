// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/file_watch.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <utility>

#include "daemon/broker/files/file_watch_read.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perf/record_cut.hpp"

namespace flight::broker {
namespace {

// After new records the rings are checked often for this long.
constexpr std::chrono::seconds kActiveFor(2);

std::uint64_t symbol_records_in(std::span<const std::byte> records) {
  std::uint64_t count = 0;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    const auto type = load<perf_event_header>(record.data()).type;
    if (type == PERF_RECORD_KSYMBOL || type == PERF_RECORD_LOST) ++count;
  }
  return count;
}

// Whether the process has not ended.
bool is_there(std::uint32_t pid) {
  return pid != 0 && pid <= static_cast<std::uint32_t>(INT_MAX) &&
         (::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM);
}

}  // namespace

FileWatch::FileWatch(const BlockingThreads& threads, ReadFiles read)
    : FileWatch(threads, std::move(read), {.now = Clock::now, .cpu = thread_cpu_time}) {}

FileWatch::FileWatch(const BlockingThreads& threads, ReadFiles read, Clocks clocks, RecentOwners::OwnerOf owner)
    : threads_(&threads),
      read_files_(std::move(read)),
      clocks_(std::move(clocks)),
      owners_(std::move(owner)),
      held_at_(clocks_.now()),
      looked_at_(held_at_),
      queues_(&share_, is_there) {}

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
  const std::chrono::nanoseconds begun = clocks_.cpu();
  const auto now = clocks_.now();
  asked_ = asked;
  looked_at_ = now;
  owners_.begin_look();
  table_.note_clock(ClockTriple::now());
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
  look_who_is_held(now);
  for (MappedAt& at : table_.due(now, asked)) queue(std::move(at));
  if (asked && !names_checked_) check_names(now);
  names_checked_ = asked;
  send();
  active_ = now - news_ < kActiveFor || !settled() || queues_.goes_on(now).has_value();
  charge_look(clocks_.cpu() - begun, now);
}

void FileWatch::charge_look(std::chrono::nanoseconds used, Clock::time_point now) {
  std::uint64_t all = 0;
  for (const auto& [account, done] : done_for_) all += done;
  if (all == 0) share_.charge_notice(ReadShare::kLooks, used, now);
  for (const auto& [account, done] : done_for_)
    share_.charge_notice(account, used * static_cast<std::int64_t>(done) / static_cast<std::int64_t>(all), now);
  done_for_.clear();
}

std::chrono::milliseconds FileWatch::soon() const {
  const auto now = clocks_.now();
  const auto pace_ends = queues_.pace_ends(now);
  if (!pace_ends) return kSoon;
  return std::clamp(std::chrono::ceil<std::chrono::milliseconds>(*pace_ends - now), kSoonest, kSoon);
}

std::uint64_t FileWatch::symbol_news() const {
  std::uint64_t news = symbol_records_ + missed_before_;
  for (const auto& [id, cursor] : cursors_) news += cursor.missed_bytes();
  return news;
}

// Only for records of the rings: the FORKs of a scan have the present parent, not the one that forked, and other times.
void FileWatch::note_recorded(std::span<const std::byte> records) {
  owners_.note(records);
  note_forks(records);
  note(records, Source::ring);
}

void FileWatch::note_scan(std::span<const std::byte> records, bool again) {
  const std::chrono::nanoseconds begun = clocks_.cpu();
  note_starts(records);
  note(records, again ? Source::own_scan : Source::scan);
  scanned_for_.clear();
  table_.end_scan();
  charge_look(clocks_.cpu() - begun, clocks_.now());
}

// A scan finds the files that were left out and are still mapped. While none of their users may have a file read, a
// scan would be of no use.
bool FileWatch::wants_scan() {
  const auto now = clocks_.now();
  const auto may = [&](ReadShare::Account account) { return share_.may(account, ReadShare::Use::again, now); };
  return (table_.wants_scan() || std::any_of(left_out_of_.begin(), left_out_of_.end(), may)) && may(ReadShare::kScans);
}

void FileWatch::begin_scan() {
  scanned_for_.merge(std::exchange(left_out_of_, {}));
  scanned_for_until_ns_ = left_out_ns_;
  scan_is_paid_by_ = scanned_for_;
}

void FileWatch::note_no_scan() { left_out_of_.merge(std::exchange(scanned_for_, {})); }

// May be called after the scan has ended.
void FileWatch::charge_scans(std::chrono::nanoseconds used) {
  const auto now = clocks_.now();
  if (scan_is_paid_by_.empty()) share_.charge(ReadShare::kScans, used, now);
  for (const uid_t user : scan_is_paid_by_)
    share_.charge(user, used / static_cast<std::int64_t>(scan_is_paid_by_.size()), now);
}

void FileWatch::queue(MappedAt at) {
  const uid_t owner = queues_.queue_of(owner_of(at.pid).value_or(kEndedOwner));
  const FileIdentity file = at.file;
  const EventTime seen_ns = at.seen_ns;
  at.ticket = ++tickets_;
  while (!queues_.has_space(owner, at)) {
    const auto dropped = queues_.drop_oldest(owner, at.name.size());
    if (!dropped) break;
    leave_out(*dropped);
  }
  if (queues_.add(owner, std::move(at), table_.was_looked_at(file))) {
    table_.note_queued(file, owner, tickets_);
    return;
  }
  ++left_out_;
  note_left_out(owner, seen_ns);
  table_.put_failed(file);
}

// If a user has too many names to check, the others keep the answers that are known.
void FileWatch::check_names(Clock::time_point now) {
  for (FileTable::Check& check : table_.to_check(now))
    if (!queues_.add(check.owner, check.at)) put_failed(check.at);
}

bool FileWatch::settled() const {
  const bool all_hang =
      std::all_of(reads_.begin(), reads_.end(), [this](const std::shared_ptr<Read>& read) { return hangs(*read); });
  // If every helper hangs, no file in the queue is read. The files of users above their share of a CPU are not waited
  // for.
  return all_hang && (reads_.size() >= kMaxReads || (queues_.all_wait(looked_at_, asked_) && !table_.has_due()));
}

std::size_t FileWatch::waiting_files() const {
  std::size_t count = 0;
  queues_.each(clocks_.now(), false, [&](const MappedAt& at, bool held) {
    if (held && table_.is_queued(at)) ++count;
  });
  return count;
}

// Adds the file, as long as the answer has space for it beside the known ones.
void FileWatch::add_waiting(const MappedAt& at, Waiting& out, bool is_next) const {
  const EventTime from_ns = at.by_name ? EventTime{0} : table_.unknown_from(at.file);
  if (out.files.size() + 1 < kMaxKnownFiles)
    out.files.push_back({.file = numbers_of(at.file), .from_ns = from_ns, .is_next = is_next});
  else
    out.left_out_ns = std::max(out.left_out_ns, at.seen_ns);
}

// As of the last look: a moment later a user can have a share again, of which nothing was used yet. A file whose turn
// has not come is not its disk's fault, unless a read of this disk hangs. A name was looked at before: what is known of
// it holds until it is looked at again, if that may happen.
FileWatch::Waiting FileWatch::waiting() const {
  Waiting out{.disks = {}, .processes = silent_.size(), .files = {}, .left_out_ns = left_out_ns_};
  std::set<DeviceNumber> hung;
  const auto add = [&](DeviceNumber disk) {
    if (out.disks.size() < kMaxUnansweredDevices) out.disks.insert(disk);
  };
  for (const auto& read : reads_) {
    if (!hangs(*read)) {
      for (std::size_t i = read->collected; i < read->files.size(); ++i)
        if (!read->by_name) add_waiting(read->files[i], out, true);
    } else if (read->process_answered) {
      hung.insert(read->disk);
      if (!read->by_name) add(read->disk);
    }
  }
  queues_.each(looked_at_, asked_, [&](const MappedAt& at, bool held) {
    if (at.by_name ? !held : !table_.is_queued(at)) return;
    if (held || !hung.contains(device_of(at)))
      add_waiting(at, out, !held);
    else
      add(device_of(at));
  });
  for (const Deferred& one : deferred_)
    if (!silent_.contains(one.at.pid)) add(device_of(one.at));
  return out;
}

Result<int> FileWatch::answer() {
  const auto now = clocks_.now();
  names_checked_ = false;
  std::uint64_t missed = missed_before_ + left_out_;
  for (const auto& [id, cursor] : cursors_) missed += cursor.missed_bytes();
  Waiting waiting = this->waiting();
  const bool same =
      document_version_ == table_.version() + missed && document_waiting_ == waiting && document_served_ == served_;
  if (document_ && (same || now - document_made_ < kSameFor)) return document_.get();
  KnownFiles known = table_.known(waiting.files.size() + 1);
  known.missed_bytes = missed;
  known.unanswered = {waiting.disks.begin(), waiting.disks.end()};
  known.hung_processes = waiting.processes;
  for (const auto& [disk, type] : served_) known.served.push_back({.disk = disk, .type = type});
  known.waiting = waiting.files;
  known.left_out_ns = waiting.left_out_ns;
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
