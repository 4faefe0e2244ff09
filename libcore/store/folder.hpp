// SPDX-License-Identifier: Apache-2.0
// The snapshots' folder as system calls see it: regular files only, by name within the opened folder, so that neither
// a symbolic link nor a path in a name leads out of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class Folder {
 public:
  [[nodiscard]] static Result<Folder> open(const std::string& path);

  // Each regular file's name and inode, in no order.
  [[nodiscard]] Result<void> each(const std::function<void(std::string_view name, std::uint64_t inode)>& visit);
  // For reading. ENOENT: there is no such file. ELOOP, EINVAL: it is no regular file.
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& name) const;
  // Errors as open_file's; EFBIG: it is larger than that.
  [[nodiscard]] Result<std::string> read(const std::string& name, std::size_t max_bytes) const;
  // The same, but of a long file only its beginning where that has `enough` in it.
  [[nodiscard]] Result<std::string> read_until(const std::string& name, std::string_view enough,
                                               std::size_t max_bytes) const;
  // Its size and what it takes on disk; nullopt: it is gone.
  struct Size {
    std::uint64_t bytes = 0, disk_bytes = 0;
    bool regular = false;
  };
  [[nodiscard]] std::optional<Size> size_of(const std::string& name) const;
  // True: it was there. A file that is gone already is no error.
  [[nodiscard]] Result<bool> unlink(const std::string& name) const;
  // A new text of a file, durable: written to `temporary`, synced, renamed; then the folder is synced.
  [[nodiscard]] Result<void> replace(const std::string& name, const std::string& temporary,
                                     std::string_view text) const;
  // fsync(2) of the folder: what was unlinked stays so.
  [[nodiscard]] Result<void> sync() const;

 private:
  struct Close {
    void operator()(void* stream) const;
  };
  Folder(std::string path, void* stream) : path_(std::move(path)), stream_(stream) {}
  [[nodiscard]] int fd() const;
  std::string path_;
  std::unique_ptr<void, Close> stream_;  // a DIR, which <dirent.h> gives no name of its own
};

}  // namespace flight
