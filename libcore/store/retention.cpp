// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/retention.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace flight {
namespace {

// The distance of a snapshot from the nearer end of its trigger's row, as far as that end is kept; kBetween: it is not
// at a kept end.
constexpr std::uint64_t kBetween = std::numeric_limits<std::uint64_t>::max();

struct Candidate {
  std::size_t index = 0;
  const StoredSnapshot* snapshot = nullptr;
  WallTime taken{};  // corrected by the order of the snapshots
  std::uint64_t rank = kBetween;
  bool stays = false;   // it is not deleted, whatever the limits are
  bool newest = false;  // the newest one with data
  bool gone = false;    // it is a victim already
};

bool older(const Candidate& a, const Candidate& b) {
  return std::tuple(a.snapshot->seq, a.snapshot->time, a.index) <
         std::tuple(b.snapshot->seq, b.snapshot->time, b.index);
}

// The order of deletion for all goals but room.
bool less_kept(const Candidate& a, const Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : older(a, b); }

std::vector<Candidate> by_seq(const std::vector<StoredSnapshot>& snapshots) {
  std::vector<Candidate> out;
  out.reserve(snapshots.size());
  for (std::size_t i = 0; i < snapshots.size(); ++i) out.push_back({.index = i, .snapshot = &snapshots[i]});
  std::sort(out.begin(), out.end(), older);
  return out;
}

// No snapshot is older than its predecessor; a time in the future is ignored.
void set_times(std::vector<Candidate>& candidates, WallTime now) {
  const auto known = std::find_if(candidates.begin(), candidates.end(),
                                  [now](const Candidate& one) { return one.snapshot->time <= now; });
  WallTime latest = known == candidates.end() ? now : known->snapshot->time;
  for (Candidate& one : candidates) {
    if (one.snapshot->time <= now) latest = std::max(latest, one.snapshot->time);
    one.taken = latest;
  }
}

void set_ranks(std::vector<Candidate>& candidates, const StoreLimits& limits, const StoreNow& now) {
  std::map<std::string_view, std::vector<Candidate*>> rows;
  for (Candidate& one : candidates)
    if (one.snapshot->data) rows[one.snapshot->trigger].push_back(&one);
  for (auto& [trigger, row] : rows) {
    const std::uint64_t behind = now.incoming && now.incoming->trigger == trigger ? 1 : 0;
    for (std::uint64_t i = 0; i < row.size(); ++i) {
      const std::uint64_t from_last = row.size() - 1 - i + behind;
      if (i < limits.keep_first) row[i]->rank = i;
      if (from_last < limits.keep_last) row[i]->rank = std::min(row[i]->rank, from_last);
    }
  }
}

void set_stays(std::vector<Candidate>& candidates, bool writing) {
  for (Candidate& one : candidates) one.stays = one.snapshot->pinned || one.snapshot->in_use;
  if (writing && !candidates.empty() && !candidates.back().snapshot->data) candidates.back().stays = true;
  const auto newest =
      std::find_if(candidates.rbegin(), candidates.rend(), [](const Candidate& one) { return one.snapshot->data; });
  if (newest != candidates.rend()) newest->newest = true;
}

// How much the file system lacks for a goal.
struct Lack {
  bool bytes = false, inodes = false;
  [[nodiscard]] bool any() const { return bytes || inodes; }
  [[nodiscard]] bool less_without(const StoredSnapshot& snapshot) const {
    return (bytes && snapshot.freed_bytes > 0) || (inodes && snapshot.inodes > 0);
  }
};

// The current use of the store, and the limit that it exceeds.
class Budget {
 public:
  Budget(const std::vector<Candidate>& candidates, const StoreLimits& limits, const StoreNow& now)
      : limits_(limits), wants_room_(now.incoming && !now.room_in_vain) {
    files_ = candidates.size() + (now.incoming ? 1 : 0);
    incoming_bytes_ = now.incoming ? now.incoming->disk_bytes : 0;
    const std::uint64_t beside_bytes = now.incoming ? now.incoming->beside_bytes : 0;
    use_bytes_ = incoming_bytes_ + beside_bytes;
    for (const Candidate& one : candidates) use_bytes_ += one.snapshot->disk_bytes;
    if (exceeds_alone(incoming_bytes_)) apart_bytes_ = incoming_bytes_;
    free_bytes_ = now.free_bytes;
    free_inodes_ = now.free_inodes;
    if (now.incoming) least_inodes_ = now.incoming->least_inodes;
    std::uint64_t least_files = now.incoming ? 1 : 0, least_bytes = incoming_bytes_ - apart_bytes_ + beside_bytes;
    for (const Candidate& one : candidates) {
      const bool pinned = one.snapshot->pinned;
      if (!pinned && !one.stays && (!one.newest || now.incoming)) continue;
      if (!pinned && one.newest && exceeds_alone(one.snapshot->disk_bytes)) {
        ++least_files;
        apart_bytes_ += one.snapshot->disk_bytes;
        continue;
      }
      (pinned ? pinned_files_ : least_files) += 1;
      (pinned ? pinned_bytes_ : least_bytes) += one.snapshot->disk_bytes;
    }
    const std::uint64_t staying_bytes = add_symbols(candidates, now.symbols_bytes);
    (exceeds_alone(staying_bytes) ? apart_bytes_ : least_bytes) += staying_bytes;
    const auto exceed = [](std::uint64_t pinned, std::uint64_t least, std::uint64_t limit) {
      return limit != 0 && least <= limit && pinned + least > limit;
    };
    pinned_exceed_files_ = exceed(pinned_files_, least_files, limits.max_files);
    pinned_exceed_use_ = exceed(pinned_bytes_, least_bytes, limits.max_use_bytes);
  }
  void take(const StoredSnapshot& snapshot) {
    --files_;
    use_bytes_ -= snapshot.disk_bytes;
    free_bytes_ += snapshot.freed_bytes;
    if (free_inodes_) *free_inodes_ += snapshot.inodes;
    // They are deleted after the snapshots: this space is not counted for the other goals.
    if (snapshot.symbols && symbols_.at(*snapshot.symbols).users-- == 1)
      use_bytes_ -= symbols_.at(*snapshot.symbols).bytes;
  }
  // No store within the limit has such a snapshot.
  [[nodiscard]] bool exceeds_alone(std::uint64_t disk_bytes) const {
    return limits_.max_use_bytes != 0 && disk_bytes > limits_.max_use_bytes;
  }
  [[nodiscard]] std::optional<VacuumReason> over_all() const { return over(files_, use_bytes_); }
  // The limits that only the store itself can exceed. The newest snapshot does not count if it exceeds max_use alone.
  [[nodiscard]] std::optional<VacuumReason> over_own() const { return over(files_, use_bytes_ - apart_bytes_); }
  // The same for a snapshot that is the first or last of its trigger. What no deletion reaches is no reason to delete
  // it: the limits that the pinned ones exceed apply without them.
  [[nodiscard]] std::optional<VacuumReason> over_own_for_kept() const {
    const std::uint64_t files = files_ - (pinned_exceed_files_ ? pinned_files_ : 0);
    const std::uint64_t use_bytes = use_bytes_ - apart_bytes_ - (pinned_exceed_use_ ? pinned_bytes_ : 0);
    return over(files, use_bytes);
  }
  [[nodiscard]] std::optional<VacuumReason> over_by_pinned() const {
    if (pinned_exceed_files_) return VacuumReason::max_files;
    if (pinned_exceed_use_) return VacuumReason::max_use;
    return std::nullopt;
  }
  [[nodiscard]] Lack lacks_room() const {
    return {.bytes = wants_room_ && free_bytes_ < incoming_bytes_,
            .inodes = wants_room_ && free_inodes_ && *free_inodes_ < needed_inodes_};
  }
  void need_least_inodes() { needed_inodes_ = std::min(needed_inodes_, least_inodes_); }
  [[nodiscard]] Lack lacks_free() const {
    return {.bytes = limits_.keep_free_bytes != 0 && free_bytes_ < limits_.keep_free_bytes + incoming_bytes_};
  }

