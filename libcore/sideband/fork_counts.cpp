// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/fork_counts.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <unordered_map>

namespace flight {
namespace {

constexpr int kMostAncestors = 16;

// The lives in the log, as far as it was read, on top of those in the table. A number is used again: who forked a
// process is the one that had the number then.
class RecentLives {
 public:
  explicit RecentLives(const ProcessTable& table) : table_(table) {}

  [[nodiscard]] std::optional<ForkerLife> find(std::uint32_t pid, EventTime time_ns) const {
    if (const auto recent = recent_.find(pid); recent != recent_.end())
      for (auto one = recent->second.rbegin(); one != recent->second.rend(); ++one)
        if (one->life.start_ns <= time_ns) return one->life;
    return forker_in(table_, pid, time_ns);
  }
  void fork(const TaskRecord& task) {
    const std::optional<Comm> comm = comm_of(task.ppid, task.ptid, task.time_ns);
    recent_[task.pid].push_back({.life = {.start_ns = task.time_ns,
                                          .parent = task.ppid,
                                          .comm = comm.value_or(Comm{}),
                                          .copied = comm.has_value()}});
  }
  void begin_thread(const TaskRecord& task) {
    threads_[task.tid] = comm_of(task.ppid, task.ptid, task.time_ns).value_or(Comm{});
  }
  void comm(const CommRecord& record, EventTime time_ns) {
    if (record.tid != record.pid) {
      threads_[record.tid] = to_comm(record);
      return;
    }
    std::vector<Recent>& lives = recent_[record.pid];
    if (lives.empty())
      lives.push_back({.life = forker_in(table_, record.pid, time_ns).value_or(ForkerLife{})});
    else if (lives.back().has_ended)
      lives.push_back({.life = {.start_ns = time_ns}});  // its FORK was lost
    lives.back().life.comm = to_comm(record);
    lives.back().life.copied = false;
  }
  void exit(const TaskRecord& task) {
    if (task.tid != task.pid)
      threads_.erase(task.tid);
    else if (const auto recent = recent_.find(task.pid); recent != recent_.end())
      recent->second.back().has_ended = true;
  }

 private:
  // A process has the name of the thread that forked it, until it sets its own (fork(2)). nullopt: unknown.
  [[nodiscard]] std::optional<Comm> comm_of(std::uint32_t pid, std::uint32_t tid, EventTime time_ns) const {
    const auto life = find(pid, time_ns);
    if (tid != pid) {
      if (const auto recent = threads_.find(tid); recent != threads_.end()) return recent->second;
      for (const Incarnation& known : table_.of(pid)) {
        const Thread* thread = known.find_thread(tid);
        if (life && known.start_ns == life->start_ns && thread != nullptr) return thread->comm;
      }
    }
    return life ? std::optional(life->comm) : std::nullopt;
  }

