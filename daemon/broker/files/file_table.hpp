// SPDX-License-Identifier: Apache-2.0
// The build-id of each file: the reply to `build_ids`. Bounded: the least recently mapped files are forgotten first. A
// fork maps nothing anew, so a file that is still mapped can be an old one: where many files are new, a scan of the
// processes is asked for, whose files count as mapped now. A user other than root has a share, so that he cannot make
// others' files forgotten.
//
// A file is known by the numbers of the records. Its content can change under them: it is overwritten in place, or its
// inode is used again. So each reading holds from the last change of the file (ctime) until the file was last found
// unchanged, and a mapping gets the build-id of the reading that held when it was mapped:
//
//        first mapped                  overwritten
//   ───────┼──────────┼─────┼─────┼────────╳───────┼─────┼───▶ time
//          │     read: A  same  same               │ read: B, from ctime
//    ◀──── A ─────────────────────▶ unknown ╳───── B ────▶
//
// A file that can no longer be read keeps its readings. Of a file without a build-id, perf(1) takes what the name leads
// to: so each name is looked at again when a client asks (to_check).
//
// A file that is to be read is in the queue of one user. While that user is held (ReadShare), any other user whose
// process maps it gets it into theirs. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/broker/files/process_owner.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/base/clock_history.hpp"
#include "libcore/broker/build_ids.hpp"
#include "libcore/sysinfo/mapped_file.hpp"

namespace flight::broker {

// A mapping, as recorded or scanned at `time_ns`.
struct Sighting {
  std::uint32_t pid = 0;
  std::uint64_t address = 0;
  FileIdentity file;
  std::string_view name;
  EventTime time_ns = 0;
};

class FileTable {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // A known file is not looked at again before this time; after a failed read the limit is kRetryAfter. When a client
  // waits for the answer it is kAskedAfter.
  static constexpr std::chrono::seconds kLookAgainAfter{1};
  static constexpr std::chrono::milliseconds kRetryAfter{500}, kAskedAfter{100};
  static constexpr std::size_t kMaxReadings = 8;  // of a file; the oldest ones are dropped

  static constexpr std::size_t kShares = 4;  // a user other than root may have this fraction of the files

  static constexpr std::size_t kMaxOwners = 64;  // the others are one

  // Called for each sighting.
  using OwnerOf = std::function<std::optional<uid_t>(std::uint32_t pid)>;
  // Each function returns true if the user of this process or queue may read no file now. An empty function: no user is
  // held back.
  struct Held {
    std::function<bool(std::uint32_t pid)> process;
    std::function<bool(uid_t queue)> queue;
    std::function<bool(std::uint32_t pid)> even_asked;  // also while a client waits
  };
  explicit FileTable(std::size_t most = kMaxKnownFiles, OwnerOf owner = owner_if_there)
      : most_(most), owner_of_(std::move(owner)) {}
  FileTable(std::size_t most, OwnerOf owner, Held held)
      : most_(most), owner_of_(std::move(owner)), held_(std::move(held)) {}

  // A look at the clocks, before the results of threads: what was read then is of the clocks that were in force so far.
  void note_clock(const ClockTriple& now) { clock_.look(now); }
  [[nodiscard]] const ClockHistory& clock() const { return clock_; }
  // Mappings that are older than the first sighting were not reported, so no reading is valid for the time before it.
  void begin_late() { saw_all_ = false; }
  // If it returns true, the caller must queue the file, read it, and then call put() or put_failed().
  [[nodiscard]] bool wants(const Sighting& seen, Time now);
  // The same for a file whose read failed: false where it is known or being read meanwhile, or was forgotten.
  [[nodiscard]] bool wants_again(const MappedAt& at, Time now);
  // The sightings for which wants() returned false because it was too early, and for which it is time now: the caller
  // must read these files, too. `asked`: a client waits.
  [[nodiscard]] std::vector<MappedAt> due(Time now, bool asked);
  [[nodiscard]] bool has_due() const { return !later_.empty(); }
  // True if something is known about the file: then it is not queued as a new file.
  [[nodiscard]] bool was_looked_at(const FileIdentity& file) const;
  // It is in the queue of this user, with this MappedAt::ticket (not 0). An earlier place in a queue counts no more.
  void note_queued(const FileIdentity& file, uid_t queue, std::uint64_t ticket);
  // False: this place in a queue counts no more. The file is in another one by now, or was read or forgotten.
  [[nodiscard]] bool is_queued(const MappedAt& at) const;
  // It was taken out of its queue, to be read. False: as is_queued().
  [[nodiscard]] bool begin_read(const MappedAt& at);
  // It was taken out of its queue, for others: it is not read before its next mapping or scan. False: as is_queued().
  [[nodiscard]] bool leave_out(const MappedAt& at);
  // The first time of which nothing was read.
  [[nodiscard]] EventTime unknown_from(const FileIdentity& file) const;
  // A scan found a mapping of it, whatever its age. False: see wants(), since nothing was read of the file, or it was
  // not looked at since `known_until`.
  [[nodiscard]] bool touch(const Sighting& seen, EventTime known_until = 0);
  void end_scan() { new_files_ = 0; }
  [[nodiscard]] bool wants_scan() const { return files_.size() >= most_ / 2 && new_files_ >= most_ / 4; }
  struct Check {
    uid_t owner = 0;  // of the file
    MappedAt at;      // by_name
  };
  // The limit for to_check(), over all files. Root may have half of it, another user an eighth. The names that were
  // looked at longest ago are checked first.
  static constexpr std::size_t kMaxChecks = 1024;
  // The names of files of which no build-id is known, as a client waits: the caller must call put_check() for each.
  [[nodiscard]] std::vector<Check> to_check(Time now);
  // `facts`: null if it could not be looked at.
  void put_check(const MappedAt& at, const MappedFileFacts* facts);
  // For MappedAt::known.
  [[nodiscard]] std::optional<FileStamp> stamp_of(const MappedAt& at) const;
  void put(const MappedAt& at, MappedFileFacts facts);
  void put_failed(const FileIdentity& file);

