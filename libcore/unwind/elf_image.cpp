// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/elf_image.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "libcore/unwind/byte_cursor.hpp"
#include "libcore/unwind/eh_pointer.hpp"
#include "libcore/unwind/zlib_section.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxSectionNameBytes = 64;
constexpr std::size_t kMaxNoteSegments = 8;
constexpr std::size_t kEhFrameHeaderBytes = 16;  // version, three encodings, a pointer of at most 8 bytes, padding

template <typename Header>
Result<std::vector<Header>> headers_at(const FileBytes& file, std::uint64_t offset, std::size_t count) {
  auto bytes = file.read(offset, count * sizeof(Header));
  if (!bytes) return propagate(std::move(bytes.error()));
  std::vector<Header> headers(count);
  if (count != 0) std::memcpy(headers.data(), bytes->data(), bytes->size());
  return headers;
}

std::string name_at(std::span<const std::byte> names, std::size_t offset) {
  std::string name;
  for (; offset < names.size() && name.size() < kMaxSectionNameBytes; ++offset) {
    if (names[offset] == std::byte{0}) break;
    name += static_cast<char>(names[offset]);
  }
  return name;
}

constexpr std::uint64_t note_padded(std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t{3}; }

std::vector<std::byte> build_id_in(std::span<const std::byte> notes) {
  ByteCursor cursor(notes);
  while (cursor.left() >= sizeof(Elf64_Nhdr)) {
    const auto note = cursor.take<Elf64_Nhdr>();
    const auto name = cursor.take_bytes(note_padded(note.n_namesz));
    const auto content = cursor.take_bytes(note.n_descsz);
    if (!cursor.ok()) return {};
    const bool is_gnu = note.n_namesz == 4 && std::memcmp(name.data(), "GNU", 4) == 0;
    if (is_gnu && note.n_type == NT_GNU_BUILD_ID && !content.empty() && content.size() <= kMaxElfBuildIdBytes)
      return {content.begin(), content.end()};
    static_cast<void>(
        cursor.take_bytes(std::min<std::uint64_t>(note_padded(note.n_descsz) - note.n_descsz, cursor.left())));
  }
  return {};
}

}  // namespace

Result<ElfImage> ElfImage::parse(FileBytes file) {
  auto headers = headers_at<Elf64_Ehdr>(file, 0, 1);
  if (!headers) return wrap(std::move(headers.error()), "ELF header");
  const Elf64_Ehdr& header = headers->front();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return fail(std::errc::invalid_argument, "not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    return fail(std::errc::invalid_argument, "not a 64-bit little-endian ELF file");
  const auto machine = machine_of(header.e_machine);
  if (!machine) return fail(std::errc::invalid_argument, "ELF machine {} is not unwound", header.e_machine);
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
    return fail(std::errc::invalid_argument, "ELF type {} is no program and no shared library", header.e_type);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0 || header.e_phnum > kMaxElfSegments)
    return fail(std::errc::invalid_argument, "{} program headers of {} bytes", header.e_phnum, header.e_phentsize);

  ElfImage image(file);
  image.machine_ = *machine;
  if (auto read = image.read_segments(header.e_phoff, header.e_phnum); !read) return propagate(std::move(read.error()));
  if (header.e_shentsize == sizeof(Elf64_Shdr) && header.e_shnum != 0 && header.e_shnum <= kMaxElfSections)
    image.read_sections(header.e_shoff, header.e_shnum, header.e_shstrndx);
  return image;
}

Result<void> ElfImage::read_segments(std::uint64_t offset, std::size_t count) {
  auto headers = headers_at<Elf64_Phdr>(file_, offset, count);
  if (!headers) return wrap(std::move(headers.error()), "program headers");
  for (const Elf64_Phdr& header : *headers)
    segments_.push_back(
        {header.p_type, header.p_flags, header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz});
  return {};
}

