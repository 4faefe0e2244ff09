// SPDX-License-Identifier: Apache-2.0
// What a snapshot's samples are of: read from its perf.data, and added up by stack in one tree, which every view and
// export uses, so that all of them show the same numbers.
//
//   file ──▶ sideband ──▶ mappings and names of each moment ─┐
//     └────▶ samples ──▶ filter ──▶ frames, named ◀──────────┴──▶ tree
//
// The file is read twice, as its sideband may come after its samples. It is input from outside. Memory is bounded by
// the limits of the parts, and what is beyond a limit is counted.
//
// The numbers are those of `perf report --no-children` on the same file: each sample counts once, for the thread, the
// object and the function of its own address, with its period as its weight; callers are looked up at their return
// addresses, as perf does for chains that the kernel recorded.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/profile/address_spaces.hpp"
#include "libcore/profile/frame_table.hpp"
#include "libcore/profile/function_names.hpp"
#include "libcore/profile/read_records.hpp"
#include "libcore/profile/stack_tree.hpp"
#include "libcore/snapshot/lives.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// Which samples are read. Texts are names, or patterns as of glob(7); empty: all.
struct ProfileFilter {
  EventTime from_ns = 0, until_ns = UINT64_MAX;  // both included
  std::optional<std::uint32_t> cpu, pid, tid;
  std::string event;
  std::string comm;     // of the thread
  std::string unit;     // as in the sidecar's top_units; ".service" may be left out
  std::string program;  // as in the sidecar's top_programs
};

// A sample in the tree, for exports that keep more of it. Texts are by their numbers in `texts`, and have them already.
struct CountedSample {
  std::size_t event = 0;
  EventTime time_ns = 0;
  std::uint32_t cpu = 0, pid = 0, tid = 0;
  std::uint32_t node = 0;     // of the tree: where its stack ends
  std::uint32_t process = 0;  // the name of its process, 0: unknown; the tree has that of its thread
  std::uint32_t unit = 0;     // as in the sidecar's top_units: "nginx.service"; 0: in none
  std::uint32_t cgroup = 0;   // a path; 0: unknown
  std::uint64_t weight = 0;
};

struct ProfileOrder {
  ProfileFilter only;
  SidecarCompared compared;                                // of the sidecar; all 0: there is nothing to compare
  std::string_view kallsyms;                               // of the snapshot's boot; empty: there is none
  bool read_files = true;                                  // for the names of their functions
  std::uint64_t most_expanded_bytes = kMostExpandedBytes;  // of the records, without compression
  // After it no more records are read, and no more files of programs: what is begun can take some tenths of a second.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  bool own_pid_namespace = false;                  // as in HostFacts
  std::function<void(const CountedSample&)> each;  // for each sample in the tree, in the file's order
};

struct ProfileEvent {
  std::string name;
  std::uint64_t frequency = 0;  // samples a second; 0: it has a fixed period
  bool is_clock = false;        // of CPU time: a weight is ns of a CPU
  std::uint32_t root = 0;       // its node in the tree
  bool wanted = true;           // by the filter
};

struct ProfileCounts {
  std::uint64_t samples = 0;  // in the file
  std::uint64_t counted = 0;  // of these, after the filter: in the tree
  std::uint64_t lost = 0;     // records, by the file's LOST records
  // Not in the tree.
  std::uint64_t malformed = 0;    // samples whose fields exceed them
  std::uint64_t unknown_ids = 0;  // samples of no event of the file
  // In the tree, with less than they have.
  std::uint64_t bad_chains = 0;  // with a context that perf does not know, either: only their own address is used
  std::uint64_t cut_chains = 0;  // without their outermost frames
  std::uint64_t others = 0;      // in an [others]
  std::uint64_t given_up = 0;    // addresses that were not looked up (AddressSpaces)
  // Sideband.
  std::uint64_t malformed_sideband = 0, left_out_sideband = 0;
  UnnamedFiles unnamed;
  bool knows_kernel = false;
};

struct SnapshotProfile {
  static constexpr std::size_t kMostFrames = 1024;  // of a stack; the kernel records 127, or perf_event_max_stack

  SnapshotProfile() = default;
  SnapshotProfile(SnapshotProfile&&) = default;  // the texts refer to each other
  SnapshotProfile& operator=(SnapshotProfile&&) = default;

  // EOPNOTSUPP: the file is not one of flightd's. EBADMSG: it is no whole file. EFBIG: it is larger
  // than most_expanded_bytes. ETIMEDOUT: the deadline was over first. EINVAL: no event has the filter's name.
  [[nodiscard]] static Result<SnapshotProfile> read(const FileReader& file, const ProfileOrder& order);

  // A frame for people: "main", "libc.so.6+0x1234" where the name is not known, "[unknown]", "nginx". Not printable().
  [[nodiscard]] std::string text_of(std::uint32_t frame) const;
  // Where it is, as perf report shows it; empty: it is no code.
  [[nodiscard]] std::string_view object_of(std::uint32_t frame) const;
  // What is missing or uncertain, for people.
  [[nodiscard]] std::vector<std::string> warnings() const;

  std::vector<ProfileEvent> events;  // in the file's order
  StackTree tree;
  std::vector<StackFrame> frames;
  std::vector<CodeObject> objects;
  Texts texts;
  ProfileCounts counts;
};

}  // namespace flight
