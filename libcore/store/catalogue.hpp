// SPDX-License-Identifier: Apache-2.0
// The catalogue of the snapshots. It is the directory itself, without a database: names identify snapshots, sidecars
// describe them. The data of a snapshot is a file or a data directory (folder.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/pieces.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

inline constexpr std::size_t kMaxRowsBytes = 64U << 20U;  // limit for a list of snapshots as JSON

// No snapshot has a larger number. A larger one in `.seq` is ignored: somebody else wrote it.
inline constexpr std::uint64_t kMaxSeq = 1'000'000'000'000'000'000;
// The largest number of one directory that another one follows. A store of 31 years with a snapshot each second reaches
// it. A file system that is mounted over the store can have any number, and must not use up those of the store.
inline constexpr std::uint64_t kMaxForeignSeq = 1'000'000'000;

// `missing`: only `flightctl vacuum` deletes it, because the data may have been moved. `orphan`: gets a new sidecar,
// made from the file.
enum class SnapshotState { present, missing, orphan };  // both files; the data file is gone; the sidecar is gone
[[nodiscard]] std::string_view to_string(SnapshotState state);

// A row of ListSnapshots.
struct CatalogueRow {
  std::string id, path, time, trigger, reason;  // time: RFC 3339, when it was frozen
  std::uint64_t size_bytes = 0, samples = 0;
  double seconds = 0;
  bool pinned = false;
  SnapshotState state = SnapshotState::present;
  std::vector<std::string> units = {};       // the first kMaxRowUnits with the most samples; written if there are any
  std::optional<SidecarRecord> record = {};  // of a part of a recording
  std::string boot_id = {};                  // empty if the sidecar has none; not sent to clients
  std::string kallsyms = {};                 // kallsyms_of() the sidecar; not sent to clients
};
[[nodiscard]] std::string to_json(const CatalogueRow& row);
[[nodiscard]] std::string to_json(const std::vector<CatalogueRow>& rows);  // an array, one line
[[nodiscard]] Result<std::vector<CatalogueRow>> parse_rows(std::string_view text);

// One thread at a time. The rows of sidecars that were read are kept in memory, so a second list() costs one readdir.
// Only regular files and data directories with names of flightd's form count; symbolic links are never followed.
class Catalogue {
 public:
  // `folder`: STATE/snapshots; must exist.
  explicit Catalogue(std::string folder) : folder_(std::move(folder)) {}

