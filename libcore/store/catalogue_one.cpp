// SPDX-License-Identifier: Apache-2.0
// What is done with one snapshot's files beside describing and removing them: handing out the data, pinning.
#include <sys/stat.h>

#include <cerrno>

#include "libcore/store/catalogue.hpp"
#include "libcore/store/folder.hpp"

namespace flight {
namespace {

constexpr const char* kSidecarTemporary = ".flight-sidecar.partial";  // as the next one
constexpr const char* kPinTemporary = ".flight-pin.partial";  // remove_partials() takes it away, should it stay behind

}  // namespace

Result<Catalogue::DataFile> Catalogue::open_in(const Folder& folder, std::string name) const {
  auto file = folder.open_file(name);
  if (!file) return pass(file.error());
  DataFile out{.fd = std::move(*file), .name = std::move(name), .bytes = 0};
  struct stat status {};
  if (::fstat(out.fd.get(), &status) != 0) return sys_error(errno, "fstat {}/{}", folder_, out.name);
  out.bytes = static_cast<std::uint64_t>(status.st_size);
  return out;
}

Result<Catalogue::DataFile> Catalogue::open_data(std::string_view id) const {
  const auto found = find(id);
  if (!found) return pass(found.error());
  const auto folder = Folder::open(folder_);
  if (!folder) return pass(folder.error());
  if (!found->files.data)
    return fail(std::errc::no_message_available, "snapshot {} has lost its data file {}; only its sidecar is left",
                found->name.seq, found->name.data_file());
  return open_in(*folder, found->name.data_file());
}

Result<Catalogue::DataFile> Catalogue::open_sidecar(std::string_view id) const {
  const auto found = find(id);
  if (!found) return pass(found.error());
  const auto folder = Folder::open(folder_);
  if (!folder) return pass(folder.error());
  if (!found->files.sidecar)
    return fail(std::errc::no_message_available, "snapshot {} has lost its sidecar {}", found->name.seq,
                found->name.sidecar_file());
  return open_in(*folder, found->name.sidecar_file());
}

Result<Catalogue::DataFile> Catalogue::open_kallsyms(std::string_view id) const {
  const auto text = describe(id);
  if (!text) return pass(text.error());
  const auto folder = Folder::open(folder_);
  if (!folder) return pass(folder.error());
  const auto sidecar = summarize_sidecar(*text);
  const std::string name = sidecar ? kallsyms_file(sidecar->boot_id) : std::string();
  // The id comes from a file: what it makes must be a name of ours.
  if (!is_kallsyms_file(name))
    return fail(std::errc::no_message_available, "the sidecar of snapshot {} does not say of which boot it is", id);
  auto file = open_in(*folder, name);
  if (!file && file.error().code == std::errc::no_such_file_or_directory)
    return fail(std::errc::no_message_available,
                "the kernel's symbols of snapshot {}'s boot are not in the store: {}/{} is not there", id, folder_,
                name);
  return file;
}

Result<std::vector<SnapshotName>> Catalogue::orphans() const {
  auto folder = Folder::open(folder_);
  if (!folder) return pass(folder.error());
  auto found = scan(*folder);
  if (!found) return pass(found.error());
  std::vector<SnapshotName> names;
  for (const auto& [stem, files] : *found)
    if (files.data && !files.sidecar)
      if (auto name = parse_snapshot_name(stem + std::string(kDataSuffix))) names.push_back(std::move(*name));
  return names;
}

Result<void> Catalogue::give_sidecar(const SnapshotName& name, std::string_view text) {
  auto folder = Folder::open(folder_);
  if (!folder) return pass(folder.error());
  if (folder->size_of(name.sidecar_file()))
    return fail(std::errc::file_exists, "{}/{} is there already", folder_, name.sidecar_file());
  return folder->replace(name.sidecar_file(), kSidecarTemporary, text);
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
