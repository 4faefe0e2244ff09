// SPDX-License-Identifier: Apache-2.0
// A program of the kernel's BPF machine: a cause for records about code that the kernel makes.
#pragma once

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "libcore/base/unique_fd.hpp"

namespace flight::test {

// "return 0"; `name`: at most 15 characters. Only a kernel that compiles BPF (bpf_jit_enable) gives it a symbol. -1: a
// container may forbid bpf(2).
inline UniqueFd load_bpf_program(const char* name = "") {
  const std::array<bpf_insn, 2> program{{{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0}, {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}}};
  bpf_attr attr{};
  attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
  attr.insn_cnt = program.size();
  attr.insns = reinterpret_cast<std::uintptr_t>(program.data());
  attr.license = reinterpret_cast<std::uintptr_t>("GPL");
  std::strncpy(attr.prog_name, name, sizeof attr.prog_name - 1);
  return UniqueFd(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr)));
}

}  // namespace flight::test