  struct Recent {
    ForkerLife life;
    bool has_ended = false;  // its children still count for it
  };
  const ProcessTable& table_;
  std::unordered_map<std::uint32_t, std::vector<Recent>> recent_;  // ascending in start; none is empty
  std::unordered_map<std::uint32_t, Comm> threads_;                // by tid, without main threads
};

}  // namespace

void ForkCounts::count(Slice& slice, const Row& row) {
  for (Row& known : slice)
    if (known.pid == row.pid && known.comm == row.comm) {
      known.count += row.count;
      known.by_copies += row.by_copies;
      return;
    }
  if (slice.size() < kMaxForkers || row.pid == 0) {
    slice.push_back(row);
  } else {
    count(slice, {.pid = 0, .comm = {}, .count = row.count + row.by_copies});
  }
}

void ForkCounts::add(EventTime time_ns, const Forker& forker) {
  Slice& slice = slices_[time_ns - time_ns % width_ns_];
  if (forker.shell != 0)
    count(slice, {.pid = forker.shell, .comm = forker.shell_comm, .by_copies = 1});
  else
    count(slice, {.pid = forker.pid, .comm = forker.comm, .count = 1});
  if (slices_.size() > kMaxSlices) widen();
}

void ForkCounts::widen() {
  width_ns_ *= 2;
  std::map<EventTime, Slice> wider;
  for (const auto& [begin_ns, slice] : slices_)
    for (const Row& row : slice) count(wider[begin_ns - begin_ns % width_ns_], row);
  slices_ = std::move(wider);
}

void ForkCounts::forget(EventTime before_ns) {
  while (!slices_.empty() && slices_.begin()->first + width_ns_ <= before_ns) slices_.erase(slices_.begin());
}

std::vector<ForkCount> ForkCounts::all() const {
  std::vector<ForkCount> out;
  for (const auto& [begin_ns, slice] : slices_)
    for (const Row& row : slice) {
      const EventTime end_ns = begin_ns + width_ns_;
      if (row.count > 0) out.push_back({begin_ns, end_ns, row.pid, row.comm, row.count});
      if (row.by_copies > 0) out.push_back({begin_ns, end_ns, 0, Comm{}, row.by_copies, row.pid, row.comm});
    }
  return out;
}

Forker forker_of(std::uint32_t pid, EventTime time_ns, const FindForker& find, const MayMove& may_move) {
  std::optional<ForkerLife> life = find(pid, time_ns);
  Forker out{.pid = pid, .comm = life ? life->comm : Comm{}};
  for (int i = 0; i < kMostAncestors && life && time_ns - std::min(time_ns, life->start_ns) < kShortLivedNs; ++i) {
    const auto parent = find(life->parent, life->start_ns);
    if (!parent || (!life->copied && parent->comm != life->comm) || life->parent == pid) break;
    if (may_move(life->start_ns, time_ns)) break;
    pid = life->parent;
    life = parent;
    out.shell = pid;
    out.shell_comm = life->comm;
  }
  return out;
}

std::optional<ForkerLife> forker_in(const ProcessTable& table, std::uint32_t pid, EventTime time_ns) {
  const auto lives = table.of(pid);
  for (auto life = lives.rbegin(); life != lives.rend(); ++life) {
    if (life->start_ns > time_ns) continue;
    if (!life->alive_at(time_ns)) return std::nullopt;  // the number is another process's by then
    return ForkerLife{
        .start_ns = life->start_ns, .parent = life->parent, .comm = life->image.comm, .copied = life->copied};
  }
  return std::nullopt;
}

std::vector<ForkCount> forks_in(const RecordLog& log, const ProcessTable& table, const Gaps& gaps, EventTime made_ns,
                                EventTime begin_ns, EventTime end_ns) {
  std::vector<ForkCount> out;
  RecentLives lives(table);
  const FindForker find = [&](std::uint32_t pid, EventTime time_ns) { return lives.find(pid, time_ns); };
  const MayMove may_move = [&](EventTime from_ns, EventTime to_ns) {
    return made_ns >= from_ns || gaps.between(from_ns, to_ns);
  };
  for (const RecordLog::Entry& entry : log.entries()) {
    if (entry.time_ns > end_ns) break;
    if (entry.type == PERF_RECORD_CGROUP) made_ns = std::max(made_ns, entry.time_ns);
    if (entry.type == PERF_RECORD_COMM) {
      if (const auto comm = parse_comm(log.record(entry))) lives.comm(*comm, entry.time_ns);
      continue;
    }
    if (entry.type != PERF_RECORD_FORK && entry.type != PERF_RECORD_EXIT) continue;
    const auto task = parse_task(log.record(entry));
    if (!task) continue;
    if (entry.type == PERF_RECORD_EXIT) {
      lives.exit(*task);
      continue;
    }
    if (task->pid != task->tid) {
      lives.begin_thread(*task);
      continue;
    }
    // flightd's own records, from a scan or a checkpoint, have no event id.
    const auto trailer = parse_trailer(log.record(entry));
    if (entry.time_ns >= begin_ns && trailer && trailer->id != 0) {
      const Forker forker = forker_of(task->ppid, entry.time_ns, find, may_move);
      out.push_back({entry.time_ns, entry.time_ns, forker.pid, forker.comm, 1, forker.shell, forker.shell_comm});
    }
    lives.fork(*task);
  }
  return out;
}

}  // namespace flight
