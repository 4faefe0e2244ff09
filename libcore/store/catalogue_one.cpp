// SPDX-License-Identifier: Apache-2.0
// What is done with one snapshot's files beside describing and removing them: handing out the data, pinning.
#include <sys/stat.h>

#include <cerrno>

#include "libcore/store/catalogue.hpp"
#include "libcore/store/folder.hpp"

namespace flight {
namespace {

constexpr const char* kPinTemporary = ".flight-pin.partial";  // remove_partials() takes it away, should it stay behind

}  // namespace

Result<Catalogue::DataFile> Catalogue::open_data(std::string_view id) const {
  const auto found = find(id);
  if (!found) return pass(found.error());
  auto folder = Folder::open(folder_);
  if (!folder) return pass(folder.error());
  DataFile out{.fd = {}, .name = found->name.data_file(), .bytes = 0};
  if (!found->files.data)
    return fail(std::errc::no_message_available, "snapshot {} has lost its data file {}; only its sidecar is left",
                found->name.seq, out.name);
  auto file = folder->open_file(out.name);
  if (!file) return pass(file.error());
  out.fd = std::move(*file);
  struct stat status {};
  if (::fstat(out.fd.get(), &status) != 0) return sys_error(errno, "fstat {}/{}", folder_, out.name);
  out.bytes = static_cast<std::uint64_t>(status.st_size);
  return out;
}

Result<void> Catalogue::pin(std::string_view id, bool pinned) {
  const auto found = find(id);
  if (!found) return pass(found.error());
  auto folder = Folder::open(folder_);
  if (!folder) return pass(folder.error());
  if (pinned) return folder->replace(found->name.pin_file(), kPinTemporary, "");
  if (auto removed = folder->unlink(found->name.pin_file()); !removed) return pass(removed.error());
  return folder->sync();
}

}  // namespace flight
