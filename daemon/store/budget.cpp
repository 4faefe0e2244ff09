// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/budget.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>

#include "daemon/log/log.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::daemon {
namespace {

// systemd-coredump's defaults, see coredump.conf(5); the cap is in its source, src/coredump/coredump-vacuum.c.
constexpr double kDefaultUsePercent = 10, kDefaultFreePercent = 15;
constexpr std::uint64_t kDefaultCapBytes = 4ULL << 30U;

constexpr std::size_t kRecent = 8;        // number of snapshots from which the size of the next one is estimated
constexpr std::uint64_t kUsualRatio = 4;  // a ring's bytes divided by its compressed records; a cautious value
constexpr std::uint64_t kSidecarBytes = 1U << 20U;
constexpr std::uint64_t kMostBytes = 1ULL << 50U;  // larger than any snapshot
constexpr std::uint64_t kLeastBytes = 64U << 10U;  // do not begin a snapshot with less free space
constexpr std::uint64_t kLeastPartBytes = 1U << 20U;
constexpr std::uint64_t kPartInodes = 3;  // its journal, too

// The size of the largest of the newest few, plus a quarter.
std::uint64_t likely_bytes(const Inventory& inventory, std::uint64_t most_bytes) {
  std::vector<const StoredSnapshot*> whole;
  for (const StoredSnapshot& snapshot : inventory.snapshots)
    if (snapshot.data) whole.push_back(&snapshot);
  if (whole.empty()) return most_bytes / kUsualRatio;
  const std::size_t count = std::min(whole.size(), kRecent);
  std::partial_sort(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(count), whole.end(),
                    [](const StoredSnapshot* a, const StoredSnapshot* b) { return a->seq > b->seq; });
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, whole[i]->disk_bytes);
  return std::min(largest + largest / 4, most_bytes + kSidecarBytes);
}

}  // namespace

std::optional<FileSystemSpace> space_of(const std::string& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return std::nullopt;
  if (info.f_blocks == 0) return FileSystemSpace{.total_bytes = 0, .free_bytes = kMostBytes, .free_inodes = {}};
  return FileSystemSpace{.total_bytes = static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize,
                         .free_bytes = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize,
                         .free_inodes = info.f_files != 0 ? std::optional<std::uint64_t>(info.f_favail) : std::nullopt};
}

StoreLimits limits_of(const StoreConfig& config, std::uint64_t total_bytes) {
  const auto share = [total_bytes](double percent) {
    return std::min(SizeOrShare{.bytes = 0, .percent = percent}.of(total_bytes), kDefaultCapBytes);
  };
  const bool shares_unknown = total_bytes == 0 && (!config.max_use || config.max_use->percent > 0);
  return {.max_use_bytes = shares_unknown   ? kDefaultCapBytes
                           : config.max_use ? config.max_use->of(total_bytes)
                                            : share(kDefaultUsePercent),
          .keep_free_bytes = config.keep_free ? config.keep_free->of(total_bytes) : share(kDefaultFreePercent),
          .max_files = config.max_files,
          .max_age = config.max_age,
          .keep_first = config.keep_first,
          .keep_last = config.keep_last};
}

std::uint64_t StoreBudget::max_use_bytes() const {
  const auto space = space_of(folder_);
  if (space) return limits_of(config_, space->total_bytes).max_use_bytes;
  return config_.max_use ? config_.max_use->of(0) : 0;
}

// A snapshot that cannot be deleted frees nothing: others go in its place. Otherwise one that a user made immutable
// would be the oldest in each plan, and there would never be room for another snapshot.
VacuumOutcome StoreBudget::vacuum(const Order& order) {
  constexpr int kMostPlans = 4;
  Progress progress;
  VacuumOutcome out;
  for (int plans = 0; plans < kMostPlans; ++plans) {
    const std::size_t known = progress.stuck.size();
    VacuumOutcome done = vacuum_once(order, progress);
    if (!out.error) out.error = std::move(done.error);
    if (!done.removed.empty()) out.unsynced = std::move(done.unsynced);
    for (VacuumedSnapshot& one : done.removed) {
      progress.freed_bytes += one.bytes;
      out.removed.push_back(std::move(one));
    }
    if (progress.stuck.size() == known) break;
  }
  if (order.by_hand) {
    if (!progress.age.empty()) out.warnings.push_back(std::move(progress.age));
    out.warnings.insert(out.warnings.end(), warnings_.begin(), warnings_.end());
  }
  out.freed_bytes = progress.freed_bytes;
  return out;
}

