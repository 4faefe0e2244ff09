// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/page_sched.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "libcore/export/page_columns.hpp"

namespace flight {
namespace {

// Numbers in kOffStates of viewer/src/sched.js.
std::uint64_t page_state(const SchedOff& one) {
  const std::uint64_t state = one.state == SchedState::blocked ? 1U : one.state == SchedState::sleeping ? 2U : 0U;
  return state | (one.unsure ? 4U : 0U) | (one.goes_on ? 8U : 0U);
}

const char* wakeups_of(const SchedKnowledge& knowledge) {
  return knowledge.normal_wakeups ? "all" : knowledge.has_wakeups ? "real-time" : "none";
}

}  // namespace

PageSchedPart::PageSchedPart(const PageSched& sched, EventTime begin_ns) : sched_(sched), begin_ns_(begin_ns) {
  const SchedProfile& profile = sched.profile;
  for (const SchedRow& row : profile.rows) {
    add(row.thread);
    for (const SchedInstead& one : row.instead) add(one.thread);
  }
  for (const std::uint32_t thread : profile.blocked) add(thread);
  for (const SchedRan& one : profile.lanes.all_ran()) add(one.thread);
  for (const SchedOff& one : profile.lanes.all_off()) add(one.thread);
}

void PageSchedPart::add(std::uint32_t thread) {
  if (thread >= sched_.profile.threads.size()) return;
  if (numbers_.try_emplace(thread, static_cast<std::uint32_t>(threads_.size() + 1)).second) threads_.push_back(thread);
}

std::uint32_t PageSchedPart::number_of(std::uint32_t thread) const {
  const auto found = numbers_.find(thread);
  return found == numbers_.end() ? 0 : found->second;
}

void PageSchedPart::write_head(JsonPieces& out) const {
  const SchedProfile& profile = sched_.profile;
  out.format(R"({{"begin":{},"end":{},"switches":{},"wakeups":"{}","stacks":{},)", since_begin(profile.shown.begin_ns),
             since_begin(profile.shown.end_ns), profile.switches, wakeups_of(profile.knowledge),
             profile.knowledge.stacks);
  out.column("notes", sched_.notes, [&out](const std::string& note) { out.text(note); });
  out.raw(",");
  write_threads(out);
  out.column("rows", profile.rows, [&](const SchedRow& row) { write_row(out, row.thread, row.instead); });
  out.raw(",");
  out.column("blocked", profile.blocked, [&](std::uint32_t thread) { write_row(out, thread, {}); });
  out.format(R"(,"more_blocked":{},"lane_step":{},)", profile.more_blocked, profile.lane_step_ns);
  out.column("blocked_lane", profile.blocked_lane, [&out](double threads) { out.format("{:.4g}", threads); });
  out.raw(",");
  write_cpus(out);
  out.format(R"(,"lanes_begin":{},"ran":{},"off":{}}})", since_begin(profile.lanes.ran_begin_ns()),
             profile.lanes.all_ran().size(), profile.lanes.all_off().size());
}

void PageSchedPart::write_threads(JsonPieces& out) const {
  const auto column = [&](const char* key, const auto& first, const auto& print) {
    out.format("\"{}\":[{}", key, first);
    for (const std::uint32_t thread : threads_) {
      out.raw(",");
      print(thread);
    }
    out.raw("]");
  };
  out.raw(R"("threads":{)");
  column("name", R"("[unknown]")", [&](std::uint32_t thread) { out.text(sched_.profile.name_of(thread)); });
  out.raw(",");
  column("tid", 0, [&](std::uint32_t thread) { out.format("{}", sched_.profile.threads[thread].tid); });
  out.raw(",");
  column("pid", 0, [&](std::uint32_t thread) { out.format("{}", sched_.profile.threads[thread].pid); });
  out.raw("},");
}

void PageSchedPart::write_spans(JsonPieces& out, const char* name, const SchedSpans& spans) const {
  out.format(R"(,"{}":[{},{},{},{},{},{}])", name, spans.count, spans.total_ns, spans.longest_ns,
             spans.count == 0 ? 0 : since_begin(spans.longest_begin_ns), spans.longest_goes_on ? 1 : 0, spans.unsure);
}

void PageSchedPart::write_row(JsonPieces& out, std::uint32_t thread, const std::vector<SchedInstead>& instead) const {
  const SchedThread& one = sched_.profile.threads[thread];
  out.format(R"({{"thread":{})", number_of(thread));
  write_spans(out, "run", one.run);
  write_spans(out, "waited", one.waited);
  write_spans(out, "blocked", one.blocked);
  write_spans(out, "slept", one.slept);
  out.raw(",");
  out.column("instead", instead,
             [&](const SchedInstead& other) { out.format("[{},{}]", number_of(other.thread), other.ns); });
  out.raw("}");
}

void PageSchedPart::write_cpus(JsonPieces& out) const {
  const std::vector<SchedCpu>& cpus = sched_.profile.cpus;
  out.raw(R"("cpus":[)");
  bool first = true;
  for (std::size_t number = 0; number < cpus.size(); ++number) {
    const SchedCpu& cpu = cpus[number];
    if (!cpu.known) continue;
    out.format("{}[{},{},{},{}]", first ? "" : ",", number, cpu.run_ns, cpu.idle_ns, cpu.unknown_ns);
    first = false;
  }
  out.raw("]");
}

void PageSchedPart::write_columns(JsonPieces& out) const {
  const std::vector<SchedRan>& ran = sched_.profile.lanes.all_ran();
  for (const SchedRan& one : ran) write_varint(out, one.cpu);
  std::uint64_t end = 0;
  std::uint32_t cpu = std::numeric_limits<std::uint32_t>::max();
  for (const SchedRan& one : ran) {
    if (one.cpu != cpu) end = since_begin(sched_.profile.lanes.ran_begin_ns());
    cpu = one.cpu;
    const std::uint64_t begin = std::max(end, since_begin(one.begin_ns));
    const std::uint64_t length = std::max(begin, since_begin(one.end_ns)) - begin;
    write_varint(out, begin - end);
    write_varint(out, length);
    write_varint(out, number_of(one.thread));
    end = begin + length;
  }
  std::uint64_t before = 0;
  for (const SchedOff& one : sched_.profile.lanes.all_off()) {
    const std::uint64_t begin = since_begin(one.begin_ns);
    write_varint(out, begin - before);
    write_varint(out, std::max(begin, since_begin(one.end_ns)) - begin);
    write_varint(out, number_of(one.thread));
    write_varint(out, page_state(one));
    before = begin;
  }
}

}  // namespace flight
