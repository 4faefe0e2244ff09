// SPDX-License-Identifier: Apache-2.0
// Operations on the files of one snapshot: open the data, pin.
#include <sys/stat.h>

#include <cerrno>

#include "libcore/store/catalogue.hpp"
#include "libcore/store/folder.hpp"

namespace flight {
namespace {

constexpr const char* kSidecarTemporary = ".flight-sidecar.partial";  // see the next one
constexpr const char* kPinTemporary = ".flight-pin.partial";          // remove_partials() removes a leftover

}  // namespace

Result<Catalogue::DataFile> Catalogue::open_in(const Folder& folder, std::string name) const {
  auto file = folder.open_file(name);
  if (!file) return propagate(file.error());
  DataFile out{.fd = std::move(*file), .name = std::move(name), .bytes = 0};
  struct stat status {};
  if (::fstat(out.fd.get(), &status) != 0) return sys_error(errno, "fstat {}/{}", folder_, out.name);
  out.bytes = static_cast<std::uint64_t>(status.st_size);
  return out;
}

Result<Catalogue::DataFile> Catalogue::open_data(std::string_view id) const {
  const auto found = find(id);
  if (!found) return propagate(found.error());
  const auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  if (!found->files.data)
    return fail(std::errc::no_message_available, "snapshot {}: the data file {} is missing; only its sidecar exists",
                found->name.seq, found->name.data_file());
  auto file = open_in(*folder, found->name.data_file());
  if (file || file.error().code != std::errc::invalid_argument) return file;
  const auto files = folder->open_folder(found->name.data_file());
  if (!files) return propagate(files.error());
  auto tar = tar_of(*files, found->name);
  if (!tar) return propagate(tar.error());
  const std::uint64_t bytes = tar->bytes();
  return DataFile{.fd = UniqueFd(),
                  .name = found->name.data_file() + std::string(kTarSuffix),
                  .bytes = bytes,
                  .tar = std::move(*tar)};
}

Result<Catalogue::DataFile> Catalogue::open_sidecar(std::string_view id) const {
  const auto found = find(id);
  if (!found) return propagate(found.error());
  const auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  if (!found->files.sidecar)
    return fail(std::errc::no_message_available, "snapshot {}: the sidecar {} is missing", found->name.seq,
                found->name.sidecar_file());
  return open_in(*folder, found->name.sidecar_file());
}

Result<Catalogue::DataFile> Catalogue::open_kallsyms(std::string_view id) const {
  const auto text = describe(id);
  if (!text) return propagate(text.error());
  const auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  const auto sidecar = summarize_sidecar(*text);
  const std::string name = sidecar ? kallsyms_of(sidecar->kallsyms, sidecar->boot_id) : std::string();
  if (sidecar && sidecar->kallsyms && sidecar->kallsyms->empty())
    return fail(std::errc::no_message_available,
                "snapshot {} has no kernel symbols: they could not be read, see its warnings", id);
  if (name.empty())
    return fail(std::errc::no_message_available, "the sidecar of snapshot {} does not name its kernel symbols", id);
  auto file = open_in(*folder, name);
  if (!file && file.error().code == std::errc::no_such_file_or_directory)
    return fail(std::errc::no_message_available,
                "the kernel's symbols of snapshot {} are not in the store: {}/{} does not exist", id, folder_, name);
  return file;
}

Result<std::vector<SnapshotName>> Catalogue::orphans() const {
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  auto found = scan(*folder);
  if (!found) return propagate(found.error());
  std::vector<SnapshotName> names;
  for (const auto& [stem, files] : *found)
    if (files.data && !files.sidecar)
      if (auto name = parse_snapshot_name(stem + std::string(kDataSuffix))) names.push_back(std::move(*name));
  return names;
}

Result<void> Catalogue::give_sidecar(const SnapshotName& name, std::string_view text) {
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  if (folder->size_of(name.sidecar_file()))
    return fail(std::errc::file_exists, "{}/{} exists already", folder_, name.sidecar_file());
  return note(folder->replace(name.sidecar_file(), kSidecarTemporary, text));
}

Result<void> Catalogue::pin(std::string_view id, bool pinned) {
  const auto found = find(id);
  if (!found) return propagate(found.error());
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  if (pinned) return note(folder->replace(found->name.pin_file(), kPinTemporary, ""));
  if (auto removed = folder->unlink(found->name.pin_file()); !removed) return propagate(removed.error());
  return note(folder->sync());
}

Result<void> Catalogue::note(Result<Unsynced> done) {
  if (!done) return propagate(done.error());
  unsynced_ = std::move(*done);
  return {};
}

}  // namespace flight
