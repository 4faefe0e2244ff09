// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/sched.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace flight {
namespace {

// What the file has, before it is followed.
struct SchedInput {
  SchedTape tape;
  std::vector<std::uint64_t> records;  // of each CPU
};

Result<SchedInput> read_input(const FileReader& file, const SchedOrder& order, SchedEvents& events, SchedProfile& out) {
  SchedInput input{.tape = SchedTape(order.most_records), .records = {}};
  const auto read = read_records(file, order.limits, [&](std::span<const std::byte> bytes) -> Result<void> {
    if (const auto lost = lost_fields(bytes)) {
      if (events.has_id(lost->id)) out.lost += lost->lost;
      return {};
    }
    const auto record = events.read(bytes);
    if (!record) return {};
    ++(record->is_wakeup ? out.wakeups : out.switches);
    // A wake-up is in the ring of the CPU that woke the thread, which may be another one.
    if (!record->is_wakeup) {
      if (record->cpu >= input.records.size()) input.records.resize(record->cpu + std::size_t{1});
      ++input.records[record->cpu];
    }
    input.tape.add(*record);
    return {};
  });
  if (!read) return propagate(read.error());
  input.tape.close();
  return input;
}

// The numbers of the threads, those for which `key` is largest first, at most `most`.
template <typename Key>
std::vector<std::uint32_t> largest_first(const std::vector<SchedThread>& threads, std::size_t most, const Key& key) {
  std::vector<std::uint32_t> out(threads.size());
  std::iota(out.begin(), out.end(), 0U);
  most = std::min(most, out.size());
  std::partial_sort(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(most), out.end(),
                    [&](std::uint32_t a, std::uint32_t b) {
                      const auto of_a = key(threads[a]), of_b = key(threads[b]);
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  out.resize(most);
  return out;
}

// Follows the switches once more, as which threads wait longest is known only now.
void find_instead(SchedProfile& out, const SchedTape& tape, std::size_t most_instead) {
  std::vector<std::uint32_t> chosen;
  for (const SchedRow& row : out.rows)
    if (out.threads[row.thread].waited.total_ns > 0 && chosen.size() < SchedProfile::kMostRowsWithInstead)
      chosen.push_back(row.thread);
  if (chosen.empty()) return;
  SchedWaits waits(chosen, out.shown.begin_ns, out.shown.end_ns);
  SchedReplay again(out.shown, out.holes, &waits);
  for (const SchedRecord& record : tape.records()) again.take(record);
  again.finish();
  for (SchedRow& row : out.rows) row.instead = waits.instead_of(row.thread, most_instead);
}

}  // namespace

Result<SchedProfile> SchedProfile::read(const FileReader& file, const SchedOrder& order) {
  auto events = SchedEvents::of(file);
  if (!events) return propagate(events.error());
  SchedProfile out;
  const auto input = read_input(file, order, *events, out);
  if (!input) return propagate(input.error());
  const std::vector<SchedRecord>& records = input->tape.records();
  out.shown = order.shown;
  out.shown.begin_ns = std::max(out.shown.begin_ns, input->tape.begin_ns());
  if (input->tape.begin_ns() > out.shown.covered_ns) out.shown.covered_ns = input->tape.begin_ns();
  if (out.shown.end_ns == UINT64_MAX && !records.empty()) out.shown.end_ns = records.back().time_ns;
  out.shown.end_ns = std::max(out.shown.begin_ns, out.shown.end_ns);
  if (order.sidecar != nullptr) out.holes = SchedHoles(*order.sidecar, input->records);

  out.lanes = SchedLanes(out.shown, order.lanes);
  const bool with_lanes = order.lanes.ran_ns > 0 || order.lanes.least_off_ns > 0;
  SchedReplay replay(out.shown, out.holes, nullptr, with_lanes ? &out.lanes : nullptr);
  for (const SchedRecord& record : records) replay.take(record);
  if (order.count_what_goes_on) replay.finish();
  out.lanes.arrange();
  out.threads = std::move(replay.threads());
  out.cpus = replay.cpus();
  out.lane_step_ns = replay.lane_step_ns();
  out.blocked_lane = replay.blocked_lane();
  out.left_out_threads = replay.left_out_threads();

  for (const std::uint32_t thread : largest_first(out.threads, order.most_rows, [](const SchedThread& one) {
         return std::tuple(one.waited.total_ns, one.blocked.total_ns, one.run.total_ns);
       }))
    out.rows.push_back({.thread = thread, .instead = {}});
  out.blocked =
      largest_first(out.threads, order.most_rows, [](const SchedThread& one) { return one.blocked.total_ns; });
  std::erase_if(out.blocked, [&](std::uint32_t one) { return out.threads[one].blocked.total_ns == 0; });
  const auto all_blocked = std::count_if(out.threads.begin(), out.threads.end(),
                                         [](const SchedThread& one) { return one.blocked.total_ns > 0; });
  out.more_blocked = static_cast<std::size_t>(all_blocked) - out.blocked.size();
  find_instead(out, input->tape, order.most_instead);

  out.knowledge = events->knowledge();
  out.names = events->take_names();
  out.malformed = events->malformed();
  out.left_out = input->tape.left_out();
  return out;
}

std::string SchedProfile::name_of(std::uint32_t thread) const {
  const SchedThread& one = threads[thread];
  return one.name < names.size() && one.name != 0 ? names[one.name]
                                                  : fmt::format(":{}", static_cast<std::int32_t>(one.tid));
}

}  // namespace flight
