// SPDX-License-Identifier: Apache-2.0
#include "ctl/bundle.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "ctl/fetch.hpp"
#include "ctl/kallsyms.hpp"
#include "ctl/output.hpp"
#include "ctl/remote_folder.hpp"
#include "libcore/base/bytes.hpp"
#include "libcore/base/files.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {
namespace {

constexpr mode_t kEntryMode = 0640;

struct FreeArchive {
  void operator()(archive* to) const { ::archive_write_free(to); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { ::archive_entry_free(entry); }
};

// An archive_write_callback. libarchive's own gives up if the descriptor is O_NONBLOCK and its reader is slow.
la_ssize_t write_block(archive* tar, void* fd, const void* block, std::size_t bytes) {
  const auto written =
      write_patiently(*static_cast<const int*>(fd), std::span(static_cast<const std::byte*>(block), bytes));
  if (written) return static_cast<la_ssize_t>(bytes);
  ::archive_set_error(tar, written.error().errno_value(), "%s", written.error().what.c_str());
  return -1;
}

// Writes a tar to a descriptor with libarchive, which supports sizes and names beyond the old format. The owner is
// root, so that root's perf opens the files after root unpacked them.
class Tar {
 public:
  [[nodiscard]] static Result<Tar> open(int fd) {
    auto target = std::make_unique<int>(fd);
    std::unique_ptr<archive, FreeArchive> to(::archive_write_new());
    struct stat found {};
    // As archive_write_open_fd(3): only a file ends behind the last entry, and not at the end of a block.
    if (to && ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) ::archive_write_set_bytes_in_last_block(to.get(), 1);
    if (!to || ::archive_write_set_format_pax_restricted(to.get()) != ARCHIVE_OK ||
        ::archive_write_open2(to.get(), target.get(), nullptr, write_block, nullptr, nullptr) != ARCHIVE_OK)
      return fail(std::errc::not_enough_memory, "begin the tar: {}",
                  to ? ::archive_error_string(to.get()) : "no memory");
    return Tar(std::move(target), std::move(to));
  }
  // The caller must then add exactly `bytes`.
  [[nodiscard]] Result<void> begin(const std::string& name, std::uint64_t bytes, WallTime time) {
    const std::unique_ptr<archive_entry, FreeEntry> entry(::archive_entry_new());
    if (!entry) return fail(std::errc::not_enough_memory, "no memory for a tar's entry");
    ::archive_entry_set_pathname(entry.get(), name.c_str());
    ::archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes));
    ::archive_entry_set_filetype(entry.get(), AE_IFREG);
    ::archive_entry_set_perm(entry.get(), kEntryMode);
    ::archive_entry_set_mtime(entry.get(), std::chrono::duration_cast<std::chrono::seconds>(time).count(), 0);
    if (::archive_write_header(to_.get(), entry.get()) != ARCHIVE_OK) return broken();
    return {};
  }
  [[nodiscard]] Result<void> add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const la_ssize_t count = ::archive_write_data(to_.get(), bytes.data(), bytes.size());
      if (count <= 0) return broken();
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }
  [[nodiscard]] Result<void> whole(const std::string& name, std::span<const std::byte> bytes, WallTime time) {
    if (auto begun = begin(name, bytes.size(), time); !begun) return begun;
    return add(bytes);
  }
  [[nodiscard]] Result<void> close() {
    if (::archive_write_close(to_.get()) != ARCHIVE_OK) return broken();
    return {};
  }

 private:
  Tar(std::unique_ptr<int> fd, std::unique_ptr<archive, FreeArchive> to) : fd_(std::move(fd)), to_(std::move(to)) {}
  [[nodiscard]] Failure broken() const {
    const int number = ::archive_errno(to_.get());
    return Failure(Error{{number > 0 ? number : EIO, std::generic_category()},
                         fmt::format("write the tar: {}", ::archive_error_string(to_.get()))});
  }
  std::unique_ptr<int> fd_;  // of write_block(), also while `to_` is freed
  std::unique_ptr<archive, FreeArchive> to_;
};

std::string readme(const Sidecar& sidecar, const SnapshotName& name) {
  return fmt::format(
      "A snapshot by flightd: what {} was doing until {} ({}, {:.1f} s). Run in this directory:\n"
      "\n"
      "  perf report -i {} --kallsyms kallsyms\n"
      "\n"
      "kallsyms has the symbols of its kernel, {}. {} describes what it contains and\n"
      "what is missing. Names of functions come from the machine that reads it, if it\n"
      "has the same programs.\n",
      printable(sidecar.host), sidecar.window.end, printable(sidecar.trigger), sidecar.window.seconds, name.data_file(),
      printable(sidecar.kernel), name.sidecar_file());
}

// A file, or a directory of files.
Result<void> add_data(Tar& tar, const std::string& path, RemoteFile& data, WallTime time) {
  const TakeBytes add = [&](std::span<const std::byte> bytes) { return tar.add(bytes); };
  if (is_folder(data))
    return read_remote_folder(
        data, [&](const std::string& file, std::uint64_t bytes) { return tar.begin(path + "/" + file, bytes, time); },
        add);
  return tar.begin(path, data.bytes, time).and_then([&] { return read_remote(data, add); });
}

Answer<std::string> target_of(const OutputFile& target, const SnapshotName& name) {
  if (!target.path.empty()) return target.path;
  auto own = own_place(name.stem() + ".tar", target);
  if (!own) return tl::unexpected(Refusal{std::string(kOutputFailed), own.error().what});
  return *own;
}

}  // namespace

Answer<std::string> fetch_bundle(const Common& common, const std::string& id, const OutputFile& target) {
  const auto failed = [](const Error& error) {
    return tl::unexpected(Refusal{std::string(kOutputFailed), error.what});
  };
  if (auto file = check_place(target); !file) return failed(file.error());
  const auto text = ask(common, "DescribeSnapshot", id_parameters(id), "snapshot");
  if (!text) return tl::unexpected(text.error());
  const auto sidecar = parse_sidecar(*text);
  if (!sidecar) return tl::unexpected(Refusal{std::string(kBadReply), sidecar.error().what});
  const auto kallsyms = fetch_kallsyms(common, sidecar->id, sidecar->boot_id);
  if (!kallsyms) return tl::unexpected(kallsyms.error());
  auto data = open_remote(common, sidecar->id, SnapshotFile::data);
  if (!data) return tl::unexpected(data.error());
  // The name comes from the daemon and becomes a path where the tar is unpacked, so it is checked.
  const auto name = name_of(*data);
  if (!name)
    return tl::unexpected(Refusal{std::string(kBadReply), fmt::format("flightd calls the snapshot '{}', which is not "
                                                                      "a snapshot name",
                                                                      printable(data->name))});
  auto where = target_of(target, *name);
  if (!where) return where;
  const std::string folder = name->stem() + "/";
  auto written = write_target(*where, [&](int fd) -> Result<void> {
    auto tar = Tar::open(fd);
    if (!tar) return propagate(tar.error());
    return tar->whole(folder + "README", bytes_of(readme(*sidecar, *name)), name->time)
        .and_then([&] { return tar->whole(folder + name->sidecar_file(), bytes_of(to_json(*sidecar)), name->time); })
        .and_then([&] { return tar->whole(folder + "kallsyms", *kallsyms, name->time); })
        .and_then([&] { return add_data(*tar, folder + name->data_file(), *data, name->time); })
        .and_then([&] { return tar->close(); });
  });
  if (!written) return failed(written.error());
  return *where;
}

}  // namespace flight::ctl
