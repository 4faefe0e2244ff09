// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/unwinder.hpp"

#include "libcore/unwind/frame_step.hpp"

namespace flight {
namespace {

UnwindStatus status_of(FrameStep step) {
  switch (step) {
    case FrameStep::outside_stack:
      return UnwindStatus::truncated;
    case FrameStep::no_progress:
      return UnwindStatus::no_progress;
    case FrameStep::no_rule:
      return UnwindStatus::no_cfi;
    case FrameStep::caller:
    case FrameStep::interrupted:
    case FrameStep::outermost:
      break;
  }
  return UnwindStatus::complete;
}

}  // namespace

// The state of one unwind.
struct Unwinder::Walk {
  Machine machine;
  RuleCache& rules;
  const StackCopy& stack;
  UnwindRegisters registers;
  bool is_exact = true;           // pc is an instruction that was not finished, not a return address
  bool by_frame_pointer = false;  // the last step used it
  Unwound result{};

  // The last frame's caller cannot be found.
  Unwound& stop(UnwindStatus status) {
    result.status = status;
    return result;
  }
  FrameStep step(const CodeMapping& mapping, std::uint64_t lookup) {
    by_frame_pointer = false;
    if (mapping.table != nullptr) {
      const std::uint32_t index = rules.find(*mapping.table, lookup - mapping.load_bias);
      if (index != kNoRule) {
        const auto rule = mapping.table->rule(index);
        return rule ? step_by_rule(*mapping.table, *rule, stack, is_exact, registers) : FrameStep::no_rule;
      }
    }
    const FrameStep step = step_by_frame_pointer(machine, stack, registers);
    // A leaf's frame pointer can be any number if the function was not entered by a call.
    if (step == FrameStep::outermost && result.frames == 1) return FrameStep::no_rule;
    by_frame_pointer = step == FrameStep::caller;
    result.frame_pointer_steps += by_frame_pointer ? 1 : 0;
    return step;
  }
};

Unwound Unwinder::unwind(const UnwindRegisters& sample, const StackCopy& stack, const CodeMap& code,
                         std::span<std::uint64_t> pcs) {
  const MachineTraits& traits = traits_of(machine_);
  Walk walk{machine_, rules_, stack, sample};
  if (!sample.knows(traits.pc) || !sample.knows(traits.stack_pointer)) return walk.stop(UnwindStatus::no_cfi);
  while (true) {
    const std::uint64_t pc = walk.registers.values[traits.pc];
    const bool is_sample = walk.result.frames == 0;
    if (pc == 0 && !is_sample) return walk.stop(UnwindStatus::complete);  // like arm64's lr at a thread's entry
    const std::uint64_t lookup = walk.is_exact ? pc : pc - 1;
    const CodeMapping* mapping = code.find(lookup);
    // After a step by frame pointer, the code without CFI is the cause: it keeps no frame pointer.
    if (mapping == nullptr && !is_sample)
      return walk.stop(walk.by_frame_pointer ? UnwindStatus::no_cfi : UnwindStatus::no_mapping);
    if (walk.result.frames == pcs.size()) return walk.stop(UnwindStatus::too_deep);
    pcs[walk.result.frames++] = pc;
    walk.result.stopped_at = pc;
    if (mapping == nullptr) return walk.stop(UnwindStatus::no_mapping);
    if (mapping->table != nullptr && mapping->table->machine() != machine_) return walk.stop(UnwindStatus::no_cfi);
    if (mapping->table == nullptr && mapping->is_file) return walk.stop(UnwindStatus::no_file);

    const FrameStep step = walk.step(*mapping, lookup);
    if (step != FrameStep::caller && step != FrameStep::interrupted) return walk.stop(status_of(step));
    walk.is_exact = step == FrameStep::interrupted;
    walk.registers.values[traits.pc] &= code_mask_;
  }
}

}  // namespace flight
