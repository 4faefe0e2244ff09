// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/spool.hpp"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "libcore/base/files.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::string_view kMagic = "FLSPOOL1";
constexpr mode_t kMode = 0600;
constexpr int kOpenFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;  // nothing holds us up or leads elsewhere

struct Header {
  std::array<char, 8> magic;
  std::uint32_t header_bytes;
  std::uint32_t readings;     // since it was made
  std::uint64_t incomplete;   // 1: a write failed
  std::uint64_t sample_type;  // of the records' trailers
  std::uint64_t evicted;
  std::array<char, 40> boot_id;  // padded with zeros
};
static_assert(sizeof(Header) == 80);

std::array<char, 40> padded(std::string_view boot_id) {
  std::array<char, 40> out{};
  boot_id.copy(out.data(), out.size());
  return out;
}

Result<UniqueFd> open_folder(const std::string& folder) { return open_file(folder, O_PATH | O_DIRECTORY); }

Result<void> check(const struct stat& info, const std::string& path) {
  if (!S_ISREG(info.st_mode)) return fail(std::errc::invalid_argument, "{} is no regular file", path);
  if (info.st_uid != ::geteuid()) return fail(std::errc::permission_denied, "{} belongs to user {}", path, info.st_uid);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail(std::errc::permission_denied, "{} is writable for others", path);
  if (static_cast<std::uint64_t>(info.st_size) > Spool::kMaxFileBytes)
    return fail(std::errc::file_too_large, "{} has {} bytes, more than a spool can have", path, info.st_size);
  return {};
}

}  // namespace

Spool::Spool(std::string folder, std::string boot_id, SpoolLimits limits)
    : folder_(std::move(folder)), boot_id_(std::move(boot_id)), limits_(limits) {}

Result<SpoolContents> Spool::read() {
  const std::string path = folder_ + "/" + std::string(kName);
  const auto refuse = [&](const Error& error) {
    return wrap(error, "the names of processes that ended before flightd was started again are missing");
  };
  const UniqueFd file(::open(path.c_str(), kOpenFlags));
  if (!file && errno == ENOENT) return SpoolContents{};
  if (!file) return refuse(sys_error(errno, "open {}", path).value());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return refuse(sys_error(errno, "look at {}", path).value());
  if (auto good = check(info, path); !good) return refuse(good.error());
  auto text = read_all(file.get(), kMaxFileBytes);
  if (!text) return refuse(wrap(text.error(), "{}", path).value());
  Header header{};
  if (text->size() >= sizeof header) std::memcpy(&header, text->data(), sizeof header);
  if (!std::equal(kMagic.begin(), kMagic.end(), header.magic.begin()) || header.header_bytes != sizeof header)
    return refuse(fail(std::errc::bad_message, "{} is no spool of this flightd's", path).value());
  if (header.boot_id != padded(boot_id_) || header.sample_type != kSidebandSampleType) return SpoolContents{};
  if (header.readings >= kMaxReadings)
    return refuse(fail(std::errc::bad_message,
                       "{} was read {} times, and flightd ended each time: it is not read again", path, header.readings)
                      .value());
  ++header.readings;
  if (::pwrite(file.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    return refuse(sys_error(errno, "write to {}", path).value());
  text->erase(0, sizeof header);
  return SpoolContents{
      .records = std::move(*text), .evicted = header.evicted, .found = true, .complete = header.incomplete == 0};
}

// The file under the final name: it stays there until the next begin(). Needs no room. What cannot be marked either, on
// a file system that is read-only, is told by trouble() alone.
void Spool::mark_incomplete() const {
  const std::string path = folder_ + "/" + std::string(kName);
  const UniqueFd file(::open(path.c_str(), kOpenFlags));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !check(info, path)) return;
  if (static_cast<std::uint64_t>(info.st_size) < sizeof(Header)) return;
  const std::uint64_t yes = 1;
  static_cast<void>(::pwrite(file.get(), &yes, sizeof yes, offsetof(Header, incomplete)) == ssize_t{sizeof yes});
}

Result<void> Spool::failed(const Error& error) {
  file_.reset();
  mark_incomplete();
  const bool told = !trouble_.empty();
  trouble_ = fmt::format(
      "what flightd knows of processes is not kept ({}): should flightd be started again now, those that ended before "
      "have no names; it tries again every {} s",
      error.what, limits_.retry_ns / 1'000'000'000);
  if (told) return {};
  return Failure(Error{error.code, trouble_});
}

Result<void> Spool::begin(const Ledger& ledger, EventTime now_ns) {
  tried_ns_ = now_ns;
  if (auto written = write_new(ledger); !written) return failed(written.error());
  trouble_.clear();
  return {};
}

Result<void> Spool::write_new(const Ledger& ledger) {
  auto folder = open_folder(folder_);
  if (!folder) return pass(folder.error());
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
                .evicted = ledger.stats().evicted,
                .boot_id = padded(boot_id_)};
  kMagic.copy(header.magic.data(), header.magic.size());
  grown_bytes_ = 0;
  Result<void> written = write(std::as_bytes(std::span(&header, 1)));
  LedgerCheckpoint checkpoint = ledger.checkpoint(limits_.state_bytes, [&](std::span<const std::byte> records) {
    if (written) written = write(records);
  });
  if (!written) return written;
  unwritten_ = std::move(checkpoint.unwritten);
  header.evicted += checkpoint.left_out;
  if (::pwrite(file_.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
    return sys_error(errno, "write to {}/{}", folder_, name);
  checkpoint_bytes_ = std::exchange(grown_bytes_, 0);
  const std::string final_name(kName);
  if (::renameat(folder->get(), name.c_str(), folder->get(), final_name.c_str()) != 0)
    return sys_error(errno, "rename {}/{} to {}", folder_, name, final_name);
  return {};
}

Result<void> Spool::write(std::span<const std::byte> bytes) {
  grown_bytes_ += bytes.size();
  if (auto written = write_all(file_.get(), bytes); !written) return wrap(written.error(), "{}/{}", folder_, kName);
  return {};
}

Result<void> Spool::append(const Ledger& ledger, std::span<const std::byte> records) {
  if (!file_) return {};
  if (!unwritten_.empty()) {
    RecordBuffer ending;
    append_ending(ledger, records, ending);
    if (auto written = write(ending); !written) return failed(written.error());
  }
  if (checkpoint_bytes_ + grown_bytes_ + records.size() > kMaxFileBytes) {
    grown_bytes_ += records.size();  // they are in the next checkpoint, which is due
    return {};
  }
  if (auto written = write(records); !written) return failed(written.error());
  return {};
}

void Spool::append_ending(const Ledger& ledger, std::span<const std::byte> records, RecordBuffer& out) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_EXIT) continue;
    const auto task = parse_task(record);
    if (task && unwritten_.erase(task->pid) > 0) ledger.append_state(task->pid, out);
  }
}

bool Spool::is_gone() const {
  struct stat info {};
  return ::fstat(file_.get(), &info) != 0 || info.st_nlink == 0;
}

Result<void> Spool::keep_up(const Ledger& ledger, EventTime now_ns) {
  const std::size_t most = std::clamp(checkpoint_bytes_, limits_.least_growth_bytes, limits_.most_growth_bytes);
  const bool due = file_ ? grown_bytes_ > most || is_gone() : now_ns - tried_ns_ >= limits_.retry_ns;
  if (!due) return {};
  return begin(ledger, now_ns);
}

}  // namespace flight