 private:
  [[nodiscard]] std::optional<VacuumReason> over(std::uint64_t files, std::uint64_t use_bytes) const {
    if (limits_.max_files != 0 && files > limits_.max_files) return VacuumReason::max_files;
    if (limits_.max_use_bytes != 0 && use_bytes > limits_.max_use_bytes) return VacuumReason::max_use;
    return std::nullopt;
  }
  // Returns the bytes of those that stay, whatever is deleted. If no snapshot is known to need a file, it stays: it is
  // not known which one needs it.
  std::uint64_t add_symbols(const std::vector<Candidate>& candidates, const std::vector<std::uint64_t>& files_bytes) {
    for (const std::uint64_t bytes : files_bytes) symbols_.push_back({.bytes = bytes});
    for (const Candidate& one : candidates) {
      if (!one.snapshot->symbols) continue;
      Symbols& needed = symbols_.at(*one.snapshot->symbols);
      ++needed.users;
      needed.stays = needed.stays || one.stays || one.newest;
    }
    std::uint64_t staying_bytes = 0;
    for (Symbols& file : symbols_) {
      use_bytes_ += file.bytes;
      if (!file.stays && file.users > 0) continue;
      staying_bytes += file.bytes;
      file.users = std::numeric_limits<std::uint64_t>::max();
    }
    return staying_bytes;
  }
  struct Symbols {
    std::uint64_t bytes = 0, users = 0;
    bool stays = false;
  };
  std::vector<Symbols> symbols_;
  const StoreLimits& limits_;
  bool wants_room_ = false;
  std::uint64_t files_ = 0, use_bytes_ = 0, free_bytes_ = 0, incoming_bytes_ = 0;
  std::uint64_t apart_bytes_ = 0;  // of the newest snapshot, or the incoming one, that exceeds max_use alone
  std::optional<std::uint64_t> free_inodes_;
  std::uint64_t needed_inodes_ = kNeededInodes, least_inodes_ = kLeastInodes;
  std::uint64_t pinned_files_ = 0, pinned_bytes_ = 0;
  bool pinned_exceed_files_ = false, pinned_exceed_use_ = false;  // these limits are exceeded whatever else is deleted
};

// The first of `candidates` that `may_go` allows, until nothing is `lacking` any more; none if all of them together
// would not be enough: then they stay, because their end would change nothing. Those with other hard links come last.
template <typename MayGo, typename Lacking>
std::optional<std::vector<Candidate*>> enough_of(std::vector<Candidate>& candidates, Budget budget, const MayGo& may_go,
                                                 const Lacking& lacking) {
  std::vector<Candidate*> out;
  for (const bool linked : {false, true})
    for (Candidate& one : candidates) {
      const Lack lack = lacking(budget);
      if (!lack.any()) break;
      if (one.gone || one.stays || one.newest || !may_go(one) || !lack.less_without(*one.snapshot)) continue;
      if (linked != (one.snapshot->freed_bytes < one.snapshot->disk_bytes)) continue;
      budget.take(*one.snapshot);
      out.push_back(&one);
    }
  if (lacking(budget).any()) return std::nullopt;
  return out;
}

}  // namespace

