// SPDX-License-Identifier: Apache-2.0
// Writes .eh_frame and .debug_frame by hand: one CIE, then FDEs.
#pragma once

#include <string>
#include <utility>

#include "libcore/unwind/cfi_entry.hpp"
#include "tests/unit/unwind/byte_writer.hpp"

namespace flight::test {

struct CieOptions {
  std::string augmentation = "zR";
  std::uint8_t encoding = 0x1b;  // pc-relative, signed, 4 bytes
  std::uint8_t version = 1;
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = -8;
  std::uint64_t return_address = 16;
  // CFA = rsp + 8, return address at CFA - 8.
  Bytes program = bytes_of({0x0c, 7, 8, 0x90, 1});
  CfiFormat format = CfiFormat::eh_frame;
};

class CfiWriter {
 public:
  explicit CfiWriter(std::uint64_t address, CieOptions options = {}) : address_(address), options_(std::move(options)) {
    add_cie(options_);
  }

  void add_cie(const CieOptions& options) {
    options_ = options;
    cie_at_ = bytes_.size();
    Bytes content;
    append(content, options.format == CfiFormat::eh_frame ? std::uint32_t{0} : std::uint32_t{0xffffffff});
    append(content, options.version);
    append_text(content, options.augmentation);
    if (options.version == 4) append_bytes(content, bytes_of({8, 0}));
    append_uleb(content, options.code_alignment);
    append_sleb(content, options.data_alignment);
    if (options.version == 1) append(content, static_cast<std::uint8_t>(options.return_address));
    if (options.version != 1) append_uleb(content, options.return_address);
    if (!options.augmentation.empty()) {
      Bytes data;
      for (const char letter : options.augmentation) {
        if (letter == 'R') append(data, options.encoding);
        if (letter == 'L') append(data, std::uint8_t{0x1b});
        if (letter == 'P') {
          append(data, std::uint8_t{0x9b});  // indirect: only skipped
          append(data, std::uint32_t{0x1234});
        }
      }
      append_uleb(content, data.size());
      append_bytes(content, data);
    }
    append_bytes(content, options.program);
    add_entry(content);
  }

  void add_fde(std::uint64_t begin, std::uint64_t size, const Bytes& program) {
    Bytes content;
    const std::uint64_t id_at = bytes_.size() + 4;
    append(content, static_cast<std::uint32_t>(options_.format == CfiFormat::eh_frame ? id_at - cie_at_ : cie_at_));
    append_pointer(content, begin, options_.encoding, address_ + id_at + 4);
    append_pointer(content, size, options_.encoding & 0x0f, 0);
    if (!options_.augmentation.empty()) append_uleb(content, 0);
    append_bytes(content, program);
    add_entry(content);
  }
  void add_terminator() { append(bytes_, std::uint32_t{0}); }
  void add_raw(const Bytes& bytes) { append_bytes(bytes_, bytes); }

  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  static void append_pointer(Bytes& out, std::uint64_t value, std::uint8_t encoding, std::uint64_t field) {
    if ((encoding & 0x70U) == 0x10) value -= field;
    switch (encoding & 0x0fU) {
      case 0x01:
        append_uleb(out, value);
        break;
      case 0x09:
        append_sleb(out, static_cast<std::int64_t>(value));
        break;
      case 0x02:
      case 0x0a:
        append(out, static_cast<std::uint16_t>(value));
        break;
      case 0x03:
      case 0x0b:
        append(out, static_cast<std::uint32_t>(value));
        break;
      default:
        append(out, value);
        break;
    }
  }
  void add_entry(Bytes content) {
    while (content.size() % 4 != 0) content.push_back(std::byte{0});  // DW_CFA_nop
    append(bytes_, static_cast<std::uint32_t>(content.size()));
    append_bytes(bytes_, content);
  }

  std::uint64_t address_;
  CieOptions options_;
  std::size_t cie_at_ = 0;
  Bytes bytes_;
};

}  // namespace flight::test
