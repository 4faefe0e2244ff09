// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/look.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "libcore/base/directory.hpp"
#include "libcore/base/files.hpp"
#include "libcore/config/document.hpp"

namespace flight {
namespace {

constexpr std::string_view kJsonSuffix = ".json";

Result<std::string> json_files(const std::string& folder) {
  std::vector<std::string> names;
  auto dir = Directory::open(folder);
  if (!dir) return propagate(dir.error());
  auto read = dir->each([&](const Directory::Entry& entry) {
    const std::string_view name = entry.name;
    if (name[0] != '.' && name.size() > kJsonSuffix.size() && name.ends_with(kJsonSuffix)) names.emplace_back(name);
    return names.size() <= kMaxDropIns;
  });
  if (!read) return propagate(read.error());
  return join_names(names);
}

// A hidden file, a backup, a swap file or a package manager's leftover: nobody expects that it is read.
bool is_leftover(std::string_view name) {
  if (name.starts_with('.') || name.starts_with('#') || name.starts_with("README")) return true;
  for (const std::string_view end :
       {"~", "#", ".swp", ".swo", ".tmp", ".bak", ".orig", ".rej", ".old", ".save", ".rpmsave", ".rpmnew", ".rpmorig"})
    if (name.ends_with(end)) return true;
  return name.find(".dpkg-") != std::string_view::npos || name.find(".ucf-") != std::string_view::npos;
}

// The other entries of /etc/flightd and its conf.d. A directory that cannot be read is reported elsewhere.
std::vector<std::string> unread_in(const std::string& etc) {
  std::vector<std::string> out;
  const auto look = [&out](const std::string& folder, const auto& is_read) {
    auto dir = Directory::open(folder);
    if (!dir) return;
    static_cast<void>(dir->each([&](const Directory::Entry& entry) {
      const std::string path = fmt::format("{}/{}", folder, entry.name);
      if (!is_read(std::string_view(entry.name), path) && !is_leftover(entry.name)) out.push_back(path);
      return out.size() < kMaxDropIns;
    }));
  };
  const auto is_folder = [](const std::string& path) {
    std::error_code error;
    return std::filesystem::is_directory(path, error);
  };
  look(etc, [](std::string_view name, const std::string&) { return name == "flightd.json" || name == "conf.d"; });
  look(etc + "/conf.d", [&](std::string_view name, const std::string& path) {
    return name.size() > kJsonSuffix.size() && name.ends_with(kJsonSuffix) && !is_folder(path);
  });
  std::sort(out.begin(), out.end());
  return out;
}

// A link to /dev/null masks a file, as with systemd's drop-ins.
bool is_masked(const std::string& file) {
  std::error_code error;
  return std::filesystem::is_symlink(file, error) && std::filesystem::canonical(file, error) == "/dev/null";
}

}  // namespace

Result<std::string> look_up(Look look, const std::string& path) {
  switch (look) {
    case Look::text:
      return read_regular_file(path, kMaxConfigBytes);
    case Look::json_files:
      return json_files(path);
    case Look::is_masked:
      return std::string(is_masked(path) ? "yes" : "");
    case Look::target: {
      std::error_code error;  // it is none, or there is nothing
      return std::filesystem::read_symlink(path, error).string();
    }
    case Look::unread:
      return join_names(unread_in(path));
  }
  return fail(std::errc::invalid_argument, "look at {}", path);
}

std::string entry_identity(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return fmt::format("error {}", errno);
  return fmt::format("{}:{} {}.{}", status.st_dev, status.st_ino, status.st_ctim.tv_sec, status.st_ctim.tv_nsec);
}

std::string join_names(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out.append(name).push_back('\0');
  return out;
}

std::vector<std::string> split_names(std::string_view joined) {
  std::vector<std::string> out;
  while (!joined.empty()) {
    const std::size_t end = std::min(joined.find('\0'), joined.size());
    out.emplace_back(joined.substr(0, end));
    joined.remove_prefix(std::min(end + 1, joined.size()));
  }
  return out;
}

}  // namespace flight