VacuumOutcome StoreBudget::vacuum_once(const Order& order, Progress& progress) {
  const auto failed = [](const Error& error) { return VacuumOutcome{.error = error}; };
  const auto space = space_of(folder_);
  if (!space) return failed(sys_error(errno, "statvfs of {}", folder_).value());
  auto inventory = take_inventory(folder_);
  if (!inventory) return failed(inventory.error());
  for (StoredSnapshot& snapshot : inventory->snapshots)
    snapshot.in_use = progress.stuck.contains(snapshot.seq) || (in_use_ && in_use_(snapshot.seq));
  restore_keep_free(order.now);
  const StoreLimits limits = limits_of(config_, space->total_bytes);
  if (!order.dry_run) keep_free_.use_limit(limits.keep_free_bytes);
  StoreLimits allowed = limits;
  const std::uint64_t own_bytes = inventory->disk_bytes() + part_bytes(/*running=*/false);
  const std::uint64_t coming_bytes = order.incoming ? order.incoming->disk_bytes + order.incoming->beside_bytes : 0;
  if (name_symbols_ && !inventory->symbols.empty() && limits.max_use_bytes != 0 &&
      inventory->disk_bytes() + coming_bytes > limits.max_use_bytes)
    name_symbols_(*inventory);
  // The snapshot that is being written is not in the inventory yet.
  const bool judges = !order.dry_run && (order.incoming || !writing_());
  const bool may_delete = judges ? keep_free_.may_delete(order.now, space->free_bytes, own_bytes) : !keep_free_.waits();
  if (!may_delete) allowed.keep_free_bytes = 0;
  if (order.full) allowed.keep_free_bytes = 0;
  auto [plan, kept] = this->plan(*inventory, allowed,
                                 {.free_bytes = order.full ? progress.freed_bytes : space->free_bytes,
                                  .free_inodes = order.full ? std::nullopt : space->free_inodes,
                                  .time = wall_now(),
                                  .incoming = order.incoming,
                                  .drop_missing = order.by_hand,
                                  .writing = writing_(),  // evaluated after the directory was read
                                  .room_in_vain = order.room_in_vain,
                                  .symbols_bytes = inventory->symbols_bytes},
                                 order);
  VacuumOutcome out;
  if (order.dry_run) {
    out.removed = predict_vacuum(folder_, *inventory, plan);
    if (order.assess) {
      if (!may_delete && limits.keep_free_bytes > space->free_bytes && !plan.still_over)
        plan.still_over = VacuumReason::keep_free;
      warnings_ = assess(*inventory, plan, limits);
    }
  } else {
    VacuumDone done = flight::vacuum(folder_, *inventory, plan, order.progress);
    KeepFreeWatch::Pass pass{.free_before_bytes = space->free_bytes,
                             .own_before_bytes = own_bytes,
                             .own_after_bytes = own_bytes,
                             .for_keep_free = plan.keep_free_counted_bytes > 0};
    for (const std::size_t index : done.removed_at) {
      pass.own_after_bytes -= inventory->snapshots[index].disk_bytes;
      pass.freed_bytes += inventory->snapshots[index].freed_bytes;
    }
    for (const std::size_t index : done.stuck_at) progress.stuck.insert(inventory->snapshots[index].seq);
    keep_free_.deleted(order.now, pass);
    if (keep_free_.waits() && limits.keep_free_bytes > space->free_bytes && !plan.still_over)
      plan.still_over = VacuumReason::keep_free;
    out.removed = std::move(done.removed);
    out.error = std::move(done.error);
    out.unsynced = std::move(done.unsynced);
    if (!order.incoming) {
      const auto left = take_inventory(folder_);
      warnings_ = left ? assess(*left, plan, limits) : std::vector<std::string>{};
    }
    kept_ = order.by_hand ? "" : kept;
    keep_free_state_.save(keep_free_.text());
  }
  if (progress.age.empty()) progress.age = std::move(kept);
  return out;
}

