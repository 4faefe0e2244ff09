// SPDX-License-Identifier: Apache-2.0
// Real files: at many pcs the table and libdw agree. The test does not compare the text of a rule, but the results of
// both for the same registers and the same memory. FLIGHT_UNWIND_FILES names more files, separated by colons.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "libcore/base/files.hpp"
#include "tests/unit/unwind/libdw_rule.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {
namespace {

constexpr std::uint64_t kMemoryBase = 0x7ffd00000000;

// The stack and the registers of a thread: each word and register is different, and each points into the middle of the
// memory, so that dereferencing succeeds.
struct World {
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(1U << 17U);
  UnwindRegisters registers;

  explicit World(Machine machine) {
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = kMemoryBase + words.size() * 4 + (i * 40503U % 8192U) * 8;
    const MachineTraits& traits = traits_of(machine);
    for (std::size_t number = 0; number < traits.registers; ++number)
      registers.set(number, kMemoryBase + words.size() * 4 + number * 0x408);
    // Below all of them: the CFA is above it, from whichever register it is computed.
    registers.set(traits.stack_pointer, kMemoryBase);
  }
  [[nodiscard]] StackCopy stack() const { return {kMemoryBase, std::as_bytes(std::span(words))}; }
};

struct Agreement {
  std::size_t equal = 0, without_cfi = 0, signal_frames = 0;
  std::vector<std::string> differences;
};

std::string difference(const LibdwStep& theirs, FrameStep ours, const UnwindRegisters& old,
                       const UnwindRegisters& caller, const MachineTraits& traits) {
  if (theirs.is_outermost || ours == FrameStep::outermost)
    return theirs.is_outermost && ours == FrameStep::outermost ? "" : "outermost";
  if (!theirs.cfa) return ours == FrameStep::outside_stack || ours == FrameStep::no_rule ? "" : "no CFA";
  if (ours != FrameStep::caller && ours != FrameStep::interrupted)
    return "step " + std::to_string(static_cast<int>(ours));
  if ((ours == FrameStep::interrupted) != theirs.is_signal_frame) return "signal frame";
  for (std::size_t number = 0; number < traits.registers; ++number) {
    const bool compared = ((traits.callee_saved >> number) & 1U) != 0 || number == traits.return_address ||
                          number == traits.stack_pointer;
    const bool known = theirs.caller.knows(number);
    // Below the stack pointer: already popped. libdw has lost it.
    if (((theirs.unreadable >> number) & 1U) != 0 && caller.knows(number) &&
        caller.values[number] == old.values[number])
      continue;
    // libdw takes rax for rbx, the callee-saved register (backends/x86_64_cfi.c of elfutils 0.188).
    if (traits.registers == kX86_64Traits.registers && number == 3 && !known) continue;
    if (compared && known != caller.knows(number)) return "register " + std::to_string(number) + " is known to one";
    if (known && caller.knows(number) && theirs.caller.values[number] != caller.values[number])
      return "register " + std::to_string(number);
  }
  return "";
}

void compare_at(const LibdwFile& file, const UnwindTable& table, World& world, std::uint64_t pc, Agreement& agreement) {
  const MachineTraits& traits = traits_of(table.machine());
  world.registers.set(traits.pc, pc);
  const LibdwStep theirs = file.step(table.machine(), pc, world.registers, world.stack());
  const std::uint32_t index = table.find(pc);
  if (!theirs.has_cfi && index == kNoRule) {
    ++agreement.without_cfi;
    return;
  }
  std::string text = "has CFI for one";
  if (theirs.has_cfi && index != kNoRule) {
    UnwindRegisters caller = world.registers;
    const auto rule = table.rule(index);
    const FrameStep ours = rule ? step_by_rule(table, *rule, world.stack(), true, caller) : FrameStep::no_rule;
    text = difference(theirs, ours, world.registers, caller, traits);
    agreement.signal_frames += theirs.is_signal_frame ? 1 : 0;
  }
  if (text.empty()) ++agreement.equal;
  if (!text.empty() && agreement.differences.size() < 20)
    agreement.differences.push_back(fmt::format("{:#x}: {}; {}", pc, text, describe(table, pc)));
}

Agreement compare(std::span<std::byte> bytes, std::size_t most_pcs) {
  Agreement agreement;
  elf_version(EV_CURRENT);
  const auto image = ElfImage::parse(FileBytes(bytes));
  if (!image) return agreement;
  const OwnedTable table = table_of(bytes);
  if (!table.table) return agreement;
  const LibdwFile file(bytes);
  World world(image->machine());
  for (const ElfSegment& segment : image->segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_X) == 0) continue;
    const std::uint64_t stride = std::max<std::uint64_t>(1, segment.memory_bytes / most_pcs) | 1U;
    for (std::uint64_t at = 0; at < segment.memory_bytes; at += stride)
      compare_at(file, *table.table, world, segment.address + at, agreement);
  }
  return agreement;
}

