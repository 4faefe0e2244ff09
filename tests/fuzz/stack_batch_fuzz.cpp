// SPDX-License-Identifier: Apache-2.0
// What flightd and the unwinder say to each other, if the other side was taken over: any batch gives an error or an
// answer that flightd can read, and any answer an error or chains within the limits.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <vector>

#include "libcore/unwind/batch_answer.hpp"
#include "libcore/unwind/batch_unwinder.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace {

flight::test::OwnedTable make_table() {
  flight::test::CfiWriter cfi(flight::test::kEhFrameAddress);
  cfi.add_fde(flight::test::kCodeAddress, 0x100, flight::test::bytes_of({0x0e, 24}));
  cfi.add_fde(flight::test::kCodeAddress + 0x100, 0x100, flight::test::bytes_of({0x0c, 6, 16, 0x86, 2}));
  flight::test::TestElf elf;
  elf.eh_frame = cfi.bytes();
  return flight::test::table_of(elf);
}

// `header`, then what is left of the input; missing bytes are zero.
template <typename Header>
std::vector<std::byte> message_of(const Header& header, std::size_t size, flight::fuzz::Input& input) {
  std::vector<std::byte> out(size);
  std::memcpy(out.data(), &header, sizeof header);
  const auto rest = input.take_bytes(size - sizeof header);
  std::copy(rest.begin(), rest.end(), out.begin() + sizeof header);
  return out;
}

void read_answer(flight::fuzz::Input& input) {
  flight::AnswerHeader header;
  header.samples = input.take<std::uint8_t>();
  header.frames = input.take<std::uint16_t>();
  const std::uint64_t pc = input.take<std::uint64_t>();
  const std::size_t size =
      sizeof header + header.samples * sizeof(flight::AnswerSample) + 8 * static_cast<std::size_t>(header.frames);
  const auto answer = flight::BatchAnswer::parse(message_of(header, size, input), header.samples);
  for (std::uint32_t i = 0; answer && i <= header.samples; ++i) {
    const auto chain = answer->chain(i, pc, [](std::uint64_t address) { return address % 2 == 0; });
    assert(chain.pcs.size() + chain.refused <= flight::kMaxUnwoundFrames);
    assert(chain.pcs.empty() || chain.pcs.front() == pc);
  }
}

void unwind(flight::fuzz::Input& input) {
  static const flight::test::OwnedTable table = make_table();
  const auto machine = input.take<std::uint8_t>() % 2 == 0 ? flight::Machine::x86_64 : flight::Machine::arm64;
  flight::BatchHeader header;
  header.machine = static_cast<std::uint16_t>(machine);
  header.register_mask = flight::sample_register_mask(machine);
  header.code_mask = input.take<std::uint64_t>();
  header.mappings = input.take<std::uint8_t>() % 16;
  header.samples = input.take<std::uint8_t>() % 16;
  header.spaces = input.take<std::uint8_t>() % 16;
  header.tables = 1;
  header.data_bytes = 8 * std::uint64_t{input.take<std::uint16_t>()};
  const std::size_t size = sizeof header + static_cast<std::size_t>(header.data_bytes) +
                           header.mappings * sizeof(flight::BatchMapping) +
                           header.samples * sizeof(flight::BatchSample) + header.spaces * sizeof(std::uint32_t);
  const std::array<const flight::UnwindTable*, 1> tables{&*table.table};
  std::vector<std::byte> answer(flight::most_answer_bytes(header.samples));
  flight::BatchUnwinder unwinder;
  const auto bytes = unwinder.unwind(message_of(header, size, input), tables, answer);
  if (!bytes) return;
  answer.resize(*bytes);
  assert(flight::BatchAnswer::parse(answer, header.samples));
}

}  // namespace

// u8: 1: an answer follows; then the numbers of its header, then its bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flight::fuzz::Input input(data, size);
  if (input.take<std::uint8_t>() % 2 == 1)
    read_answer(input);
  else
    unwind(input);
  return 0;
}
