// SPDX-License-Identifier: Apache-2.0
// Build-ids from notes (declared in kernel_maps.hpp). The bytes come from other users' files: every size is checked.
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "libcore/base/files.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"

namespace flight {
namespace {

constexpr std::size_t kMaxProgramHeaders = 256;
constexpr std::size_t kMaxSegmentBytes = 64U << 10U;  // of notes: they are a few hundred bytes
constexpr int kMaxNoteSegments = 8;
constexpr std::size_t kMaxNotesBytes = 1U << 20U;

std::size_t padded(std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; }

bool read_at(int fd, std::uint64_t offset, void* out, std::size_t bytes) {
  return offset < (1ULL << 62U) && ::pread(fd, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

template <typename Header, typename ProgramHeader>
std::vector<std::uint8_t> search(int fd) {
  Header header{};
  if (!read_at(fd, 0, &header, sizeof header)) return {};
  if (header.e_phentsize != sizeof(ProgramHeader)) return {};
  const std::size_t count = std::min<std::size_t>(header.e_phnum, kMaxProgramHeaders);
  std::vector<ProgramHeader> segments(count);
  if (!read_at(fd, header.e_phoff, segments.data(), count * sizeof(ProgramHeader))) return {};
  int tried = 0;
  for (const ProgramHeader& segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz == 0 || ++tried > kMaxNoteSegments) continue;
    std::string notes(std::min<std::uint64_t>(segment.p_filesz, kMaxSegmentBytes), '\0');
    if (!read_at(fd, segment.p_offset, notes.data(), notes.size())) continue;
    if (auto id = build_id_of_notes(notes); !id.empty()) return id;
  }
  return {};
}

}  // namespace

std::vector<std::uint8_t> build_id_of_notes(std::string_view notes) {
  Elf64_Nhdr note{};  // the same layout in 32-bit files
  while (notes.size() >= sizeof note) {
    std::memcpy(&note, notes.data(), sizeof note);
    notes.remove_prefix(sizeof note);
    const std::size_t name_bytes = padded(note.n_namesz);
    if (name_bytes > notes.size() || note.n_descsz > notes.size() - name_bytes) return {};
    const std::string_view name = notes.substr(0, note.n_namesz);
    const std::string_view content = notes.substr(name_bytes, note.n_descsz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4) && !content.empty() &&
        content.size() <= kMaxBuildIdBytes)
      return {content.begin(), content.end()};
    notes.remove_prefix(std::min(name_bytes + padded(note.n_descsz), notes.size()));
  }
  return {};
}

std::vector<std::uint8_t> build_id_of_file(const std::string& path) {
  const auto notes = read_kernel_file(path, kMaxNotesBytes);
  return notes ? build_id_of_notes(*notes) : std::vector<std::uint8_t>{};
}

std::vector<std::uint8_t> build_id_of_elf(int fd) {
  unsigned char ident[EI_NIDENT] = {};
  if (!read_at(fd, 0, ident, sizeof ident) || std::memcmp(ident, ELFMAG, SELFMAG) != 0) return {};
  if (ident[EI_DATA] != ELFDATA2LSB) return {};  // flightd runs only on little-endian machines
  if (ident[EI_CLASS] == ELFCLASS64) return search<Elf64_Ehdr, Elf64_Phdr>(fd);
  if (ident[EI_CLASS] == ELFCLASS32) return search<Elf32_Ehdr, Elf32_Phdr>(fd);
  return {};
}

}  // namespace flight
