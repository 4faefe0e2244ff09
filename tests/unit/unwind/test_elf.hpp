// SPDX-License-Identifier: Apache-2.0
// An ELF file in memory: code, .eh_frame, .debug_frame, a build-id, with or without section headers.
#pragma once

#include <elf.h>

#include <string>

#include "libcore/unwind/elf_image.hpp"
#include "libcore/unwind/table_builder.hpp"
#include "libcore/unwind/unwind_table.hpp"
#include "tests/unit/unwind/cfi_writer.hpp"

namespace flight::test {

inline constexpr std::uint64_t kCodeOffset = 0x1000, kCodeAddress = 0x401000, kCodeBytes = 0x1000;
inline constexpr std::uint64_t kDataOffset = 0x2000, kDataAddress = 0x602000;  // .eh_frame_hdr, then .eh_frame
inline constexpr std::uint64_t kEhFrameAddress = kDataAddress + 16;

struct TestElf {
  Machine machine = Machine::x86_64;
  Bytes eh_frame, debug_frame, build_id;
  Bytes code = Bytes(kCodeBytes);
  bool has_sections = true;
  std::uint8_t header_encoding = 0x1b;  // of the pointer in .eh_frame_hdr

  [[nodiscard]] Bytes build() const {
    Bytes out(kCodeOffset);
    Bytes note;
    if (!build_id.empty()) {
      append(note, Elf64_Nhdr{4, static_cast<Elf64_Word>(build_id.size()), NT_GNU_BUILD_ID});
      append_text(note, "GNU");
      append_bytes(note, build_id);
    }
    constexpr std::uint64_t kNoteOffset = 0x200;
    for (std::size_t i = 0; i < note.size(); ++i) out[kNoteOffset + i] = note[i];
    append_bytes(out, code);
    out.resize(kDataOffset);
    append_bytes(out, bytes_of({1, header_encoding, 0xff, 0xff}));
    append(out, static_cast<std::uint32_t>(header_encoding == 0x3b ? 16 : 12));  // from its base to .eh_frame
    out.resize(kDataOffset + 16);
    append_bytes(out, eh_frame);
    const std::uint64_t data_bytes = out.size() - kDataOffset;
    const std::uint64_t debug_offset = out.size();
    append_bytes(out, debug_frame);

    const Elf64_Phdr headers[] = {
        {PT_LOAD, PF_R | PF_X, kCodeOffset, kCodeAddress, kCodeAddress, code.size(), code.size(), 0x1000},
        {PT_LOAD, PF_R, kDataOffset, kDataAddress, kDataAddress, data_bytes, data_bytes, 0x1000},
        {PT_GNU_EH_FRAME, PF_R, kDataOffset, kDataAddress, kDataAddress, 12, 12, 4},
        {PT_NOTE, PF_R, kNoteOffset, 0, 0, note.size(), note.size(), 4},
    };
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_EXEC;
    header.e_machine = static_cast<Elf64_Half>(machine);
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = std::size(headers);
    header.e_ehsize = sizeof header;
    if (has_sections) add_sections(out, header, debug_offset);
    put(out, 0, header);
    put(out, sizeof header, headers);
    return out;
  }

 private:
  void add_sections(Bytes& out, Elf64_Ehdr& header, std::uint64_t debug_offset) const {
    Bytes names;
    append_text(names, "");
    append_text(names, ".eh_frame");     // 1
    append_text(names, ".debug_frame");  // 11
    append_text(names, ".shstrtab");     // 24
    const std::uint64_t names_offset = out.size();
    append_bytes(out, names);
    while (out.size() % 8 != 0) out.push_back(std::byte{0});
    header.e_shoff = out.size();
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 4;
    header.e_shstrndx = 3;
    append(out, Elf64_Shdr{});
    append(out, Elf64_Shdr{1, SHT_PROGBITS, SHF_ALLOC, kEhFrameAddress, kDataOffset + 16, eh_frame.size(), 0, 0, 8, 0});
    append(out, Elf64_Shdr{11, SHT_PROGBITS, 0, 0, debug_offset, debug_frame.size(), 0, 0, 8, 0});
    append(out, Elf64_Shdr{24, SHT_STRTAB, 0, 0, names_offset, names.size(), 0, 0, 1, 0});
  }
};

// A table that owns its bytes.
struct OwnedTable {
  std::vector<std::uint64_t> storage;  // for the alignment
  std::optional<UnwindTable> table;
  TableCounts counts;

  [[nodiscard]] const UnwindTable* operator->() const { return &*table; }
  [[nodiscard]] std::span<std::byte> bytes() {
    return std::as_writable_bytes(std::span(storage)).first(table->bytes());
  }
};

inline OwnedTable own_table(const BuiltTable& built) {
  OwnedTable owned;
  owned.counts = built.counts;
  owned.storage.resize((built.bytes.size() + 7) / 8);
  std::memcpy(owned.storage.data(), built.bytes.data(), built.bytes.size());
  auto table = UnwindTable::parse(std::as_bytes(std::span(owned.storage)).first(built.bytes.size()));
  if (table) owned.table = *table;
  return owned;
}

inline OwnedTable table_of(std::span<const std::byte> file) {
  const auto image = ElfImage::parse(FileBytes(file));
  if (!image) return {};
  const auto built = build_unwind_table(*image);
  return built ? own_table(*built) : OwnedTable{};
}

inline OwnedTable table_of(const TestElf& elf) { return table_of(elf.build()); }

// The table's rule at an address of the file, as text: "r7+8 r6=[cfa-16] r16=[cfa-8]"; "" if there is no CFI. Registers
// have their DWARF numbers.
std::string describe(const UnwindTable& table, std::uint64_t address);

}  // namespace flight::test
