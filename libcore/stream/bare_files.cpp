// SPDX-License-Identifier: Apache-2.0
#include "libcore/stream/bare_files.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "libcore/base/data_folder.hpp"

namespace flight {
namespace {

Result<void> write_bare(int file, std::span<const std::byte> bytes, std::uint64_t offset, std::size_t number) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return sys_error(count < 0 ? errno : EIO, "write records to {} of a recording ({} bytes at {})",
                       bare_data_file(number), bytes.size(), offset);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

}  // namespace

BareFiles::BareFiles(std::vector<UniqueFd> files) {
  for (UniqueFd& file : files) files_.push_back({.fd = std::move(file), .bytes = 0, .waiting = {}});
}

Result<void> BareFiles::write_out() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    File& file = files_[i];
    if (file.waiting.empty()) continue;
    if (auto written = write_bare(file.fd.get(), file.waiting, file.bytes, i); !written) return written;
    file.bytes += file.waiting.size();
    file.waiting.clear();
  }
  return {};
}

void BareFiles::drop_waiting() {
  for (File& file : files_) file.waiting.clear();
}

std::vector<std::uint64_t> BareFiles::lengths() const {
  std::vector<std::uint64_t> out;
  for (const File& file : files_) out.push_back(file.bytes);
  return out;
}

std::uint64_t BareFiles::bytes() const {
  std::uint64_t sum = 0;
  for (const File& file : files_) sum += file.bytes;
  return sum;
}

// Also a file that seems short enough: the write that failed may have written some of it.
Result<void> BareFiles::cut(const std::vector<std::uint64_t>& lengths) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::uint64_t bytes = std::min(i < lengths.size() ? lengths[i] : 0, files_[i].bytes);
    if (::ftruncate(files_[i].fd.get(), static_cast<off_t>(bytes)) != 0)
      return sys_error(errno, "cut {} of a recording to {} bytes", bare_data_file(i), bytes);
    files_[i].bytes = bytes;
  }
  return {};
}

Result<bool> BareFiles::sync(const std::function<Result<bool>(int file)>& sync_one) const {
  bool all = true;
  for (const File& file : files_) {
    const auto synced = sync_one(file.fd.get());
    if (!synced) return synced;
    all = all && *synced;
  }
  return all;
}

}  // namespace flight
