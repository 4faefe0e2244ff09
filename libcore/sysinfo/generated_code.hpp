// SPDX-License-Identifier: Apache-2.0
// Code that the kernel generates while it runs: BPF programs, trampolines, pages of kprobes. It is in no file; the
// kernel reports each load by a KSYMBOL record, and /proc/kallsyms lists what is loaded now:
//
//   ffffffffc0201000 t bpf_prog_6deef7357e7b4530_dump  [bpf]
//   ffffffffc0204000 t ftrace_trampoline               [__builtin__ftrace]
//
// The list has no sizes: a symbol ends at the next one of any module, at most kMostSymbolBytes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

inline constexpr std::uint64_t kMostSymbolBytes = 1U << 20U;
inline constexpr std::size_t kMostGeneratedSymbols = 32768;

struct GeneratedSymbol {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;  // at most kMostSymbolBytes
  bool bpf = false;         // otherwise of a kprobe or of ftrace
  std::string name;
};

struct GeneratedCode {
  std::vector<GeneratedSymbol> symbols;  // ascending by address, which are distinct
  bool has_addresses = false;  // false: the kernel shows zeros (kptr_restrict, no CAP_SYSLOG), so nothing is known
  std::size_t left_out = 0;    // symbols beyond kMostGeneratedSymbols
  // The kernel compiles BPF, and lists no program: none is loaded, or net.core.bpf_jit_harden or bpf_jit_kallsyms hides
  // them. Both can be read only with CAP_SYS_ADMIN.
  bool no_bpf = false;
};

// Whether any of these lines of /proc/kallsyms shows an address. The kernel hides all or none; the first few symbols of
// x86 are at 0 in any case. So if none of the first kHiddenKallsymsBytes shows one, no other line does.
[[nodiscard]] bool shows_address(std::string_view lines);
inline constexpr std::size_t kHiddenKallsymsBytes = 64U << 10U;

// Reads /proc/kallsyms in pieces: about 0.1 s of CPU time, and memory for the symbols of modules only. Of hidden
// addresses, only the beginning is read.
[[nodiscard]] Result<GeneratedCode> read_generated_code(const std::string& root = "");

// Removes the lines of generated code from the text of /proc/kallsyms.
void drop_generated_code(std::string& kallsyms);

}  // namespace flight
