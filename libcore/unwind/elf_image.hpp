// SPDX-License-Identifier: Apache-2.0
// A view of a 64-bit little-endian ELF file, for what unwinding needs: segments, sections, .eh_frame, build-id. The
// file is other people's input: each read is checked, each count has a limit, a wrong section table is no section
// table.
//
//   ELF header ──▶ program headers ──▶ PT_LOAD: file offset ↔ address
//              │                       PT_GNU_EH_FRAME ──▶ .eh_frame_hdr ──▶ .eh_frame    (without section headers)
//              └─▶ section headers ──▶ .eh_frame, .debug_frame
//
// Addresses are those of the file; a mapping of it lies elsewhere by its load bias.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/unwind/file_bytes.hpp"
#include "libcore/unwind/machine.hpp"

namespace flight {

inline constexpr std::size_t kMaxElfSegments = 256;
inline constexpr std::size_t kMaxElfSections = 4096;
inline constexpr std::size_t kMaxSectionNamesBytes = 256U << 10U;
inline constexpr std::size_t kMaxElfNotesBytes = 64U << 10U;
inline constexpr std::size_t kMaxElfBuildIdBytes = 64;

struct ElfSegment {
  std::uint32_t type = 0, flags = 0;
  std::uint64_t offset = 0, address = 0, file_bytes = 0, memory_bytes = 0;
};

struct ElfSection {
  std::string name;
  std::uint32_t type = 0;
  std::uint64_t flags = 0, address = 0, offset = 0, bytes = 0;
};

struct ElfPart {
  std::uint64_t address = 0;
  std::vector<std::byte> bytes;
  bool has_end = true;  // false: the bytes extend to the end of the segment, and a terminator ends the content
};

class ElfImage {
 public:
  // EINVAL: not an executable or shared library of a supported machine.
  [[nodiscard]] static Result<ElfImage> parse(FileBytes file);

  [[nodiscard]] Machine machine() const { return machine_; }
  [[nodiscard]] std::span<const ElfSegment> segments() const { return segments_; }
  [[nodiscard]] std::span<const ElfSection> sections() const { return sections_; }
  [[nodiscard]] const FileBytes& file() const { return file_; }

  // By PT_LOAD; nullopt: the file has no bytes for it.
  [[nodiscard]] std::optional<std::uint64_t> address_of(std::uint64_t file_offset) const;
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::uint64_t address) const;

  // An empty ElfPart if the file has none. Errors are those of reading.
  [[nodiscard]] Result<ElfPart> eh_frame() const;
  [[nodiscard]] Result<ElfPart> debug_frame() const;  // may be compressed by zlib, as by Go's linker
  // Empty: there is none.
  [[nodiscard]] std::vector<std::byte> build_id() const;

 private:
  explicit ElfImage(FileBytes file) : file_(file) {}
  [[nodiscard]] Result<void> read_segments(std::uint64_t offset, std::size_t count);
  void read_sections(std::uint64_t offset, std::size_t count, std::size_t names_index);
  [[nodiscard]] Result<ElfPart> section(std::string_view name) const;
  [[nodiscard]] Result<ElfPart> eh_frame_by_header() const;

  FileBytes file_;
  Machine machine_ = Machine::x86_64;
  std::vector<ElfSegment> segments_;
  std::vector<ElfSection> sections_;
};

}  // namespace flight
