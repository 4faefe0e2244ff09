// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "libcore/base/unique_fd.hpp"

namespace flight {

// A cgroup that contains these processes and permits no further task, as after a fork bomb or when pids.max is reached.
class FullGroup {
 public:
  explicit FullGroup(const std::vector<pid_t>& pids) {
    const bool v1 = ::access("/sys/fs/cgroup/pids", F_OK) == 0;
    if (!v1) set("/sys/fs/cgroup/cgroup.subtree_control", "+pids");
    path_ = fmt::format("{}/flight-e2e-{}", v1 ? "/sys/fs/cgroup/pids" : "/sys/fs/cgroup", pids.front());
    parent_ = path_.substr(0, path_.rfind('/'));
    for (const pid_t pid : pids) pids_.push_back(std::to_string(pid));
    made_ = ::mkdir(path_.c_str(), 0755) == 0 && set(path_ + "/pids.max", "1") &&
            std::all_of(pids_.begin(), pids_.end(),
                        [this](const std::string& pid) { return set(path_ + "/cgroup.procs", pid); });
  }
  FullGroup(const FullGroup&) = delete;
  FullGroup& operator=(const FullGroup&) = delete;
  ~FullGroup() {
    for (const std::string& pid : pids_) set(parent_ + "/cgroup.procs", pid);  // in case it still runs
    for (int i = 0; ::rmdir(path_.c_str()) != 0 && errno == EBUSY && i < 100; ++i) ::usleep(20'000);
  }
  [[nodiscard]] bool made() const { return made_; }

 private:
  static bool set(const std::string& file, const std::string& text) {
    const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
    return ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  std::string path_, parent_;
  std::vector<std::string> pids_;
  bool made_ = false;
};

}  // namespace flight
