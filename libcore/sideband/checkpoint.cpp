// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/checkpoint.hpp"

#include <algorithm>
#include <vector>

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
  // False: what is written has reached `most_bytes` without it.
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

// A scan tells again of what there still is, so the greatest ids are enough: where there are too many, the first go.
void Checkpointer::put_kernel(const KernelTable& kernel, std::size_t most_bytes) {
  RecordBuffer all;
  kernel.append_to(all);
  std::span<const std::byte> rest = all;
  while (rest.size() > most_bytes) rest = rest.subspan(next_record(rest).size());
  slice_.insert(slice_.end(), rest.begin(), rest.end());
  flush_if(slice_.size() >= kSliceBytes);
}

// Has it its maps from a parent that lives, and mapped nothing since? Thousands of children of a large process do.
bool Checkpointer::is_clone(const Incarnation& process) const {
  if (!process.image.maps || !process.past.empty() || process.image.from_ns != process.start_ns) return false;
  const auto parents = table_.of(process.parent);
  return !parents.empty() && parents.back().alive() && &parents.back() != &process &&
         parents.back().start_ns < process.start_ns && parents.back().image.from_ns <= process.start_ns &&
         parents.back().image.maps == process.image.maps;
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

LedgerCheckpoint write_checkpoint(const RecordLog& log, const ProcessTable& table, const KernelTable& kernel,
                                  std::size_t most_state_bytes,
                                  const std::function<void(std::span<const std::byte>)>& write) {
  std::vector<Found> dead;
  std::vector<Found> alive;
  table.for_each([&](std::uint32_t pid, std::span<const Incarnation> incarnations) {
    for (const Incarnation& process : incarnations) (process.alive() ? alive : dead).push_back({pid, &process});
  });
  std::sort(dead.begin(), dead.end(),
            [](const Found& a, const Found& b) { return a.process->exit_ns > b.process->exit_ns; });

  LedgerCheckpoint out;
  Checkpointer checkpointer(table, write);
  checkpointer.put_kernel(kernel, most_state_bytes / 4);
  // /proc tells of the living again, unless they end before somebody asks; of the dead nobody does.
  for (const Found& found : dead)
    if (!checkpointer.put(found, most_state_bytes / 4 * 3)) ++out.left_out;
  for (const Found& found : alive)
    if (!checkpointer.put(found, most_state_bytes)) out.unwritten.insert(found.pid);
  checkpointer.put_log(log);
  return out;
}

}  // namespace flight