  // Oldest (smallest id) first. Foreign files are ignored.
  [[nodiscard]] Result<std::vector<CatalogueRow>> list();
  // The same as to_json(list()), made from cached texts: 10,000 rows in a fraction of the time.
  [[nodiscard]] Result<std::string> list_json();
  // The text of the sidecar of `id`, a decimal number or "latest". ENOENT: there is no such snapshot; EINVAL: not an
  // id; ENODATA: the snapshot exists, but its sidecar is missing.
  [[nodiscard]] Result<std::string> describe(std::string_view id) const;
  // orphans(): the snapshots whose sidecar is missing, in no order. The second function gives one of them a new
  // sidecar: durable, and never over an existing one.
  [[nodiscard]] Result<std::vector<SnapshotName>> orphans() const;
  [[nodiscard]] Result<void> give_sidecar(const SnapshotName& name, std::string_view text);
  // The data file of `id`, for reading. Errors as describe's; ENODATA: the data file is missing. A data directory is a
  // tar, and its name ends with kTarSuffix.
  struct DataFile {
    UniqueFd fd;  // not of a tar
    std::string name;
    std::uint64_t bytes = 0;
    Pieces tar{};  // empty: it is a file
  };
  [[nodiscard]] Result<DataFile> open_data(std::string_view id) const;
  // The same for its sidecar, and for the symbols of its kernel (one zstd frame). ENODATA: they are missing, or were
  // never stored.
  [[nodiscard]] Result<DataFile> open_sidecar(std::string_view id) const;
  [[nodiscard]] Result<DataFile> open_kallsyms(std::string_view id) const;
  // A pin is an empty file beside the snapshot, STEM.pinned: cp, tar and rsync copy it, and `ls` shows it. An extended
  // attribute would have to be set on the data file, which belongs to root, and flightd may not do that. Durable
  // before it returns; pinning twice is no error. Errors as describe's.
  [[nodiscard]] Result<void> pin(std::string_view id, bool pinned);
  // Unlinks data, sidecar and pin of `id`, pinned or not: a pin protects only from vacuuming. Durable before it
  // returns. Errors as describe's. If one of them was unlinked and another cannot be, the snapshot is removed:
  // left_behind() has the reason, and the rest is neither listed nor found until remove_left() unlinks it.
  [[nodiscard]] Result<void> remove(std::string_view id);
  [[nodiscard]] const std::optional<Error>& left_behind() const { return left_behind_; }  // of the last one
  void remove_left();
  // One more than any SEQ in the directory, also of an unfinished part, and than the number in `folder/.seq`, which it
  // raises, so that the id of a removed snapshot is never used again. Names with a number above kMaxForeignSeq do not
  // count: they are not flightd's. Durable before it returns. Several catalogues of one process may do this at the same
  // time.
  [[nodiscard]] Result<std::uint64_t> next_seq();
  // The largest number that was given, as next_seq() sees it; 0: none was.
  [[nodiscard]] Result<std::uint64_t> last_seq() const;
  // The next numbers will be larger than `least`, the number of another directory. Durable before it returns.
  // EOVERFLOW: it is larger than kMaxForeignSeq, and nothing was changed.
  [[nodiscard]] Result<void> raise_seq(std::uint64_t least);
  // The last next_seq() or raise_seq() could not read `.seq`, or it had a number above kMaxSeq, and replaced it; or
  // `.seq` is a directory, and this process alone remembers the number: the numbers of snapshots that were removed
  // since the newest one may be used again.
  [[nodiscard]] const std::optional<Error>& damaged_seq() const { return damaged_seq_; }
  // Why a power failure may undo the last change by give_sidecar(), pin(), remove() or next_seq(). They succeed
  // nevertheless: it took effect.
  [[nodiscard]] const Unsynced& unsynced() const { return unsynced_; }
  // Removes *.partial files of earlier processes, and pins without a snapshot; returns their number. Only at start:
  // the snapshot that is being written has such files. The files of parts() stay. What cannot be removed is remembered
  // (leftovers.hpp).
  std::size_t remove_partials();
  // The numbers of the parts of recordings that were not finished, ascending: their data and their journal are there.
  [[nodiscard]] Result<std::vector<std::uint64_t>> parts() const;
  // The number of snapshots, and the bytes (st_blocks) of their files and of kallsyms, as store.max_use counts them.
  struct Usage {
    std::uint64_t snapshots = 0, bytes = 0;
  };
  [[nodiscard]] Usage usage() const;

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  // Which files of a snapshot exist. The inode shows whether a sidecar was replaced.
  struct Files {
    bool data = false, sidecar = false, pin = false;
    std::uint64_t sidecar_inode = 0;
    void note(std::string_view file, std::uint64_t inode);
    friend bool operator==(const Files&, const Files&) = default;
  };
  struct Cached {
    std::uint64_t seq = 0;
    Files files;  // when the row was made
    Files seen;   // the last time the directory was read
    CatalogueRow row;
    std::string json;  // the row's JSON
  };
  struct Found {
    SnapshotName name;
    Files files;
  };
  [[nodiscard]] static Result<std::unordered_map<std::string, Files>> scan(Folder& folder);
  [[nodiscard]] Cached read_row(const Folder& folder, const std::string& path, const SnapshotName& name,
                                const Files& files) const;
  [[nodiscard]] Result<Found> find(std::string_view id) const;
  [[nodiscard]] Result<DataFile> open_in(const Folder& folder, std::string name) const;
  // Reads the directory into cached_.
  [[nodiscard]] Result<void> look();
  // cached_, oldest first; valid until the next look().
  [[nodiscard]] std::vector<const Cached*> in_order() const;
  [[nodiscard]] Result<void> note(Result<Unsynced> done);
  // last_seq_; 0 if it is none that another directory follows: it may be from one that had this name.
  [[nodiscard]] std::uint64_t remembered_seq() const { return last_seq_ <= kMaxForeignSeq ? last_seq_ : 0; }
  // Whether remove() removed the data of this stem, but not the rest.
  [[nodiscard]] bool is_left(const Folder& folder, std::string_view stem) const;
  std::string folder_;
  std::set<std::string, std::less<>> left_;  // stems of snapshots that remove() left files of
  std::optional<Error> left_behind_;
  Unsynced unsynced_;
  std::optional<Error> damaged_seq_;
  std::uint64_t last_seq_ = 0;  // issued by this object: not issued again, even if the directory is lost
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, Cached, Hash, std::equal_to<>> cached_;  // by the files' common stem
  std::string text_;  // list_json() of cached_; empty: something has changed since it was made
};

}  // namespace flight
