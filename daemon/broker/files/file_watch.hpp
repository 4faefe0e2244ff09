// SPDX-License-Identifier: Apache-2.0
// Records the build-id of every file as soon as it is mapped: reads the sideband rings in parallel to flightd, and
// unknown files on the blocking threads, which wait for a helper (helpers.hpp). On an idle machine it only compares the
// rings' heads when the broker wakes up for another reason.
//
// What that takes of a CPU is measured, here and in the helpers, and charged to the users whose processes mapped the
// files (read_share.hpp). The files of a user who has used up their share wait. Of their new mappings only the newest
// are noted, and the answer says until when others may be missing; when they have a share again, a scan looks for those
// that are still there. The answer lists all files that wait, also for their turn: a client must not take them for
// files that are gone. Of names that are looked at again, it lists those of such users only. Main thread only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "daemon/broker/blocking_threads.hpp"
#include "daemon/broker/files/file_table.hpp"
#include "daemon/broker/files/owner_queues.hpp"
#include "daemon/broker/files/read_share.hpp"
#include "daemon/broker/files/recent_owners.hpp"
#include "daemon/broker/files/sideband_cursor.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {

class FileWatch {
 public:
  // These functions are called while files are read, on the thread that reads.
  struct Steps {
    std::function<void(bool)> has_helper;  // false: it waits for one, or has ended
    std::function<void()> answered;        // of the file that is being read: what may hang now is its disk
    // The result of the file that was read; the next one begins. ETIMEDOUT: its process did not answer. EBUSY: nothing
    // was read.
    std::function<void(Result<MappedFileFacts>)> done;
    std::function<void(std::chrono::nanoseconds time, std::chrono::nanoseconds cpu)> used = {};  // as Helpers::Notices
  };
  // read_mapped_file_in_steps() of one file after the other, in a helper (reading.hpp); tests replace it.
  using ReadFiles = std::function<void(std::span<const MappedAt> files, const Steps& steps)>;
  // Any thread; tests replace them. `cpu`: the CPU time of the calling thread.
  struct Clocks {
    std::function<std::chrono::steady_clock::time_point()> now;
    std::function<std::chrono::nanoseconds()> cpu;
  };
  FileWatch(const BlockingThreads& threads, ReadFiles read);
  // `owner`: of a process; tests replace it.
  FileWatch(const BlockingThreads& threads, ReadFiles read, Clocks clocks,
            RecentOwners::OwnerOf owner = owner_if_there);
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // How soon to call look() again: soon while there are new records, or when the next files may be read of a user who
  // has a quarter of a CPU. What collects while a user has used up their share is read together.
  static constexpr std::chrono::milliseconds kSoon{150}, kSoonest{10};
  [[nodiscard]] std::chrono::milliseconds soon() const;
  [[nodiscard]] bool has_news() const { return active_; }

  struct Ring {
    std::uint64_t owner_id = 0;
    std::span<const std::byte> mapping;
  };
  // Sets the sideband rings; for known rings reading continues at the same place. `rewind`: start at their beginning.
  void follow(const std::vector<Ring>& rings, bool rewind);

  // Processes new records and the results of the threads. Never waits. `asked`: a client waits for answer(), before
  // which the names of files without a build-id are looked at again.
  void look(bool asked = false);
  // Grows when the rings had a KSYMBOL record, a loss, or bytes that were overwritten before they were read.
  [[nodiscard]] std::uint64_t symbol_news() const;
  // Adds the records that the rings had; look() does it.
  void note_recorded(std::span<const std::byte> records);
  // Adds the MMAP2 records of a scan. `again`: it was made for wants_scan(), so files that are known are not looked at
  // again.
  void note_scan(std::span<const std::byte> records, bool again = false);
  [[nodiscard]] bool wants_scan();
  // A scan begins. It ends with note_scan(), or note_no_scan() if there is no result.
  void begin_scan();
  void note_no_scan();
  // The CPU time of a scan that was made for wants_scan() only. It is charged to the users whose files were left out
  // before, in equal parts.
  void charge_scans(std::chrono::nanoseconds used);

  // True if every file was read, or looked at again, since it was last mapped, except for reads that hang, and for
  // files that may not be read now.
  [[nodiscard]] bool settled() const;
  // The number of files that may not be read now, as their users have used up their share.
  [[nodiscard]] std::size_t waiting_files() const;
  // The table as a sealed memfd: the same one while nothing changed, and at most one new one per kSameFor.
  static constexpr std::chrono::milliseconds kSameFor{100};
  [[nodiscard]] Result<int> answer();

 private:
  using Clock = std::chrono::steady_clock;
  // Helpers::kCalls. The last one that is free reads nothing of a disk, a process or a user (other than root) of which
  // another read hangs.
  static constexpr std::size_t kMaxReads = 2;
  static constexpr std::chrono::milliseconds kHangsAfter{300};
  static constexpr std::chrono::seconds kNotAgainFor{10};  // of a process that did not answer
  static constexpr std::size_t kMaxSilent = 4096;
  static constexpr std::ptrdiff_t kMaxSilentOfUser = 2;  // root has no limit
  static constexpr std::chrono::seconds kRetryDeferredAfter{1};
  // The new mappings of a held user that are noted: the newest ones of one look, or of one scan.
  static constexpr std::size_t kNotedOfHeld = 64, kScannedOfHeld = 1024;
  static constexpr int kLookupsForHeld = 64;  // of owners, in one look
  // The time of a look is divided among the users by their records in it: one that was passed over costs less than one
  // that was worked on.
  static constexpr std::uint64_t kPassedOver = 1, kNoted = 16;
  struct Read;
  enum class Source : std::uint8_t { ring, scan, own_scan };

