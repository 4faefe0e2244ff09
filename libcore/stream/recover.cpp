// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/recover.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/chunk_size.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/stream/journal.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kReadBytes = 1U << 20U;  // at once; more than a record has

// Verifies the data from their beginning on, one record after the other.
class DataCheck {
 public:
  DataCheck(int file, std::uint64_t offset, std::uint64_t bytes) : file_(file), offset_(offset), bytes_(bytes) {}

  // On to this length of the data, at least the one before. After an error only the counts are of use.
  [[nodiscard]] Result<void> go_to(std::uint64_t end);
  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  [[nodiscard]] Result<void> read(std::size_t bytes);
  [[nodiscard]] Result<void> take(std::span<const std::byte> record);
  [[nodiscard]] Result<void> take_frame(std::span<const std::byte> frame);

  int file_;
  std::uint64_t offset_, bytes_;  // of the data in the file
  std::uint64_t at_ = 0;
  std::uint64_t events_ = 0;
  std::vector<std::byte> window_;
};

Result<void> DataCheck::read(std::size_t bytes) {
  window_.resize(bytes);
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t count = ::pread(file_, window_.data() + have, bytes - have, static_cast<off_t>(offset_ + at_ + have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "read the records at {} of the part", at_ + have);
    if (count == 0) return fail(std::errc::bad_message, "the part became shorter while it was read");
    have += static_cast<std::size_t>(count);
  }
  return {};
}

Result<void> DataCheck::go_to(std::uint64_t end) {
  if (end == 0) return fail(std::errc::bad_message, "the journal states a file without any record");
  if (end > bytes_)
    return fail(std::errc::bad_message, "the journal states {} bytes of records, the file has {}", end, bytes_);
  while (at_ < end) {
    const std::uint64_t begin = at_;
    if (auto done = read(static_cast<std::size_t>(std::min(end - at_, kReadBytes))); !done) return done;
    std::span<const std::byte> rest = window_;
    perf_event_header header{};
    while (rest.size() >= sizeof header) {
      std::memcpy(&header, rest.data(), sizeof header);
      if (header.size < sizeof header || header.type == 0)
        return fail(std::errc::bad_message, "at byte {} of the data is no record", at_);
      if (header.size > rest.size()) break;
      if (auto good = take(rest.first(header.size)); !good) return wrap(good.error(), "the record at byte {}", at_);
      at_ += header.size;
      rest = rest.subspan(header.size);
    }
    if (at_ == begin)
      return fail(std::errc::bad_message, "the {} bytes that the journal states do not end with a record", end);
  }
  return {};
}

Result<void> DataCheck::take(std::span<const std::byte> record) {
  perf_event_header header{};
  std::memcpy(&header, record.data(), sizeof header);
  if (header.type == kRecordCompressed) return take_frame(record.subspan(sizeof header));
  if (header.type == PERF_RECORD_SAMPLE) ++events_;
  return {};
}

Result<void> DataCheck::take_frame(std::span<const std::byte> frame) {
  const auto records = expand(frame, kMaxExpandedBytes);
  if (!records) return propagate(records.error());
  if (records->empty()) return fail(std::errc::bad_message, "an empty COMPRESSED record");
  std::span<const std::byte> rest = *records;
  while (!rest.empty()) {
    perf_event_header header{};
    if (rest.size() < sizeof header) return fail(std::errc::bad_message, "a COMPRESSED record ends within a record");
    std::memcpy(&header, rest.data(), sizeof header);
    if (header.size < sizeof header || header.size > rest.size() || header.type == kRecordCompressed)
      return fail(std::errc::bad_message, "a COMPRESSED record has something that is no record");
    if (header.type == PERF_RECORD_SAMPLE) ++events_;
    rest = rest.subspan(header.size);
  }
  return {};
}

// As encode_features() does: u64 first, u64 last.
void set_sample_time(std::vector<EncodedFeature>& features, const JournaledRound& entry) {
  std::erase_if(features, [](const EncodedFeature& feature) { return feature.bit == kFeatureSampleTime; });
  if (entry.newest_ns == 0) return;
  EncodedFeature times{.bit = kFeatureSampleTime, .bytes = {}};
  for (const EventTime time_ns : {entry.first_ns, entry.newest_ns}) {
    const auto bytes = std::as_bytes(std::span(&time_ns, 1));
    times.bytes.insert(times.bytes.end(), bytes.begin(), bytes.end());
  }
  const auto behind = [](const EncodedFeature& feature) { return feature.bit > kFeatureSampleTime; };
  features.insert(std::find_if(features.begin(), features.end(), behind), std::move(times));
}

// In the file, with their places in the table.
std::uint64_t size_of_features(std::span<const EncodedFeature> features) {
  std::uint64_t bytes = 0;
  for (const EncodedFeature& feature : features) bytes += feature.bytes.size() + 2 * sizeof(std::uint64_t);
  return bytes;
}

// The sum over all files of the part.
std::uint64_t bytes_after(const JournaledRound& entry) {
  return std::accumulate(entry.more_bytes.begin(), entry.more_bytes.end(), entry.data_bytes);
}

// All files of a part.
class PartCheck {
 public:
  PartCheck(int data, const FileWriter& writer) : data_(data, writer.data_offset(), writer.data_bytes()) {}
  [[nodiscard]] Result<void> add(int file);
  // On to what a round left; after an error only events() before it is of use.
  [[nodiscard]] Result<void> go_to(const JournaledRound& entry);
  [[nodiscard]] std::uint64_t events() const;

 private:
  DataCheck data_;
  std::vector<DataCheck> more_;
};

