// SPDX-License-Identifier: Apache-2.0
// Reads the entries of a directory. A disk error in the middle is an error here, never an exception and never a
// directory that seems to end early: with readdir(3) only errno shows the difference. Names are unchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class Directory {
 public:
  struct Entry {
    std::string_view name;   // valid during the visit
    unsigned char type = 0;  // DT_REG …; DT_UNKNOWN if the file system does not report it
    std::uint64_t inode = 0;
  };

  // Links to folders are followed.
  [[nodiscard]] static Result<Directory> open(const std::string& path);
  // Opens `name` in the directory `folder`; a link is not followed. `path`: for messages.
  [[nodiscard]] static Result<Directory> open_at(int folder, const char* name, const std::string& path);
  // An opened directory; empty: errno says why it could not be opened.
  [[nodiscard]] static Result<Directory> of(UniqueFd fd, const std::string& path);

  // Calls `visit` for each entry except "." and "..", in no order, until it returns false. An error does not undo
  // earlier visits.
  [[nodiscard]] Result<void> each(const std::function<bool(const Entry&)>& visit);
  [[nodiscard]] int fd() const;

 private:
  struct Close {
    void operator()(void* stream) const;
  };
  Directory(void* stream, std::string path) : stream_(stream), path_(std::move(path)) {}
  std::unique_ptr<void, Close> stream_;  // a DIR, for which <dirent.h> has no class name
  std::string path_;
};

}  // namespace flight
