// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/elf_image.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "libcore/base/files.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/unwind/zlib_section.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {
namespace {

TestElf plain_elf() {
  TestElf elf;
  CfiWriter cfi(kEhFrameAddress);
  cfi.add_fde(kCodeAddress, 0x10, {});
  elf.eh_frame = cfi.bytes();
  elf.build_id = bytes_of({1, 2, 3, 4, 5});
  return elf;
}

TEST(ElfImage, FindsWhatUnwindingNeeds) {
  const TestElf elf = plain_elf();
  const Bytes file = elf.build();
  const auto image = ElfImage::parse(FileBytes(file));
  ASSERT_TRUE(image) << image.error().what;
  EXPECT_EQ(image->machine(), Machine::x86_64);
  EXPECT_EQ(image->segments().size(), 4U);
  EXPECT_EQ(image->sections().size(), 4U);
  EXPECT_EQ(image->sections()[1].name, ".eh_frame");
  EXPECT_EQ(image->build_id(), elf.build_id);
  EXPECT_EQ(image->address_of(kCodeOffset + 5), kCodeAddress + 5);
  EXPECT_EQ(image->offset_of(kCodeAddress + 5), kCodeOffset + 5);
  EXPECT_EQ(image->address_of(0), std::nullopt);
  EXPECT_EQ(image->offset_of(kCodeAddress + kCodeBytes), std::nullopt);
  const auto part = image->eh_frame();
  ASSERT_TRUE(part) << part.error().what;
  EXPECT_EQ(part->address, kEhFrameAddress);
  EXPECT_EQ(part->bytes, elf.eh_frame);
  EXPECT_TRUE(part->has_end);
  EXPECT_TRUE(image->debug_frame()->bytes.empty());
}

TEST(ElfImage, FindsEhFrameByItsHeaderWhereSectionsAreStripped) {
  for (const unsigned encoding : {0x1bU, 0x3bU, 0x13U}) {
    TestElf elf = plain_elf();
    elf.has_sections = false;
    elf.header_encoding = static_cast<std::uint8_t>(encoding);
    const Bytes file = elf.build();
    const auto image = ElfImage::parse(FileBytes(file));
    ASSERT_TRUE(image) << image.error().what;
    const auto part = image->eh_frame();
    ASSERT_TRUE(part) << part.error().what;
    EXPECT_EQ(part->address, kEhFrameAddress);
    EXPECT_EQ(part->bytes, elf.eh_frame);
    EXPECT_FALSE(part->has_end);
  }
}

TEST(ElfImage, ReadsADescriptorAsItReadsMemory) {
  const UniqueFd fd(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto bytes = read_all(fd.get());
  ASSERT_TRUE(bytes) << bytes.error().what;
  const auto file = FileBytes::open(fd.get());
  ASSERT_TRUE(file) << file.error().what;
  const auto by_fd = ElfImage::parse(*file);
  const auto by_memory = ElfImage::parse(FileBytes(std::as_bytes(std::span(*bytes))));
  ASSERT_TRUE(by_fd && by_memory);
  EXPECT_EQ(by_fd->eh_frame()->bytes, by_memory->eh_frame()->bytes);
  EXPECT_GT(by_fd->eh_frame()->bytes.size(), 10000U);
  EXPECT_EQ(by_fd->build_id(), by_memory->build_id());
  EXPECT_FALSE(FileBytes::open(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get()));
}

TEST(ElfImage, RefusesOtherFiles) {
  EXPECT_FALSE(ElfImage::parse(FileBytes(std::span<const std::byte>{})));
  const Bytes good = plain_elf().build();
  const auto refused = [&](std::size_t at, auto value) {
    Bytes bad = good;
    put(bad, at, value);
    return !ElfImage::parse(FileBytes(bad));
  };
  EXPECT_TRUE(refused(0, std::uint8_t{0}));
  EXPECT_TRUE(refused(EI_CLASS, std::uint8_t{ELFCLASS32}));
  EXPECT_TRUE(refused(EI_DATA, std::uint8_t{ELFDATA2MSB}));
  EXPECT_TRUE(refused(offsetof(Elf64_Ehdr, e_machine), std::uint16_t{EM_RISCV}));
  EXPECT_TRUE(refused(offsetof(Elf64_Ehdr, e_type), std::uint16_t{ET_REL}));
  EXPECT_TRUE(refused(offsetof(Elf64_Ehdr, e_phnum), std::uint16_t{0}));
  EXPECT_TRUE(refused(offsetof(Elf64_Ehdr, e_phnum), std::uint16_t{0xffff}));
  EXPECT_TRUE(refused(offsetof(Elf64_Ehdr, e_phoff), ~std::uint64_t{0}));
  EXPECT_TRUE(refused(offsetof(Elf64_Ehdr, e_phentsize), std::uint16_t{1}));
  EXPECT_FALSE(refused(EI_PAD, std::uint8_t{1}));
}

TEST(ElfImage, AWrongSectionTableIsNone) {
  const Bytes good = plain_elf().build();
  const auto sections = [&](std::size_t at, auto value) {
    Bytes bad = good;
    put(bad, at, value);
    const auto image = ElfImage::parse(FileBytes(bad));
    EXPECT_TRUE(image);
    EXPECT_TRUE(image && image->eh_frame() && !image->eh_frame()->bytes.empty());  // by .eh_frame_hdr
    return image ? image->sections().size() : 99;
  };
  EXPECT_EQ(sections(offsetof(Elf64_Ehdr, e_shoff), ~std::uint64_t{0}), 0U);
  EXPECT_EQ(sections(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{0xfffe}), 0U);
  EXPECT_EQ(sections(offsetof(Elf64_Ehdr, e_shstrndx), std::uint16_t{77}), 0U);
  EXPECT_EQ(sections(offsetof(Elf64_Ehdr, e_shentsize), std::uint16_t{1}), 0U);
}

TEST(ElfImage, UnpacksACompressedSection) {
  // python3 -c 'import zlib; print(zlib.compress(b"abcabcabcabc", 9).hex())'
  const Bytes stream = bytes_of({0x78, 0xda, 0x4b, 0x4c, 0x4a, 0x4e, 0x84, 0x21, 0x00, 0x1d, 0xe0, 0x04, 0x99});
  const auto packed = [&](std::uint32_t type, std::uint64_t size) {
    Bytes section;
    append(section, Elf64_Chdr{type, 0, size, 1});
    append_bytes(section, stream);
    return section;
  };
  const auto bytes = unpack_section(packed(ELFCOMPRESS_ZLIB, 12));
  ASSERT_TRUE(bytes) << bytes.error().what;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()), "abcabcabcabc");
  EXPECT_FALSE(unpack_section(packed(ELFCOMPRESS_ZLIB, 11)));
  EXPECT_FALSE(unpack_section(packed(ELFCOMPRESS_ZLIB, 13)));
  EXPECT_FALSE(unpack_section(packed(ELFCOMPRESS_ZLIB, 0)));
  EXPECT_FALSE(unpack_section(packed(2, 12)));
  EXPECT_EQ(unpack_section(packed(ELFCOMPRESS_ZLIB, std::uint64_t{1} << 40U)).error().errno_value(), EFBIG);
  EXPECT_FALSE(unpack_section(bytes_of({1, 0, 0, 0})));
  Bytes damaged = packed(ELFCOMPRESS_ZLIB, 12);
  damaged.pop_back();
  EXPECT_FALSE(unpack_section(damaged));
}

TEST(ElfImage, ReadsNothingBeyondTheFile) {
  const Bytes whole = plain_elf().build();
  for (std::size_t size = 0; size < whole.size(); size += 13) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));  // ASan detects a read beyond it
    const auto image = ElfImage::parse(FileBytes(cut));
    if (!image) continue;
    static_cast<void>(image->eh_frame());
    static_cast<void>(image->debug_frame());
    static_cast<void>(image->build_id());
    static_cast<void>(build_unwind_table(*image));
  }
}

}  // namespace
}  // namespace flight::test
