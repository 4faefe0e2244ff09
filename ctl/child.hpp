// SPDX-License-Identifier: Apache-2.0
// A child process, started from an argument list without a shell. It gets SIGTERM at the latest when this process
// ends. The first kMaxOutputBytes of its stderr are kept, and of its stdout unless `stdio` replaces it.
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
  static constexpr std::size_t kMaxOutputBytes = 64U << 10U;

  // `words[0]` is searched in $PATH; ENOENT or EACCES: not found, or not executable. `stdio` becomes its stdin and
  // stdout; -1: stdin is /dev/null, and stdout is kept.
  [[nodiscard]] static Result<Child> start(const std::vector<std::string>& words, int stdio = -1);
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), out_(std::move(other.out_)), err_(std::move(other.err_)) {}
  Child& operator=(Child&&) = delete;
  ~Child() = default;  // does not end the child and does not wait for it

  // The exit status; 128 + N if signal N ended it; nullopt if it still runs after `limit`. Call it once.
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
