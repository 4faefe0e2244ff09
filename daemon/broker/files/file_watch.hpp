// SPDX-License-Identifier: Apache-2.0
// Records the build-id of every file as soon as it is mapped: reads the sideband rings in parallel to flightd, and
// unknown files on the blocking threads, which wait for a helper (helpers.hpp). On an idle machine it only compares the
// rings' heads when the broker wakes up for another reason. Main thread only.
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
#include "daemon/broker/files/recent_owners.hpp"
#include "daemon/broker/files/sideband_cursor.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {

class FileWatch {
 public:
  // What is called while files are read, each on the thread that reads.
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
  FileWatch(const BlockingThreads& threads, ReadFiles read);
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // How soon to call look() again: soon while there are new records, or when a user's next files may be read.
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
  [[nodiscard]] bool wants_scan() const { return table_.wants_scan(); }

  // True if every file was read, or looked at again, since it was last mapped, except for reads that hang.
  [[nodiscard]] bool settled() const;
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
  struct Read;

  void note(std::span<const std::byte> records, bool again = false);
  void note_sighting(const Sighting& seen, Clock::time_point now);
  void queue(MappedAt at);
  void check_names(Clock::time_point now);
  void collect();
  void defer(MappedAt at, uid_t uid);
  void retry_deferred();
  void send();
  void begin(OwnerQueues::Task task);
  void put(const Read& read, const MappedAt& at, Result<MappedFileFacts>& facts);
  void put_failed(const MappedAt& at);
  void note_silent(const Read& read, Clock::time_point now);
  [[nodiscard]] bool is_busy(DeviceNumber disk, std::uint32_t pid, uid_t uid) const;
  [[nodiscard]] bool may_read(DeviceNumber disk, std::uint32_t pid, uid_t uid) const;
  [[nodiscard]] static DeviceNumber device_of(const MappedAt& at);
  [[nodiscard]] static bool hangs(const Read& read);
  struct Waiting {
    std::set<DeviceNumber> disks;  // of files that are still to be read
    std::uint64_t processes = 0;   // number of processes that did not answer
    friend bool operator==(const Waiting&, const Waiting&) = default;
  };
  [[nodiscard]] Waiting waiting() const;

  const BlockingThreads* threads_;
  ReadFiles read_files_;
  RecentOwners owners_;
  FileTable table_{kMaxKnownFiles, [this](std::uint32_t pid) { return owners_.of(pid); }};
  std::map<std::uint64_t, SidebandCursor> cursors_;  // by the ring's owner
  std::vector<std::byte> copied_;
  OwnerQueues queues_;          // by the owner of the process
  bool names_checked_ = false;  // for the client that waits
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
  };
  std::map<std::uint32_t, Silent> silent_;      // processes that did not answer
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
