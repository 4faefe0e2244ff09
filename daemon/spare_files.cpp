// SPDX-License-Identifier: Apache-2.0
#include "daemon/spare_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

constexpr const char* kDataName = ".flightd-spare-data";
constexpr const char* kSidecarName = ".flightd-spare-sidecar";

Result<UniqueFd> open_again(const UniqueFd& file, int flags) {
  UniqueFd out(::open(fmt::format("/proc/self/fd/{}", file.get()).c_str(), flags | O_CLOEXEC));
  if (!out) return sys_error(errno, "open a spare file for a last snapshot again");
  return out;
}

Result<UniqueFd> take_as(const std::string& folder, const char* name, Result<PartialFile> file) {
  if (!file) return pass(file.error());
  const std::string made = folder + "/" + file->name;
  if (::rename(made.c_str(), (folder + "/" + name).c_str()) == 0) return open_again(file->fd, O_PATH);
  const int error_number = errno;
  ::unlink(made.c_str());
  return sys_error(error_number, "rename {} to {}", made, name);
}

// Asks no disk: one that hangs would hold up the next freeze.
bool is_linked(const UniqueFd& file) {
  struct statx status {};
  return ::statx(file.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK, &status) == 0 && status.stx_nlink > 0;
}

constexpr std::string_view kLastSnapshot = "-broker-lost-";
constexpr std::size_t kCopyBytes = 1U << 20U;

// One whose group may write it; closed: none such.
UniqueFd open_unfinal(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  const bool found = file && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & S_IWGRP) != 0;
  return found ? std::move(file) : UniqueFd();
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
  if (::fsync(to) != 0) return sys_error(errno, "fsync");
  return {};
}

}  // namespace

Result<void> make_final(const std::string& folder, const std::function<Result<PartialFile>()>& ask) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string path = entry.path();
    if (path.find(kLastSnapshot) == std::string::npos) continue;
    const UniqueFd old = open_unfinal(path);
    if (!old) continue;
    const auto made = ask();
    if (!made) return wrap(made.error(), "make {} root's own", path);
    const std::string partial = folder + "/" + made->name;
    auto done = copy_all(old.get(), made->fd.get());
    if (done && ::rename(partial.c_str(), path.c_str()) != 0) done = sys_error(errno, "rename {}", partial);
    if (done) continue;
    ::unlink(partial.c_str());
    return wrap(done.error(), "make {} root's own", path);
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
  files_.reset();  // somebody removed them, or the folder is another now
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
                "flightd-broker is gone, and there are no spare files for a snapshot");
  auto data = open_again(files_->data, O_RDWR);
  if (!data) return pass(data.error());
  auto sidecar = open_again(files_->sidecar, O_RDWR);
  if (!sidecar) return pass(sidecar.error());
  SnapshotOutput out = std::move(*files_);
  files_.reset();
  out.data = std::move(*data);
  out.sidecar = std::move(*sidecar);
  return out;
}

}  // namespace flight