void ElfImage::read_sections(std::uint64_t offset, std::size_t count, std::size_t names_index) {
  const auto headers = headers_at<Elf64_Shdr>(file_, offset, count);
  if (!headers || names_index >= headers->size()) return;
  const Elf64_Shdr& names_header = (*headers)[names_index];
  if (names_header.sh_type != SHT_STRTAB || names_header.sh_size > kMaxSectionNamesBytes) return;
  const auto names = file_.read(names_header.sh_offset, names_header.sh_size);
  if (!names) return;
  for (const Elf64_Shdr& header : *headers)
    sections_.push_back({name_at(*names, header.sh_name), header.sh_type, header.sh_flags, header.sh_addr,
                         header.sh_offset, header.sh_size});
}

std::optional<std::uint64_t> ElfImage::address_of(std::uint64_t file_offset) const {
  for (const ElfSegment& segment : segments_) {
    if (segment.type == PT_LOAD && file_offset >= segment.offset && file_offset - segment.offset < segment.file_bytes)
      return segment.address + (file_offset - segment.offset);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> ElfImage::offset_of(std::uint64_t address) const {
  for (const ElfSegment& segment : segments_) {
    if (segment.type == PT_LOAD && address >= segment.address && address - segment.address < segment.file_bytes)
      return segment.offset + (address - segment.address);
  }
  return std::nullopt;
}

Result<ElfPart> ElfImage::section(std::string_view name) const {
  for (const ElfSection& section : sections_) {
    // Separate debug files contain this section's name, but no data.
    if (section.name != name || section.type == SHT_NOBITS) continue;
    auto bytes = file_.read(section.offset, section.bytes);
    if (!bytes) return wrap(std::move(bytes.error()), "section {}", name);
    if ((section.flags & SHF_COMPRESSED) != 0) bytes = unpack_section(*bytes);
    if (!bytes) return wrap(std::move(bytes.error()), "section {}", name);
    return ElfPart{section.address, std::move(*bytes)};
  }
  return ElfPart{};
}

Result<ElfPart> ElfImage::eh_frame() const {
  auto part = section(".eh_frame");
  return part && !part->bytes.empty() ? std::move(part) : eh_frame_by_header();
}

Result<ElfPart> ElfImage::debug_frame() const { return section(".debug_frame"); }

// .eh_frame_hdr: LSB 5.0, 10.6.2. It does not contain the size of .eh_frame, which extends to the end of its segment,
// or to its terminator.
Result<ElfPart> ElfImage::eh_frame_by_header() const {
  const auto found = std::find_if(segments_.begin(), segments_.end(),
                                  [](const ElfSegment& segment) { return segment.type == PT_GNU_EH_FRAME; });
  if (found == segments_.end()) return ElfPart{};
  auto bytes = file_.read(found->offset, std::min<std::uint64_t>(found->file_bytes, kEhFrameHeaderBytes));
  if (!bytes) return wrap(std::move(bytes.error()), ".eh_frame_hdr");
  ByteCursor cursor(*bytes);
  const auto version = cursor.take<std::uint8_t>();
  const auto encoding = cursor.take<std::uint8_t>();
  static_cast<void>(cursor.take<std::uint16_t>());  // the encodings of the search table, which is not used
  const auto address = take_pointer(cursor, encoding, {found->address, found->address});
  if (version != 1 || !address) return ElfPart{};
  for (const ElfSegment& segment : segments_) {
    if (segment.type != PT_LOAD || *address < segment.address) continue;
    const std::uint64_t into = *address - segment.address;
    if (into >= segment.file_bytes) continue;
    const std::uint64_t left = std::min<std::uint64_t>(segment.file_bytes - into, kMaxFileReadBytes);
    auto part = file_.read(segment.offset + into, left);
    if (!part) return wrap(std::move(part.error()), ".eh_frame of .eh_frame_hdr");
    return ElfPart{*address, std::move(*part), false};
  }
  return ElfPart{};
}

std::vector<std::byte> ElfImage::build_id() const {
  std::size_t tried = 0;
  for (const ElfSegment& segment : segments_) {
    if (segment.type != PT_NOTE || tried == kMaxNoteSegments) continue;
    ++tried;
    const auto notes = file_.read(segment.offset, std::min<std::uint64_t>(segment.file_bytes, kMaxElfNotesBytes));
    if (!notes) continue;
    if (auto id = build_id_in(*notes); !id.empty()) return id;
  }
  return {};
}

}  // namespace flight
