// SPDX-License-Identifier: Apache-2.0
// What a client gets of a snapshot, as one stream: a file, or a data directory as a tar.
//
//   | header 512 | data, zeros to a multiple of 512 | header | data.0 … | 1024 zeros |
//
// The tar is that of POSIX (ustar); the size of a file above 8 GiB is in base 256, as GNU tar and libarchive read it.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/store/names.hpp"

namespace flight {

inline constexpr std::string_view kTarSuffix = ".tar";

class Pieces {
 public:
  Pieces() = default;
  Pieces(Pieces&&) = default;
  Pieces& operator=(Pieces&&) = default;
  // `bytes` of one file, from where it is read.
  Pieces(UniqueFd file, std::uint64_t bytes) { add({}, std::move(file), bytes); }
  // A text, then so many bytes of a file.
  void add(std::string text, UniqueFd file = UniqueFd(), std::uint64_t file_bytes = 0);

  [[nodiscard]] bool empty() const { return pieces_.empty(); }
  // That are left.
  [[nodiscard]] std::uint64_t bytes() const;
  // The next bytes, at least one. 0: there are no more; or the disk failed, or a file has fewer bytes.
  [[nodiscard]] std::size_t read(std::span<char> buffer);

 private:
  struct Piece {
    std::string text;
    std::size_t text_at = 0;  // read up to here
    UniqueFd file;
    std::uint64_t file_bytes = 0;  // that are left
  };
  std::deque<Piece> pieces_;
};

// Opens all files of the directory, so that the tar is whole even if the snapshot is removed meanwhile. In the tar they
// are in a directory that is called like the data of the snapshot (or "snapshot-SEQ.perf.data", if that is too long
// for a tar); root owns them, as in the store.
[[nodiscard]] Result<Pieces> tar_of(const DataFolder& folder, const SnapshotName& name);

}  // namespace flight