void StoreBudget::restore_keep_free(KeepFreeWatch::Time now) {
  if (keep_free_state_.loaded()) return;
  const std::string saved = keep_free_state_.load();
  if (saved.empty()) return;
  if (const auto restored = keep_free_.restore(saved, now); !restored)
    log::warn("{}: {}; whether deletions for keep_free had an effect is not known", KeepFreeState::kFile,
              restored.error().what);
}

// If the clock is doubtful, snapshots are not deleted because of their age, unless a user asks. The other limits still
// apply.
StoreBudget::Plan StoreBudget::plan(const Inventory& inventory, StoreLimits limits, const StoreNow& now,
                                    const Order& order) {
  VacuumPlan all = plan_vacuum(inventory.snapshots, limits, now);
  const auto by_age = [](const VacuumVictim& one) { return one.reason == VacuumReason::max_age; };
  if (std::none_of(all.victims.begin(), all.victims.end(), by_age)) return {.deletions = std::move(all), .age = {}};
  const StoreClock clock = clock_();  // only now, because it reads sidecars
  const auto doubt = doubt_of(clock);
  if (!doubt) return {.deletions = std::move(all), .age = {}};
  limits.max_age = {};
  VacuumPlan others = plan_vacuum(inventory.snapshots, limits, now);
  const auto goes_anyway = [&](const VacuumVictim& one) {
    return std::any_of(others.victims.begin(), others.victims.end(),
                       [&](const VacuumVictim& other) { return other.index == one.index; });
  };
  const auto too_old =
      static_cast<std::uint64_t>(std::count_if(all.victims.begin(), all.victims.end(), [&](const VacuumVictim& one) {
        return by_age(one) && !goes_anyway(one);
      }));
  if (too_old == 0) return {.deletions = std::move(others), .age = {}};
  const std::string until =
      fmt::format("for another {}, until {}{}", format_duration(doubt->left), to_rfc3339(clock.now + doubt->left),
                  doubt->or_synchronised ? ", or until the clock is synchronised" : "");
  const std::string which =
      fmt::format("{} in {} older than store.max_age by the clock", counted(too_old, "snapshot"), folder_);
  if (order.by_hand)
    return {.deletions = std::move(all),
            .age = fmt::format("{} {} deleted because you ask. flightd itself would keep {} {}: {}.", which,
                               order.dry_run ? "would be" : was_or_were(too_old), too_old == 1 ? "it" : "them", until,
                               doubt->why)};
  return {.deletions = std::move(others),
          .age = fmt::format("{} {} kept {}: {}. `flightctl vacuum` deletes {} now.", which,
                             too_old == 1 ? "is" : "are", until, doubt->why, too_old == 1 ? "it" : "them")};
}

Result<VacuumOutcome> StoreBudget::make_room(const std::string& trigger, std::uint64_t most_bytes, bool in_vain) {
  const auto before = take_inventory(folder_);
  if (!before) return propagate(before.error());
  std::uint64_t likely = likely_bytes(*before, most_bytes);
  if (config_.max_snapshot_bytes != 0) likely = std::min(likely, config_.max_snapshot_bytes + kSidecarBytes);
  VacuumOutcome out =
      vacuum({.incoming = IncomingSnapshot{.trigger = trigger, .disk_bytes = likely}, .room_in_vain = in_vain});
  const auto refuse = [&](Failure why) {
    deleted_ = std::move(out);
    return why;
  };
  // The estimate alone does not refuse a snapshot: a short window may need a tenth of it, and a full disk reports
  // ENOSPC.
  const auto space = space_of(folder_);
  if (space && space->free_inodes && *space->free_inodes < kLeastInodes)
    return refuse(sys_error(ENOSPC,
                            "make space for a snapshot in {}: its file system has {} free, a snapshot needs {}; {}: "
                            "remove files, or snapshots with `flightctl remove`",
                            folder_, counted(*space->free_inodes, "inode"), kLeastInodes,
                            in_vain || !out.removed.empty()
                                ? "deleting other snapshots did not help"
                                : "all snapshots that may be deleted for it would not free so many"));
  if (space && space->free_bytes < std::min(likely, kLeastBytes))
    return refuse(sys_error(
        ENOSPC, "make space for a snapshot in {}: it will probably need {}, {} are free, and {}", folder_,
        format_bytes(likely), format_bytes(space->free_bytes),
        in_vain || !out.removed.empty()
            ? "deleting other snapshots did not help: something else takes the space, or the file system does not "
              "release it"
            : "no other snapshot may be deleted for it"));
  return out;
}

