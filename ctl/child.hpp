// SPDX-License-Identifier: Apache-2.0
// Another program, started by its words and without a shell. It ends, by SIGTERM, at the latest with this process. What
// it says on stderr is kept, and so is its stdout where nobody else takes it: the first kMaxSaidBytes of each.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::ctl {

class Child {
 public:
  static constexpr std::size_t kMaxSaidBytes = 64U << 10U;

  // `words[0]` is looked for in $PATH; ENOENT, EACCES: it is not there, or no program. `stdio` is its stdin and its
  // stdout; -1: stdin is /dev/null, and stdout is kept.
  [[nodiscard]] static Result<Child> start(const std::vector<std::string>& words, int stdio = -1);
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), out_(std::move(other.out_)), err_(std::move(other.err_)) {}
  Child& operator=(Child&&) = delete;
  ~Child() = default;  // it is neither ended nor waited for

  // Its exit status, 128 + N where signal N ended it. nullopt: it still runs after `limit`. Once.
  [[nodiscard]] std::optional<int> wait(std::chrono::milliseconds limit);
  void kill() const;
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;

 private:
  Child(pid_t pid, UniqueFd out, UniqueFd err) : pid_(pid), out_(std::move(out)), err_(std::move(err)) {}
  pid_t pid_;
  UniqueFd out_, err_;
};

}  // namespace flight::ctl
