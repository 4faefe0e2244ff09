// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/spare_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/store/budget.hpp"
#include "libcore/base/data_folder.hpp"
#include "libcore/base/directory.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/leftovers.hpp"

namespace flight::daemon {
namespace {

constexpr const char* kDataName = ".flightd-spare-data";
constexpr const char* kSidecarName = ".flightd-spare-sidecar";

Result<UniqueFd> open_again(const UniqueFd& file, int flags) {
  const std::string path = fmt::format("/proc/self/fd/{}", file.get());
  UniqueFd out = with_spare([&] { return ::open(path.c_str(), flags | O_CLOEXEC); });
  if (!out) return sys_error(errno, "open a spare file for a last snapshot again");
  return out;
}

Result<UniqueFd> take_as(const std::string& folder, const char* name, Result<PartialFile> file) {
  if (!file) return propagate(file.error());
  const std::string made = folder + "/" + file->name;
  if (::rename(made.c_str(), (folder + "/" + name).c_str()) == 0) return open_again(file->fd, O_PATH);
  const int error_number = errno;
  remove_unfinished(folder, file->name);
  return sys_error(error_number, "rename {} to {}", made, name);
}

// Does not access the disk: a blocked disk would delay the next freeze. 0 links count as removed. Some file systems on
// FUSE report 0 for each file (ctl/new_file.cpp). There each fill() makes two new files in place of the present ones,
// and nothing is lost. If 0 counted as unknown, the last snapshot could go into a removed file. A file that another
// client of NFS removed is not noticed, because the server is not asked.
bool is_linked(const UniqueFd& file) {
  const auto status = status_of_open(file.get());
  return status && status->st_nlink > 0;
}

constexpr std::string_view kLastSnapshot = "-broker-lost-";
constexpr std::size_t kCopyBytes = 1U << 20U;

constexpr std::uint64_t kLeftForOthers = 1U << 20U;

// The space on the disk of a file that its group may write; nullopt: the group may not write it.
std::optional<std::uint64_t> unfinal_bytes(int file) {
  struct stat info {};
  if (::fstat(file, &info) != 0 || (info.st_mode & S_IWGRP) == 0) return std::nullopt;
  return disk_bytes_of(info);
}

// The copy is tried every few seconds. Without this check, one that does not fit would fill the disk each time.
Result<void> check_space(const std::string& folder, std::uint64_t bytes) {
  const auto space = space_of(folder);
  if (!space || space->free_bytes >= bytes + kLeftForOthers) return {};
  return sys_error(ENOSPC, "copy {}", format_bytes(bytes));
}

Result<void> copy_all(int from, int to) {
  std::vector<std::byte> buffer(kCopyBytes);
  for (;;) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0) return sys_error(errno, "read");
    if (count == 0) break;
    if (auto written = write_all(to, std::span(buffer).first(static_cast<std::size_t>(count))); !written)
      return written;
  }
  return sync_now(to).map([](bool /*synced*/) {});
}

}  // namespace

Result<void> make_final(const std::string& folder, const std::function<Result<PartialFile>()>& ask) {
  auto listed = Directory::open(folder);
  if (!listed) return propagate(listed.error());
  std::vector<std::string> names;  // collect first: the directory changes while they are replaced
  auto read = listed->each([&](const Directory::Entry& entry) {
    if (entry.name.find(kLastSnapshot) != std::string::npos) names.emplace_back(entry.name);
    return true;
  });
  if (!read) return read;
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", folder, name);
    const auto old = open_regular_at(listed->fd(), name, path);
    const auto bytes = old ? unfinal_bytes(old->get()) : std::nullopt;
    if (!bytes) continue;
    if (auto fits = check_space(folder, *bytes); !fits) return wrap(fits.error(), "make root the owner of {}", path);
    const auto made = ask();
    if (!made) return wrap(made.error(), "make root the owner of {}", path);
    const std::string partial = folder + "/" + made->name;
    auto done = copy_all(old->get(), made->fd.get());
    if (done && ::rename(partial.c_str(), path.c_str()) != 0) done = sys_error(errno, "rename {}", partial);
    if (done) continue;
    remove_unfinished(folder, made->name);
    return wrap(done.error(), "make root the owner of {}", path);
  }
  return {};
}

SpareFiles::~SpareFiles() {
  if (!files_) return;
  ::unlink((folder_ + "/" + kDataName).c_str());
  ::unlink((folder_ + "/" + kSidecarName).c_str());
}

Result<void> SpareFiles::fill(const std::function<Result<PartialFile>()>& ask) {
  if (files_ && is_linked(files_->data) && is_linked(files_->sidecar)) return {};
  files_.reset();  // they were removed, or the directory was replaced
  auto data = take_as(folder_, kDataName, ask());
  if (!data) return wrap(data.error(), "spare files for a last snapshot");
  auto sidecar = take_as(folder_, kSidecarName, ask());
  if (!sidecar) {
    ::unlink((folder_ + "/" + kDataName).c_str());
    return wrap(sidecar.error(), "spare files for a last snapshot");
  }
  files_ = SnapshotOutput{.data = std::move(*data),
                          .sidecar = std::move(*sidecar),
                          .data_name = kDataName,
                          .sidecar_name = kSidecarName,
                          .folder = folder_,
                          .seq = 0};
  return {};
}

Result<SnapshotOutput> SpareFiles::take() {
  if (!files_)
    return fail(std::errc::no_such_file_or_directory,
                "flightd-broker is gone, and no files were prepared for a last snapshot");
  auto data = open_again(files_->data, O_RDWR);
  if (!data) return propagate(data.error());
  auto sidecar = open_again(files_->sidecar, O_RDWR);
  if (!sidecar) return propagate(sidecar.error());
  SnapshotOutput out = std::move(*files_);
  files_.reset();
  out.data = std::move(*data);
  out.sidecar = std::move(*sidecar);
  return out;
}

}  // namespace flight::daemon
