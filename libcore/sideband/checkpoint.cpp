// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/checkpoint.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <vector>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/notes.hpp"
#include "libcore/sideband/process_writer.hpp"

namespace flight {
namespace {

constexpr std::size_t kSliceBytes = 256U << 10U;

struct Found {
  std::uint32_t pid = 0;
  const Incarnation* process = nullptr;
};

class Checkpointer {
 public:
  Checkpointer(const ProcessTable& table, const std::function<void(std::span<const std::byte>)>& write)
      : table_(table), write_(write), writer_(0, ~EventTime{0}, slice_, nullptr) {}

  void put_kernel(const KernelTable& kernel, std::size_t most_bytes);
  // False: the record would exceed `most_bytes`.
  bool put(const Found& found, std::size_t most_bytes);
  void put_log(const RecordLog& log);

 private:
  void flush_if(bool now) {
    if (!now || slice_.empty()) return;
    written_ += slice_.size();
    write_(slice_);
    slice_.clear();
  }
  [[nodiscard]] bool is_clone(const Incarnation& process) const;

  const ProcessTable& table_;
  const std::function<void(std::span<const std::byte>)>& write_;
  RecordBuffer slice_;
  ProcessWriter writer_;
  std::size_t written_ = 0;
};

// A scan reports what still exists, so the largest ids are enough: if there are too many, the first ones are omitted.
// Symbols that were forgotten are not counted: the next flightd's first scan lists them.
void Checkpointer::put_kernel(const KernelTable& kernel, std::size_t most_bytes) {
  RecordBuffer all;
  kernel.append_cgroups(all);
  kernel.for_each_change(
      [&all](EventTime time_ns, const KsymbolRecord& symbol) { append_ksymbol(all, symbol, {.time_ns = time_ns}); });
  std::span<const std::byte> rest = all;
  std::uint64_t forgotten = kernel.forgotten_cgroups();
  while (rest.size() > most_bytes) {
    const auto first = next_record(rest);
    if (load<perf_event_header>(first.data()).type == PERF_RECORD_CGROUP) ++forgotten;
    rest = rest.subspan(first.size());
  }
  slice_.insert(slice_.end(), rest.begin(), rest.end());
  if (forgotten > 0) append_note(slice_, {.kind = NoteKind::cgroups, .count = forgotten}, {});
  flush_if(slice_.size() >= kSliceBytes);
}

// Whether it has its parent's mappings and has mapped nothing since, like thousands of children of a large process, and
// only one name. It is then written as a FORK that copies them.
bool Checkpointer::is_clone(const Incarnation& process) const {
  if (!process.image.maps || !process.past.empty() || !process.names.empty()) return false;
  if (process.image.from_ns != process.start_ns) return false;
  const auto parents = table_.of(process.parent);
  return !parents.empty() && parents.back().alive() && &parents.back() != &process &&
         parents.back().start_ns < process.start_ns && parents.back().image.from_ns <= process.start_ns &&
         parents.back().image.maps == process.image.maps && parents.back().image.program == process.image.program;
}

bool Checkpointer::put(const Found& found, std::size_t most_bytes) {
  if (written_ + slice_.size() >= most_bytes) return false;
  if (is_clone(*found.process))
    writer_.write_clone(found.pid, *found.process);
  else
    writer_.write(found.pid, *found.process);
  writer_.flush();
  flush_if(slice_.size() >= kSliceBytes);
  return true;
}

void Checkpointer::put_log(const RecordLog& log) {
  for (const RecordLog::Entry& entry : log.entries()) {
    const auto record = log.record(entry);
    slice_.insert(slice_.end(), record.begin(), record.end());
    flush_if(slice_.size() >= kSliceBytes);
  }
  flush_if(true);
}

}  // namespace

CheckpointOmissions write_checkpoint(const RecordLog& log, const ProcessTable& table, const KernelTable& kernel,
                                     std::size_t most_state_bytes,
                                     const std::function<void(std::span<const std::byte>)>& write) {
  std::vector<Found> dead;
  std::vector<Found> alive;
  table.for_each([&](std::uint32_t pid, std::span<const Incarnation> incarnations) {
    for (const Incarnation& process : incarnations) (process.alive() ? alive : dead).push_back({pid, &process});
  });
  std::sort(dead.begin(), dead.end(),
            [](const Found& a, const Found& b) { return a.process->exit_ns > b.process->exit_ns; });

  CheckpointOmissions out;
  Checkpointer checkpointer(table, write);
  checkpointer.put_kernel(kernel, most_state_bytes / 4);
  // Exited processes get three quarters of the space: /proc still has the living ones, but nothing else knows the
  // exited ones. A living process without space is written when it exits.
  for (const Found& found : dead)
    if (!checkpointer.put(found, most_state_bytes / 4 * 3)) {
      ++out.losses.evicted;
      out.losses.evicted_until_ns = std::max(out.losses.evicted_until_ns, found.process->exit_ns);
    }
  for (const Found& found : alive)
    if (!checkpointer.put(found, most_state_bytes)) out.unwritten.insert(found.pid);
  checkpointer.put_log(log);
  return out;
}

}  // namespace flight
