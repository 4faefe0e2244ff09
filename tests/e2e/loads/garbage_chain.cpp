// SPDX-License-Identifier: Apache-2.0
// Burns one CPU while its frame pointer leads to this chain, as in a program that was built without frame pointers:
//
//   0x1234, which is no code; an address of this program's code; 0x5678
#include "tests/e2e/loads/load.hpp"

static std::uint64_t chain[6];

// Neither memory nor a function is used while the frame pointer is not the compiler's.
extern "C" [[gnu::noinline]] void hot_without_a_frame() {
  std::uint64_t rounds = flight::load::kWorkRounds;
#if defined(__x86_64__)
  __asm__ volatile("mov %%rbp, %%rdx\n\tmov %1, %%rbp\n1:\tdec %0\n\tjnz 1b\n\tmov %%rdx, %%rbp"
                   : "+r"(rounds)
                   : "r"(&chain[0])
                   : "rdx", "cc");
#elif defined(__aarch64__)
  __asm__ volatile("mov x9, x29\n\tmov x29, %1\n1:\tsubs %0, %0, #1\n\tb.ne 1b\n\tmov x29, x9"
                   : "+r"(rounds)
                   : "r"(&chain[0])
                   : "x9", "cc");
#endif
}

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("garbage_chain CPU SECONDS");
  const auto code = reinterpret_cast<std::uint64_t>(&hot_without_a_frame) + 4;
  // Each frame: the next one, a return address.
  chain[0] = reinterpret_cast<std::uint64_t>(&chain[2]), chain[1] = 0x1234;
  chain[2] = reinterpret_cast<std::uint64_t>(&chain[4]), chain[3] = code;
  chain[4] = 0, chain[5] = 0x5678;
  flight::load::stay_on(atoi(argv[1]));
  printf("code=%llu\n", static_cast<unsigned long long>(code));
  flight::load::report("started");
  flight::load::repeat_for(atof(argv[2]), hot_without_a_frame);
}
