// SPDX-License-Identifier: Apache-2.0
// While it exists, this process cannot get a descriptor (EMFILE), apart from `free` ones.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

#include "libcore/base/unique_fd.hpp"

namespace flight::test {

class FullTable {
 public:
  explicit FullTable(int free = 0) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = 256;  // fewer to fill; a descriptor above it stays open
    if (::setrlimit(RLIMIT_NOFILE, &low) != 0) ADD_FAILURE() << "setrlimit";
    for (UniqueFd fd = open_one(); fd; fd = open_one()) files_.push_back(std::move(fd));
    for (; free > 0 && !files_.empty(); --free) files_.pop_back();
  }
  FullTable(const FullTable&) = delete;
  FullTable& operator=(const FullTable&) = delete;
  ~FullTable() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  static UniqueFd open_one() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
  rlimit before_{};
  std::vector<UniqueFd> files_;
};

}  // namespace flight::test
