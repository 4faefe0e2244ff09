// SPDX-License-Identifier: Apache-2.0
// The catalogue is the folder: no database. Snapshots are found by their names, described by their sidecars.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

class Folder;

enum class SnapshotState { present, missing, orphan };  // both files; the data file is gone; the sidecar is gone
[[nodiscard]] std::string_view to_string(SnapshotState state);

// A row of ListSnapshots.
struct CatalogueRow {
  std::string id, path, time, trigger, reason;  // time: RFC 3339, when it was frozen
  std::uint64_t size_bytes = 0, samples = 0;
  double seconds = 0;
  bool pinned = false;
  SnapshotState state = SnapshotState::present;
  std::string boot_id = {};  // empty where the sidecar does not say; not told to clients
};
[[nodiscard]] std::string to_json(const CatalogueRow& row);
[[nodiscard]] std::string to_json(const std::vector<CatalogueRow>& rows);  // an array, one line
[[nodiscard]] Result<std::vector<CatalogueRow>> parse_rows(std::string_view text);

// One thread at a time. Sidecars already read are kept in memory (their row only), so a second list() costs
// one readdir. Only regular files with names of ours count; symbolic links are never followed.
class Catalogue {
 public:
  // `folder`: STATE/snapshots; must exist.
  explicit Catalogue(std::string folder) : folder_(std::move(folder)) {}

  // Oldest (smallest id) first. Foreign files are ignored.
  [[nodiscard]] Result<std::vector<CatalogueRow>> list();
  // The same as to_json() of it, made of texts that are kept: 10,000 rows in a fraction of the time.
  [[nodiscard]] Result<std::string> list_json();
  // The sidecar's text of `id`, a decimal number or "latest". ENOENT: there is none such; EINVAL: that is
  // no id; ENODATA: the snapshot is there, but its sidecar is gone.
  [[nodiscard]] Result<std::string> describe(std::string_view id) const;
  // The snapshots whose sidecar is gone, in no order, and a new one for one of them: durable, and never over one that
  // is there.
  [[nodiscard]] Result<std::vector<SnapshotName>> orphans() const;
  [[nodiscard]] Result<void> give_sidecar(const SnapshotName& name, std::string_view text);
  // The data file of `id`, for reading. Errors as describe's; ENODATA: the data file is gone.
  struct DataFile {
    UniqueFd fd;
    std::string name;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Result<DataFile> open_data(std::string_view id) const;
  // The same of its sidecar, and of the symbols of the kernel it was taken of (one zstd frame). ENODATA: they are gone,
  // or were never kept.
  [[nodiscard]] Result<DataFile> open_sidecar(std::string_view id) const;
  [[nodiscard]] Result<DataFile> open_kallsyms(std::string_view id) const;
  // A pin is an empty file beside the snapshot, STEM.pinned: it survives every kind of copy and of file system, `ls`
  // shows it, and flightd may make it, where an extended attribute of root's data file would not be its to set.
  // Durable before it returns; pinning twice is no error. Errors as describe's.
  [[nodiscard]] Result<void> pin(std::string_view id, bool pinned);
  // Unlinks data, sidecar and pin of `id`: a pin keeps a snapshot from being vacuumed, not from its people. Errors as
  // describe's.
  [[nodiscard]] Result<void> remove(std::string_view id);
  // One more than any SEQ in the folder, and than the number kept in `folder/.seq`, which it raises (so a removed
  // snapshot's id is never used again). Durable before it returns.
  [[nodiscard]] Result<std::uint64_t> next_seq();
  // Removes *.partial files of earlier lives, and pins whose snapshot is gone; how many. At start only: a snapshot
  // under way has such files.
  std::size_t remove_partials();
  // How many snapshots, and their bytes (st_blocks) with sidecars and kallsyms.
  struct Usage {
    std::uint64_t snapshots = 0, bytes = 0;
  };
  [[nodiscard]] Usage usage() const;

  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  // Which of a snapshot's files are there. The inode tells a sidecar that was replaced.
  struct Files {
    bool data = false, sidecar = false, pin = false;
    std::uint64_t sidecar_inode = 0;
    friend bool operator==(const Files&, const Files&) = default;
  };
  struct Cached {
    std::uint64_t seq = 0;
    Files files;
    CatalogueRow row;
    std::string json;  // of the row
  };
  struct Found {
    SnapshotName name;
    Files files;
  };
  [[nodiscard]] static Result<std::unordered_map<std::string, Files>> scan(Folder& folder);
  [[nodiscard]] Cached read_row(const Folder& folder, const SnapshotName& name, const Files& files) const;
  [[nodiscard]] Result<Found> find(std::string_view id) const;
  [[nodiscard]] Result<DataFile> open_in(const Folder& folder, std::string name) const;
  // What the folder holds now, oldest first; good until the next call.
  [[nodiscard]] Result<std::vector<const Cached*>> look();
  std::string folder_;
  std::uint64_t last_seq_ = 0;  // given out by this object: should the folder be lost, they are not given out again
  std::unordered_map<std::string, Cached> cached_;  // by the files' common stem
};

}  // namespace flight
