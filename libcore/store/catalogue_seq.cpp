// SPDX-License-Identifier: Apache-2.0
// The numbers of snapshots: each is used once, whatever was removed.
#include <algorithm>
#include <cerrno>
#include <mutex>

#include "libcore/store/catalogue.hpp"

namespace flight {
namespace {

constexpr const char* kSeqTemporary = ".flight-seq.partial";  // remove_partials() removes a leftover
constexpr std::size_t kMaxSeqFileBytes = 64;

// Snapshots and recordings are numbered by different threads, each with a catalogue of its own.
std::mutex& numbering() {
  static std::mutex mutex;
  return mutex;
}

// The number in .seq; 0 if the file is missing, invalid or damaged, or has a number that flightd never gives
// (`damage`): then the names in the directory determine it. Otherwise one bad sector would keep every later snapshot
// from being written.
Result<std::uint64_t> kept_seq(const Folder& folder, const std::string& path, std::optional<Error>& damage) {
  damage.reset();
  const auto text = folder.read(kSeqFile, kMaxSeqFileBytes);
  if (!text) {
    const int why = text.error().errno_value();
    if (why == ENOENT || why == ELOOP || why == EINVAL || why == EFBIG) return 0;
    if (why == EIO || why == EBADMSG || why == EUCLEAN) {
      damage = text.error();
      return 0;
    }
    return wrap(text.error(), "read the number of the last snapshot");
  }
  const std::string_view line = std::string_view(*text).substr(0, text->find('\n'));
  const std::uint64_t seq = parse_seq(line).value_or(0);
  if (seq <= kMaxSeq) return seq;
  damage =
      fail(std::errc::value_too_large,
           "{}/{} has the number {}, and flightd gives none above {}: it is replaced by what the names of the files "
           "give",
           path, kSeqFile, seq, kMaxSeq)
          .value();
  return 0;
}

// Raises `last` to the largest number of a name in the directory, and sets `file` to that name.
Result<void> raise_to_names(Folder& folder, std::uint64_t& last, std::string& file_of_last) {
  return folder.each([&](std::string_view file, std::uint64_t /*inode*/) {
    const auto name = parse_snapshot_name(file);
    const auto part = name ? std::nullopt : parse_part_file(file);
    const std::uint64_t seq = name ? name->seq : part ? part->seq : 0;
    if (seq <= last) return;
    last = seq;
    file_of_last = file;
  });
}

}  // namespace

Result<std::uint64_t> Catalogue::next_seq() {
  const std::lock_guard lock(numbering());
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  auto kept = kept_seq(*folder, folder_, damaged_seq_);
  if (!kept) return propagate(kept.error());
  std::uint64_t last = std::max(*kept, remembered_seq());
  std::string last_file = kSeqFile;
  if (auto read = raise_to_names(*folder, last, last_file); !read) return propagate(read.error());
  if (last >= kMaxSeq)
    return fail(std::errc::value_too_large, "{}/{} has the largest possible number; move this file elsewhere", folder_,
                last_file);
  if (auto kept_now = note(folder->replace(kSeqFile, kSeqTemporary, fmt::format("{}\n", last + 1))); !kept_now)
    return wrap(kept_now.error(), "the number of the next snapshot");
  last_seq_ = last + 1;
  return last_seq_;
}

Result<std::uint64_t> Catalogue::last_seq() const {
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  std::optional<Error> damage;
  auto kept = kept_seq(*folder, folder_, damage);
  if (!kept) return kept;
  std::uint64_t last = std::max(*kept, remembered_seq());
  std::string unused;
  if (auto read = raise_to_names(*folder, last, unused); !read) return propagate(read.error());
  return last;
}

Result<void> Catalogue::raise_seq(std::uint64_t least) {
  damaged_seq_.reset();
  if (least > kMaxForeignSeq)
    return fail(std::errc::value_too_large,
                "the other directory has the number {}, and no flightd has given that many: {} goes on with its own "
                "numbers",
                least, folder_);
  const std::lock_guard lock(numbering());
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  const auto kept = kept_seq(*folder, folder_, damaged_seq_);
  if (!kept) return propagate(kept.error());
  if (*kept >= least) return {};
  return note(folder->replace(kSeqFile, kSeqTemporary, fmt::format("{}\n", least)));
}

}  // namespace flight