  // Increases whenever known() changes.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  // `waiting`: the number of entries for which the answer must have space beside these.
  [[nodiscard]] KnownFiles known(std::size_t waiting = 0) const;
  [[nodiscard]] std::size_t size() const { return files_.size(); }
  [[nodiscard]] std::size_t bytes_of_names() const { return all_name_bytes_; }

 private:
  using ByUse = std::list<FileIdentity>;  // newest first; without generations
  struct Reading {
    std::vector<std::uint8_t> build_id;
    FileStamp stamp;
    ClockPair looked;  // when the file was last found to be so
    std::uint64_t generation = 0;
    EventTime from_ns = 0, to_ns = 0;
    bool stamp_proves = false;
    bool is_touched = false;      // the next reading differs only in ctime, and neither has a build-id
    std::string name, host_path;  // the name by which it was read
  };
  // Two generations of an inode; 0: unknown.
  [[nodiscard]] static bool can_be(std::uint64_t one, std::uint64_t other) {
    return one == 0 || other == 0 || one == other;
  }
  // A name is kept only for a file that has no build-id or was never read.
  struct Name {
    std::string recorded, host_path;  // as in MappedFileFacts
    Time looked{};
    bool is_asked = false;  // of to_check()
    [[nodiscard]] const std::string& path() const { return host_path.empty() ? recorded : host_path; }
  };
  static constexpr std::size_t kMaxNames = 4;  // of a file
  struct Entry {
    bool is_read = false;  // it is queued, or a thread reads it
    bool is_two = false;   // two files have these numbers
    bool waits = false;    // `later` is set
    bool is_listed_later = false;
    std::uint64_t ticket = 0;  // in the queue of `queue`; 0: it is in none
    uid_t queue = 0;
    Time looked;
    EventTime first_ns = 0, last_ns = 0;  // of the first and last sighting
    uid_t owner = 0;                      // of its processes; root: of more than one user's
    std::uint64_t used = 0;               // grows with each sighting
    std::vector<Reading> readings;        // ascending
    std::vector<Name> names;
    // If the name of a mapping that is newer than the readings would be misleading; `host_path` is empty otherwise.
    struct {
      std::string name, host_path;
      std::uint64_t generation = 0;
    } unread;
    MappedAt later;
    ByUse::iterator place;

    [[nodiscard]] const Name* renamed() const;  // the first one with a host_path
    [[nodiscard]] bool is_listed() const { return !readings.empty() || is_two || renamed() != nullptr; }
    [[nodiscard]] std::optional<FileStamp> content() const {
      return readings.empty() ? std::nullopt : std::optional(readings.back().stamp);
    }
    // Then the name is written with the reading, as by older brokers.
    [[nodiscard]] bool has_one_name() const { return !readings.empty() && names.size() == 1; }
    std::size_t charged_bytes = 0;  // of names, to the owner
    [[nodiscard]] std::size_t bytes_of_names() const;
    // True: the name is new, or its path has changed.
    bool note_name(const std::string& recorded, std::string host_path, Time now);
  };
  void remember(Entry& entry, const FileIdentity& numbers, const Sighting& seen);
  void list_later(Entry& entry, const FileIdentity& numbers);
  [[nodiscard]] bool takes_over(const Entry& entry, std::uint32_t pid) const;
  void use(Entry& entry, const Sighting& seen);
  [[nodiscard]] uid_t owner_of(std::uint32_t pid) const;
  void look_at_owner(Entry& entry, std::uint32_t pid);
  [[nodiscard]] std::map<uid_t, ByUse>::iterator to_evict_from();
  [[nodiscard]] EventTime begin_of(const Entry& entry, const MappedFileFacts& facts) const;
  void put_facts(Entry& entry, const MappedAt& at, MappedFileFacts facts);
  void put_content(Entry& entry, const std::string& name, MappedFileFacts facts);
  void put_unread(Entry& entry, const MappedAt& at, MappedFileFacts facts);
  void add_checks(std::map<uid_t, ByUse>::iterator user, Time now, std::vector<Check>& out);
  // The bytes of names in a reply: one user must not take what others' names need.
  struct NameSpace {
    std::map<uid_t, std::size_t> used;
    std::size_t all = 0;
    [[nodiscard]] bool take(uid_t owner, std::size_t bytes);
  };
  void add_names(KnownFiles& out, NameSpace& space, std::size_t all) const;
  // After each change of an entry's names.
  void charge_names(Entry& entry);
  void discharge_names(Entry& entry);
  void evict(uid_t newest_owner);

  std::size_t most_;
  std::uint64_t version_ = 1;
  bool saw_all_ = true;
  ClockHistory clock_;
  OwnerOf owner_of_;
  Held held_;
  std::map<uid_t, ByUse> by_use_;                           // by the owner; none is empty
  static constexpr std::size_t kMaxNameBytes = 32U << 20U;  // of all users but root, each of whom may have a quarter
  std::map<uid_t, std::size_t> name_bytes_;
  std::size_t all_name_bytes_ = 0;
  uid_t checked_last_ = 0;  // the user whose files were the last in to_check()
  std::uint64_t uses_ = 0;
  std::size_t new_files_ = 0;        // since the last scan
  EventTime forgotten_ns_ = 0;       // KnownFiles
  std::vector<FileIdentity> later_;  // entries that wait; not those that are read now
  std::unordered_map<FileIdentity, Entry, FileIdentityHash> files_;
};

}  // namespace flight::broker
