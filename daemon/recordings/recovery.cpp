// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/recovery.hpp"

#include <unistd.h>

#include <cerrno>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/recordings/part_facts.hpp"
#include "daemon/recordings/running_recording.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/snapshot/commit.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/stream/recover.hpp"

namespace flight::daemon {
namespace {

constexpr std::size_t kMaxJournalBytes = 64U << 20U;
constexpr std::size_t kCopyAtOnceBytes = 1U << 20U;

Result<void> copy_part(int from, int to) {
  std::vector<std::byte> buffer(kCopyAtOnceBytes);
  for (;;) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return sys_error(errno, "read an unfinished part");
    if (count == 0) return {};
    if (auto written = write_all(to, std::span(buffer).first(static_cast<std::size_t>(count))); !written)
      return wrap(written.error(), "copy an unfinished part");
  }
}

// The name that files of the part got before its flightd was killed: that of the data, if these have one.
Result<std::optional<SnapshotName>> name_given(Folder& folder, std::uint64_t seq) {
  std::optional<SnapshotName> out;
  auto read = folder.each([&](std::string_view file, std::uint64_t /*inode*/) {
    auto name = parse_snapshot_name(file);
    if (!name || name->seq != seq || name->trigger != kRecordTrigger) return;
    if (!out || file.ends_with(kDataSuffix)) out = std::move(name);
  });
  if (!read) return propagate(read.error());
  return out;
}

// nullopt: it is missing, cut, or that of a snapshot.
std::optional<Sidecar> part_sidecar(const Folder& folder, const std::string& file) {
  const auto text = folder.read(file, kMaxSidecarBytes);
  if (!text) return std::nullopt;
  auto sidecar = parse_sidecar(*text);
  if (!sidecar || !sidecar->record) return std::nullopt;
  return std::move(*sidecar);
}

// Its sidecar got its name, and the data did not: it is again the one so far, so that nothing of it is lost, however
// often this is repeated.
Result<void> take_back_sidecar(const PartStore& store, const Folder& folder, const SnapshotName& name) {
  if (part_sidecar(folder, part_file(PartFileKind::sidecar, name.seq)) || !part_sidecar(folder, name.sidecar_file()))
    return folder.unlink(name.sidecar_file()).map([](bool /*existed*/) {});
  return store.take_back_sidecar(name);
}

// What the flightd that was killed knew of it. Without that its number is all.
Sidecar contents_so_far(const Folder& folder, std::uint64_t seq) {
  if (auto begun = part_sidecar(folder, part_file(PartFileKind::sidecar, seq))) return std::move(*begun);
  Sidecar out;
  out.id = fmt::format("{}", seq);
  out.trigger = kRecordTrigger;
  out.capture = std::string(to_string(CaptureMode::live));
  out.record = SidecarRecord{.first = out.id, .part = 1, .ended = std::nullopt};
  out.warnings.emplace_back(
      "what was known when this part began is lost: its request, its channels and its place in "
      "the recording are unknown");
  return out;
}

SnapshotName name_of_part(const Sidecar& contents, std::uint64_t seq, const std::string& host) {
  const std::string file = contents.path.substr(contents.path.rfind('/') + 1);
  auto name = parse_snapshot_name(file);
  if (name && name->seq == seq) return std::move(*name);
  return {.host = clean_host(host), .time = wall_now(), .trigger = std::string(kRecordTrigger), .seq = seq};
}

void describe_recovered(Sidecar& contents, const Recovered& recovered) {
  contents.record->ended = std::string(to_string(RecordingEnd::killed));
  PartFacts facts;
  facts.file_bytes = recovered.file_bytes;
  facts.expanded_bytes = recovered.expanded_bytes;
  facts.events = recovered.events;
  facts.first_ns = recovered.first_ns;
  facts.newest_ns = recovered.newest_ns;
  // The clock of that boot, as it was when the part began.
  describe_part(contents, facts, RecordedRings(), clock_of(contents), contents.window.begin_ns);
  contents.warnings.emplace_back(
      "flightd was killed while it wrote this part: what was written last is missing, and holes in it are not known");
  if (recovered.left_out > 0)
    contents.warnings.push_back(fmt::format("its newest rounds ({}) could not be used: {}", recovered.left_out,
                                            recovered.reason.empty() ? "the disk is full" : recovered.reason));
}

}  // namespace

Result<std::string> recover_part(PartStore& store, std::uint64_t seq, const std::string& host) {
  auto folder = Folder::open(store.folder());
  if (!folder) return propagate(folder.error());
  const auto given = name_given(*folder, seq);
  if (!given) return propagate(given.error());
  if (*given && folder->size_of((*given)->data_file())) {
    // An earlier recovery was killed behind its last name.
    if (const Unsynced unsynced = folder->sync()) return propagate(*unsynced);
    store.remove(seq);
    return fmt::format("part {} of a recording had its name already: {}", seq, (*given)->data_file());
  }
  if (*given)
    if (auto taken = take_back_sidecar(store, *folder, **given); !taken) return propagate(taken.error());
  const auto journal = folder->read(part_file(PartFileKind::journal, seq), kMaxJournalBytes);
  if (!journal) return propagate(journal.error());
  const auto old = folder->open_file(part_file(PartFileKind::data, seq));
  if (!old) return propagate(old.error());
  auto data = store.make_one();
  if (!data) return propagate(data.error());
  PartialFiles made(store.folder(), {data->name});
  if (auto copied = copy_part(old->get(), data->fd.get()); !copied) return propagate(copied.error());
  const auto recovered = recover_what_fits(data->fd.get(), std::as_bytes(std::span(*journal)));
  if (!recovered && recovered.error().code == std::errc::bad_message) {
    store.remove(seq);
    return fmt::format("part {} of a recording was removed, since nothing in it can be used: {}", seq,
                       recovered.error().what);
  }
  if (!recovered) return propagate(recovered.error());
  if (const auto synced = sync_data_now(data->fd.get()); !synced) return propagate(synced.error());

  Sidecar contents = contents_so_far(*folder, seq);
  const SnapshotName name = name_of_part(contents, seq, host);
  contents.path = store.folder() + "/" + name.data_file();
  describe_recovered(contents, *recovered);
  auto sidecar = store.make_one();
  if (!sidecar) return propagate(sidecar.error());
  PartialFiles also_made(store.folder(), {sidecar->name});
  const auto committed = store.commit(
      {.data_name = data->name, .sidecar_name = sidecar->name, .sidecar = std::move(sidecar->fd)}, name, contents);
  if (!committed) return propagate(committed.error());
  made.keep();
  also_made.keep();
  store.remove(seq);
  return fmt::format("part {} of recording {} was finished: flightd was killed while it wrote it; it has {} events",
                     seq, contents.record->first, recovered->events);
}

}  // namespace flight::daemon
