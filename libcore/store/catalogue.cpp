// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/catalogue.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "libcore/store/folder.hpp"
#include "libcore/store/leftovers.hpp"

namespace flight {
namespace {

// The parsed id: "latest" or a number.
struct Id {
  bool latest = false;
  std::uint64_t seq = 0;
};

Result<Id> parse_id(std::string_view text) {
  if (text == "latest") return Id{.latest = true};
  if (const auto seq = parse_seq(text)) return Id{.seq = *seq};
  return fail(std::errc::invalid_argument,
              "not a snapshot id: an id is a decimal number without leading zeros, or 'latest'");
}

// The part of the row that the name contains; the rest comes from the sidecar, if there is one.
CatalogueRow row_of(const SnapshotName& name, const std::string& folder) {
  CatalogueRow row;
  row.id = fmt::format("{}", name.seq);
  row.path = folder + name.data_file();
  row.time = to_rfc3339(name.time);
  row.trigger = name.trigger;
  return row;
}

// False: the text is not a sidecar.
bool fill_from_sidecar(CatalogueRow& row, std::string_view text) {
  auto sidecar = summarize_sidecar(text);
  if (!sidecar) return false;
  row.reason = std::move(sidecar->reason);
  row.size_bytes = sidecar->size_bytes;
  row.samples = sidecar->samples;
  row.seconds = sidecar->seconds;
  row.kallsyms = kallsyms_of(sidecar->kallsyms, sidecar->boot_id);
  row.boot_id = std::move(sidecar->boot_id);
  row.units = std::move(sidecar->units);
  row.record = std::move(sidecar->record);
  return true;
}

std::string_view stem_of(std::string_view file) {
  for (const std::string_view suffix : {kDataSuffix, kSidecarSuffix, kPinSuffix})
    if (file.ends_with(suffix)) return file.substr(0, file.size() - suffix.size());
  return {};
}

// The text in the place of SEQ: cheaper than parsing every name.
std::optional<std::uint64_t> ending_seq(std::string_view file) {
  const std::string_view stem = stem_of(file);
  const std::size_t dash = stem.rfind('-');
  return dash == std::string_view::npos ? std::nullopt : parse_seq(stem.substr(dash + 1));
}

}  // namespace

void Catalogue::Files::note(std::string_view file, std::uint64_t inode) {
  if (file.ends_with(kDataSuffix)) {
    data = true;
  } else if (file.ends_with(kPinSuffix)) {
    pin = true;
  } else {
    sidecar = true;
    sidecar_inode = inode;
  }
}

Result<std::unordered_map<std::string, Catalogue::Files>> Catalogue::scan(Folder& folder) {
  std::unordered_map<std::string, Files> found;
  auto read = folder.each([&](std::string_view file, std::uint64_t inode) {
    const std::string_view stem = stem_of(file);
    if (stem.empty()) return;
    found[std::string(stem)].note(file, inode);
  });
  if (!read) return propagate(read.error());
  std::erase_if(found,
                [](const auto& one) { return !one.second.data && !one.second.sidecar; });  // a pin without a snapshot
  return found;
}

Catalogue::Cached Catalogue::read_row(const Folder& folder, const std::string& path, const SnapshotName& name,
                                      const Files& files) const {
  Cached fresh{.seq = name.seq, .files = files, .seen = files, .row = row_of(name, path), .json = {}};
  fresh.row.pinned = files.pin;
  bool described = false;
  if (files.sidecar) {
    const auto text = folder.read_until(name.sidecar_file(), kProgramsLine, kMaxSidecarBytes);
    // A sidecar that flightd may not read (from a flightd in another group) still exists.
    described = text ? fill_from_sidecar(fresh.row, *text) : text.error().errno_value() == EACCES;
    // Try again next time: too many files were open, or the sidecar was just removed. Inode 0 differs from every
    // file's.
    if (!text && text.error().errno_value() != EFBIG) fresh.files.sidecar_inode = 0;
  }
  if (fresh.row.size_bytes == 0) {
    const auto size = folder.size_of(name.data_file());
    fresh.row.size_bytes = size ? size->bytes : 0;
  }
  // A sidecar that cannot be parsed is treated as missing.
  if (!files.data)
    fresh.row.state = SnapshotState::missing;
  else
    fresh.row.state = described ? SnapshotState::present : SnapshotState::orphan;
  fresh.json = to_json(fresh.row);
  return fresh;
}

Result<void> Catalogue::look() {
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  for (auto& [stem, known] : cached_) known.seen = {};
  std::unordered_map<std::string, Files> others;
  auto read = folder->each([&](std::string_view file, std::uint64_t inode) {
    const std::string_view stem = stem_of(file);
    if (stem.empty()) return;
    const auto known = cached_.find(stem);
    (known != cached_.end() ? known->second.seen : others[std::string(stem)]).note(file, inode);
  });
  if (!read) return propagate(read.error());
  for (auto known = cached_.begin(); known != cached_.end();) {
    if (known->second.files == known->second.seen) {
      ++known;
      continue;
    }
    text_.clear();  // first: what follows needs memory
    others.emplace(known->first, known->second.seen);
    known = cached_.erase(known);
  }
  const std::string path = absolute_folder(folder_);
  for (const auto& [stem, files] : others) {
    if ((!files.data && !files.sidecar) || is_left(*folder, stem)) continue;
    const auto name = parse_snapshot_name(stem + std::string(kDataSuffix));
    if (!name) continue;
    text_.clear();
    cached_.emplace(stem, read_row(*folder, path, *name, files));
  }
  return {};
}

std::vector<const Catalogue::Cached*> Catalogue::in_order() const {
  std::vector<const Cached*> order;
  order.reserve(cached_.size());
  for (const auto& [stem, one] : cached_) order.push_back(&one);
  std::sort(order.begin(), order.end(), [](const Cached* a, const Cached* b) {
    return a->seq != b->seq ? a->seq < b->seq : a->row.path < b->row.path;
  });
  return order;
}

Result<std::vector<CatalogueRow>> Catalogue::list() {
  if (auto looked = look(); !looked) return propagate(looked.error());
  std::vector<CatalogueRow> rows;
  rows.reserve(cached_.size());
  for (const Cached* cached : in_order()) rows.push_back(cached->row);
  return rows;
}

Result<std::string> Catalogue::list_json() {
  if (auto looked = look(); !looked) return propagate(looked.error());
  if (!text_.empty()) return text_;
  std::size_t bytes = 2;
  for (const auto& [stem, cached] : cached_) bytes += cached.json.size() + 1;
  std::string text = "[";
  text.reserve(bytes);
  for (const Cached* cached : in_order()) {
    if (text.size() > 1) text += ',';
    text += cached->json;
  }
  text += ']';
  text_ = std::move(text);
  return text_;
}

// A copy under another host's name has the same SEQ: prefer the one with both files, then the latest.
Result<Catalogue::Found> Catalogue::find(std::string_view id) const {
  const auto wanted = parse_id(id);
  if (!wanted) return propagate(wanted.error());
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  std::unordered_map<std::string, Found> found;
  std::uint64_t greatest = 0;
  auto read = folder->each([&](std::string_view file, std::uint64_t /*inode*/) {
    const auto seq = ending_seq(file);
    if (!seq || (wanted->latest ? *seq < greatest : *seq != wanted->seq)) return;
    auto name = parse_snapshot_name(file);
    if (!name || is_left(*folder, stem_of(file))) return;
    greatest = *seq;
    Found& one = found[name->stem()];
    (file.ends_with(kDataSuffix) ? one.files.data : one.files.sidecar) = true;
    one.name = std::move(*name);
  });
  if (!read) return propagate(read.error());
  const auto rank = [](const Found& f) {
    return std::tuple(f.name.seq, f.files.data && f.files.sidecar, f.files.data, f.name.time, f.name.host);
  };
  const Found* best = nullptr;
  for (const auto& [stem, one] : found)
    if (best == nullptr || rank(one) > rank(*best)) best = &one;
  if (best != nullptr) return *best;
  if (wanted->latest) return fail(std::errc::no_such_file_or_directory, "there is no snapshot yet in {}", folder_);
  return fail(std::errc::no_such_file_or_directory, "there is no snapshot {} in {}; `flightctl list` shows all",
              wanted->seq, folder_);
}

Result<std::string> Catalogue::describe(std::string_view id) const {
  const auto found = find(id);
  if (!found) return propagate(found.error());
  const SnapshotName& name = found->name;
  if (!found->files.sidecar)
    return fail(std::errc::no_message_available, "snapshot {}: the sidecar {} is missing; its data is still in {}{}",
                name.seq, name.sidecar_file(), absolute_folder(folder_), name.data_file());
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  return folder->read(name.sidecar_file(), kMaxSidecarBytes);
}

Result<void> Catalogue::remove(std::string_view id) {
  left_behind_.reset();
  const auto found = find(id);
  if (!found) return propagate(found.error());
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  // The data first: if flightd is killed between the two, the snapshot is still listed and can be removed again.
  const auto had_data = folder->unlink(found->name.data_file());
  if (!had_data) return propagate(had_data.error());
  bool took_effect = *had_data;
  std::optional<Error> left;
  for (const std::string& file : {found->name.sidecar_file(), found->name.pin_file()}) {
    const auto removed = folder->unlink(file);
    if (removed) {
      took_effect = took_effect || *removed;
    } else {
      if (!took_effect) return propagate(removed.error());  // it is still listed, and keeps its pin
      if (!left) left = removed.error();
    }
  }
  if (left) left_.insert(found->name.stem());
  left_behind_ = std::move(left);
  return note(folder->sync());
}

bool Catalogue::is_left(const Folder& folder, std::string_view stem) const {
  return left_.contains(stem) && !folder.size_of(std::string(stem) + std::string(kDataSuffix));
}

void Catalogue::remove_left() {
  if (left_.empty()) return;
  const auto folder = Folder::open(folder_);
  if (!folder) return;
  std::erase_if(left_, [&](const std::string& stem) {
    if (!is_left(*folder, stem)) return true;  // somebody put the data back
    const bool sidecar_gone = folder->unlink(stem + std::string(kSidecarSuffix)).has_value();
    return folder->unlink(stem + std::string(kPinSuffix)).has_value() && sidecar_gone;
  });
}

Result<std::vector<std::uint64_t>> Catalogue::parts() const {
  auto folder = Folder::open(folder_);
  if (!folder) return propagate(folder.error());
  std::set<std::uint64_t> data, journals;
  auto read = folder->each([&](std::string_view file, std::uint64_t /*inode*/) {
    const auto name = parse_part_file(file);
    if (name && name->kind == PartFileKind::data) data.insert(name->seq);
    if (name && name->kind == PartFileKind::journal) journals.insert(name->seq);
  });
  if (!read) return propagate(read.error());
  std::vector<std::uint64_t> out;
  std::set_intersection(data.begin(), data.end(), journals.begin(), journals.end(), std::back_inserter(out));
  return out;
}

std::size_t Catalogue::remove_partials() {
  auto folder = Folder::open(folder_);
  if (!folder) return 0;
  const auto unfinished = parts();
  const auto is_needed = [&](std::string_view file) {
    const auto name = parse_part_file(file);
    return name && (!unfinished || std::binary_search(unfinished->begin(), unfinished->end(), name->seq));
  };
  std::vector<std::string> partials;
  std::vector<std::string> pins;
  std::unordered_set<std::string> snapshots;
  // Partial files seen before a read error are removed anyway. Pins are not: their snapshots can be among the rest.
  const auto complete = folder->each([&](std::string_view file, std::uint64_t /*inode*/) {
    const bool ours = file.starts_with("flight-") || file.starts_with(".flight");
    if (ours && file.ends_with(kPartialSuffix) && !is_needed(file)) partials.emplace_back(file);
    if (ours && file.ends_with(kPinSuffix)) pins.emplace_back(file);
    if (parse_snapshot_name(file)) snapshots.emplace(stem_of(file));
  });
  if (!complete) pins.clear();
  for (std::string& pin : pins) {
    const std::string stem(stem_of(pin));
    const bool well_named = parse_snapshot_name(stem + std::string(kDataSuffix)).has_value();
    if (well_named && !snapshots.contains(stem)) partials.push_back(std::move(pin));
  }
  std::size_t count = 0;
  for (const std::string& file : partials) {
    const auto removed = folder->unlink(file);
    if (!removed) remember_leftover(folder_, file);
    if (removed && *removed) ++count;
  }
  return count;
}

Catalogue::Usage Catalogue::usage() const {
  Usage usage;
  auto folder = Folder::open(folder_);
  if (!folder) return usage;
  std::vector<std::string> files;
  static_cast<void>(folder->each([&](std::string_view file, std::uint64_t /*inode*/) {
    const bool ours = parse_snapshot_name(file).has_value();
    if (ours && file.ends_with(kDataSuffix)) ++usage.snapshots;
    if (ours || is_kallsyms_file(file)) files.emplace_back(file);
  }));
  for (const std::string& file : files)
    if (const auto size = folder->size_of(file)) usage.bytes += size->disk_bytes;
  return usage;
}

}  // namespace flight
