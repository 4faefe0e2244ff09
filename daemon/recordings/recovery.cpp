// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/recovery.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/recordings/part_facts.hpp"
#include "daemon/recordings/recovered_copy.hpp"
#include "daemon/recordings/running_recording.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/snapshot/commit.hpp"
#include "libcore/snapshot/repair.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/stream/recover.hpp"

namespace flight::daemon {
namespace {

// nullopt: the file is missing or truncated, or it is a snapshot's sidecar.
std::optional<Sidecar> part_sidecar(const Folder& folder, const std::string& file) {
  const auto text = folder.read(file, kMaxSidecarBytes);
  if (!text) return std::nullopt;
  auto sidecar = parse_sidecar(*text);
  if (!sidecar || !sidecar->record) return std::nullopt;
  return std::move(*sidecar);
}

// The sidecar that the killed flightd wrote when the part began. If it cannot be read, only the part's number is known.
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

// The name that files of the part got before its flightd was killed: that of the data, if these have one. Files with
// another host in their names are ignored: a snapshot copied from there can have the same number.
Result<std::optional<SnapshotName>> name_given(Folder& folder, std::uint64_t seq, const std::string& host) {
  const std::string own_host = name_of_part(contents_so_far(folder, seq), seq, host).host;
  std::optional<SnapshotName> out;
  auto read = folder.each([&](std::string_view file, std::uint64_t /*inode*/) {
    auto name = parse_snapshot_name(file);
    if (!name || name->seq != seq || name->trigger != kRecordTrigger || name->host != own_host) return;
    if (!out || file.ends_with(kDataSuffix)) out = std::move(name);
  });
  if (!read) return propagate(read.error());
  return out;
}

bool knows_holes(const Sidecar& sidecar) { return sidecar.record->holes_known.value_or(false); }

std::string_view what_happened(RecordingEnd why) {
  return why == RecordingEnd::disk ? "the disk refused a part of it when it ended"
                                   : "flightd was killed while it wrote this part";
}

// It has nothing that the next recovery does not find again.
bool is_of_recovery(const Sidecar& sidecar) {
  const auto says_so = [](const std::string& warning) {
    return warning.starts_with(what_happened(RecordingEnd::killed)) ||
           warning.starts_with(what_happened(RecordingEnd::disk));
  };
  return std::any_of(sidecar.warnings.begin(), sidecar.warnings.end(), says_so);
}

// The sidecar had got its final name when flightd was killed, and the data had not. Makes it the unfinished part's
// sidecar again, so that its facts survive any number of interrupted recoveries. One that a recovery wrote, or that has
// no known holes, does not replace an earlier one.
Result<void> take_back_sidecar(const PartStore& store, const Folder& folder, const SnapshotName& name) {
  const auto named = part_sidecar(folder, name.sidecar_file());
  const auto begun = part_sidecar(folder, part_file(PartFileKind::sidecar, name.seq));
  const bool knows_more = named && (!begun || (knows_holes(*named) && !is_of_recovery(*named) && !knows_holes(*begun)));
  if (!knows_more) return folder.unlink(name.sidecar_file()).map([](bool /*existed*/) {});
  return store.take_back_sidecar(name);
}

// flightd was killed after it had renamed the sidecar and before it renamed the data. Both are complete, the holes
// included, so only the data's rename is missing. False: the sidecar is not that of this data.
Result<bool> name_data(const PartStore& store, const Folder& folder, const SnapshotName& name,
                       const PartRecovery& order) {
  const std::string data = part_file(PartFileKind::data, name.seq);
  auto named = part_sidecar(folder, name.sidecar_file());
  const auto size = folder.size_of(data);
  if (!named || !size || !size->ours) return false;
  const auto fits = is_data_of(*named, store.folder() + "/" + data, order.stop);
  if (!fits) return propagate(fits.error());
  if (!*fits) return false;
  if (order.last && !named->record->ended) {
    named->record->ended = std::string(to_string(order.why));
    if (auto done = store.describe_again(name, *named); !done) return propagate(done.error());
  }
  if (auto done = store.name_data(name); !done) return propagate(done.error());
  return true;
}

// The journal has all holes up to its last round. They are needed if flightd was killed before a sidecar with the
// holes was written.
void add_holes_of_journal(Sidecar& contents, const Recovered& recovered, PartFacts& facts) {
  for (const JournaledHole& one : recovered.holes)
    contents.holes.push_back(sidecar_hole(printable(one.channel), one.cpu, one.hole));
  facts.lost_events = recovered.lost_events;
  facts.lost_bytes = recovered.lost_bytes;
  facts.holes_left_out = recovered.holes_left_out;
}

void describe_recovered(Sidecar& contents, const Recovered& recovered, const PartRecovery& order) {
  // If the sidecar had its final name already, it says why the recording ended, and its holes are those of these
  // events.
  if (order.last && !contents.record->ended) contents.record->ended = std::string(to_string(order.why));
  PartFacts facts;
  facts.file_bytes = recovered.file_bytes;
  facts.expanded_bytes = recovered.expanded_bytes;
  facts.events = recovered.events;
  facts.first_ns = recovered.first_ns;
  facts.newest_ns = recovered.newest_ns;
  std::string_view how = "it was finished from its journal";
  if (!knows_holes(contents)) {
    contents.record->holes_known = true;
    contents.holes.clear();
    add_holes_of_journal(contents, recovered, facts);
    how = "it was finished from its journal; anything after its last round is missing";
  } else if (recovered.left_out > 0 || recovered.events != contents.samples) {
    contents.record->holes_known = false;
    how = "what was written last is missing, and holes in it are not known";
  }
  // The clock of that boot, as it was when the part began.
  const ClockHistory clock = clock_of(contents);
  contents.clock_steps.clear();
  describe_part(contents, facts, RecordedRings(), clock, contents.window.begin_ns);
  contents.warnings.push_back(fmt::format("{}: {}", what_happened(order.why), how));
  contents.notes.emplace_back(
      "files that had not been read yet when they were mapped can lack their build-id: it is added when a part ends");
  if (recovered.left_out > 0)
    contents.warnings.push_back(fmt::format("its newest rounds ({}) could not be used: {}", recovered.left_out,
                                            recovered.reason.empty() ? "the disk is full" : recovered.reason));
}

// The newest finished part of this recording of this host with a number in [from, before); nullopt: there is none.
std::optional<SnapshotName> newest_part(Folder& folder, const std::string& host, const std::string& first,
                                        std::uint64_t from, std::uint64_t before) {
  std::vector<SnapshotName> names;
  static_cast<void>(folder.each([&](std::string_view file, std::uint64_t /*inode*/) {
    auto name = parse_snapshot_name(file);
    if (name && name->seq >= from && name->seq < before && name->trigger == kRecordTrigger && name->host == host &&
        file.ends_with(kSidecarSuffix))
      names.push_back(std::move(*name));
  }));
  std::sort(names.begin(), names.end(), [](const auto& left, const auto& right) { return left.seq > right.seq; });
  for (SnapshotName& name : names)
    if (const auto sidecar = part_sidecar(folder, name.sidecar_file()); sidecar && sidecar->record->first == first)
      return std::move(name);
  return std::nullopt;
}

// Removes a part in which nothing can be used. If it was the last one of its recording, the part before it becomes the
// last one.
Result<std::string> drop_part(const PartStore& store, Folder& folder, const PartRecovery& order, const Error& error) {
  const Sidecar contents = contents_so_far(folder, order.seq);
  const std::string host = name_of_part(contents, order.seq, order.host).host;
  if (const auto before = order.last ? newest_part(folder, host, contents.record->first, 0, order.seq) : std::nullopt) {
    auto sidecar = part_sidecar(folder, before->sidecar_file());
    if (sidecar && !sidecar->record->ended) {
      sidecar->record->ended = std::string(to_string(order.why));
      sidecar->warnings.push_back(
          fmt::format("the recording had one more part, and nothing in it can be used: {}", what_happened(order.why)));
      if (auto done = store.describe_again(*before, *sidecar); !done) return propagate(done.error());
    }
  }
  store.remove(order.seq);
  return fmt::format("part {} of a recording was removed, since nothing in it can be used: {}", order.seq, error.what);
}

// The part is finished: removes what an earlier recovery left of it.
Result<std::string> tidy_up(const PartStore& store, const Folder& folder, const SnapshotName& name) {
  if (const Unsynced unsynced = folder.sync()) return propagate(*unsynced);
  store.remove(name.seq);
  return fmt::format("part {} of a recording had its name already: {}", name.seq, name.data_file());
}

}  // namespace

Result<std::string> recover_part(PartStore& store, const PartRecovery& order) {
  auto folder = Folder::open(store.folder());
  if (!folder) return propagate(folder.error());
  const auto given = name_given(*folder, order.seq, order.host);
  if (!given) return propagate(given.error());
  // Only if both files have the name: a commit renames the sidecar first, so a data file alone is not from a commit.
  if (*given && folder->size_of((*given)->data_file()) && folder->size_of((*given)->sidecar_file()))
    return tidy_up(store, *folder, **given);
  if (*given) {
    const auto named = name_data(store, *folder, **given, order);
    if (!named) return propagate(named.error());
    if (*named) {
      if (auto tidied = tidy_up(store, *folder, **given); !tidied) return tidied;
      return fmt::format("part {} of a recording was whole and lacked only its name: {}", order.seq,
                         (*given)->data_file());
    }
  }
  if (*given)
    if (auto taken = take_back_sidecar(store, *folder, **given); !taken) return propagate(taken.error());
  auto copy = recover_copy(store, *folder, order);
  if (!copy && copy.error().code == std::errc::bad_message) return drop_part(store, *folder, order, copy.error());
  if (!copy) return propagate(copy.error());
  PartialFiles made(store.folder(), {copy->name});
  Sidecar contents = contents_so_far(*folder, order.seq);
  const SnapshotName name = name_of_part(contents, order.seq, order.host);
  contents.path = store.folder() + "/" + name.data_file();
  describe_recovered(contents, copy->recovered, order);
  auto sidecar = store.make_one();
  if (!sidecar) return propagate(sidecar.error());
  const auto committed = store.commit(
      {.data_name = copy->name, .sidecar_name = sidecar->name, .sidecar = std::move(sidecar->fd)}, name, contents);
  if (!committed) return propagate(committed.error());
  made.keep();
  store.remove(order.seq);
  return fmt::format("part {} of recording {} was finished: {}; it has {}", order.seq, contents.record->first,
                     what_happened(order.why), counted(copy->recovered.events, "event"));
}

std::set<std::uint64_t> last_parts(const std::string& folder, const std::vector<std::uint64_t>& seqs,
                                   const std::string& host) {
  std::set<std::uint64_t> out;
  auto store = Folder::open(folder);
  if (!store) return out;
  std::map<std::string, std::uint64_t> last;  // by the recording
  for (const std::uint64_t seq : seqs) {
    Sidecar contents = contents_so_far(*store, seq);
    if (const auto given = name_given(*store, seq, host); given && *given)
      if (auto named = part_sidecar(*store, (*given)->sidecar_file())) contents = std::move(*named);
    std::uint64_t& known = last[contents.record->first];
    known = std::max(known, seq);
  }
  for (const auto& [first, seq] : last) {
    const std::string own_host = name_of_part(contents_so_far(*store, seq), seq, host).host;
    if (!newest_part(*store, own_host, first, seq + 1, UINT64_MAX)) out.insert(seq);
  }
  return out;
}

std::chrono::seconds recover_again_after(const Error& error) {
  constexpr std::chrono::seconds kSoon(10), kFullDisk(std::chrono::hours(1));
  return is_full(error.errno_value()) ? kFullDisk : kSoon;
}

}  // namespace flight::daemon
