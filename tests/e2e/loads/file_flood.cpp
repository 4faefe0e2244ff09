// SPDX-License-Identifier: Apache-2.0
// Maps new programs for ever: small ELF files, each with a build-id of its own, below FOLDER. The newest 500 stay
// mapped, the newest 4,000 exist.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "tests/e2e/loads/load.hpp"

namespace {

constexpr std::uint64_t kMapped = 500, kExist = 4000;
constexpr std::size_t kPage = 4096;

struct Note {
  Elf64_Nhdr header{.n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID};
  char name[4] = {'G', 'N', 'U', '\0'};
  unsigned char id[20] = {};
};
struct Program {
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
  Note note{};
};

Program program(std::uint64_t number) {
  Program out;
  std::memcpy(out.header.e_ident, ELFMAG, SELFMAG);
  out.header.e_ident[EI_CLASS] = ELFCLASS64;
  out.header.e_ident[EI_DATA] = ELFDATA2LSB;
  out.header.e_ident[EI_VERSION] = EV_CURRENT;
  out.header.e_type = ET_DYN;
  out.header.e_version = EV_CURRENT;
  out.header.e_phoff = sizeof(Elf64_Ehdr);
  out.header.e_ehsize = sizeof(Elf64_Ehdr);
  out.header.e_phentsize = sizeof(Elf64_Phdr);
  out.header.e_phnum = 1;
  out.segment.p_type = PT_NOTE;
  out.segment.p_offset = offsetof(Program, note);
  out.segment.p_filesz = out.segment.p_memsz = sizeof(Note);
  out.segment.p_align = 4;
  std::memcpy(out.note.id, &number, sizeof number);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) flight::load::usage("file_flood FOLDER");
  const std::string folder = argv[1];
  static void* mapped[kMapped];
  flight::load::report("started");
  for (std::uint64_t number = 1;; ++number) {
    const std::string path = folder + "/" + std::to_string(number);
    const Program content = program(number);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0755);
    void* at = MAP_FAILED;
    if (fd >= 0 && write(fd, &content, sizeof content) == static_cast<ssize_t>(sizeof content))
      at = mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
      perror("map a new file");
      return 1;
    }
    close(fd);
    void*& oldest = mapped[number % kMapped];
    if (oldest != nullptr) munmap(oldest, kPage);
    oldest = at;
    if (number % 10 == 0) usleep(1000);
    if (number > kExist) unlink((folder + "/" + std::to_string(number - kExist)).c_str());
  }
}