std::string_view to_string(VacuumReason reason) {
  switch (reason) {
    case VacuumReason::missing:
      return "missing";
    case VacuumReason::max_age:
      return "max_age";
    case VacuumReason::max_files:
      return "max_files";
    case VacuumReason::max_use:
      return "max_use";
    case VacuumReason::room:
      return "room";
    case VacuumReason::keep_free:
      return "keep_free";
  }
  return "max_use";
}

// The newest snapshot and pinned ones are never deleted, so the store may exceed its own limits; `still_over` reports
// it.
VacuumPlan plan_vacuum(const std::vector<StoredSnapshot>& snapshots, const StoreLimits& limits, const StoreNow& now) {
  std::vector<Candidate> candidates = by_seq(snapshots);
  set_times(candidates, now.time);
  set_stays(candidates, now.writing);
  Budget budget(candidates, limits, now);
  VacuumPlan plan;
  const auto take = [&](const Candidate& one, VacuumReason reason) {
    budget.take(*one.snapshot);
    plan.victims.push_back({.index = one.index, .reason = reason});
  };
  std::erase_if(candidates, [&](const Candidate& one) {
    if (one.stays || one.newest) return false;
    const bool missing = now.drop_missing && !one.snapshot->data;
    const bool old = limits.max_age.count() > 0 && now.time - one.taken > limits.max_age;
    if (missing || old) take(one, missing ? VacuumReason::missing : VacuumReason::max_age);
    return missing || old;
  });
  // Ranks are set after the deletions by age: a deleted snapshot is no longer the first of its trigger; a pinned one
  // still is.
  set_ranks(candidates, limits, now);
  const auto may_go = [](const Candidate& one) { return one.snapshot->data && !one.stays; };
  auto whole = std::count_if(candidates.begin(), candidates.end(), may_go);
  std::sort(candidates.begin(), candidates.end(), less_kept);
  const auto drop = [&](Candidate& one, VacuumReason reason) {
    whole -= may_go(one) ? 1 : 0;
    one.gone = true;
    take(one, reason);
    if (reason == VacuumReason::keep_free) plan.keep_free_counted_bytes += one.snapshot->freed_bytes;
  };
  const auto goes = [&](const Candidate& one) {
    if (one.stays || (one.newest && !now.incoming)) return false;
    // The incoming snapshot may fail, so the last unpinned one with data is not deleted for it.
    return !may_go(one) || !now.incoming || whole > 1;
  };
  // They go whatever else does: first, so that the others stay.
  for (Candidate& one : candidates)
    if (budget.over_own() == VacuumReason::max_use && goes(one) && budget.exceeds_alone(one.snapshot->disk_bytes))
      drop(one, VacuumReason::max_use);
  for (Candidate& one : candidates) {
    const auto over = one.rank == kBetween ? budget.over_own() : budget.over_own_for_kept();
    if (!over) break;
    if (!one.gone && goes(one)) drop(one, *over);
  }
  plan.still_over = budget.over_all();
  if (plan.still_over) plan.over_by_pinned = budget.over_by_pinned();

  const auto reach = [&](VacuumReason reason, const auto& may_go_for, const auto& lacking) {
    const auto some = enough_of(candidates, budget, may_go_for, lacking);
    if (!some && !plan.still_over) plan.still_over = reason;
    if (some)
      for (Candidate* one : *some) drop(*one, reason);
  };
  std::sort(candidates.begin(), candidates.end(), older);
  const auto any = [](const Candidate&) { return true; };
  const auto lacks_room = [](const Budget& at) { return at.lacks_room(); };
  // In a store of few snapshots: the newest evidence is worth more than inodes to spare.
  if (budget.lacks_room().inodes && !enough_of(candidates, budget, any, lacks_room)) budget.need_least_inodes();
  reach(VacuumReason::room, any, lacks_room);
  std::sort(candidates.begin(), candidates.end(), less_kept);
  reach(
      VacuumReason::keep_free, [](const Candidate& one) { return one.rank == kBetween; },
      [](const Budget& at) { return at.lacks_free(); });
  return plan;
}

}  // namespace flight
