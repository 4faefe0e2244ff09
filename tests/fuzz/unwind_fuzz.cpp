// SPDX-License-Identifier: Apache-2.0
// A file of other people's, from its ELF header to frames: a table is built from any bytes, read back, and unwound by
// with any registers and any stack. Or the bytes are a table, as a process that was taken over may write it.
#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "libcore/unwind/splice.hpp"
#include "libcore/unwind/table_builder.hpp"
#include "libcore/unwind/unwind_table.hpp"
#include "libcore/unwind/unwinder.hpp"
#include "tests/fuzz/input.hpp"

namespace {

struct Sample {
  flight::UnwindRegisters registers;
  std::vector<std::byte> stack;
};

Sample take_sample(flight::fuzz::Input& input, flight::Machine machine, std::size_t stack_bytes) {
  Sample sample;
  for (std::size_t number = 0; number < flight::traits_of(machine).registers; ++number)
    sample.registers.set(number, input.take<std::uint64_t>());
  const auto bytes = input.take_bytes(stack_bytes);
  sample.stack.assign(bytes.begin(), bytes.end());
  return sample;
}

void unwind(const flight::UnwindTable& table, const Sample& sample, std::uint64_t code_mask) {
  // All of memory is this file's code, its first page anonymous: every number on the stack leads on.
  const flight::CodeMap map =
      flight::CodeMap::create({{0, ~std::uint64_t{0}, 0, &table, true}, {0, 4096, 0, nullptr, false}});
  const flight::MachineTraits& traits = flight::traits_of(table.machine());
  const flight::StackCopy stack{sample.registers.values[traits.stack_pointer], sample.stack};
  std::array<std::uint64_t, flight::kMaxUnwoundFrames> pcs{};
  flight::Unwinder unwinder(table.machine(), code_mask);
  for (int round = 0; round < 2; ++round) {  // the second one by the cache
    flight::Unwound unwound = unwinder.unwind(sample.registers, stack, map, pcs);
    assert(unwound.frames >= 1 && unwound.frames <= pcs.size());
    assert(pcs[0] == sample.registers.values[traits.pc] && unwound.stopped_at == pcs[unwound.frames - 1]);
    const std::array<std::uint64_t, 4> kernel = {pcs[0], pcs[unwound.frames - 1], 1, 2};
    flight::splice(unwound, pcs, kernel, map);
    assert(unwound.frames <= pcs.size());
  }
}

// Each row has a rule that can be read.
void check_rows(const flight::UnwindTable& table, std::span<const flight::ElfSegment> segments) {
  for (const flight::ElfSegment& segment : segments) {
    for (std::uint64_t at = 0; at < std::min<std::uint64_t>(segment.memory_bytes, 4096); ++at) {
      const std::uint32_t index = table.find(segment.address + at);
      assert(index == flight::kNoRule || table.rule(index));
    }
  }
}

}  // namespace

// u8: 1: a table follows, no ELF file. u16 bytes of stack, u64 code mask; the registers; the stack; the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flight::fuzz::Input input(data, size);
  const bool is_table = (input.take<std::uint8_t>() & 1U) != 0;
  const std::size_t stack_bytes = input.take<std::uint16_t>() % 4096;
  const auto code_mask = input.take<std::uint64_t>();
  // Registers of the larger set; x86-64 takes the first ones.
  const Sample sample = take_sample(input, flight::Machine::arm64, stack_bytes);

  std::vector<std::uint64_t> storage;
  std::size_t table_bytes = 0;
  std::vector<flight::ElfSegment> segments;
  const auto store = [&](std::span<const std::byte> bytes) {
    storage.resize(bytes.size() / 8 + 1);
    std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(storage)).begin());
    table_bytes = bytes.size();
  };
  if (is_table) {
    store(input.bytes());
  } else {
    const auto image = flight::ElfImage::parse(flight::FileBytes(input.bytes()));
    if (!image) return 0;
    static_cast<void>(image->build_id());
    const auto built = flight::build_unwind_table(*image);
    if (!built) return 0;
    assert(built->bytes.size() <= flight::kMaxTableBytes);
    store(built->bytes);
    segments.assign(image->segments().begin(), image->segments().end());
  }
  const auto table = flight::UnwindTable::parse(std::as_bytes(std::span(storage)).first(table_bytes));
  assert(table || is_table);
  if (!table) return 0;
  check_rows(*table, segments);
  static_cast<void>(table->load_bias(code_mask, sample.registers.values[0]));
  unwind(*table, sample, code_mask);
  return 0;
}
