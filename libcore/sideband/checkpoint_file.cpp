// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/checkpoint_file.hpp"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libcore/base/files.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::string_view kMagic = "FLTRACK4";
constexpr std::string_view kWithoutClock = "FLTRACK3";  // otherwise the same
constexpr mode_t kMode = 0600;
constexpr int kOpenFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;  // never blocks or follows a link

struct Header {
  std::array<char, 8> magic;
  std::uint32_t header_bytes;
  std::uint32_t readings;     // number of reads since it was made
  std::uint64_t incomplete;   // 1: a write failed
  std::uint64_t sample_type;  // of the records' trailers
  TrackerLosses losses;
  std::array<char, 40> boot_id;  // padded with zeros
};
static_assert(sizeof(TrackerLosses) == 48 && sizeof(Header) == 120);

// A triple of the clock as a record: neither the kernel nor perf has records of this type.
constexpr std::uint32_t kClockRecord = 0x464c434b;
struct ClockRecord {
  perf_event_header header;
  std::uint64_t monotonic_ns, boottime_ns;
  std::int64_t wall_ns;
  std::uint64_t took_ns;
};
static_assert(sizeof(ClockRecord) == 40);

RecordBuffer clock_records(std::span<const ClockTriple> triples) {
  RecordBuffer out;
  out.reserve(triples.size() * sizeof(ClockRecord));
  for (const ClockTriple& one : triples) {
    const ClockRecord record{.header = {.type = kClockRecord, .misc = 0, .size = sizeof record},
                             .monotonic_ns = one.monotonic_ns,
                             .boottime_ns = one.boottime_ns,
                             .wall_ns = one.wall.count(),
                             .took_ns = one.took_ns};
    const auto bytes = std::as_bytes(std::span(&record, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

// Moves the clock's records out of the others.
std::vector<ClockTriple> take_clock(std::string& records) {
  std::vector<ClockTriple> out;
  std::size_t kept = 0, done = 0;
  const auto rest = [&] { return std::as_bytes(std::span<const char>(records)).subspan(done); };
  for (auto record = next_record(rest()); !record.empty(); record = next_record(rest())) {
    const std::size_t size = record.size();
    done += size;
    if (load<perf_event_header>(record.data()).type == kClockRecord) {
      if (size != sizeof(ClockRecord)) continue;
      const auto clock = load<ClockRecord>(record.data());
      out.push_back({clock.monotonic_ns, clock.boottime_ns, WallTime(clock.wall_ns), clock.took_ns});
      continue;
    }
    if (kept != done - size) std::memmove(records.data() + kept, record.data(), size);
    kept += size;
  }
  records.erase(kept, done - kept);
  return out;
}

std::array<char, 40> padded(std::string_view boot_id) {
  std::array<char, 40> out{};
  boot_id.copy(out.data(), out.size());
  return out;
}

Result<UniqueFd> open_folder(const std::string& folder) { return open_file(folder, O_PATH | O_DIRECTORY); }

Result<void> check(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode)) return fail(std::errc::invalid_argument, "{} is not a regular file", path);
  if (info.st_uid != ::geteuid()) return fail(std::errc::permission_denied, "{} belongs to user {}", path, info.st_uid);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail(std::errc::permission_denied, "{} is writable for others", path);
  if (static_cast<std::uint64_t>(info.st_size) > CheckpointFile::kMaxFileBytes)
    return fail(std::errc::file_too_large, "{} has {} bytes, more than a checkpoint can have", path, info.st_size);
  return {};
}

}  // namespace

CheckpointFile::CheckpointFile(std::string folder, std::string boot_id, CheckpointLimits limits)
    : folder_(std::move(folder)), boot_id_(std::move(boot_id)), limits_(limits) {}

Result<CheckpointContents> CheckpointFile::read() {
  const std::string path = folder_ + "/" + std::string(kName);
  const auto refuse = [&](const Error& error) {
    return wrap(error, "the names of processes that exited before flightd was restarted are missing");
  };
  const UniqueFd file(::open(path.c_str(), kOpenFlags));
  if (!file && errno == ENOENT) return CheckpointContents{};
  if (!file) return refuse(sys_error(errno, "open {}", path).value());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return refuse(sys_error(errno, "stat {}", path).value());
  if (auto good = check(info, path); !good) return refuse(good.error());
  auto text = read_all(file.get(), kMaxFileBytes);
  if (!text) return refuse(wrap(text.error(), "{}", path).value());
  Header header{};
  if (text->size() >= sizeof header) std::memcpy(&header, text->data(), sizeof header);
  const std::string_view magic(header.magic.data(), header.magic.size());
  if ((magic != kMagic && magic != kWithoutClock) || header.header_bytes != sizeof header)
    return refuse(fail(std::errc::bad_message, "{} is not a checkpoint of this version of flightd", path).value());
  if (header.boot_id != padded(boot_id_) || header.sample_type != kSidebandSampleType) return CheckpointContents{};
  if (header.readings >= kMaxReadings)
    return refuse(fail(std::errc::bad_message,
                       "{} was read {} times, and flightd exited each time: it is not read again", path,
                       header.readings)
                      .value());
  ++header.readings;
  if (::pwrite(file.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    return refuse(sys_error(errno, "write to {}", path).value());
  text->erase(0, sizeof header);
  CheckpointContents out{
      .records = {}, .losses = header.losses, .found = true, .complete = header.incomplete == 0, .clock = {}};
  out.clock = take_clock(*text);
  out.records = std::move(*text);
  return out;
}

// Marks the file under the final name, which stays until the next begin(). Needs no disk space. If the file system is
// read-only, only trouble() reports it.
void CheckpointFile::mark_incomplete() const {
  const std::string path = folder_ + "/" + std::string(kName);
  const UniqueFd file(::open(path.c_str(), kOpenFlags));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !check(info, path)) return;
  if (static_cast<std::uint64_t>(info.st_size) < sizeof(Header)) return;
  const std::uint64_t yes = 1;
  static_cast<void>(::pwrite(file.get(), &yes, sizeof yes, offsetof(Header, incomplete)) == ssize_t{sizeof yes});
}

Result<void> CheckpointFile::failed(const Error& error) {
  file_.reset();
  mark_incomplete();
  const bool reported = !trouble_.empty();
  trouble_ = fmt::format(
      "the process tracker's checkpoint cannot be written ({}): if flightd is restarted now, processes that exited "
      "before have no names; flightd tries again every {} s",
      error.what, limits_.retry_ns / 1'000'000'000);
  if (reported) return {};
  return Failure(Error{error.code, trouble_});
}

Result<void> CheckpointFile::begin(const ProcessTracker& tracker, EventTime now_ns, const ClockSource& clock) {
  tried_ns_ = now_ns;
  if (auto written = write_new(tracker, clock); !written) return failed(written.error());
  trouble_.clear();
  return {};
}

Result<void> CheckpointFile::write_new(const ProcessTracker& tracker, const ClockSource& clock) {
  auto folder = open_folder(folder_);
  if (!folder) return propagate(folder.error());
  const std::string name(kNewName);
  if (::unlinkat(folder->get(), name.c_str(), 0) != 0 && errno != ENOENT)
    return sys_error(errno, "remove {}/{}", folder_, name);
  file_.reset(::openat(folder->get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kMode));
  if (!file_) return sys_error(errno, "make {}/{}", folder_, name);
  Header header{.magic = {},
                .header_bytes = sizeof header,
                .readings = 0,
                .incomplete = 0,
                .sample_type = kSidebandSampleType,
                .losses = {},
                .boot_id = padded(boot_id_)};
  kMagic.copy(header.magic.data(), header.magic.size());
  grown_bytes_ = 0;
  Result<void> written = write(std::as_bytes(std::span(&header, 1)));
  if (written && clock) written = write(clock_records(clock()));
  CheckpointOmissions checkpoint = tracker.checkpoint(limits_.state_bytes, [&](std::span<const std::byte> records) {
    if (written) written = write(records);
  });
  if (!written) return written;
  unwritten_ = std::move(checkpoint.unwritten);
  header.losses = checkpoint.losses;
  if (::pwrite(file_.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    return sys_error(errno, "write to {}/{}", folder_, name);
  checkpoint_bytes_ = std::exchange(grown_bytes_, 0);
  const std::string final_name(kName);
  if (::renameat(folder->get(), name.c_str(), folder->get(), final_name.c_str()) != 0)
    return sys_error(errno, "rename {}/{} to {}", folder_, name, final_name);
  return {};
}

Result<void> CheckpointFile::write(std::span<const std::byte> bytes) {
  grown_bytes_ += bytes.size();
  if (auto written = write_all(file_.get(), bytes); !written) return wrap(written.error(), "{}/{}", folder_, kName);
  return {};
}

Result<void> CheckpointFile::append(const ProcessTracker& tracker, std::span<const std::byte> records) {
  if (!file_) return {};
  if (!unwritten_.empty()) {
    RecordBuffer ending;
    append_ending(tracker, records, ending);
    if (auto written = write(ending); !written) return failed(written.error());
  }
  if (checkpoint_bytes_ + grown_bytes_ + records.size() > kMaxFileBytes) {
    grown_bytes_ += records.size();  // the next checkpoint, which is due, contains them
    return {};
  }
  if (auto written = write(records); !written) return failed(written.error());
  return {};
}

Result<void> CheckpointFile::append_clock(std::span<const ClockTriple> triples) {
  if (!file_ || triples.empty()) return {};
  const RecordBuffer records = clock_records(triples);
  if (checkpoint_bytes_ + grown_bytes_ + records.size() > kMaxFileBytes) return {};  // the next checkpoint is due
  if (auto written = write(records); !written) return failed(written.error());
  return {};
}

void CheckpointFile::append_ending(const ProcessTracker& tracker, std::span<const std::byte> records,
                                   RecordBuffer& out) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_EXIT) continue;
    const auto task = parse_task(record);
    if (task && unwritten_.erase(task->pid) > 0) tracker.append_state(task->pid, out);
  }
}

// 0 links count as removed. Some file systems on FUSE report 0 for each file (ctl/new_file.cpp). There every call of
// keep_up() writes a new checkpoint: that costs time, and nothing is lost. If 0 counted as unknown, a removed file
// would not be noticed, and the next flightd would have no names of exited processes. RUNTIME is usually on tmpfs,
// which counts links. On NFS and FUSE an open file that is removed keeps a link with another name. That is not noticed;
// the next checkpoint has the right name again.
bool CheckpointFile::is_gone() const {
  struct stat info {};
  return ::fstat(file_.get(), &info) != 0 || info.st_nlink == 0;
}

Result<void> CheckpointFile::keep_up(const ProcessTracker& tracker, EventTime now_ns, const ClockSource& clock) {
  const std::size_t most = std::clamp(checkpoint_bytes_, limits_.least_growth_bytes, limits_.most_growth_bytes);
  const bool due = file_ ? grown_bytes_ > most || is_gone() : now_ns - tried_ns_ >= limits_.retry_ns;
  if (!due) return {};
  return begin(tracker, now_ns, clock);
}

}  // namespace flight
