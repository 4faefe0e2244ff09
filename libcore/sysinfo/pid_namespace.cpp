// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/pid_namespace.hpp"

#include <unistd.h>

#include <array>
#include <string_view>

namespace flight {
namespace {

// namespaces(7): the link reads "pid:[INODE]". The first namespace's inode is fixed: PROC_PID_INIT_INO, 0xEFFFFFFC.
constexpr std::string_view kHosts = "pid:[4026531836]";

}  // namespace

std::optional<bool> in_own_pid_namespace(const std::string& root) {
  std::array<char, 64> text{};
  const ssize_t bytes = ::readlink((root + "/proc/self/ns/pid").c_str(), text.data(), text.size());
  if (bytes <= 0) return std::nullopt;
  return std::string_view(text.data(), static_cast<std::size_t>(bytes)) != kHosts;
}

}  // namespace flight
