// SPDX-License-Identifier: Apache-2.0
#include "daemon/spare_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

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

}  // namespace

SpareFiles::~SpareFiles() {
  if (!files_) return;
  ::unlink((folder_ + "/" + kDataName).c_str());
  ::unlink((folder_ + "/" + kSidecarName).c_str());
}

Result<void> SpareFiles::fill(const std::function<Result<PartialFile>()>& ask) {
  if (files_) return {};
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
