// SPDX-License-Identifier: Apache-2.0
// The kernel's address range and build-id: together with its modules (modules.hpp), what perf needs to name kernel
// addresses. Real addresses need CAP_SYSLOG (kptr_restrict), so the broker reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::size_t kMaxBuildIdBytes = 64;

struct KernelImage {
  std::string name;                      // perf's: "[kernel.kallsyms]_text", the map and its reference symbol
  std::uint64_t address = 0, bytes = 0;  // the address is the reference symbol's
  std::vector<std::uint8_t> build_id;    // empty: unknown
};

// An error if kallsyms shows only zeros (kptr_restrict, no CAP_SYSLOG).
[[nodiscard]] Result<KernelImage> kernel_image(std::string_view kallsyms, const std::string& root = "");

// The NT_GNU_BUILD_ID note in the contents of a note section or segment (elf(5)); empty: none.
[[nodiscard]] std::vector<std::uint8_t> build_id_of_notes(std::string_view notes);
// The same for a file with such contents, as in sysfs; empty also if it cannot be read.
[[nodiscard]] std::vector<std::uint8_t> build_id_of_file(const std::string& path);
// The same for an ELF file (PT_NOTE); reads at most a few pages; empty if it is not an ELF file.
[[nodiscard]] std::vector<std::uint8_t> build_id_of_elf(int fd);

}  // namespace flight
