// SPDX-License-Identifier: Apache-2.0
// The kernel's own sideband records, from a real sideband event, parsed by flightd.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <climits>
#include <functional>
#include <thread>

#include "libcore/base/files.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perf/record_cut.hpp"
#include "tests/unit/bpf_program.hpp"
#include "tests/unit/perf/live_ring.hpp"
#include "tests/unit/perf/temp_tree.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {
namespace {

constexpr std::size_t kSidebandBytes = 512U << 10U;

class SidebandRecords : public RootTest {
 protected:
  void SetUp() override {
    attr_ = sideband_attr(features_);
    auto event = open_event(attr_, here_.cpu(), "sideband");
    ASSERT_TRUE(event) << event.error().what;
    event_ = std::move(*event);
    auto ring = Mapping::open(event_.get(), kPage + kSidebandBytes, PROT_READ | PROT_WRITE);
    ASSERT_TRUE(ring) << ring.error().what;
    ring_ = std::move(*ring);
    const auto id = event_id(event_.get());
    ASSERT_TRUE(id);
    id_ = *id;
    begin_ = monotonic_now();
    ASSERT_EQ(::ioctl(event_.get(), PERF_EVENT_IOC_ENABLE, 0), 0);
  }

  // Everything that was written so far. The ring is far larger than a test fills.
  std::vector<std::byte> drain() {
    const std::uint64_t head = head_of(ring_);
    EXPECT_LT(head, kSidebandBytes);
    const auto data = ring_.bytes().subspan(kPage, std::min<std::size_t>(head, kSidebandBytes));
    return {data.begin(), data.end()};
  }

  // Calls `f` for each of flightd's records. All must have our trailer and a key.
  void each(const std::vector<std::byte>& bytes, const std::function<void(std::span<const std::byte>)>& look) {
    EventTable table;
    table.add_id(id_, table.add_event(attr_.sample_type));
    std::span<const std::byte> left = bytes;
    for (auto record = next_record(left); !record.empty(); record = next_record(left)) {
      left = left.subspan(record.size());
      const auto trailer = parse_trailer(record);
      ASSERT_TRUE(trailer);
      ASSERT_EQ(trailer->id, id_);
      ASSERT_EQ(trailer->cpu, static_cast<std::uint32_t>(here_.cpu()));
      ASSERT_GE(trailer->time_ns, begin_);
      ASSERT_LE(trailer->time_ns, monotonic_now());
      const auto key = record_key(record, table);
      ASSERT_TRUE(key);
      ASSERT_EQ(key->time_ns, trailer->time_ns);
      look(record);
    }
    EXPECT_TRUE(left.empty());
  }

  OnCpu here_;
  KernelFeatures features_ = KernelFeatures::probe(here_.cpu());
  perf_event_attr attr_{};
  UniqueFd event_;
  Mapping ring_;
  std::uint64_t id_ = 0;
  EventTime begin_ = 0;
};

// A child that sets its name and then executes /bin/true.
pid_t run_true() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NAME, "before-exec");
    ::execl("/bin/true", "true", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return child;
}

TEST_F(SidebandRecords, TheLifeOfAProcess) {
  const auto child = static_cast<std::uint32_t>(run_true());
  std::vector<std::string> story;
  std::vector<Mmap2Record> maps;
  const auto bytes = drain();
  each(bytes, [&](std::span<const std::byte> record) {
    if (const auto comm = parse_comm(record); comm && comm->pid == child)
      story.push_back(std::string(comm->exec ? "exec " : "comm ") + std::string(comm->name));
    if (const auto map = parse_mmap2(record); map && map->pid == child) maps.push_back(*map);
    const auto task = parse_task(record);
    if (!task || task->pid != child) return;
    const bool fork = load<perf_event_header>(record.data()).type == PERF_RECORD_FORK;
    EXPECT_EQ(task->tid, child);
    EXPECT_GE(task->time_ns, begin_);
    if (fork) {
      EXPECT_EQ(task->ppid, static_cast<std::uint32_t>(::getpid()));
    }
    story.emplace_back(fork ? "fork" : "exit");
  });
  EXPECT_EQ(story, (std::vector<std::string>{"fork", "comm before-exec", "exec true", "exit"}));

  struct stat file {};
  ASSERT_EQ(::stat("/bin/true", &file), 0);
  const auto is_program = [](const Mmap2Record& map) { return map.name.ends_with("/true"); };
  const auto program = std::find_if(maps.begin(), maps.end(), is_program);
  ASSERT_NE(program, maps.end());
  EXPECT_NE(program->protection & PROT_EXEC, 0U);
  EXPECT_EQ(program->flags & MAP_PRIVATE, static_cast<std::uint32_t>(MAP_PRIVATE));
  EXPECT_EQ(program->cpumode, PERF_RECORD_MISC_USER);
  EXPECT_NE(program->address, 0U);
  EXPECT_EQ(program->bytes % kPage, 0U);
  EXPECT_EQ(program->inode, file.st_ino);
}

