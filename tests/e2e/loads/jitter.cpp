// SPDX-License-Identifier: Apache-2.0
// A small JIT compiler: burns one CPU in code that it made at run time, and names it in FOLDER/jit-PID.dump, as
// tools/perf/Documentation/jitdump-specification.txt of the kernel sources says. `perf inject --jit` finds that file by
// the process's executable mapping of it.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <cstring>
#include <string>

#include "tests/e2e/loads/load.hpp"

namespace {

// void (unsigned rounds): counts down to 0.
#if defined(__x86_64__)
constexpr std::uint32_t kMachine = EM_X86_64;
constexpr unsigned char kCode[] = {0xff, 0xcf, 0x75, 0xfc, 0xc3};  // dec %edi; jnz -4; ret
#elif defined(__aarch64__)
constexpr std::uint32_t kMachine = EM_AARCH64;
constexpr unsigned char kCode[] = {0x00, 0x04, 0x00, 0x71, 0xe1, 0xff,
                                   0xff, 0x54, 0xc0, 0x03, 0x5f, 0xd6};  // subs w0, w0, #1; b.ne -4; ret
#endif
constexpr char kName[] = "made_at_run_time_for_flightd";
constexpr std::size_t kPage = 4096;

struct Header {
  std::uint32_t magic = 0x4A695444, version = 1, total_size = sizeof(Header), machine = kMachine, pad = 0, pid = 0;
  std::uint64_t time_ns = 0, flags = 0;
};
struct CodeLoad {
  std::uint32_t id = 0, total_size = sizeof(CodeLoad) + sizeof kName + sizeof kCode;
  std::uint64_t time_ns = 0;
  std::uint32_t pid = 0, tid = 0;
  std::uint64_t vma = 0, address = 0, bytes = sizeof kCode, index = 1;
};

void put(int fd, const void* bytes, std::size_t size) {
  if (write(fd, bytes, size) == static_cast<ssize_t>(size)) return;
  perror("write");
  exit(1);
}

void* map(std::size_t bytes, int protection, int flags, int fd) {
  void* memory = mmap(nullptr, bytes, protection, flags, fd, 0);
  if (memory != MAP_FAILED) return memory;
  perror("mmap");
  exit(1);
}

void* g_code = nullptr;

void run_code() {
  void (*code)(unsigned) = nullptr;
  memcpy(&code, &g_code, sizeof code);
  code(flight::load::kWorkRounds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("jitter CPU SECONDS FOLDER");
  flight::load::stay_on(atoi(argv[1]));
  const auto pid = static_cast<std::uint32_t>(getpid());
  const std::string path = std::string(argv[3]) + "/jit-" + std::to_string(pid) + ".dump";
  const int dump = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (dump < 0) perror(path.c_str());
  Header header;
  header.pid = pid;
  header.time_ns = flight::load::now_ns();
  put(dump, &header, sizeof header);
  map(kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump);
  // Writable until it is filled: some systems permit no page that is writable and executable.
  g_code = map(kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  memcpy(g_code, kCode, sizeof kCode);
  __builtin___clear_cache(static_cast<char*>(g_code), static_cast<char*>(g_code) + sizeof kCode);
  if (mprotect(g_code, kPage, PROT_READ | PROT_EXEC) != 0) perror("mprotect");
  CodeLoad load;
  load.pid = load.tid = pid;
  load.time_ns = flight::load::now_ns();
  load.vma = load.address = reinterpret_cast<std::uint64_t>(g_code);
  put(dump, &load, sizeof load);
  put(dump, kName, sizeof kName);
  put(dump, kCode, sizeof kCode);
  flight::load::report("started");
  flight::load::repeat_for(atof(argv[2]), run_code);
  flight::load::report("ended");
}