// At up to `most_pcs` of a segment, and `at_least` so many are equal.
void expect_agreement(const std::string& name, std::span<std::byte> bytes, std::size_t most_pcs, std::size_t at_least) {
  const Agreement agreement = compare(bytes, most_pcs);
  std::string all;
  for (const std::string& one : agreement.differences) all += "  " + one + "\n";
  EXPECT_TRUE(agreement.differences.empty()) << name << ":\n" << all;
  EXPECT_GE(agreement.equal, at_least) << name;
  std::printf("%s: %zu equal, %zu without CFI, %zu in signal frames\n", name.c_str(), agreement.equal,
              agreement.without_cfi, agreement.signal_frames);
}

int add_object(dl_phdr_info* info, std::size_t /*size*/, void* names) {
  const std::string name = info->dlpi_name;
  if (name.starts_with('/')) static_cast<std::set<std::string>*>(names)->insert(name);
  return 0;
}

std::set<std::string> files() {
  std::set<std::string> names = {"/proc/self/exe"};
  dl_iterate_phdr(add_object, &names);  // libc, ld.so, libstdc++, libdw ...
  if (::access("/usr/bin/python3", R_OK) == 0) names.insert("/usr/bin/python3");
  const char* more = std::getenv("FLIGHT_UNWIND_FILES");
  std::string list = more == nullptr ? "" : more;
  while (!list.empty()) {
    const std::size_t colon = std::min(list.find(':'), list.size());
    names.insert(list.substr(0, colon));
    list.erase(0, colon + 1);
  }
  return names;
}

void expect_agreement_on_real_files(std::size_t most_pcs) {
  const auto names = files();
  EXPECT_GE(names.size(), 4U);
  for (const std::string& name : names) {
    auto text = read_file(name, 256U << 20U);
    ASSERT_TRUE(text) << text.error().what;
    expect_agreement(name, std::as_writable_bytes(std::span(*text)), most_pcs, 100);
  }
}

TEST(Libdw, AgreesOnRealFiles) { expect_agreement_on_real_files(8000); }
TEST(LibdwLong, AgreesOnRealFiles) { expect_agreement_on_real_files(20'000); }

TEST(Libdw, AgreesOnTheVdso) {
  const auto* begin = reinterpret_cast<const std::byte*>(::getauxval(AT_SYSINFO_EHDR));
  if (begin == nullptr) GTEST_SKIP() << "this process has no vDSO";
  const auto image = ElfImage::parse(FileBytes(std::span(begin, 4096)));
  ASSERT_TRUE(image) << image.error().what;
  // Everything that is loaded. Its section headers lie after that and may not be mapped.
  std::uint64_t bytes = 0;
  for (const ElfSegment& segment : image->segments()) bytes = std::max(bytes, segment.offset + segment.file_bytes);
  std::vector<std::byte> copy(begin, begin + bytes);
  expect_agreement("[vdso]", copy, 20'000, image->machine() == Machine::x86_64 ? 100 : 1);
}

}  // namespace
}  // namespace flight::test
