// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/kernel_maps.hpp"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libcore/base/files.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kSymbols =
    "0000000000000000 A fixed_percpu_data\n"
    "ffffffff81000000 T _stext\n"
    "ffffffff81000000 T _text\n"
    "ffffffff81000123 T do_work\n"
    "ffffffff82209988 T _etext\n"
    "ffffffff83000000 D _edata\n"
    "ffffffffc0001000 t _text\t[odd]\n";

std::string note(std::uint32_t type, std::string_view name, std::string_view content) {
  std::string bytes;
  const auto put = [&bytes](std::uint32_t value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(static_cast<std::uint32_t>(name.size()));
  put(static_cast<std::uint32_t>(content.size()));
  put(type);
  for (const std::string_view part : {name, content}) {
    bytes += part;
    bytes.resize((bytes.size() + 3) & ~std::size_t{3});
  }
  return bytes;
}

const std::string_view kGnu("GNU\0", 4);

TEST(KernelMaps, TheKernelReachesFromTextToEtext) {
  TempTree tree;
  tree.write("/sys/kernel/notes", note(0x100, "Linux", "x") + note(NT_GNU_BUILD_ID, kGnu, "\x01\x02\x03"));
  const auto image = kernel_image(kSymbols, tree.root());
  ASSERT_TRUE(image) << image.error().what;
  EXPECT_EQ(image->name, "[kernel.kallsyms]_text");
  EXPECT_EQ(image->address, 0xffffffff81000000U);
  EXPECT_EQ(image->bytes, 0x1209988U);
  EXPECT_THAT(image->build_id, ElementsAre(1, 2, 3));
}

TEST(KernelMaps, StextWhereThereIsNoText) {
  TempTree tree;
  const auto image = kernel_image("ffff800010000000 T _stext\nffff800010100000 T _etext\n", tree.root());
  ASSERT_TRUE(image);
  EXPECT_EQ(image->name, "[kernel.kallsyms]_stext");
  EXPECT_EQ(image->bytes, 0x100000U);
}

TEST(KernelMaps, HiddenAddressesAreAnErrorThatSaysWhatToDo) {
  const auto image = kernel_image("0000000000000000 T _stext\n0000000000000000 T _text\n0000000000000000 T _etext\n");
  ASSERT_FALSE(image);
  EXPECT_THAT(image.error().what, HasSubstr("CAP_SYSLOG"));
  EXPECT_EQ(image.error().errno_value(), EACCES);
  EXPECT_FALSE(kernel_image(""));
  EXPECT_FALSE(kernel_image("garbage\n\n \n"));
}

TEST(KernelMaps, OfThisMachine) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const auto symbols = read_file("/proc/kallsyms");
  ASSERT_TRUE(symbols);
  const auto image = kernel_image(*symbols);
  ASSERT_TRUE(image) << image.error().what;
  EXPECT_THAT(image->name, testing::StartsWith("[kernel.kallsyms]_"));
  EXPECT_GT(image->bytes, 1U << 20U);
  EXPECT_GE(image->build_id.size(), 8U);
}

TEST(BuildId, OfNotes) {
  const std::string id = "0123456789abcdefghij";
  const std::string good = note(NT_GNU_ABI_TAG, kGnu, "0123") + note(NT_GNU_BUILD_ID, kGnu, id);
  EXPECT_EQ(build_id_of_notes(good).size(), 20U);
  EXPECT_THAT(build_id_of_notes(note(NT_GNU_BUILD_ID, "Go", id)), IsEmpty());
  EXPECT_THAT(build_id_of_notes(note(NT_GNU_BUILD_ID, kGnu, std::string(65, 'x'))), IsEmpty());
  EXPECT_THAT(build_id_of_notes(""), IsEmpty());
}

TEST(BuildId, HostileNotesEndTheSearch) {
  const std::string good = note(NT_GNU_BUILD_ID, kGnu, "01234567");
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_THAT(build_id_of_notes(std::string_view(good).substr(0, cut)), IsEmpty()) << cut;
  for (std::size_t at = 0; at < 8; ++at) {
    std::string bad = good;
    bad[at] = '\xff';
    EXPECT_THAT(build_id_of_notes(bad), IsEmpty()) << at;
  }
}

TEST(BuildId, OfAnElfFileIsWhatTheLinkerWroteIntoIt) {
  const auto self = open_file("/proc/self/exe", O_RDONLY);
  ASSERT_TRUE(self);
  const auto id = build_id_of_elf(self->get());
  ASSERT_EQ(id.size(), 20U);
  const std::string whole = read_file("/proc/self/exe", 512U << 20U).value();
  EXPECT_THAT(whole, HasSubstr(note(NT_GNU_BUILD_ID, kGnu, std::string(id.begin(), id.end()))));
}

TEST(BuildId, OfFilesThatAreNoElf) {
  const auto memory = UniqueFd(::memfd_create("elf", MFD_CLOEXEC));
  ASSERT_TRUE(memory);
  EXPECT_THAT(build_id_of_elf(memory.get()), IsEmpty());
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 0xffff;
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{64}, ~std::uint64_t{0}, std::uint64_t{1} << 62U}) {
    header.e_phoff = offset;
    ASSERT_EQ(::pwrite(memory.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    EXPECT_THAT(build_id_of_elf(memory.get()), IsEmpty()) << offset;
  }
  ASSERT_EQ(::ftruncate(memory.get(), 1 << 20), 0);  // all segments are there, with type 0
  header.e_phoff = 64;
  ASSERT_EQ(::pwrite(memory.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  EXPECT_THAT(build_id_of_elf(memory.get()), IsEmpty());
  EXPECT_THAT(build_id_of_elf(-1), IsEmpty());
}

}  // namespace
}  // namespace flight
