// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/journal.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "libcore/base/file_calls.hpp"
#include "libcore/perf/attr.hpp"

namespace flight {
namespace {

static_assert(std::endian::native == std::endian::little, "a journal is little-endian");

constexpr std::uint64_t kJournalMagic = 0x31304345524c4600;  // "\0FLREC01"
constexpr std::uint64_t kChecksumBasis = 0xcbf29ce484222325;
constexpr std::size_t kMaxJournalEvents = 4096;  // as of FileReader
constexpr unsigned kHighestFeature = 255;

struct JournalHeader {
  std::uint64_t magic = kJournalMagic;
  std::uint64_t facts_bytes = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(JournalHeader) == 24);

struct StoredEntry {
  std::uint64_t number = 0, data_bytes = 0, expanded_bytes = 0, first_ns = 0, newest_ns = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(StoredEntry) == kJournalEntryBytes);

// FNV-1a, 64 bits.
std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t before) {
  for (const std::byte byte : bytes) before = (before ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ULL;
  return before;
}

std::uint64_t checksum_of(const JournalHeader& header, std::span<const std::byte> facts) {
  const std::array<std::uint64_t, 2> begin{header.magic, header.facts_bytes};
  return checksum_of(facts, checksum_of(std::as_bytes(std::span(begin)), kChecksumBasis));
}

std::uint64_t checksum_of(const StoredEntry& entry, std::uint64_t facts_checksum) {
  const std::array<std::uint64_t, 6> fields{facts_checksum,       entry.number,   entry.data_bytes,
                                            entry.expanded_bytes, entry.first_ns, entry.newest_ns};
  return checksum_of(std::as_bytes(std::span(fields)), kChecksumBasis);
}

template <typename T>
void put_value(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> encode_facts(std::span<const FileEvent> events, std::span<const EncodedFeature> features) {
  std::vector<std::byte> out;
  put_value(out, static_cast<std::uint32_t>(events.size()));
  for (const FileEvent& event : events) {
    perf_event_attr attr = event.attr;
    attr.size = kStoredAttrBytes;
    const auto stored = std::as_bytes(std::span(&attr, 1)).first(kStoredAttrBytes);
    out.insert(out.end(), stored.begin(), stored.end());
    put_value(out, static_cast<std::uint32_t>(event.ids.size()));
    const auto ids = std::as_bytes(std::span(event.ids));
    out.insert(out.end(), ids.begin(), ids.end());
  }
  put_value(out, static_cast<std::uint32_t>(features.size()));
  for (const EncodedFeature& feature : features) {
    put_value(out, static_cast<std::uint32_t>(feature.bit));
    put_value(out, static_cast<std::uint64_t>(feature.bytes.size()));
    out.insert(out.end(), feature.bytes.begin(), feature.bytes.end());
  }
  return out;
}

Result<void> write_journal(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return sys_error(count < 0 ? errno : EIO, "write a recording's journal ({} bytes at {})", bytes.size(), offset);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

// Takes fields from the front. If there are too few bytes, it fails and stays failed.
class FactsCursor {
 public:
  explicit FactsCursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    const auto bytes = take_bytes(sizeof value);
    if (good_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take_bytes(std::uint64_t count) {
    good_ = good_ && count <= rest_.size();
    if (!good_) return {};
    const auto bytes = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return good_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool good_ = true;
};

// False: they are no facts. Nothing is allocated that the bytes do not have.
bool decode_facts(std::span<const std::byte> bytes, JournalContents& out) {
  FactsCursor cursor(bytes);
  const auto events = cursor.take<std::uint32_t>();
  if (events > kMaxJournalEvents) return false;
  for (std::uint32_t i = 0; i < events && cursor.good(); ++i) {
    FileEvent event;
    const auto attr = cursor.take_bytes(kStoredAttrBytes);
    if (!attr.empty()) std::memcpy(&event.attr, attr.data(), attr.size());
    const auto ids = cursor.take_bytes(std::uint64_t{cursor.take<std::uint32_t>()} * sizeof(std::uint64_t));
    event.ids.resize(ids.size() / sizeof(std::uint64_t));
    if (!ids.empty()) std::memcpy(event.ids.data(), ids.data(), ids.size());
    out.events.push_back(std::move(event));
  }
  const auto features = cursor.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < features && cursor.good(); ++i) {
    const auto bit = cursor.take<std::uint32_t>();
    const auto contents = cursor.take_bytes(cursor.take<std::uint64_t>());
    const bool ascends = out.features.empty() || out.features.back().bit < bit;
    if (bit > kHighestFeature || !ascends) return false;
    out.features.push_back({.bit = bit, .bytes = {contents.begin(), contents.end()}});
  }
  return cursor.at_end();
}

}  // namespace

Result<Journal> Journal::create(UniqueFd file, std::span<const FileEvent> events,
                                std::span<const EncodedFeature> features) {
  const std::vector<std::byte> facts = encode_facts(events, features);
  JournalHeader header;
  header.facts_bytes = facts.size();
  header.checksum = checksum_of(header, facts);
  std::vector<std::byte> out;
  put_value(out, header);
  out.insert(out.end(), facts.begin(), facts.end());
  if (auto written = write_journal(file.get(), out, 0); !written) return propagate(written.error());
  return Journal(std::move(file), header.checksum, out.size());
}

Result<void> Journal::append(const JournaledRound& entry) {
  StoredEntry stored{.number = number_,
                     .data_bytes = entry.data_bytes,
                     .expanded_bytes = entry.expanded_bytes,
                     .first_ns = entry.first_ns,
                     .newest_ns = entry.newest_ns,
                     .checksum = 0};
  stored.checksum = checksum_of(stored, checksum_);
  if (auto written = write_journal(file_.get(), std::as_bytes(std::span(&stored, 1)), end_); !written) return written;
  end_ += sizeof stored;
  ++number_;
  return {};
}

Result<void> Journal::cut(std::uint64_t entries) {
  assert(entries <= number_);
  end_ -= (number_ - entries) * sizeof(StoredEntry);
  number_ = entries;
  if (::ftruncate(file_.get(), static_cast<off_t>(end_)) != 0)
    return sys_error(errno, "cut a recording's journal to {} bytes", end_);
  return {};
}

Result<void> Journal::sync() const {
  if (const auto synced = sync_data_now(file_.get()); !synced) return wrap(synced.error(), "a recording's journal");
  return {};
}

Result<JournalContents> parse_journal(std::span<const std::byte> bytes) {
  JournalHeader header;
  if (bytes.size() < sizeof header)
    return fail(std::errc::bad_message, "the journal of the recording has {} bytes, less than its header's {}",
                bytes.size(), sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes = bytes.subspan(sizeof header);
  if (header.magic != kJournalMagic)
    return fail(std::errc::bad_message, "not the journal of a recording, or that of another version");
  if (header.facts_bytes > bytes.size())
    return fail(std::errc::bad_message, "the journal of the recording is cut: it has {} of {} bytes about the file",
                bytes.size(), header.facts_bytes);
  const auto facts = bytes.first(static_cast<std::size_t>(header.facts_bytes));
  JournalContents out;
  if (checksum_of(header, facts) != header.checksum || !decode_facts(facts, out))
    return fail(std::errc::bad_message,
                "the journal of the recording is damaged: what it says about the file is wrong");
  bytes = bytes.subspan(facts.size());
  StoredEntry entry;
  while (bytes.size() >= sizeof entry) {
    std::memcpy(&entry, bytes.data(), sizeof entry);
    const bool follows = entry.number == out.entries.size() &&
                         (out.entries.empty() || entry.data_bytes >= out.entries.back().data_bytes);
    if (!follows || entry.checksum != checksum_of(entry, header.checksum)) break;
    out.entries.push_back({.data_bytes = entry.data_bytes,
                           .expanded_bytes = entry.expanded_bytes,
                           .first_ns = entry.first_ns,
                           .newest_ns = entry.newest_ns});
    bytes = bytes.subspan(sizeof entry);
  }
  out.torn_bytes = bytes.size();
  return out;
}

}  // namespace flight
