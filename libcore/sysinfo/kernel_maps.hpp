// SPDX-License-Identifier: Apache-2.0
// Where the kernel and its modules lie in memory, and which builds they are: what perf needs to give names to
// kernel addresses. Real addresses need CAP_SYSLOG (kptr_restrict), so the broker reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

struct KernelMap {
  std::string name;  // "[kernel.kallsyms]_text" (perf's name: map + reference symbol), or a module's
                     // .ko path, else "[module]"
  std::uint64_t address = 0, bytes = 0;
  std::uint64_t page_offset = 0;       // kernel: the reference symbol's runtime address; modules: 0
  std::vector<std::uint8_t> build_id;  // empty: unknown
};

// The kernel first. An error where kallsyms shows zeros only (kptr_restrict, no CAP_SYSLOG).
[[nodiscard]] Result<std::vector<KernelMap>> read_kernel_maps(std::string_view kallsyms, const std::string& root = "");

// The NT_GNU_BUILD_ID note in the contents of a note section or segment (elf(5)); empty: none.
[[nodiscard]] std::vector<std::uint8_t> build_id_of_notes(std::string_view notes);
// The same of an ELF file (PT_NOTE); reads at most a few pages; empty for whatever is no ELF file.
[[nodiscard]] std::vector<std::uint8_t> build_id_of_elf(int fd);

}  // namespace flight
