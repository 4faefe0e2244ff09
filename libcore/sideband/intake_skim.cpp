// SPDX-License-Identifier: Apache-2.0
// The first pass over drained records, which takes out the names of tasks that go on renaming themselves.
//
//   ring     … COMM  COMM  COMM  COMM  LOST  COMM  COMM │ of another CPU …
//   skimmed      x     x     x                 x
//
// The last one of a row stays: sift() needs the time of the record before a LOST. What is skimmed is dropped at once,
// so before records that stand in front of it in the buffer. Only an exec of its process would make a difference.
#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_set>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/intake.hpp"

namespace flight {
namespace {

// Layout of a COMM record: header 8, u32 pid, u32 tid, then the name, filled up with NULs to a multiple of 8 bytes.
constexpr std::size_t kPidAt = 8, kTidAt = 12, kNameAt = 16, kLeastComm = kNameAt + 8 + sizeof(Trailer);

}  // namespace

// The record that was looked at last, if it can be skimmed, and what is known of its task.
struct Intake::Skimmed {
  std::uint32_t pid = 0, tid = 0, cpu = 0;
  EventTime time_ns = 0;
  Process* process = nullptr;
  Renames::Lost lost;
};

// Whether sift() would drop this name as drop_in() does. `last`: of the record before it; gets the facts of this one.
// `executed`: processes with an exec in this buffer. The id must be that of an earlier record of this CPU: what another
// record says is not believed (strangers.hpp).
bool Intake::is_to_skim(std::span<const std::byte> record, Skimmed& last, std::unordered_set<std::uint32_t>& executed) {
  const auto header = load<perf_event_header>(record.data());
  if (header.type != PERF_RECORD_COMM || record.size() < kLeastComm) return false;
  const auto pid = load<std::uint32_t>(record.data() + kPidAt);
  if ((header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0) {
    executed.insert(pid);
    last.lost.task = nullptr;
    return false;
  }
  const std::byte* const end = record.data() + record.size() - sizeof(Trailer);
  const auto trailer = load<Trailer>(end);
  if (trailer.reserved != 0 || end[-1] != std::byte{0}) return false;
  if (trailer.cpu >= last_of_cpu_.size() || last_of_cpu_[trailer.cpu].id != trailer.id) return false;
  const auto tid = load<std::uint32_t>(record.data() + kTidAt);
  const bool same = last.lost.task != nullptr && last.pid == pid && last.tid == tid;
  if (!same || trailer.time_ns < last.lost.from_ns || trailer.time_ns >= last.lost.until_ns) {
    last.lost.task = nullptr;
    const auto process = processes_.find(pid);
    if (process == processes_.end() || !process->second.has_open_names() || executed.contains(pid)) return false;
    last.process = &process->second;
    last.lost = last.process->renames->lost_at(tid, trailer.time_ns);
  }
  last.pid = pid;
  last.tid = tid;
  last.cpu = trailer.cpu;
  last.time_ns = trailer.time_ns;
  return last.lost.task != nullptr;
}

void Intake::drop_name(std::span<const std::byte> record, const Skimmed& skimmed) {
  Renames& renames = *skimmed.process->renames;
  if (renames.left_out == 0) renaming_.push_back(skimmed.pid);
  // The name ends at a NUL in front of the trailer (is_to_skim()).
  renames.drop_in(skimmed.lost, reinterpret_cast<const char*>(record.data() + kNameAt), skimmed.time_ns);
  ++skimmed.process->now;
  ++all_now_;
}

void Intake::skim(RecordBuffer& records) {
  if (open_names_ == 0) return;
  std::unordered_set<std::uint32_t> executed;
  Skimmed last;
  std::size_t kept = 0, done = 0;
  std::size_t held = 0;  // bytes of the last record that is kept, if it goes when the next one can be skimmed, too
  for (auto record = next_record(records); !record.empty(); record = next_record(std::span(records).subspan(done))) {
    const std::size_t size = record.size();
    const Skimmed before = last;
    const bool skimmed = is_to_skim(record, last, executed);
    if (skimmed && held != 0 && before.cpu == last.cpu) {
      kept -= held;
      drop_name(std::span(records).subspan(kept, held), before);
    }
    if (kept != done) std::memmove(records.data() + kept, records.data() + done, size);
    kept += size;
    done += size;
    held = skimmed ? size : 0;
  }
  if (kept != done)
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(kept),
                  records.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace flight
