// SPDX-License-Identifier: Apache-2.0
// The walk over the hierarchy of cgroups (declared in processes.hpp).
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <mntent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/directory.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/base/units.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

struct CloseMounts {
  void operator()(std::FILE* file) const { ::endmntent(file); }
};

// perf_event belongs to the v1 hierarchy that is mounted with it, otherwise to v2 (cgroups(7)). Empty: no cgroups.
std::string mount_of_perf_event() {
  const std::unique_ptr<std::FILE, CloseMounts> mounts(::setmntent("/proc/self/mounts", "re"));
  if (!mounts) return {};
  std::string unified;
  mntent entry{};
  std::string buffer(16384, '\0');
  while (::getmntent_r(mounts.get(), &entry, buffer.data(), static_cast<int>(buffer.size())) != nullptr) {
    const std::string_view type = entry.mnt_type;
    if (type == "cgroup" && ::hasmntopt(&entry, "perf_event") != nullptr) return entry.mnt_dir;
    if (type == "cgroup2" && unified.empty()) unified = entry.mnt_dir;
  }
  return unified;
}

// The folders over which a server's file system is mounted, as in a container: a look into one would wait for it.
class Covered {
 public:
  // `base`: a folder above it that has been checked.
  [[nodiscard]] bool has(const std::string& base, const std::string& folder) {
    const std::string type = waits_below(base, folder);
    if (type.empty()) return false;
    if (++count_ == 1) text_ = fmt::format("{} is on {}, whose server may never answer", folder, type);
    return true;
  }
  [[nodiscard]] std::string text() const {
    if (count_ < 2) return text_;
    return fmt::format("{}, and {} more", text_, counted(count_ - 1, "folder"));
  }

 private:
  std::size_t count_ = 0;
  std::string text_;  // of the first
};

// The file handle of a cgroup's directory is its id. If handles are not permitted, the inode number is the same on
// 64-bit machines.
std::uint64_t id_of(const std::string& folder) {
  constexpr std::size_t kIdBytes = sizeof(std::uint64_t);
  alignas(file_handle) std::array<std::byte, sizeof(file_handle) + kIdBytes> space{};
  auto* handle = reinterpret_cast<file_handle*>(space.data());
  handle->handle_bytes = kIdBytes;
  int mount = 0;
  if (::name_to_handle_at(AT_FDCWD, folder.c_str(), handle, &mount, 0) == 0 && handle->handle_bytes == kIdBytes) {
    std::uint64_t id = 0;
    std::memcpy(&id, space.data() + sizeof(file_handle), sizeof id);
    return id;
  }
  struct stat status {};
  return ::stat(folder.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::vector<std::string> subfolders(const std::string& folder, std::size_t most) {
  std::vector<std::string> names;
  auto directory = Directory::open(folder);
  if (!directory) return names;  // removed meanwhile
  // A cgroup without a name is shown by its number, so an error here costs names only.
  static_cast<void>(directory->each([&names, most](const Directory::Entry& entry) {
    if (entry.type == DT_DIR) names.emplace_back(entry.name);
    return names.size() < most;
  }));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

CgroupList list_cgroups(std::size_t most, std::size_t most_bytes) {
  CgroupList out;
  auto& found = out.found;
  const std::string mount = mount_of_perf_event();
  if (mount.empty() || most == 0) return out;
  Covered covered;
  if (covered.has("/", mount)) {
    out.unread = covered.text();
    return out;
  }
  found.push_back({id_of(mount), "/"});
  std::size_t bytes = 0;
  for (std::size_t next = 0; next < found.size();
       ++next) {  // breadth first: if the limit is reached, deep ones are missing
    const std::string parent = found[next].path == "/" ? "" : found[next].path;
    for (const std::string& name : subfolders(mount + parent, most)) {
      std::string path = parent;
      path.append("/").append(name);
      bytes += path.size();
      out.is_cut = found.size() == most || bytes > most_bytes;
      if (out.is_cut) break;
      if (covered.has(mount + parent, mount + path)) continue;
      if (const std::uint64_t id = id_of(mount + path); id != 0) found.push_back({id, std::move(path)});
    }
    if (out.is_cut) break;
  }
  out.unread = covered.text();
  return out;
}

}  // namespace flight