  void note(std::span<const std::byte> records, Source source);
  void note_record(std::span<const std::byte> record, Source source, Clock::time_point now);
  void leave_out(std::span<const std::byte> record, uid_t user, Source source);
  void leave_out(const OwnerQueues::Task& dropped);
  void note_left_out(uid_t user, EventTime mapped_ns);
  void queue(MappedAt at);
  void look_who_is_held(Clock::time_point now);
  [[nodiscard]] bool is_held(uid_t user);
  [[nodiscard]] bool may_look_at(std::uint32_t pid);
  [[nodiscard]] std::optional<uid_t> owner_of(std::uint32_t pid);
  [[nodiscard]] std::optional<uid_t> held_user_of(std::uint32_t pid);
  [[nodiscard]] bool is_held_even_asked(std::uint32_t pid);
  [[nodiscard]] EventTime must_be_known_until(std::uint32_t pid);
  void charge_look(std::chrono::nanoseconds used, Clock::time_point now);
  void check_names(Clock::time_point now);
  void collect();
  void defer(MappedAt at, uid_t uid);
  void retry_deferred();
  void send();
  void begin(OwnerQueues::Task task);
  static void run(Read& read, const ReadFiles& read_files, const Clocks& clocks);
  void put(const Read& read, const MappedAt& at, Result<MappedFileFacts>& facts);
  void put_failed(const MappedAt& at);
  void note_silent(const Read& read, Clock::time_point now);
  void note_begun(std::uint32_t pid, EventTime begun_ns);
  void note_forks(std::span<const std::byte> records);
  void note_starts(std::span<const std::byte> scan);
  [[nodiscard]] bool is_busy(DeviceNumber disk, std::uint32_t pid, uid_t uid) const;
  [[nodiscard]] bool may_read(DeviceNumber disk, std::uint32_t pid, uid_t uid) const;
  [[nodiscard]] static DeviceNumber device_of(const MappedAt& at);
  [[nodiscard]] bool hangs(const Read& read) const;
  struct Waiting {
    std::set<DeviceNumber> disks;    // that have not answered
    std::uint64_t processes = 0;     // number of processes that did not answer
    std::vector<WaitingFile> files;  // that wait for their user's share, or for their turn
    EventTime left_out_ns = 0;       // KnownFiles
    friend bool operator==(const Waiting&, const Waiting&) = default;
  };
  void add_waiting(const MappedAt& at, Waiting& out, bool is_next) const;
  [[nodiscard]] Waiting waiting() const;

  const BlockingThreads* threads_;
  ReadFiles read_files_;
  Clocks clocks_;
  RecentOwners owners_;
  ReadShare share_;
  bool any_held_ = false;  // at held_at_
  Clock::time_point held_at_, looked_at_;
  int lookups_left_ = 0;
  std::uint64_t tickets_ = 0;
  FileTable table_{kMaxKnownFiles, [this](std::uint32_t pid) { return owner_of(pid); },
                   FileTable::Held{.process = [this](std::uint32_t pid) { return held_user_of(pid).has_value(); },
                                   .queue = [this](uid_t queue) { return is_held(queue); },
                                   .even_asked = [this](std::uint32_t pid) { return is_held_even_asked(pid); }}};
  std::map<std::uint64_t, SidebandCursor> cursors_;  // by the ring's owner
  std::vector<std::byte> copied_;
  OwnerQueues queues_;                                    // by the owner of the process
  bool asked_ = false;                                    // a client waits
  bool names_checked_ = false;                            // for the client that waits
  std::map<ReadShare::Account, std::uint64_t> done_for_;  // by the current look, to divide its cost
  EventTime left_out_ns_ = 0;                             // KnownFiles
  std::set<uid_t> left_out_of_, scanned_for_;  // users some of whose files were left out since, or before, a scan began
  EventTime scanned_for_until_ns_ = 0;         // left_out_ns_ when it began
  std::set<uid_t> scan_is_paid_by_;            // scanned_for_, until the next scan begins
  // Not read because their disk or process hangs; tried again when a read that hung comes back. They are not in the
  // queue, so that a disk that never answers costs nothing.
  static constexpr std::size_t kMaxDeferred = 1024;
  struct Deferred {
    MappedAt at;
    uid_t uid = 0;  // of its process
  };
  std::deque<Deferred> deferred_;
  std::optional<Clock::time_point> retry_at_;  // of those that a helper has not read
  std::vector<std::shared_ptr<Read>> reads_;
  struct Silent {
    Clock::time_point until;  // when it may be asked again
    uid_t uid = 0;
    EventTime mapped_ns = 0;
  };
  // Processes that did not answer, by pid. If that is another process's since then, by a number that is no pid.
  std::map<std::uint64_t, Silent> silent_;
  std::uint64_t renumbered_ = 0;
  std::map<DeviceNumber, std::string> served_;  // disks whose files must not be opened; at most kMaxServedDisks
  std::uint64_t symbol_records_ = 0;            // KSYMBOL and LOST
  std::uint64_t missed_before_ = 0;             // of rings that no longer exist
  std::uint64_t left_out_ = 0;                  // files dropped: the queue was full, or too many were deferred
  bool active_ = false;
  Clock::time_point news_;
  UniqueFd document_;
  std::uint64_t document_version_ = 0;
  Waiting document_waiting_;
  std::map<DeviceNumber, std::string> document_served_;
  Clock::time_point document_made_;
};

}  // namespace flight::broker
