// SPDX-License-Identifier: Apache-2.0
// Which code was mapped at which address, in the kernel and in each process, through the time of one file.
//
//   space of pid 7     code:  [ld.so] [libc] [a JIT's] [libz] …     in the order of the records
//     ▲ FORK           position:   3      5       41      77
//   space of pid 9     code:  [its own …]
//
// A sample sees the mappings whose records are before it. Unmapping is not recorded; so the newest one that covers an
// address holds, as in perf (maps__fixup_overlappings() in tools/perf/util/maps.c), and no mapping must be cut or
// copied: a child looks into its own and then into those that its parent had at the fork. That an execve(2) removes
// them all is not used either, as perf does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libcore/perf/record_build.hpp"

namespace flight {

enum class CodeKind : std::uint8_t {
  unknown,    // in no mapping
  kernel,     // of the kernel or a module
  generated,  // by the kernel: a BPF program, a trampoline. It is one function, and has its name
  file,
  memory,  // of a process, without a file: JIT code, the vDSO
};

// What perf calls a DSO.
struct CodeObject {
  CodeKind kind = CodeKind::unknown;
  std::string name = "[unknown]";  // a path; "[kernel.kallsyms]", "[ext4]", "[vdso]", "[JIT] tid 7"
  BuildId build_id = {};

  // As perf report shows it: without the directory.
  [[nodiscard]] std::string_view short_name() const;
};

struct CodeAt {
  std::uint32_t object = 0;
  std::uint64_t offset = 0;  // in the file; of other code, from the begin of the mapping
  std::uint64_t begin = 0;   // the address of the mapping
};

// The number of a record of the sideband, in the order of time, from 1.
using SidebandPosition = std::uint32_t;

class AddressSpaces {
 public:
  static constexpr std::uint32_t kKernel = 0, kNone = UINT32_MAX;

  // `most_steps` bounds the time of all calls of find() together: with mappings that nobody would make, and addresses
  // that are all different, it could be days. Some nanoseconds each.
  explicit AddressSpaces(std::uint64_t most_steps = 500'000'000);

  // A valid record. In the order of their positions.
  void apply(std::span<const std::byte> record, SidebandPosition position);

  // The space of `pid` for a sample behind `position` records; kNone: nothing is known of it.
  [[nodiscard]] std::uint32_t space_of(std::uint32_t pid, SidebandPosition position) const;
  // How many of its own mappings such a sample sees. While that stays the same, so does what find() returns.
  [[nodiscard]] std::uint32_t mapped(std::uint32_t space, SidebandPosition position) const;
  // `count`: as mapped() returns it. nullopt: there is no mapping, or it has taken too many steps.
  [[nodiscard]] std::optional<CodeAt> find(std::uint32_t space, std::uint32_t count, std::uint64_t address);

  // The first is the unknown one.
  [[nodiscard]] const std::vector<CodeObject>& objects() const { return objects_; }
  [[nodiscard]] std::uint64_t given_up() const { return given_up_; }

 private:
  struct Code {
    std::uint64_t begin = 0, end = 0, page_offset = 0;
    SidebandPosition position = 0;
    std::uint32_t object = 0;  // 0: unmapped
  };
  struct Space {
    SidebandPosition since = 0;
    std::uint32_t parent = kNone, parents_mapped = 0;
    std::vector<Code> code;
  };

  void add_map(const Mmap2Record& map, SidebandPosition position);
  void add_symbol(const KsymbolRecord& symbol, SidebandPosition position);
  void add_process(const TaskRecord& fork, SidebandPosition position);
  [[nodiscard]] std::uint32_t newest_of(std::uint32_t pid);
  [[nodiscard]] std::uint32_t object_of(CodeKind kind, std::string_view name, const BuildId& build_id);

  std::vector<Space> spaces_;                                             // the first is the kernel's
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> of_pid_;  // oldest first; never empty
  std::vector<CodeObject> objects_;
  std::unordered_map<std::string, std::uint32_t> numbers_;  // by kind, name and build-id
  std::uint64_t steps_ = 0, most_steps_, given_up_ = 0;
};

}  // namespace flight
