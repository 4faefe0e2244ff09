// SPDX-License-Identifier: Apache-2.0
// The numbers of snapshots: each is used once, whatever was removed.
#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <string>

#include "libcore/store/catalogue.hpp"

namespace flight {
namespace {

constexpr const char* kSeqTemporary = ".flight-seq.partial";  // remove_partials() removes a leftover
constexpr std::size_t kMaxSeqFileBytes = 64;

// Snapshots and recordings are numbered by different threads, each with a catalogue of its own.
struct Numbering {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> unkept;  // by the directory: the last number that `.seq` could not take
};

Numbering& numbering() {
  static Numbering all;
  return all;
}

std::uint64_t unkept_seq(const std::string& path) {
  const auto found = numbering().unkept.find(path);
  return found == numbering().unkept.end() ? 0 : found->second;
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

// Raises `last` to the largest number of a name in the directory. One foreign file with a huge number must not use up
// all others. A store that has given so many has them in `.seq`.
Result<void> raise_to_names(Folder& folder, std::uint64_t& last) {
  return folder.each([&](std::string_view file, std::uint64_t /*inode*/) {
    const auto name = parse_snapshot_name(file);
    const auto part = name ? std::nullopt : parse_part_file(file);
    const std::uint64_t seq = name ? name->seq : part ? part->seq : 0;
    if (seq <= kMaxForeignSeq) last = std::max(last, seq);
  });
}

// Writes the number to `.seq`. Where the snapshot's own files took the last inodes, it is written into the file that is
// there. A directory in its place, or no file and no inode for one, is no reason to lose snapshots: then the number is
// remembered until this process ends, and `damage` says so.
Result<Unsynced> keep_seq(const Folder& folder, const std::string& path, std::uint64_t seq,
                          std::optional<Error>& damage) {
  const std::string text = fmt::format("{}\n", seq);
  auto kept = folder.replace(kSeqFile, kSeqTemporary, text);
  const int why = kept ? 0 : kept.error().errno_value();
  const bool is_full = why == ENOSPC || why == EDQUOT;
  if (is_full) kept = folder.overwrite(kSeqFile, text);
  if (kept) {
    numbering().unkept.erase(path);
    return kept;
  }
  if (!is_full && why != EISDIR) return kept;
  numbering().unkept[path] = seq;
  damage = is_full
               ? wrap(kept.error(), "the number of the last snapshot could not be kept: no space, or no inode").value()
               : fail(std::errc::is_a_directory,
                      "{}/{} is a directory, so the number of the last snapshot cannot be kept in it; move it "
                      "elsewhere",
                      path, kSeqFile)
                     .value();
  return Unsynced();
}

}  // namespace

Result<std::uint64_t> Catalogue::next_seq() {
  const std::lock_guard lock(numbering().mutex);
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  auto kept = kept_seq(*folder, folder_, damaged_seq_);
  if (!kept) return propagate(kept.error());
  std::uint64_t last = std::max({*kept, remembered_seq(), unkept_seq(folder_)});
  if (auto read = raise_to_names(*folder, last); !read) return propagate(read.error());
  if (last >= kMaxSeq)
    return fail(std::errc::value_too_large, "{}/{} has the largest possible number; move this file elsewhere", folder_,
                kSeqFile);
  if (auto kept_now = note(keep_seq(*folder, folder_, last + 1, damaged_seq_)); !kept_now)
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
  if (auto read = raise_to_names(*folder, last); !read) return propagate(read.error());
  return last;
}

Result<void> Catalogue::raise_seq(std::uint64_t least) {
  damaged_seq_.reset();
  if (least > kMaxForeignSeq)
    return fail(std::errc::value_too_large,
                "the other directory has the number {}, and no flightd has given that many: {} goes on with its own "
                "numbers",
                least, folder_);
  const std::lock_guard lock(numbering().mutex);
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  const auto kept = kept_seq(*folder, folder_, damaged_seq_);
  if (!kept) return propagate(kept.error());
  if (std::max(*kept, unkept_seq(folder_)) >= least) return {};
  return note(keep_seq(*folder, folder_, least, damaged_seq_));
}

}  // namespace flight
