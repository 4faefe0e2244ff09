// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/function_table.hpp"

#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/profile/function_names.hpp"

extern "C" __attribute__((noinline, used)) int flightd_profile_known_function(int value) { return value + 1; }

namespace flight {
namespace {

std::string name_at(const FunctionTable& table, std::uint64_t at) {
  const auto function = table.find(at);
  return function ? std::string(function->name) : "-";
}

TEST(FunctionTable, OfKallsyms) {
  const auto table = FunctionTable::of_kallsyms(
      "0000000000000000 A fixed_percpu_data\n"
      "ffffffff81000000 T _text\n"
      "ffffffff81000000 T startup_64\n"
      "ffffffff81000100 t local\n"
      "ffffffff81000200 T memcpy\n"
      "ffffffff81000200 T __memcpy\n"
      "ffffffff81000200 t __pi_memcpy\n"
      "ffffffff81000300 D data\n"
      "nonsense\n"
      "ffffffff81000400\n"
      "ffffffff81000500 T\n"
      "ffffffffc0001000 t of_module\t[ext4]\n"
      "ffffffffc0000f00 T before_it\t[ext4]");
  EXPECT_EQ(name_at(table, 0xffffffff80ffffff), "-");
  EXPECT_EQ(name_at(table, 0xffffffff81000000), "startup_64");
  EXPECT_EQ(name_at(table, 0xffffffff810000ff), "startup_64");
  EXPECT_EQ(name_at(table, 0xffffffff81000100), "local");
  EXPECT_EQ(name_at(table, 0xffffffff81000200), "__pi_memcpy") << "the last one, as in perf";
  EXPECT_EQ(name_at(table, 0xffffffff81000301), "__pi_memcpy") << "data is no function";
  EXPECT_EQ(name_at(table, 0xffffffffc0000f80), "before_it") << "in any order";
  EXPECT_EQ(name_at(table, 0xffffffffc0001fff), "of_module");
  EXPECT_EQ(name_at(table, 0xffffffffc0002000), "-");
  EXPECT_TRUE(FunctionTable::of_kallsyms("").empty());
  EXPECT_TRUE(FunctionTable::of_kallsyms("0000000000000000 T hidden\n").empty());
}

// A file of symbols at these addresses; its code is at kFileCode, and mapped at kFileAddress.
struct MadeSymbol {
  std::string name;
  std::uint64_t address = 0, bytes = 0;
  unsigned char binding = STB_GLOBAL, type = STT_FUNC;
  std::uint16_t section = 1;
};
constexpr std::uint64_t kFileCode = 0x1000, kFileAddress = 0x401000, kFileCodeBytes = 0x1000;

template <typename T>
void put_at(std::string& out, std::size_t at, const T& value) {
  if (out.size() < at + sizeof value) out.resize(at + sizeof value);
  std::memcpy(out.data() + at, &value, sizeof value);
}

std::string made_elf(const std::vector<MadeSymbol>& symbols, const char* symbols_name = ".symtab",
                     const char* strings_name = ".strtab") {
  std::string strings(1, '\0'), table(sizeof(Elf64_Sym), '\0');
  for (const MadeSymbol& symbol : symbols) {
    Elf64_Sym entry{};
    entry.st_name = static_cast<Elf64_Word>(strings.size());
    entry.st_info = static_cast<unsigned char>((symbol.binding << 4U) | symbol.type);
    entry.st_shndx = symbol.section;
    entry.st_value = symbol.address;
    entry.st_size = symbol.bytes;
    put_at(table, table.size(), entry);
    strings += symbol.name + '\0';
  }
  std::string names(1, '\0');
  const auto add_name = [&](const char* name) {
    const auto at = static_cast<Elf64_Word>(names.size());
    names += std::string(name) + '\0';
    return at;
  };
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  std::string out(kFileCode + kFileCodeBytes, '\0');
  put_at(
      out, sizeof header,
      Elf64_Phdr{PT_LOAD, PF_R | PF_X, kFileCode, kFileAddress, kFileAddress, kFileCodeBytes, kFileCodeBytes, 0x1000});
  Elf64_Shdr sections[4] = {};
  const auto add_section = [&](Elf64_Shdr& section, const char* name, Elf64_Word type, const std::string& content) {
    section.sh_name = add_name(name);
    section.sh_type = type;
    section.sh_offset = out.size();
    section.sh_size = content.size();
    out += content;
  };
  add_section(sections[1], symbols_name, SHT_SYMTAB, table);
  add_section(sections[2], strings_name, SHT_STRTAB, strings);
  sections[3].sh_name = add_name(".shstrtab");
  sections[3].sh_type = SHT_STRTAB;
  sections[3].sh_offset = out.size();
  sections[3].sh_size = names.size();
  out += names;
  header.e_shoff = out.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 3;
  put_at(out, out.size(), sections);
  put_at(out, 0, header);
  return out;
}

Result<FunctionTable> table_of_elf(const std::string& file) {
  const auto image = ElfImage::parse(FileBytes(std::as_bytes(std::span(file))));
  if (!image) return propagate(image.error());
  return FunctionTable::of_elf(*image);
}

TEST(FunctionTable, OfAFileByItsOffsets) {
  const std::vector<MadeSymbol> symbols{{"main", kFileAddress + 0x100, 0x40},
                                        {"no_size", kFileAddress + 0x200, 0},
                                        {"next", kFileAddress + 0x280, 0x10},
                                        {"data", kFileAddress + 0x300, 8, STB_GLOBAL, STT_OBJECT},
                                        {"label", kFileAddress + 0x400, 0x20, STB_LOCAL, STT_NOTYPE},
                                        {"elsewhere", 0x999000, 0x20},
                                        {"undefined", kFileAddress + 0x500, 0x20, STB_GLOBAL, STT_FUNC, SHN_UNDEF}};
  for (const bool dynamic : {false, true}) {
    const auto table = table_of_elf(dynamic ? made_elf(symbols, ".dynsym", ".dynstr") : made_elf(symbols));
    ASSERT_TRUE(table) << table.error().what;
    EXPECT_EQ(name_at(*table, kFileCode + 0x0ff), "-");
    EXPECT_EQ(name_at(*table, kFileCode + 0x100), "main");
    EXPECT_EQ(name_at(*table, kFileCode + 0x13f), "main");
    EXPECT_EQ(name_at(*table, kFileCode + 0x140), "-");
    EXPECT_EQ(name_at(*table, kFileCode + 0x27f), "no_size") << "up to the next one";
    EXPECT_EQ(name_at(*table, kFileCode + 0x300), "-");
    EXPECT_EQ(name_at(*table, kFileCode + 0x410), "label");
    EXPECT_EQ(name_at(*table, kFileCode + 0x510), "-");
  }
}

TEST(FunctionTable, HasTheBestOfSeveralNames) {
  const std::uint64_t at = kFileAddress + 0x100;
  const auto best = [at](std::vector<MadeSymbol> symbols) {
    for (MadeSymbol& symbol : symbols) symbol.address = at;
    const auto table = table_of_elf(made_elf(symbols));
    EXPECT_TRUE(table);
    return table ? name_at(*table, kFileCode + 0x100) : "";
  };
  EXPECT_EQ(best({{"no_size", 0, 0}, {"weak", 0, 8, STB_WEAK}}), "weak");
  EXPECT_EQ(best({{"weak", 0, 8, STB_WEAK}, {"local", 0, 8, STB_LOCAL}}), "local");
  EXPECT_EQ(best({{"local", 0, 8, STB_LOCAL}, {"__global", 0, 8, STB_GLOBAL}}), "__global");
  EXPECT_EQ(best({{"__longer", 0, 8}, {"_short", 0, 8}}), "_short");
  EXPECT_EQ(best({{"read", 0, 8}, {"pread", 0, 8}}), "pread");
  EXPECT_EQ(best({{"$x", 0, 8, STB_LOCAL, STT_NOTYPE}}), "-");
}

TEST(FunctionTable, OfHostileFiles) {
  const std::string whole = made_elf({{"main", kFileAddress + 0x100, 0x40}, {"next", kFileAddress + 0x280, 0x10}});
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = whole;
    for (int changes = 0; changes < 4; ++changes) {
      const std::size_t place = random() % 2 == 0 ? random() % 256 : kFileCode + kFileCodeBytes + random() % 600;
      bad[place % bad.size()] = static_cast<char>(random());
    }
    if (i % 3 == 0) bad.resize(random() % bad.size());
    const auto table = table_of_elf(bad);
    if (table) {
      static_cast<void>(table->find(kFileCode + 0x110));
    }
  }
  const std::string long_name = made_elf({{std::string(100'000, 'x'), kFileAddress + 0x100, 0x40}});
  const auto table = table_of_elf(long_name);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->find(kFileCode + 0x100)->name.size(), FunctionTable::kMostNameBytes);
}

// A copy of this program, as a snapshot of it has it: the folder of the program need not be open to every user.
struct OwnProgram {
  CodeObject object{.kind = CodeKind::file};
  CodeAt at{.object = 1};
};
OwnProgram own_program() {
  OwnProgram out;
  std::string path = "/tmp/flight-own-program-XXXXXX";
  const UniqueFd copy(::mkstemp(path.data()));
  const auto bytes = read_file("/proc/self/exe", 512U << 20U);
  EXPECT_TRUE(copy && bytes);
  EXPECT_TRUE(write_all(copy.get(), *bytes));
  out.object.name = path;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto file = FileBytes::open(fd.get());
  EXPECT_TRUE(file);
  const auto image = ElfImage::parse(*file);
  EXPECT_TRUE(image);
  const auto id = image->build_id();
  EXPECT_LE(id.size(), out.object.build_id.bytes.size());
  for (std::size_t i = 0; i < id.size(); ++i) out.object.build_id.bytes.at(i) = std::to_integer<std::uint8_t>(id[i]);
  out.object.build_id.size = static_cast<std::uint8_t>(id.size());
  std::uint64_t bias = 0;  // of the program: it is the first
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        *static_cast<std::uint64_t*>(to) = info->dlpi_addr;
        return 1;
      },
      &bias);
  const auto address = reinterpret_cast<std::uintptr_t>(&flightd_profile_known_function);
  out.at.offset = image->offset_of(address - bias).value_or(0);
  return out;
}

class FunctionNamesTest : public testing::Test {
 protected:
  ~FunctionNamesTest() override { ::unlink(own_.object.name.c_str()); }
  const OwnProgram own_ = own_program();
};

TEST_F(FunctionNamesTest, OfAFileWithItsBuildId) {
  ASSERT_EQ(flightd_profile_known_function(1), 2);
  ASSERT_GT(own_.object.build_id.size, 0U) << "tests are linked with build-ids";
  FunctionNames names("", true);
  const auto named = names.find(own_.object, own_.at, 0);
  ASSERT_TRUE(named);
  EXPECT_EQ(named->name, "flightd_profile_known_function");
  EXPECT_EQ(named->offset, own_.at.offset);
  EXPECT_EQ(names.unnamed().all(), 0U);

  FunctionNames not_wanted("", false);
  EXPECT_FALSE(not_wanted.find(own_.object, own_.at, 0));
}

TEST_F(FunctionNamesTest, OfNoOtherFile) {
  FunctionNames names("", true);
  const auto find = [&](const CodeObject& object, std::uint32_t number) {
    return names.find(object, {.object = number, .offset = own_.at.offset}, 0);
  };
  CodeObject other = own_.object;
  other.build_id.bytes[0] = static_cast<std::uint8_t>(other.build_id.bytes[0] ^ 1U);
  EXPECT_FALSE(find(other, 2));
  EXPECT_FALSE(find(other, 2)) << "counted once";
  EXPECT_EQ(names.unnamed().other, 1U);
  CodeObject shorter = own_.object;
  --shorter.build_id.size;
  EXPECT_FALSE(find(shorter, 3));
  EXPECT_EQ(names.unnamed().other, 2U);
  CodeObject without = own_.object;
  without.build_id = {};
  EXPECT_FALSE(find(without, 4));
  EXPECT_EQ(names.unnamed().without_build_id, 1U);
  std::uint32_t number = 5;
  for (const char* path : {"/nowhere/at/all", "relative", "/", "/dev/zero", "/proc/self/mem", "/etc/passwd"}) {
    CodeObject wrong = own_.object;
    wrong.name = path;
    EXPECT_FALSE(find(wrong, number++)) << path;
  }
  EXPECT_EQ(names.unnamed().absent, 6U);
}

TEST_F(FunctionNamesTest, OfNoFileAfterTheDeadline) {
  const auto now = std::chrono::steady_clock::now();
  FunctionNames early("", true, now + std::chrono::hours(1));
  EXPECT_TRUE(early.find(own_.object, own_.at, 0));
  EXPECT_FALSE(early.ran_out_of_time());
  FunctionNames late("", true, now - std::chrono::hours(1));
  EXPECT_FALSE(late.find(own_.object, own_.at, 0));
  EXPECT_TRUE(late.ran_out_of_time());
  EXPECT_EQ(late.unnamed().all(), 0U) << "nothing is known of the file";
}

TEST(FunctionNames, OfTheKernelAndItsCode) {
  FunctionNames names("ffffffff81000000 T first\nffffffffc0001000 T in_module\t[a]\n", true);
  EXPECT_TRUE(names.knows_kernel());
  const CodeObject kernel{.kind = CodeKind::kernel, .name = "[kernel.kallsyms]"};
  const auto first =
      names.find(kernel, {.object = 1, .offset = 0x123, .begin = 0xffffffff81000000}, 0xffffffff81000123);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->name, "first");
  EXPECT_EQ(first->offset, 0U);
  EXPECT_FALSE(names.find(kernel, {.object = 2, .offset = 0x10, .begin = 0xffffffffb0000000}, 0xffffffffb0000010))
      << "the last function before a module is none of it";
  const CodeObject program{.kind = CodeKind::generated, .name = "bpf_prog_1"};
  EXPECT_EQ(names.find(program, {.object = 3, .offset = 5}, 5)->name, "bpf_prog_1");
  EXPECT_FALSE(names.find({}, {}, 0xffffffff81000123));
  EXPECT_FALSE(FunctionNames("", true).knows_kernel());
}

}  // namespace
}  // namespace flight
