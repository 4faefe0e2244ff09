// SPDX-License-Identifier: Apache-2.0
// Code that optimizing compilers make without frame pointers, for live unwinding. It is always compiled with -O2
// -fomit-frame-pointer, whatever the options of the tests.
#pragma once

#include <chrono>
#include <cstdint>

namespace flight::test {

using AtBottom = void (*)(void* context);

// Calls itself `depth` times through four kinds of frames (plain, with many saved registers, with a stack of variable
// size, realigned), at last through libc's qsort, then `at_bottom`.
std::uint64_t call_deep(unsigned depth, AtBottom at_bottom, void* context);
// Computes for this much CPU time, in leaves and through the procedure linkage table.
double compute(unsigned milliseconds);
// The CPU time of the calling thread.
std::chrono::nanoseconds thread_time();

}  // namespace flight::test
