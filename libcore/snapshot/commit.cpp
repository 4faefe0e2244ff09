// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/commit.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <mutex>

#include "libcore/base/bytes.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/steps.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/store/leftovers.hpp"

namespace flight {
namespace {

constexpr unsigned kFileMode = 0640;
constexpr int kKallsymsLevel = 3;

Result<void> rename_in(int folder, const std::string& from, const std::string& to) {
  // Never replaces a file: an id is used only once.
  if (::renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) {  // a file system without the flag
    if (::renameat(folder, from.c_str(), folder, to.c_str()) == 0) return {};
  }
  return sys_error(errno, "rename {} to {}", from, to);
}

Result<bool> write_sidecar(const SnapshotOutput& output, std::string_view text) {
  const int file = output.sidecar.get();
  const auto written = write_all(file, text);
  if (!written) return wrap(written.error(), "write {}/{}", output.folder, output.sidecar_name);
  after_step(Step::sidecar_written);
  auto synced = sync_data_now(file);
  if (!synced) return wrap(synced.error(), "{}/{}", output.folder, output.sidecar_name);
  after_step(Step::sidecar_synced);
  return synced;
}

}  // namespace

PartialFiles::~PartialFiles() {
  for (const std::string& name : names_) remove_unfinished(folder_, name);
}

std::string owner_warning(int data) {
  struct stat info {};
  if (::fstat(data, &info) != 0 || info.st_uid == 0) return "";
  return fmt::format(
      "its file belongs to user {}, because it could not be given to root: perf of other users needs `-f` "
      "to open it, or a copy by `flightctl get`",
      info.st_uid);
}

Result<bool> commit(const SnapshotOutput& output, const SnapshotName& name, std::string_view sidecar,
                    const std::function<bool(std::uint64_t needed_bytes)>& make_room) {
  auto written = write_sidecar(output, sidecar);
  if (!written && make_room && is_full(written.error().errno_value())) {
    const int file = output.sidecar.get();
    if (::ftruncate(file, 0) == 0 && ::lseek(file, 0, SEEK_SET) == 0 && make_room(sidecar.size()))
      written = write_sidecar(output, sidecar);
  }
  if (!written) return written;
  const SpareDescriptors::Use use;
  auto folder = open_file(output.folder, O_RDONLY | O_DIRECTORY);
  if (!folder) return propagate(folder.error());
  if (auto renamed = rename_in(folder->get(), output.sidecar_name, name.sidecar_file()); !renamed)
    return propagate(renamed.error());
  after_step(Step::sidecar_named);
  if (auto renamed = rename_in(folder->get(), output.data_name, name.data_file()); !renamed) {
    remove_unfinished(output.folder, name.sidecar_file());
    return propagate(renamed.error());
  }
  after_step(Step::data_named);
  return written;
}

Result<bool> sync_folder(const std::string& path) {
  const SpareDescriptors::Use use;
  auto folder = open_file(path, O_RDONLY | O_DIRECTORY);
  if (!folder) return propagate(folder.error());
  auto synced = sync_now(folder->get());
  if (!synced) return wrap(synced.error(), "directory {}", path);
  after_step(Step::folder_synced);
  return synced;
}

Result<std::vector<std::byte>> pack_kallsyms(std::string_view text) {
  return compress_all(bytes_of(text), kKallsymsLevel);
}

Result<bool> keep_kallsyms(const std::string& folder, const std::string& file_name, std::span<const std::byte> frame) {
  // Snapshots and recordings do this on different threads, and the name of the unfinished file is always the same.
  static std::mutex keeping;
  const std::lock_guard lock(keeping);
  const std::string path = folder + "/" + file_name;
  if (::access(path.c_str(), F_OK) == 0) return false;
  const std::string partial = folder + "/.flightd-kallsyms" + std::string(kPartialSuffix);
  if (::unlink(partial.c_str()) != 0 && errno != ENOENT) return sys_error(errno, "remove {}", partial);
  const SpareDescriptors::Use use;
  auto file = open_file(partial, O_WRONLY | O_CREAT | O_EXCL, kFileMode);
  if (!file) return propagate(file.error());
  auto done = write_all(file->get(), frame);
  if (done) done = sync_data_now(file->get()).map([](bool /*synced*/) {});
  after_step(Step::kallsyms_written);
  if (done && ::rename(partial.c_str(), path.c_str()) != 0) done = sys_error(errno, "rename {} to {}", partial, path);
  if (!done) {
    ::unlink(partial.c_str());
    return wrap(done.error(), "keep {}", path);
  }
  after_step(Step::kallsyms_named);
  return true;
}

}  // namespace flight