std::uint64_t StoreBudget::part_bytes(bool running) const {
  auto folder = Folder::open(folder_);
  if (!folder) return 0;
  std::vector<std::string> files;
  static_cast<void>(folder->each([&](std::string_view file, std::uint64_t /*inode*/) {
    const auto name = parse_part_file(file);
    if (!name || name->kind != PartFileKind::data) return;
    if (!running || (in_use_ && in_use_(name->seq))) files.emplace_back(file);
  }));
  std::uint64_t bytes = 0;
  for (const std::string& file : files)
    if (const auto size = folder->size_of(file)) bytes += size->disk_bytes;
  return bytes;
}

Result<StoreBudget::PartRoom> StoreBudget::make_part_room(std::uint64_t most_bytes,
                                                          std::optional<std::uint64_t> begun_free_bytes, bool in_vain) {
  if (!begun_free_bytes) begun_free_bytes = space_of(folder_).value_or(FileSystemSpace{}).free_bytes;
  PartRoom out{.outcome = vacuum({.incoming = IncomingSnapshot{.trigger = std::string(kRecordTrigger),
                                                               .disk_bytes = most_bytes,
                                                               .beside_bytes = part_bytes(/*running=*/true),
                                                               .least_inodes = kPartInodes},
                                  .room_in_vain = in_vain}),
               .limits = {}};
  const auto refuse = [&](Failure why) {
    deleted_ = std::move(out.outcome);
    return why;
  };
  // That some snapshots could not be deleted is no error here: there is only less space.
  const auto space = space_of(folder_);
  if (!space) return refuse(sys_error(errno, "statvfs of {}", folder_));
  if (space->free_inodes && *space->free_inodes < kPartInodes)
    return refuse(sys_error(ENOSPC, "begin a part of a recording in {}: its file system has {} free, a part needs {}",
                            folder_, counted(*space->free_inodes, "inode"), kPartInodes));
  if (space->free_bytes < std::min(most_bytes, kLeastPartBytes))
    return refuse(sys_error(ENOSPC,
                            "begin a part of a recording in {}: {} are free, and no snapshot may be deleted for it",
                            folder_, format_bytes(space->free_bytes)));
  const auto left = take_inventory(folder_);
  if (!left) return refuse(propagate(left.error()));
  out.limits = limits_of(config_, space->total_bytes);
  out.free_bytes = space->free_bytes;
  const auto without = [](std::uint64_t from, std::uint64_t bytes) { return from - std::min(from, bytes); };
  out.left_bytes = without(out.free_bytes, std::min(out.limits.keep_free_bytes, *begun_free_bytes / 2));
  if (out.limits.max_use_bytes != 0)
    out.left_bytes =
        std::min(out.left_bytes, without(out.limits.max_use_bytes, left->disk_bytes() + part_bytes(/*running=*/true)));
  return out;
}

VacuumOutcome StoreBudget::make_more_room(const std::string& trigger, std::uint64_t needed_bytes) {
  const auto before = take_inventory(folder_);
  if (!before) return {.error = before.error()};
  const std::uint64_t likely = likely_bytes(*before, kMostBytes);
  return vacuum(
      {.incoming = IncomingSnapshot{.trigger = trigger, .disk_bytes = std::max(likely, needed_bytes)}, .full = true});
}

}  // namespace flight::daemon