// flightd's own records have exactly the same bytes as the kernel's for the same content.
TEST_F(SidebandRecords, OursAreTheKernels) {
  const auto child = static_cast<std::uint32_t>(run_true());
  std::size_t compared = 0;
  const auto bytes = drain();
  each(bytes, [&](std::span<const std::byte> record) {
    const auto trailer = *parse_trailer(record);
    RecordBuffer ours;
    if (const auto comm = parse_comm(record); comm && comm->pid == child) append_comm(ours, *comm, trailer);
    if (const auto map = parse_mmap2(record); map && map->pid == child) append_mmap2(ours, *map, trailer);
    if (const auto task = parse_task(record); task && task->pid == child) {
      const bool fork = load<perf_event_header>(record.data()).type == PERF_RECORD_FORK;
      fork ? append_fork(ours, *task, trailer) : append_exit(ours, *task, trailer);
    }
    if (ours.empty()) return;
    EXPECT_TRUE(std::equal(ours.begin(), ours.end(), record.begin(), record.end()));
    ++compared;
  });
  EXPECT_GE(compared, 6U);  // fork, two names, exit, and the maps of true, ld.so, libc
}

TEST_F(SidebandRecords, AMappingHasItsFilesInode) {
  const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  struct stat status {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  auto mapped = Mapping::open(file.get(), kPage, PROT_READ | PROT_EXEC);
  ASSERT_TRUE(mapped) << mapped.error().what;
  std::size_t found = 0;
  const auto bytes = drain();
  each(bytes, [&](std::span<const std::byte> record) {
    const auto map = parse_mmap2(record);
    if (!map || map->pid != static_cast<std::uint32_t>(::getpid())) return;
    const void* address = mapped->data();
    if (map->address != reinterpret_cast<std::uintptr_t>(address)) return;
    EXPECT_EQ(map->bytes, kPage);
    EXPECT_EQ(map->inode, status.st_ino);
    EXPECT_EQ(map->build_id.size, 0U);
    EXPECT_EQ(map->flags & MAP_SHARED, static_cast<std::uint32_t>(MAP_SHARED));
    ++found;
  });
  EXPECT_EQ(found, 1U);
}

TEST_F(SidebandRecords, AThreadOfAnotherName) {
  std::uint32_t thread_id = 0;
  std::thread([&] {
    thread_id = static_cast<std::uint32_t>(::syscall(SYS_gettid));
    ::prctl(PR_SET_NAME, "a-thread");
  }).join();
  std::vector<std::string> story;
  const auto bytes = drain();
  each(bytes, [&](std::span<const std::byte> record) {
    const auto comm = parse_comm(record);
    if (comm && comm->tid == thread_id) {
      EXPECT_EQ(comm->pid, static_cast<std::uint32_t>(::getpid()));
      story.emplace_back(comm->name);
    }
    const auto task = parse_task(record);
    if (task && task->tid == thread_id && load<perf_event_header>(record.data()).type == PERF_RECORD_FORK) {
      EXPECT_EQ(task->pid, static_cast<std::uint32_t>(::getpid()));
      EXPECT_EQ(task->ptid, static_cast<std::uint32_t>(::syscall(SYS_gettid)));
      story.emplace_back("fork");
    }
  });
  EXPECT_EQ(story, (std::vector<std::string>{"fork", "a-thread"}));
}

// Only a kernel that compiles BPF (bpf_jit_enable) gives its programs symbols; a container may forbid bpf(2).
TEST_F(SidebandRecords, KsymbolOfABpfProgram) {
  const auto jit = read_line("/proc/sys/net/core/bpf_jit_enable");
  const UniqueFd program = load_bpf_program();
  const bool expected = program && jit && *jit != "0";
  std::size_t symbols = 0;
  const auto bytes = drain();
  each(bytes, [&](std::span<const std::byte> record) {
    const auto symbol = parse_ksymbol(record);
    if (!symbol || !symbol->name.starts_with("bpf_prog_") || symbol->flags != 0) return;
    EXPECT_EQ(symbol->kind, PERF_RECORD_KSYMBOL_TYPE_BPF);
    EXPECT_GT(symbol->address, std::uint64_t{1} << 63U);
    EXPECT_GT(symbol->bytes, 0U);
    ++symbols;
  });
  RecordProperty("expected", expected ? "yes" : "no");
  if (expected) {
    EXPECT_GE(symbols, 1U);
  }
}

// Beside a listener that was opened later, the kernel's records claim to be longer than they are.
TEST_F(SidebandRecords, KsymbolBesideAnotherListener) {
  auto other = open_event(sideband_attr(features_), here_.cpu(), "another listener");
  ASSERT_TRUE(other) << other.error().what;
  auto its_ring = Mapping::open(other->get(), kPage + kSidebandBytes, PROT_READ | PROT_WRITE);
  ASSERT_TRUE(its_ring) << its_ring.error().what;
  ASSERT_EQ(::ioctl(other->get(), PERF_EVENT_IOC_ENABLE, 0), 0);
  const auto jit = read_line("/proc/sys/net/core/bpf_jit_enable");
  const UniqueFd program = load_bpf_program();
  const bool expected = program && jit && *jit != "0";
  auto bytes = drain();
  RecordProperty("cut", static_cast<int>(repair_records(bytes)));  // a kernel may be mended
  std::size_t symbols = 0, programs = 0;
  each(bytes, [&](std::span<const std::byte> record) {
    const auto symbol = parse_ksymbol(record);
    if (symbol && symbol->name.starts_with("bpf_prog_") && symbol->flags == 0) ++symbols;
    if (load<perf_event_header>(record.data()).type == PERF_RECORD_BPF_EVENT) ++programs;
  });
  if (expected) {
    EXPECT_GE(symbols, 1U);
    EXPECT_GE(programs, 1U);
  }
}

// A `perf record -a --buildid-mmap` of somebody that began later.
TEST_F(SidebandRecords, MappingBesideAListenerForBuildIds) {
  perf_event_attr attr = sideband_attr(features_);
  attr.build_id = 1;
  auto other = open_event(attr, here_.cpu(), "another listener");
  ASSERT_TRUE(other) << other.error().what;
  auto its_ring = Mapping::open(other->get(), kPage + kSidebandBytes, PROT_READ | PROT_WRITE);
  ASSERT_TRUE(its_ring) << its_ring.error().what;
  ASSERT_EQ(::ioctl(other->get(), PERF_EVENT_IOC_ENABLE, 0), 0);
  const std::string path = std::filesystem::read_symlink("/proc/self/exe");
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  void* code = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(code, MAP_FAILED);
  auto bytes = drain();
  ::munmap(code, kPage);
  clear_build_id_marks(bytes);
  std::size_t found = 0, marked = 0;
  const auto look = [&](std::span<const std::byte> record) {
    const auto map = parse_mmap2(record);
    if (!map || map->pid != static_cast<std::uint32_t>(::getpid()) || map->name != path) return;
    EXPECT_EQ(map->build_id.size, 0U);
    EXPECT_EQ(map->inode, status.st_ino);
    ++found;
  };
  each(bytes, look);
  each(drain(), [&](std::span<const std::byte> record) {
    if (load<perf_event_header>(record.data()).type != PERF_RECORD_MMAP2) return;
    marked += (load<perf_event_header>(record.data()).misc & PERF_RECORD_MISC_MMAP_BUILD_ID) != 0 ? 1 : 0;
  });
  RecordProperty("marked", static_cast<int>(marked));  // a kernel may be mended
  EXPECT_EQ(found, 1U);
}

// The unified hierarchy at a path of the test, whatever is mounted on /sys/fs/cgroup.
class CgroupMount {
 public:
  CgroupMount() : mounted_(::mount("cgroup2", folder_.path().c_str(), "cgroup2", 0, nullptr) == 0) {}
  CgroupMount(const CgroupMount&) = delete;
  CgroupMount& operator=(const CgroupMount&) = delete;
  ~CgroupMount() {
    if (mounted_) ::umount2(folder_.path().c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] const std::string& path() const { return folder_.path(); }

 private:
  TempTree folder_;
  bool mounted_;
};

// A cgroup's id is its inode. Kernels without CONFIG_CGROUP_PERF have no such records.
TEST_F(SidebandRecords, CgroupOfANewFolder) {
  const CgroupMount mount;
  ASSERT_TRUE(mount.mounted());
  const std::string name = "/flight-perf-test-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir((mount.path() + name).c_str(), 0755), 0);
  struct stat folder {};
  EXPECT_EQ(::stat((mount.path() + name).c_str(), &folder), 0);
  const auto bytes = drain();
  EXPECT_EQ(::rmdir((mount.path() + name).c_str()), 0);
  std::size_t found = 0;
  each(bytes, [&](std::span<const std::byte> record) {
    const auto cgroup = parse_cgroup(record);
    if (!cgroup || cgroup->id != folder.st_ino) return;
    EXPECT_TRUE(cgroup->path.ends_with(name)) << cgroup->path;
    ++found;
  });
  EXPECT_EQ(found, features_.sample_cgroup ? 1U : 0U);
}

}  // namespace
}  // namespace flight::test
