// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/recovered_copy.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/snapshot/commit.hpp"

namespace flight::daemon {
namespace {

constexpr std::size_t kMaxJournalBytes = 64U << 20U;
constexpr std::size_t kCopyAtOnceBytes = 1U << 20U;

Result<void> copy_part(int from, int to, const std::function<bool()>& stop) {
  std::vector<std::byte> buffer(kCopyAtOnceBytes);
  for (;;) {
    if (stop && stop()) return fail(std::errc::operation_canceled, "flightd stops");
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "read an unfinished part");
    if (count == 0) return {};
    if (auto written = write_all(to, std::span(buffer).first(static_cast<std::size_t>(count))); !written)
      return wrap(written.error(), "copy an unfinished part");
  }
}

// Copies one file of a data directory. A missing file counts as empty: recover() then finds the rounds that did not
// need it.
Result<void> copy_of_folder(const DataFolder& old, const std::string& name, int to, const PartRecovery& order) {
  const auto from = old.open_file(name);
  if (from) return copy_part(from->get(), to, order.stop);
  if (from.error().code == std::errc::no_such_file_or_directory) return {};
  return propagate(from.error());
}

Result<RecoveredCopy> recover_folder(PartStore& store, const DataFolder& old, std::span<const std::byte> journal,
                                     const PartRecovery& order) {
  const std::size_t more = more_files_of(journal);
  if (more == 0)
    return fail(std::errc::bad_message, "its data is a directory, and its journal is damaged or that of a file");
  RecoveredCopy out{.name = fmt::format(".flightd-whole-{}{}", order.seq, kPartialSuffix), .recovered = {}};
  auto files = store.make_folder(out.name, more);
  if (!files) return propagate(files.error());
  PartialFiles made(store.folder(), {out.name});
  auto copied = copy_of_folder(old, std::string(kMainDataFile), files->data.get(), order);
  std::vector<int> numbers;
  for (std::size_t i = 0; copied && i < more; ++i) {
    numbers.push_back(files->more[i].get());
    copied = copy_of_folder(old, bare_data_file(i), numbers.back(), order);
  }
  if (!copied) return propagate(copied.error());
  auto recovered = recover_what_fits(files->data.get(), journal, numbers);
  if (!recovered) return propagate(recovered.error());
  numbers.push_back(files->data.get());
  for (const int file : numbers)
    if (const auto synced = sync_data_now(file); !synced) return propagate(synced.error());
  made.keep();
  out.recovered = std::move(*recovered);
  return out;
}

Result<RecoveredCopy> recover_file(PartStore& store, int old, std::span<const std::byte> journal,
                                   const PartRecovery& order) {
  auto file = store.make_one();
  if (!file) return propagate(file.error());
  PartialFiles made(store.folder(), {file->name});
  if (auto copied = copy_part(old, file->fd.get(), order.stop); !copied) return propagate(copied.error());
  auto recovered = recover_what_fits(file->fd.get(), journal);
  if (!recovered) return propagate(recovered.error());
  if (const auto synced = sync_data_now(file->fd.get()); !synced) return propagate(synced.error());
  made.keep();
  return RecoveredCopy{.name = std::move(file->name), .recovered = std::move(*recovered)};
}

}  // namespace

Result<RecoveredCopy> recover_copy(PartStore& store, const Folder& folder, const PartRecovery& order) {
  const auto journal = folder.read(part_file(PartFileKind::journal, order.seq), kMaxJournalBytes);
  if (!journal) return propagate(journal.error());
  const std::string data = part_file(PartFileKind::data, order.seq);
  const auto old_folder = folder.open_folder(data);
  // A directory that lacks its file `data`.
  if (!old_folder && old_folder.error().code == std::errc::bad_message) return propagate(old_folder.error());
  const auto old = old_folder ? Result<UniqueFd>(UniqueFd()) : folder.open_file(data);
  if (!old) return propagate(old.error());
  if (order.make_room)
    if (auto room = order.make_room(folder.size_of(data).value_or(Folder::Size()).bytes); !room)
      return propagate(room.error());
  const auto bytes = std::as_bytes(std::span(*journal));
  return old_folder ? recover_folder(store, *old_folder, bytes, order) : recover_file(store, old->get(), bytes, order);
}

}  // namespace flight::daemon
