// SPDX-License-Identifier: Apache-2.0
// elfutils' libdwfl as the verifier of a whole unwind: the frames it finds in the same registers and copied stack.
#pragma once

#include <elfutils/libdwfl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "tests/unit/unwind/live_samples.hpp"

namespace flight::test {

class Libdwfl {
 public:
  explicit Libdwfl(pid_t pid = ::getpid()) : pid_(pid), dwfl_(dwfl_begin(&kFiles)) {
    EXPECT_EQ(dwfl_linux_proc_report(dwfl_, pid_), 0);
    EXPECT_EQ(dwfl_report_end(dwfl_, nullptr, nullptr), 0);
    EXPECT_TRUE(dwfl_attach_state(dwfl_, nullptr, pid_, &kThreads, this)) << dwfl_errmsg(-1);
  }
  Libdwfl(const Libdwfl&) = delete;
  Libdwfl& operator=(const Libdwfl&) = delete;
  ~Libdwfl() { dwfl_end(dwfl_); }

  // In the form that the Unwinder writes.
  [[nodiscard]] std::vector<std::uint64_t> unwind(const LiveSample& sample) {
    sample_ = &sample;
    pcs_.clear();
    dwfl_getthread_frames(dwfl_, pid_, on_frame, this);  // -1 at the end of the copied stack
    return pcs_;
  }

 private:
  static pid_t next_thread(Dwfl* /*dwfl*/, void* self, void** thread) {
    if (*thread != nullptr) return 0;
    *thread = self;
    return static_cast<Libdwfl*>(self)->pid_;
  }
  static bool read(Dwfl* /*dwfl*/, Dwarf_Addr address, Dwarf_Word* value, void* self) {
    const auto word = static_cast<Libdwfl*>(self)->sample_->copy().read(address);
    if (word) *value = *word;
    return word.has_value();
  }
  static bool set_registers(Dwfl_Thread* thread, void* self) {
    const UnwindRegisters& registers = static_cast<Libdwfl*>(self)->sample_->registers;
    const MachineTraits& traits = traits_of(kThisMachine);
    dwfl_thread_state_register_pc(thread, registers.values[traits.pc]);
    const unsigned count = kThisMachine == Machine::x86_64 ? 17 : 32;
    return dwfl_thread_state_registers(thread, 0, count, registers.values.data());
  }
  static int on_frame(Dwfl_Frame* frame, void* self) {
    Dwarf_Addr pc = 0;
    bool is_exact = false;
    if (!dwfl_frame_pc(frame, &pc, &is_exact)) return DWARF_CB_ABORT;
    auto& pcs = static_cast<Libdwfl*>(self)->pcs_;
    pcs.push_back(pc);
    return pcs.size() < kMaxUnwoundFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }
  static int no_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) {
    return -1;
  }

  static constexpr Dwfl_Callbacks kFiles = {dwfl_linux_proc_find_elf, no_debuginfo, nullptr, nullptr};
  static constexpr Dwfl_Thread_Callbacks kThreads = {next_thread, nullptr, read, set_registers, nullptr, nullptr};

  pid_t pid_;
  Dwfl* dwfl_;
  const LiveSample* sample_ = nullptr;
  std::vector<std::uint64_t> pcs_;
};

}  // namespace flight::test
