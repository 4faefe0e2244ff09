// SPDX-License-Identifier: Apache-2.0
// The processes to which the samples of a window belong. If a pid was reused in the window, the samples before its
// FORK belong to one process and those after it to another; if a process executed another program, those before belong
// to the one program and those after it to the other. A program is the path of an executable: the name of a process is
// its own choice. A cgroup has a unit, and each sample has a cgroup: a process can move from one to another. Only pids
// with samples are kept, which bounds the memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/store/sidecar.hpp"
#include "libcore/sysinfo/unit_name.hpp"

namespace flight {

// Numbers texts; each is stored once.
class Texts {
 public:
  [[nodiscard]] std::uint32_t id_of(std::string_view text);
  // A number that no text gets from id_of(), not even this one. `text`: outlives this object.
  [[nodiscard]] std::uint32_t id_apart(const std::string& text);
  [[nodiscard]] const std::string& operator[](std::uint32_t id) const { return *texts_[id]; }

 private:
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<const std::string*> texts_;
};

class Lives {
 public:
  // A process from its begin, or from an execve(2), to the next one.
  struct Life {
    EventTime begin_ns = 0;
    std::uint32_t process = 0;  // the number of the first life of the same process
    std::uint32_t comm = 0;     // its newest name; 0: unknown
    // The executable's path; "[kworker]" for all kworkers; 0: unknown.
    std::uint32_t program = 0;
    bool kernel = false;           // a kernel thread, see is_kthreadd()
    bool expects_program = false;  // the kernel's record of its executable follows
  };

  // Keeps no references to its arguments. `own_pid_namespace`: the pids are those of a container. Kernel threads have
  // none there, so that kthreadd's number is an ordinary process's.
  Lives(const TrackerExport& sideband, const std::unordered_set<std::uint32_t>& sampled, bool own_pid_namespace);

  [[nodiscard]] bool has_several(std::uint32_t pid) const;
  // The number of the life of `pid` at that time; numbers ascend by time.
  [[nodiscard]] std::uint32_t number_at(std::uint32_t pid, EventTime time_ns) const;
  // The same, for a sample, in user mode or not: in a container, pid 0 in user mode is not idle.
  [[nodiscard]] std::uint32_t number_of(bool in_program, std::uint32_t pid, EventTime time_ns) const;
  // nullptr if `pid` has no samples.
  [[nodiscard]] const Life* find(std::uint32_t pid, std::uint32_t number) const;
  // The last life of the process that has the life `number`.
  [[nodiscard]] const Life* newest_of(std::uint32_t pid, std::uint32_t number) const;
  // The root cgroup is no unit. Of a cgroup whose path is not known, the unit is not known.
  static constexpr std::uint32_t kNoUnit = 0, kUnitUnknown = 1;
  // `cgroup` is the kernel's id, 0: unknown.
  [[nodiscard]] std::uint32_t unit_of(std::uint64_t cgroup);
  [[nodiscard]] std::uint32_t unit_of_path(const std::string& cgroup);
  // The unit of samples whose pid stands for more than one process. Idle tasks (pid 0) are in no unit; for any other
  // such pid the unit is unknown.
  [[nodiscard]] std::uint32_t unit_of_no_process(std::uint32_t pid) const {
    return pid == 0 && !own_pid_namespace_ ? kNoUnit : kUnitUnknown;
  }
  [[nodiscard]] bool is_sampled(std::uint32_t pid) const { return sampled_.contains(pid); }
  // Whether the samples of this process have a name.
  [[nodiscard]] bool has_name(const Life& life) const { return life.comm != 0 && life.comm != lost_; }
  // As passed to unit_of(); empty: unknown.
  [[nodiscard]] const std::string& path_of(std::uint64_t cgroup) const;

  [[nodiscard]] std::string comm_text(std::uint32_t pid, const Life& life) const;
  // The origin of the name that comm_text() returns.
  [[nodiscard]] NamedBy named_by(std::uint32_t pid, const Life& life) const;
  // The last part of its path: "python3.11", or the whole path if the last part begins as a kernel thread's name. And
  // the whole path; empty: it has none.
  [[nodiscard]] std::string program_text(std::uint32_t program) const;
  [[nodiscard]] std::string program_path(std::uint32_t program) const;
  [[nodiscard]] std::uint32_t comm_id(const Comm& comm) {
    return is_lost_comm(comm) ? lost_ : texts_.id_of(name_of(comm));
  }
  // A process without samples that forks.
  struct KnownForker {
    std::uint32_t program = 0;  // 0: its executable is not known
    bool kernel = false;
  };
  [[nodiscard]] KnownForker forker(std::uint32_t pid, std::uint32_t comm) const;
  [[nodiscard]] const CgroupName& unit(std::uint32_t id) const { return units_[id]; }

 private:
  // A process without samples.
  struct Other {
    std::uint32_t comm = 0, program = 0;
    bool expects_program = false;
    bool kernel = false;
  };

  void note(std::span<const std::byte> record, bool in_window);
  void note_comm(const CommRecord& comm, EventTime time_ns);
  void note_fork(const TaskRecord& fork, bool in_window);
  void note_map(std::span<const std::byte> record);
  void note_program(const TrackerExport::Program& program);
  // Those of processes that were there before the log.
  void note_programs_before(const TrackerExport& sideband);
  void note_forker(std::uint32_t pid, const Other& now);
  void name_the_rest();
  // The parent of every kernel thread, and of nothing else on the host but helpers of the kernel. These execute a
  // program: a task of it that has executed nothing, and has no memory of its own, is a kernel thread. The name of a
  // task never shows that.
  [[nodiscard]] bool is_kthreadd(std::uint32_t pid) const;
  [[nodiscard]] std::uint32_t id_of(const CommRecord& comm) { return comm.lost ? lost_ : texts_.id_of(comm.name); }
  [[nodiscard]] Other now_of(std::uint32_t pid) const;
  [[nodiscard]] std::uint32_t comm_of(std::uint32_t pid, std::uint32_t tid) const;
  void split_outside();
  static CgroupName no_unit();
  static CgroupName unknown_unit();

  std::unordered_set<std::uint32_t> sampled_;
  bool own_pid_namespace_ = false;
  bool forgotten_ = false;  // a pid may have belonged to another process, whose records are missing
  std::unordered_map<std::uint32_t, std::vector<Life>> lives_;  // by pid, oldest first; never empty
  std::unordered_map<std::uint32_t, Other> others_;             // by pid; those that are alive
  // By pid and name; of `others_`, ended ones included: nothing is known if there were several.
  std::map<std::pair<std::uint32_t, std::uint32_t>, KnownForker> forkers_;
  std::unordered_map<std::uint32_t, std::uint32_t> thread_comms_;  // by tid, without main threads
  std::unordered_map<std::uint64_t, std::string> cgroups_;         // by id
  std::unordered_map<std::uint64_t, std::uint32_t> unit_of_cgroup_;
  std::unordered_map<std::string, std::uint32_t> unit_of_path_;  // by CgroupName::path: labels need not be unique
  std::vector<CgroupName> units_ = {no_unit(), unknown_unit()};
  Texts texts_;
  std::uint32_t lost_ = 0;  // the name of those whose name is unknown
};

}  // namespace flight
