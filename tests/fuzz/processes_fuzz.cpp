// SPDX-License-Identifier: Apache-2.0
// What a process can make of its own entry in /proc (its name, its mappings' paths, its cgroup's) and of the file it
// runs: the broker reads all of it, with privileges.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cassert>
#include <cstdlib>
#include <string>

#include "libcore/sysinfo/kernel_maps.hpp"
#include "libcore/sysinfo/proc_maps.hpp"
#include "tests/fuzz/input.hpp"

namespace {

constexpr std::uint32_t kPid = 7;

// A /proc with one process, in memory; its files are written anew for each input.
class FakeProc {
 public:
  FakeProc() {
    root_ = "/dev/shm/flight-fuzz-XXXXXX";
    if (::mkdtemp(root_.data()) == nullptr) std::abort();
    for (const char* folder : {"/proc", "/proc/7", "/proc/7/task", "/proc/7/task/7", "/proc/7/task/8", "/proc/7/root"})
      if (::mkdir((root_ + folder).c_str(), 0700) != 0) std::abort();
  }
  FakeProc(const FakeProc&) = delete;
  FakeProc& operator=(const FakeProc&) = delete;
  // libFuzzer ends by _Exit where it found something: then the folder stays.
  ~FakeProc() {
    for (const char* file : {"/stat", "/maps", "/cgroup", "/task/8/comm", "/task/8/maps", "/root/a"})
      ::unlink((root_ + "/proc/7" + file).c_str());
    for (const char* folder :
         {"/proc/7/root", "/proc/7/task/8", "/proc/7/task/7", "/proc/7/task", "/proc/7", "/proc", ""})
      ::rmdir((root_ + folder).c_str());
  }
  void write(const char* file, std::string_view text) const {
    const int fd = ::open((root_ + "/proc/7" + file).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
    ::close(fd);
  }
  [[nodiscard]] const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace

// stat, maps, cgroup, the other thread's comm; then an ELF file, "/a" in the process' root and in no mapping's way.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const FakeProc proc;
  flight::fuzz::Input input(data, size);
  proc.write("/stat", input.take_text());
  const std::string_view maps = input.take_text();
  proc.write("/maps", maps);
  proc.write("/task/8/maps", maps);
  proc.write("/cgroup", input.take_text());
  proc.write("/task/8/comm", input.take_text());
  proc.write("/root/a", input.text());

  const auto visit = [](const flight::ProcessInfo& process) {
    assert(process.pid == kPid && process.comm.size() <= 15);
    assert(process.mappings.size() <= flight::kMaxMappingsPerProcess);
    for (const flight::ProcessMapping& mapping : process.mappings) assert(mapping.bytes > 0);
  };
  const auto read = flight::for_each_process_by(flight::MapsSource::kText, visit, proc.root());
  assert(read.has_value());

  assert(flight::build_id_of_notes(input.text()).size() <= 64);
  const int elf = ::open((proc.root() + "/proc/7/root/a").c_str(), O_RDONLY | O_CLOEXEC);
  assert(flight::build_id_of_elf(elf).size() <= 64);
  ::close(elf);
  return 0;
}