Result<void> PartCheck::add(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return sys_error(errno, "fstat {} of the part", bare_data_file(more_.size()));
  more_.emplace_back(file, std::uint64_t{0}, static_cast<std::uint64_t>(status.st_size));
  return {};
}

Result<void> PartCheck::go_to(const JournaledRound& entry) {
  if (auto good = data_.go_to(entry.data_bytes); !good) return good;
  for (std::size_t i = 0; i < more_.size(); ++i) {
    if (entry.more_bytes[i] == 0) continue;  // its worker had nothing yet
    if (auto good = more_[i].go_to(entry.more_bytes[i]); !good) return wrap(good.error(), "{}", bare_data_file(i));
  }
  return {};
}

std::uint64_t PartCheck::events() const {
  std::uint64_t sum = data_.events();
  for (const DataCheck& one : more_) sum += one.events();
  return sum;
}

Result<void> cut_all(FileWriter& writer, std::span<const int> more, const JournaledRound& entry) {
  if (auto cut = writer.cut(entry.data_bytes); !cut) return cut;
  for (std::size_t i = 0; i < more.size(); ++i)
    if (::ftruncate(more[i], static_cast<off_t>(entry.more_bytes[i])) != 0)
      return sys_error(errno, "cut {} of the part to {} bytes", bare_data_file(i), entry.more_bytes[i]);
  return {};
}

// Those that became known while the part was written.
void append_build_ids(std::vector<EncodedFeature>& features, const std::vector<std::byte>& more) {
  if (more.empty()) return;
  const auto place = std::find_if(features.begin(), features.end(),
                                  [](const EncodedFeature& feature) { return feature.bit >= kFeatureBuildId; });
  if (place == features.end() || place->bit != kFeatureBuildId)
    features.insert(place, EncodedFeature{.bit = kFeatureBuildId, .bytes = more});
  else
    place->bytes.insert(place->bytes.end(), more.begin(), more.end());
}

// Those of the rounds that are kept.
void take_notes(JournalContents& contents, Recovered& out) {
  JournalNotes kept;
  for (auto& [number, notes] : contents.notes)
    if (number < out.rounds) kept.add(std::move(notes));
  for (const JournaledHole& one : kept.holes) {
    out.lost_events += one.hole.events;
    out.lost_bytes += one.hole.bytes;
  }
  out.holes = std::move(kept.holes);
  append_build_ids(contents.features, kept.build_ids);
  if (!kept.loss) return;
  out.holes_left_out = kept.loss->left_out;
  out.lost_events = kept.loss->events;
  out.lost_bytes = kept.loss->bytes;
}

}  // namespace

Result<Recovered> recover(int data, std::span<const std::byte> journal, std::span<const int> more) {
  auto contents = parse_journal(journal);
  if (!contents) return propagate(contents.error());
  if (contents->more_files != more.size())
    return fail(std::errc::bad_message, "the journal is that of a part with {} files beside `data`, and there are {}",
                contents->more_files, more.size());
  auto writer = FileWriter::resume(data, std::move(contents->events));
  if (!writer) return propagate(writer.error());
  if (contents->entries.empty())
    return fail(std::errc::bad_message, "the recording was killed before the first round was in its file");

  Recovered out;
  const JournaledRound* newest = nullptr;
  PartCheck check(data, *writer);
  for (const int file : more)
    if (auto added = check.add(file); !added) return propagate(added.error());
  for (const JournaledRound& entry : contents->entries) {
    if (entry.first_ns > entry.newest_ns) {
      out.reason = fmt::format("the journal states records from {} ns until {} ns", entry.first_ns, entry.newest_ns);
      break;
    }
    if (auto good = check.go_to(entry); !good) {
      out.reason = good.error().what;
      break;
    }
    newest = &entry;
    out.events = check.events();
    ++out.rounds;
  }
  out.left_out = contents->entries.size() - out.rounds;
  if (newest == nullptr) return fail(std::errc::bad_message, "no round of the recording can be used: {}", out.reason);

  take_notes(*contents, out);
  if (auto cut = cut_all(*writer, more, *newest); !cut) return propagate(cut.error());
  set_sample_time(contents->features, *newest);
  if (auto finished = writer->finish_encoded(contents->features); !finished) return propagate(finished.error());
  const std::uint64_t more_bytes = bytes_after(*newest) - newest->data_bytes;
  out.file_bytes = writer->file_bytes() + more_bytes;
  out.data_bytes = newest->data_bytes + more_bytes;
  out.expanded_bytes = newest->expanded_bytes;
  out.first_ns = newest->first_ns;
  out.newest_ns = newest->newest_ns;
  return out;
}

Result<Recovered> recover_what_fits(int data, std::span<const std::byte> journal, std::span<const int> more) {
  auto done = recover(data, journal, more);
  if (done || !is_full(done.error().errno_value())) return done;
  const auto contents = parse_journal(journal);
  if (!contents) return done;
  const std::vector<JournaledRound>& entries = contents->entries;
  const std::uint64_t all_bytes = bytes_after(entries.back()), needed_bytes = size_of_features(contents->features);
  if (all_bytes < needed_bytes) return done;
  // The space that is cut off need not become free at once (btrfs), and other programs may take it.
  for (std::size_t dropped = 1; dropped < entries.size(); dropped *= 2) {
    const std::size_t newest = entries.size() - 1 - dropped;
    done = recover(data, journal.first(contents->ends[newest]), more);
    if (done || !is_full(done.error().errno_value())) break;
    if (all_bytes - bytes_after(entries[newest]) >= 2 * needed_bytes) break;
  }
  return done;
}

std::size_t more_files_of(std::span<const std::byte> journal) {
  const auto contents = parse_journal(journal);
  return contents ? contents->more_files : 0;
}

}  // namespace flight
