// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/steps.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/store/leftovers.hpp"
#include "libcore/store/names.hpp"

namespace flight {
namespace {

constexpr unsigned kFileMode = 0644;  // a flightd of another user must be able to read it

// S_IFREG, S_IFDIR or another one; 0: it does not exist any more.
mode_t kind_of(int folder, const Directory::Entry& entry) {
  if (entry.type != DT_UNKNOWN) return DTTOIF(static_cast<mode_t>(entry.type));
  struct stat status {};  // the file system does not report it
  const bool known = ::fstatat(folder, std::string(entry.name).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  return known ? status.st_mode & S_IFMT : 0;
}

// Only with such a name is a directory flightd's: the data of a snapshot, or unfinished.
bool may_be_data_folder(std::string_view name) { return name.ends_with(kDataSuffix) || name.ends_with(kPartialSuffix); }

// The name of a data directory while it is being removed. flightd-broker does not count it among the files that it
// made.
std::string name_of_removed(const std::string& name) {
  if (name.ends_with(kPartialSuffix)) return name;
  return fmt::format(".flight-{}{}", name, kPartialSuffix);
}

// `is_whole`: none of its files is gone.
Result<void> unlink_files(const DataFolder& folder, const std::string& shown, bool& is_whole) {
  is_whole = true;
  for (const DataFolderFile& file : folder.files()) {
    if (::unlinkat(folder.fd(), file.name.c_str(), 0) != 0 && errno != ENOENT)
      return sys_error(errno, "remove {}/{}", shown, file.name);
    is_whole = false;
  }
  return {};
}

}  // namespace

Result<Folder> Folder::open(const std::string& path) {
  auto directory = Directory::open(path);
  if (!directory) return wrap(directory.error(), "the snapshots");
  return Folder(path, std::move(*directory));
}

Result<void> Folder::each(const std::function<void(std::string_view, std::uint64_t)>& visit) {
  auto read = directory_.each([&](const Directory::Entry& entry) {
    if (is_visited(entry)) visit(entry.name, entry.inode);
    return true;
  });
  if (!read) return wrap(read.error(), "the snapshots");
  return {};
}

bool Folder::is_visited(const Directory::Entry& entry) const {
  const mode_t kind = kind_of(fd(), entry);
  if (S_ISREG(kind)) return true;
  if (!S_ISDIR(kind)) return false;
  if (entry.name.starts_with(".flight") && entry.name.ends_with(kPartialSuffix)) return true;
  if (!entry.name.ends_with(kDataSuffix)) return false;
  const std::string main = fmt::format("{}/{}", entry.name, kMainDataFile);
  struct stat status {};
  return ::fstatat(fd(), main.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

Result<DataFolder> Folder::open_folder(const std::string& name) const {
  return DataFolder::open_at(fd(), name, fmt::format("{}/{}", path_, name));
}

Result<UniqueFd> Folder::open_file(const std::string& name) const {
  return open_regular_at(fd(), name, fmt::format("{}/{}", path_, name));
}

Result<std::string> Folder::read(const std::string& name, std::size_t max_bytes) const {
  const auto file = open_file(name);
  if (!file) return propagate(file.error());
  auto text = read_all(file->get(), max_bytes);
  if (!text) return wrap(text.error(), "{}/{}", path_, name);
  return text;
}

Result<std::string> Folder::read_until(const std::string& name, std::string_view enough, std::size_t max_bytes) const {
  constexpr std::size_t kHeadBytes = 16U << 10U;
  const auto file = open_file(name);
  if (!file) return propagate(file.error());
  std::string head(kHeadBytes, '\0');
  std::size_t done = 0;
  while (done < head.size()) {
    const ssize_t count = ::pread(file->get(), head.data() + done, head.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // read_all() reports it
    done += static_cast<std::size_t>(count);
    if (count > 0) continue;
    head.resize(done);  // this is all of it
    return head;
  }
  if (done == head.size() && head.find(enough) != std::string::npos) return head;
  auto text = read_all(file->get(), max_bytes);
  if (!text) return wrap(text.error(), "{}/{}", path_, name);
  return text;
}

std::optional<Folder::Size> Folder::size_of(const std::string& name) const {
  struct stat status {};
  if (::fstatat(fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  Size out{.bytes = static_cast<std::uint64_t>(status.st_size),
           .disk_bytes = disk_bytes_of(status),
           .ours = S_ISREG(status.st_mode),
           .links = status.st_nlink};
  if (!S_ISDIR(status.st_mode)) return out;
  out.links = 1;
  if (!may_be_data_folder(name)) return out;
  const auto folder = open_folder(name);
  if (!folder) return out;
  out.ours = true;
  out.bytes = folder->bytes();
  for (const DataFolderFile& file : folder->files()) {
    out.disk_bytes += file.disk_bytes;
    out.links = std::max(out.links, file.links);
    ++out.inodes;
  }
  return out;
}

Result<bool> Folder::unlink(const std::string& name) const {
  if (::unlinkat(fd(), name.c_str(), 0) == 0) return true;
  const int why = errno;
  if (why == ENOENT) return false;
  struct stat status {};
  const bool folder = ::fstatat(fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
  if (folder && may_be_data_folder(name)) return remove_folder(name);
  return sys_error(why, "remove {}/{}", path_, name);
}

Result<bool> Folder::remove_folder(const std::string& name) const {
  const std::string shown = fmt::format("{}/{}", path_, name);
  // One that is being made or removed may lack its main file; another one without it is not flightd's.
  const auto folder =
      name.ends_with(kPartialSuffix) ? DataFolder::open_any(fd(), name, shown) : DataFolder::open_at(fd(), name, shown);
  if (!folder) return wrap(folder.error(), "remove {}", shown);
  if (!folder->other().empty())
    return sys_error(ENOTEMPTY, "remove {}: {} in it is not flightd's; move it elsewhere", shown, folder->other());
  // Before it has another name: a flightd of another user cannot empty it.
  if (::faccessat(folder->fd(), ".", W_OK | X_OK, AT_EACCESS) != 0)
    return sys_error(errno, "remove {}: the directory belongs to another user", shown);
  const std::string removed = name_of_removed(name);
  if (removed != name) {
    static_cast<void>(unlink(removed));  // an earlier attempt may have left it
    if (::renameat(fd(), name.c_str(), fd(), removed.c_str()) != 0) return sys_error(errno, "rename {}", shown);
  }
  bool is_whole = true;
  if (auto emptied = unlink_files(*folder, shown, is_whole); !emptied) {
    // Nothing was removed: it gets its name back and stays a snapshot. A user may have made its files immutable, to
    // keep them.
    if (is_whole && removed != name) static_cast<void>(::renameat(fd(), removed.c_str(), fd(), name.c_str()));
    if (!is_whole) remember_leftover(path_, removed);
    return propagate(emptied.error());
  }
  if (::unlinkat(fd(), removed.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
  const int why = errno;
  remember_leftover(path_, removed);
  return sys_error(why, "remove {}/{}", path_, removed);
}

Result<Unsynced> Folder::replace(const std::string& name, const std::string& temporary, std::string_view text) const {
  // Removes a leftover with this name; O_EXCL then ensures that no other file is overwritten.
  if (auto removed = unlink(temporary); !removed) return propagate(removed.error());
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  UniqueFd file = with_spare([&] { return ::openat(fd(), temporary.c_str(), kFlags, kFileMode); });
  if (!file) return sys_error(errno, "create {}/{}", path_, temporary);
  auto done = write_all(file.get(), text);
  if (done) done = sync_now(file.get()).map([](bool /*synced*/) {});
  if (!done) done = wrap(done.error(), "{}/{}", path_, temporary);
  if (name == kSeqFile) after_step(Step::seq_written);
  if (done && ::renameat(fd(), temporary.c_str(), fd(), name.c_str()) != 0)
    done = sys_error(errno, "rename {0}/{1} to {0}/{2}", path_, temporary, name);
  if (!done) {
    ::unlinkat(fd(), temporary.c_str(), 0);
    return propagate(done.error());
  }
  return sync();
}

Result<Unsynced> Folder::overwrite(const std::string& name, std::string_view text) const {
  const UniqueFd file =
      with_spare([&] { return ::openat(fd(), name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
  if (!file) return sys_error(errno, "open {}/{}", path_, name);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return sys_error(errno, "fstat {}/{}", path_, name);
  // Another name of it may be somebody else's file.
  if (!S_ISREG(status.st_mode) || status.st_nlink != 1)
    return sys_error(EMLINK, "write {}/{}: it is no regular file with one name", path_, name);
  auto done = write_all(file.get(), text);
  if (done && ::ftruncate(file.get(), static_cast<off_t>(text.size())) != 0)
    done = sys_error(errno, "ftruncate {}/{}", path_, name);
  if (done) done = sync_now(file.get()).map([](bool /*synced*/) {});
  if (!done) return wrap(done.error(), "{}/{}", path_, name);
  return Unsynced();
}

Unsynced Folder::sync() const {
  const auto synced = sync_now(fd());
  if (synced) return std::nullopt;
  return wrap(synced.error(), "directory {}", path_).value();
}

std::string absolute_folder(const std::string& folder) {
  std::error_code error;
  const auto path = std::filesystem::absolute(folder, error);
  std::string text = error ? folder : path.lexically_normal().string();
  if (text.empty() || text.back() != '/') text += '/';
  return text;
}

}  // namespace flight
