// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/address_spaces.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::string_view kKernelName = "[kernel.kallsyms]";
constexpr std::uint16_t kUnregistered = 1;  // in the flags of a KSYMBOL (PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER)

// Executable memory that is of no file (is_anon_memory() and is_no_dso_memory() in tools/perf/util/map.c).
bool is_of_no_file(std::string_view name) {
  for (const std::string_view begin : {"//anon", "/dev/zero", "/anon_hugepage", "[stack", "/SYSV", "[heap]"})
    if (name.starts_with(begin)) return true;
  return false;
}

// "[snd_hda]" of "/lib/modules/6.1.0/kernel/sound/snd-hda.ko.xz", as perf has it.
std::string dso_of_module(std::string_view name) {
  if (name.starts_with('[')) return std::string(name);
  std::string out(name.substr(name.rfind('/') + 1));
  out.resize(std::min(out.find(".ko"), out.size()));
  std::replace(out.begin(), out.end(), '-', '_');
  return "[" + out + "]";
}

std::uint64_t end_of_code(std::uint64_t address, std::uint64_t bytes) {
  return bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
}

}  // namespace

std::string_view CodeObject::short_name() const {
  const std::string_view all = name;
  return kind == CodeKind::file ? all.substr(all.rfind('/') + 1) : all;
}

AddressSpaces::AddressSpaces(std::uint64_t most_steps) : spaces_(1), objects_(1), most_steps_(most_steps) {}

void AddressSpaces::apply(std::span<const std::byte> record, SidebandPosition position) {
  switch (load<std::uint32_t>(record.data())) {
    case PERF_RECORD_MMAP:
      if (const auto map = parse_mmap(record)) add_map(*map, position);
      return;
    case PERF_RECORD_MMAP2:
      if (const auto map = parse_mmap2(record)) add_map(*map, position);
      return;
    case PERF_RECORD_KSYMBOL:
      if (const auto symbol = parse_ksymbol(record)) add_symbol(*symbol, position);
      return;
    case PERF_RECORD_FORK:
      if (const auto task = parse_task(record); task && task->pid == task->tid) add_process(*task, position);
      return;
    default:
      return;
  }
}

void AddressSpaces::add_map(const Mmap2Record& map, SidebandPosition position) {
  Code code{.begin = map.address,
            .end = end_of_code(map.address, map.bytes),
            .page_offset = map.page_offset,
            .position = position};
  if (map.cpumode == PERF_RECORD_MISC_KERNEL) {
    const bool whole = map.name.starts_with(kKernelName);
    code.object = object_of(CodeKind::kernel, whole ? std::string(kKernelName) : dso_of_module(map.name), map.build_id);
    spaces_[kKernel].code.push_back(code);
    return;
  }
  if (map.cpumode != PERF_RECORD_MISC_USER) return;
  if (is_of_no_file(map.name))
    code.object = object_of(CodeKind::memory, fmt::format("[JIT] tid {}", map.pid), {});
  else
    code.object = object_of(map.name.starts_with('/') ? CodeKind::file : CodeKind::memory, map.name, map.build_id);
  spaces_[newest_of(map.pid)].code.push_back(code);
}

void AddressSpaces::add_symbol(const KsymbolRecord& symbol, SidebandPosition position) {
  const bool gone = (symbol.flags & kUnregistered) != 0;
  spaces_[kKernel].code.push_back({.begin = symbol.address,
                                   .end = end_of_code(symbol.address, symbol.bytes),
                                   .position = position,
                                   .object = gone ? 0 : object_of(CodeKind::generated, symbol.name, {})});
}

void AddressSpaces::add_process(const TaskRecord& fork, SidebandPosition position) {
  Space space{.since = position};
  if (!fork.exec) {
    space.parent = newest_of(fork.ppid);
    space.parents_mapped = static_cast<std::uint32_t>(spaces_[space.parent].code.size());
  }
  of_pid_[fork.pid].push_back(static_cast<std::uint32_t>(spaces_.size()));
  spaces_.push_back(std::move(space));
}

// A process without a FORK was always there.
std::uint32_t AddressSpaces::newest_of(std::uint32_t pid) {
  std::vector<std::uint32_t>& all = of_pid_[pid];
  if (all.empty()) {
    all.push_back(static_cast<std::uint32_t>(spaces_.size()));
    spaces_.emplace_back();
  }
  return all.back();
}

std::uint32_t AddressSpaces::object_of(CodeKind kind, std::string_view name, const BuildId& build_id) {
  std::string key(name);
  key += '\0';
  key += static_cast<char>(kind);
  for (std::size_t i = 0; i < build_id.size; ++i) key += static_cast<char>(build_id.bytes[i]);
  const auto [known, added] = numbers_.try_emplace(std::move(key), static_cast<std::uint32_t>(objects_.size()));
  if (added) objects_.push_back({.kind = kind, .name = std::string(name), .build_id = build_id});
  return known->second;
}

std::uint32_t AddressSpaces::space_of(std::uint32_t pid, SidebandPosition position) const {
  const auto found = of_pid_.find(pid);
  if (found == of_pid_.end()) return kNone;
  const std::vector<std::uint32_t>& all = found->second;
  const auto after = std::partition_point(all.begin(), all.end(), [&](std::uint32_t space) {
    return spaces_[space].since == 0 || spaces_[space].since < position;
  });
  return after == all.begin() ? kNone : *(after - 1);
}

std::uint32_t AddressSpaces::mapped(std::uint32_t space, SidebandPosition position) const {
  if (space == kNone) return 0;
  const std::vector<Code>& code = spaces_[space].code;
  const auto after =
      std::partition_point(code.begin(), code.end(), [&](const Code& one) { return one.position < position; });
  return static_cast<std::uint32_t>(after - code.begin());
}

std::optional<CodeAt> AddressSpaces::find(std::uint32_t space, std::uint32_t count, std::uint64_t address) {
  for (; space != kNone; ++steps_) {
    const Space& in = spaces_[space];
    for (std::uint32_t i = count; i-- > 0; ++steps_) {
      const Code& code = in.code[i];
      if (steps_ > most_steps_) break;
      if (address < code.begin || address >= code.end) continue;
      if (code.object == 0) return std::nullopt;
      const bool of_file = objects_[code.object].kind == CodeKind::file;
      return CodeAt{.object = code.object,
                    .offset = address - code.begin + (of_file ? code.page_offset : 0),
                    .begin = code.begin};
    }
    if (steps_ > most_steps_) {
      ++given_up_;
      return std::nullopt;
    }
    count = in.parents_mapped;
    space = in.parent;
  }
  return std::nullopt;
}

}  // namespace flight
