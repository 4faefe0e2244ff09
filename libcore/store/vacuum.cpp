// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/vacuum.hpp"

#include <cerrno>
#include <map>

#include "libcore/json/parse.hpp"
#include "libcore/json/reader.hpp"
#include "libcore/store/catalogue.hpp"
#include "libcore/store/folder.hpp"

namespace flight {
namespace {

// False: its data seemed missing, but exists.
Result<bool> remove_files(const Folder& folder, const SnapshotName& name, bool had_data) {
  if (!had_data && folder.size_of(name.data_file())) return false;
  for (const std::string& file : {name.data_file(), name.sidecar_file(), name.pin_file()}) {
    const auto size = folder.size_of(file);
    if (!size || !size->ours) continue;  // a link with this name is not a snapshot
    if (auto removed = folder.unlink(file); !removed) return propagate(removed.error());
  }
  return true;
}

// Whether the error is about this one snapshot, and not about the disk.
bool is_of_its_own(int error_number) {
  return error_number == EPERM || error_number == EACCES || error_number == EBUSY || error_number == ENOTEMPTY;
}

VacuumedSnapshot row_of(const std::string& folder, const Inventory& inventory, const VacuumVictim& victim) {
  const SnapshotName& name = inventory.names[victim.index];
  return {.id = fmt::format("{}", name.seq),
          .path = folder + name.data_file(),
          .reason = victim.reason,
          .bytes = inventory.snapshots[victim.index].freed_bytes};
}

void read_reason(const json::Reader& in, VacuumReason& out) {
  std::string word;
  in.need("reason", word);
  in.word("reason",
          {VacuumReason::missing, VacuumReason::max_age, VacuumReason::max_files, VacuumReason::max_use,
           VacuumReason::room, VacuumReason::keep_free},
          out);
}

}  // namespace

std::uint64_t Inventory::disk_bytes() const {
  std::uint64_t bytes = 0;
  for (const StoredSnapshot& snapshot : snapshots) bytes += snapshot.disk_bytes;
  for (const std::uint64_t one : symbols_bytes) bytes += one;
  return bytes;
}

Result<Inventory> take_inventory(const std::string& path) {
  auto folder = Folder::open(path);
  if (!folder) return propagate(folder.error());
  std::map<std::string, std::pair<SnapshotName, bool>> found;  // by stem; whether the data exists
  Inventory out;
  auto read = folder->each([&](std::string_view file, std::uint64_t /*inode*/) {
    if (is_kallsyms_file(file)) out.symbols.emplace_back(file);
    auto name = parse_snapshot_name(file);
    if (!name) return;
    auto [at, fresh] = found.try_emplace(name->stem(), std::move(*name), false);
    at->second.second = at->second.second || file.ends_with(kDataSuffix);
  });
  if (!read) return propagate(read.error());
  for (const std::string& file : out.symbols) {
    const auto size = folder->size_of(file);
    out.symbols_bytes.push_back(size && size->ours ? size->disk_bytes : 0);
  }
  out.names.reserve(found.size());
  out.snapshots.reserve(found.size());
  for (auto& [stem, one] : found) {
    const auto pin = folder->size_of(one.first.pin_file());
    StoredSnapshot snapshot{.seq = one.first.seq,
                            .trigger = one.first.trigger,
                            .time = one.first.time,
                            .inodes = 0,
                            .data = one.second,
                            .pinned = pin && pin->ours};
    for (const std::string& file : {one.first.data_file(), one.first.sidecar_file(), one.first.pin_file()})
      if (const auto size = folder->size_of(file); size && size->ours) {
        snapshot.disk_bytes += size->disk_bytes;
        if (size->links > 1) continue;
        snapshot.freed_bytes += size->disk_bytes;
        snapshot.inodes += size->inodes;
      }
    out.names.push_back(std::move(one.first));
    out.snapshots.push_back(std::move(snapshot));
  }
  return out;
}

std::string to_json(const std::vector<VacuumedSnapshot>& removed) {
  return json::dump(json::array_of(removed, [](const VacuumedSnapshot& row) {
    return json::Object{{"id", row.id}, {"path", row.path}, {"reason", to_string(row.reason)}, {"bytes", row.bytes}};
  }));
}

Result<std::vector<VacuumedSnapshot>> parse_vacuumed(std::string_view text) {
  const auto value = json::parse(text, {.max_bytes = kMaxRowsBytes});
  if (!value) return wrap(value.error(), "the list of deleted snapshots");
  std::vector<VacuumedSnapshot> rows;
  const auto read = json::read_list(*value, json::Missing::keeps_default, [&](const json::Reader& in) {
    VacuumedSnapshot& row = rows.emplace_back();
    in.need("id", row.id);
    in.read("path", row.path);
    read_reason(in, row.reason);
    in.read("bytes", row.bytes);
  });
  if (!read) return wrap(read.error(), "the list of deleted snapshots");
  return rows;
}

std::vector<VacuumedSnapshot> predict_vacuum(const std::string& path, const Inventory& inventory,
                                             const VacuumPlan& plan) {
  const std::string folder = absolute_folder(path);
  std::vector<VacuumedSnapshot> rows;
  for (const VacuumVictim& victim : plan.victims) rows.push_back(row_of(folder, inventory, victim));
  return rows;
}

VacuumDone vacuum(const std::string& path, const Inventory& inventory, const VacuumPlan& plan,
                  const std::function<void(std::size_t number, std::size_t all)>& progress) {
  VacuumDone done;
  if (plan.victims.empty()) return done;
  auto folder = Folder::open(path);
  if (!folder) {
    done.error = folder.error();
    return done;
  }
  const std::string shown = absolute_folder(path);
  std::size_t number = 0;
  for (const VacuumVictim& victim : plan.victims) {
    const auto removed = remove_files(*folder, inventory.names[victim.index], inventory.snapshots[victim.index].data);
    if (!removed && is_of_its_own(removed.error().errno_value())) done.stuck_at.push_back(victim.index);
    if (!removed && !done.error) done.error = removed.error();
    if (progress) progress(++number, plan.victims.size());
    if (!removed || !*removed) continue;
    done.removed.push_back(row_of(shown, inventory, victim));
    done.removed_at.push_back(victim.index);
  }
  done.unsynced = folder->sync();
  return done;
}

}  // namespace flight
