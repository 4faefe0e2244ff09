// SPDX-License-Identifier: Apache-2.0
// Loads a BPF program with the given name and runs it for a while. Nearly all of its time is in that program.
#include <linux/bpf.h>
#include <sys/syscall.h>

#include <cstring>

#include "tests/e2e/loads/load.hpp"

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("bpf_spinner CPU SECONDS NAME");
  flight::load::stay_on(atoi(argv[1]));
  // r1 = 100000; do --r1 while (r1 != 0); return 0
  bpf_insn program[] = {{BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 100000},
                        {BPF_ALU64 | BPF_SUB | BPF_K, 1, 0, 0, 1},
                        {BPF_JMP | BPF_JNE | BPF_K, 1, 0, -2, 0},
                        {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
                        {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
  bpf_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
  attr.insns = reinterpret_cast<std::uintptr_t>(program);
  attr.insn_cnt = sizeof program / sizeof program[0];
  attr.license = reinterpret_cast<std::uintptr_t>("GPL");
  strncpy(attr.prog_name, argv[3], sizeof attr.prog_name - 1);
  const long fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr);
  if (fd < 0) {
    perror("load a BPF program");
    return 77;
  }
  flight::load::report("loaded");
  char data[64] = {};
  const std::uint64_t end = flight::load::now_ns() + static_cast<std::uint64_t>(atof(argv[2]) * 1e9);
  while (flight::load::now_ns() < end) {
    memset(&attr, 0, sizeof attr);
    attr.test.prog_fd = static_cast<std::uint32_t>(fd);
    attr.test.data_in = reinterpret_cast<std::uintptr_t>(data);
    attr.test.data_size_in = sizeof data;
    attr.test.repeat = 200;
    if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attr, sizeof attr) != 0) {
      perror("run the BPF program");
      return 1;
    }
  }
}
