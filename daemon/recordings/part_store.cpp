// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/part_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "daemon/snapshots/broker_file.hpp"
#include "daemon/store/held_store.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/steps.hpp"
#include "libcore/snapshot/commit.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/store/leftovers.hpp"

namespace flight::daemon {

Result<PartialFile> PartStore::make_one() {
  return ask_broker_file(recorder_, folder(), BrokerThread::kFileWait, false);
}

Result<UniqueFd> PartStore::ask_as(const std::string& name) {
  auto file = make_one();
  if (!file) return wrap(file.error(), "create a file in {}", folder());
  const std::string made = folder() + "/" + file->name;
  if (::rename(made.c_str(), (folder() + "/" + name).c_str()) == 0) return std::move(file->fd);
  const int error_number = errno;
  unlink(file->name);
  return sys_error(error_number, "rename {} to {}", made, name);
}

Result<DataFolderFiles> PartStore::make_folder(const std::string& name, std::size_t more) {
  return make_data_folder(folder(), name, more, [this] { return make_one(); });
}

Result<void> PartStore::make_data(PartFiles& out, std::size_t more) {
  const std::string name = part_file(PartFileKind::data, out.seq);
  if (more == 0) {
    auto data = ask_as(name);
    if (!data) return propagate(data.error());
    out.data = std::move(*data);
    return {};
  }
  auto files = make_folder(name, more);
  if (!files) return propagate(files.error());
  out.data = std::move(files->data);
  out.more = std::move(files->more);
  return {};
}

Result<PartFiles> PartStore::make(std::size_t more) {
  const auto seq = catalogue_.next_seq();
  if (!seq) return wrap(seq.error(), "number the part of a recording in {}", folder());
  PartFiles out;
  out.seq = *seq;
  auto opened = open_file(folder(), O_RDONLY | O_DIRECTORY);
  if (!opened) return propagate(opened.error());
  out.folder = std::move(*opened);
  if (auto made = make_data(out, more); !made) return propagate(made.error());
  // The journal last: without one, what was made is removed at the next start.
  for (const auto& [kind, file] :
       {std::pair(PartFileKind::sidecar, &out.sidecar), {PartFileKind::journal, &out.journal}}) {
    auto made = ask_as(part_file(kind, *seq));
    if (!made) {
      remove(*seq);
      return propagate(made.error());
    }
    *file = std::move(*made);
  }
  // What cannot be synced can still be recorded.
  static_cast<void>(sync_folder(folder()));
  after_step(Step::part_made);
  return out;
}

Result<void> PartStore::describe(int sidecar, const Sidecar& begun) {
  if (auto written = write_all(sidecar, to_json(begun)); !written)
    return wrap(written.error(), "begin the sidecar of a part");
  auto synced = sync_data_now(sidecar);
  if (!synced) return propagate(synced.error());
  after_step(Step::part_described);
  return {};
}

std::string PartStore::place_of(const UniqueFd& held) const {
  return !held || leads_to(folder(), held) ? folder() : fmt::format("/proc/self/fd/{}", held.get());
}

PartStore::Ready PartStore::ready(std::uint64_t seq, UniqueFd sidecar, const UniqueFd& held) {
  Ready out{.data_name = part_file(PartFileKind::data, seq),
            .sidecar_name = part_file(PartFileKind::sidecar, seq),
            .sidecar = std::move(sidecar),
            .place = place_of(held)};
  if (out.place != folder()) return out;  // the broker makes files only in the store
  if (auto fresh = make_one()) {
    out.sidecar_name = std::move(fresh->name);
    out.sidecar = std::move(fresh->fd);
  }
  return out;
}

Result<PartStore::Committed> PartStore::commit(Ready part, const SnapshotName& name, const Sidecar& contents,
                                               const std::function<bool(std::uint64_t)>& make_room) {
  const std::string place = part.place.empty() ? folder() : std::move(part.place);
  PartialFiles made(place, {});
  if (part.sidecar_name != part_file(PartFileKind::sidecar, name.seq)) made.add(part.sidecar_name);
  if (::ftruncate(part.sidecar.get(), 0) != 0 || ::lseek(part.sidecar.get(), 0, SEEK_SET) != 0)
    return sys_error(errno, "begin the sidecar of part {} again", name.seq);
  SnapshotOutput output;
  output.sidecar = std::move(part.sidecar);
  output.data_name = std::move(part.data_name);
  output.sidecar_name = std::move(part.sidecar_name);
  output.folder = place;
  output.seq = name.seq;
  const auto committed = flight::commit(output, name, to_json(contents), make_room);
  if (!committed) return propagate(committed.error());
  made.keep();
  remove_unfinished(place, part_file(PartFileKind::sidecar, name.seq));
  remove_unfinished(place, part_file(PartFileKind::journal, name.seq));
  after_step(Step::part_tidied);
  Committed out{.can_sync = *committed, .unsynced = std::nullopt};
  const auto synced = sync_folder(place);
  if (synced)
    out.can_sync = out.can_sync && *synced;
  else
    out.unsynced = synced.error();
  return out;
}

Result<void> PartStore::describe_again(const SnapshotName& name, const Sidecar& contents) const {
  const auto store = Folder::open(folder());
  if (!store) return propagate(store.error());
  // remove_partials() removes a leftover.
  const auto done =
      store->replace(name.sidecar_file(), fmt::format(".flightd-again-{}.partial", name.seq), to_json(contents));
  if (!done) return propagate(done.error());
  if (*done) return propagate(**done);
  return {};
}

Result<void> PartStore::name_data(const SnapshotName& name) const {
  const std::string from = folder() + "/" + part_file(PartFileKind::data, name.seq);
  const std::string to = folder() + "/" + name.data_file();
  if (::rename(from.c_str(), to.c_str()) != 0) return sys_error(errno, "rename {} to {}", from, to);
  after_step(Step::data_named);
  return {};
}

Result<void> PartStore::take_back_sidecar(const SnapshotName& name) const {
  const std::string from = folder() + "/" + name.sidecar_file();
  const std::string to = folder() + "/" + part_file(PartFileKind::sidecar, name.seq);
  if (::rename(from.c_str(), to.c_str()) != 0) return sys_error(errno, "rename {} to {}", from, to);
  return {};
}

void PartStore::unlink(const std::string& name) const { remove_unfinished(folder(), name); }

void PartStore::remove(std::uint64_t seq) const {
  // The journal last, too: a part without data is a leftover.
  for (const PartFileKind kind : {PartFileKind::data, PartFileKind::sidecar, PartFileKind::journal})
    unlink(part_file(kind, seq));
}

}  // namespace flight::daemon
