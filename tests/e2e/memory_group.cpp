// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/memory_group.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace flight {
namespace {

// write(2), not a stream: the test needs its error.
bool set(const std::string& path, std::string_view value) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}

}  // namespace

std::optional<MemoryGroup> MemoryGroup::create(std::uint64_t bytes) {
  set("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
  for (const auto& [parent, limit] :
       {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}}) {
    const std::string path = fmt::format("{}/flight-e2e-{}", parent, ::getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(path, error)) continue;
    MemoryGroup group(path);
    if (set(path + "/" + limit, std::to_string(bytes))) return group;
  }
  return std::nullopt;
}

std::uint64_t MemoryGroup::used_bytes() const {
  const std::string text = read_text(path_ + "/memory.current") + read_text(path_ + "/memory.usage_in_bytes");
  return std::strtoull(text.c_str(), nullptr, 10);
}

std::uint64_t MemoryGroup::most_used_bytes() const {
  const std::string text = read_text(path_ + "/memory.peak") + read_text(path_ + "/memory.max_usage_in_bytes");
  return std::strtoull(text.c_str(), nullptr, 10);
}

bool MemoryGroup::limit(std::uint64_t bytes) const {
  return set(path_ + "/memory.max", std::to_string(bytes)) ||
         set(path_ + "/memory.limit_in_bytes", std::to_string(bytes));
}

MemoryGroup::~MemoryGroup() {
  if (path_.empty()) return;
  (void)wait_until([&] { return ::rmdir(path_.c_str()) == 0; }, 10s);
}

Arguments MemoryGroup::enter() const { return {"sh", "-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"", path_}; }

}  // namespace flight
