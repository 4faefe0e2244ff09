// SPDX-License-Identifier: Apache-2.0
// Interprets sideband records like a reader of perf.data, in the simplest correct way: the reference for the tracker.
// It forgets, folds and shares nothing.
#pragma once

#include <fmt/format.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

class ReaderModel {
 public:
  struct Map {
    std::uint64_t begin = 0, end = 0, page_offset = 0;
    std::string name;
    BuildId build_id;
  };
  struct Process {
    std::uint32_t parent = 0;
    std::map<std::uint32_t, std::string> threads;  // living ones, the leader included: their names
    bool leader_exited = false;
    std::vector<Map> maps;
  };

  // All records up to `until`; those with time 0 are always up to it.
  void apply_all(std::span<const std::byte> bytes, EventTime until = ~EventTime{0}) {
    for (auto record = next_record(bytes); !record.empty(); record = next_record(bytes)) {
      bytes = bytes.subspan(record.size());
      if (parse_trailer(record)->time_ns <= until) apply(record);
    }
  }

  void apply(std::span<const std::byte> record) {
    const auto type = load<perf_event_header>(record.data()).type;
    if (type == PERF_RECORD_FORK) fork(*parse_task(record));
    if (type == PERF_RECORD_EXIT) exit(*parse_task(record));
    if (type == PERF_RECORD_COMM) comm(*parse_comm(record));
    if (type == PERF_RECORD_MMAP2) map(*parse_mmap2(record));
    if (type == PERF_RECORD_CGROUP) cgroups[parse_cgroup(record)->id] = std::string(parse_cgroup(record)->path);
    if (type == PERF_RECORD_KSYMBOL) {
      const auto symbol = *parse_ksymbol(record);
      if ((symbol.flags & 1U) != 0)
        ksymbols.erase(symbol.address);
      else
        ksymbols[symbol.address] = std::string(symbol.name);
    }
  }

  [[nodiscard]] std::string comm_of(std::uint32_t pid, std::uint32_t tid) const {
    const auto process = processes.find(pid);
    if (process == processes.end() || !process->second.threads.contains(tid)) return "";
    return process->second.threads.at(tid);
  }
  [[nodiscard]] std::string map_at(std::uint32_t pid, std::uint64_t address) const {
    const auto process = processes.find(pid);
    if (process == processes.end()) return "";
    for (const Map& one : process->second.maps)
      if (one.begin <= address && address < one.end) return one.name;
    return "";
  }
  // One line per process, so that a difference is readable.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const auto& [pid, process] : processes) all += text_of(pid);
    return all;
  }
  [[nodiscard]] std::string text_of(std::uint32_t pid) const {
    const auto found = processes.find(pid);
    if (found == processes.end()) return "";
    const Process& process = found->second;
    std::string line = fmt::format("{} of {}:", pid, process.parent);
    for (const auto& [tid, name] : process.threads) line += fmt::format(" {}={}", tid, name);
    auto maps = process.maps;
    std::sort(maps.begin(), maps.end(), [](const Map& a, const Map& b) { return a.begin < b.begin; });
    for (const Map& one : maps) line += fmt::format(" {:x}-{:x}@{:x}{}", one.begin, one.end, one.page_offset, one.name);
    return line + "\n";
  }

  std::map<std::uint32_t, Process> processes;  // living ones
  std::map<std::uint64_t, std::string> cgroups, ksymbols;

 private:
  void fork(const TaskRecord& fork) {
    const auto parent = processes.find(fork.ppid);
    std::string name;
    if (parent != processes.end())
      name = parent->second.threads.contains(fork.ptid) ? parent->second.threads[fork.ptid]
                                                        : parent->second.threads[fork.ppid];
    if (fork.pid != fork.tid) {
      if (processes.contains(fork.pid)) processes[fork.pid].threads[fork.tid] = name;
      return;
    }
    Process child;
    child.parent = fork.ppid;
    child.threads[fork.tid] = name;
    if (!fork.exec && parent != processes.end()) child.maps = parent->second.maps;
    processes[fork.pid] = child;
  }
  void exit(const TaskRecord& exit) {
    const auto process = processes.find(exit.pid);
    if (process == processes.end()) return;
    // A leader that exits first stays, as a zombie with its name, until the others have exited.
    Process& dying = process->second;
    if (exit.tid == exit.pid)
      dying.leader_exited = true;
    else
      dying.threads.erase(exit.tid);
    if (dying.leader_exited && dying.threads.size() <= dying.threads.count(exit.pid)) processes.erase(process);
  }
  void comm(const CommRecord& comm) {
    Process& process = processes[comm.pid];
    if (comm.exec) {
      process.threads.clear();
      process.leader_exited = false;
      process.maps.clear();
    }
    process.threads[comm.tid] = std::string(comm.name);
  }
  void map(const Mmap2Record& record) {
    std::vector<Map> kept;
    const std::uint64_t begin = record.address, end = record.address + record.bytes;
    auto& maps = processes[record.pid].maps;
    const auto overlaps = [begin, end](const Map& old) { return old.begin < end && begin < old.end; };
    if (std::none_of(maps.begin(), maps.end(), overlaps)) {
      maps.push_back({begin, end, record.page_offset, std::string(record.name), record.build_id});
      return;
    }
    for (const Map& old : maps) {
      if (old.begin < begin) {
        kept.push_back(old);
        kept.back().end = std::min(old.end, begin);
      }
      if (old.end > end) {
        kept.push_back(old);
        kept.back().begin = std::max(old.begin, end);
        kept.back().page_offset += kept.back().begin - old.begin;
      }
    }
    kept.push_back({begin, end, record.page_offset, std::string(record.name), record.build_id});
    maps = std::move(kept);
  }
};

// The knowledge at `time`.
inline ReaderModel read(const TrackerExport& window, EventTime time = ~EventTime{0}) {
  ReaderModel model;
  model.apply_all(window.prologue);
  model.apply_all(window.log, time);
  return model;
}

}  // namespace flight
