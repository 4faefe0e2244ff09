// SPDX-License-Identifier: Apache-2.0
#include "libcore/sysinfo/processes.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "libcore/base/files.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"
#include "libcore/sysinfo/map_query.hpp"
#include "libcore/sysinfo/proc_maps.hpp"
#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

using testing::Contains;
using testing::Field;
using testing::IsEmpty;

std::map<std::uint32_t, ProcessInfo> scan(MapsSource source = MapsSource::kBest, const std::string& root = "") {
  std::map<std::uint32_t, ProcessInfo> found;
  std::uint32_t last = 0;
  const auto done = for_each_process_by(
      source,
      [&](const ProcessInfo& info) {
        EXPECT_TRUE(found.empty() || info.pid > last) << "not ascending";
        last = info.pid;
        found.emplace(info.pid, info);
      },
      root);
  EXPECT_TRUE(done) << done.error().what;
  return found;
}

// A child that pauses; killed and reaped at the end.
class Child {
 public:
  template <typename Body>
  explicit Child(Body body) {
    int ready[2] = {};
    if (::pipe2(ready, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      body(ready[1]);
      ::_exit(0);
    }
    ::close(ready[1]);
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) ADD_FAILURE() << "the child did not get ready";
    ::close(ready[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

 private:
  pid_t pid_ = -1;
};

void say_ready(int fd) { EXPECT_EQ(::write(fd, "x", 1), 1); }

bool queries_maps() {
  MapsReader reader;
  EXPECT_FALSE(reader.read("/proc/self").all.empty());
  return reader.queries();
}

TEST(Mappings, TheKernelHasTheQuery) {
  // As in the kernel's include/uapi/linux/fs.h, also where this kernel is older than the query.
  static_assert(_IOC_TYPE(kMapQuery) == 'f' && _IOC_NR(kMapQuery) == 17 && _IOC_SIZE(kMapQuery) == 104);
  static_assert(_IOC_DIR(kMapQuery) == (_IOC_READ | _IOC_WRITE));
  utsname names{};
  ASSERT_EQ(::uname(&names), 0);
  int major = 0, minor = 0;
  ASSERT_EQ(std::sscanf(names.release, "%d.%d", &major, &minor), 2);
  if (std::pair(major, minor) >= std::pair(6, 11)) {
    EXPECT_TRUE(queries_maps());
  }
}

TEST(Processes, ThisOneIsThereWithItsParentAndStart) {
  const std::uint64_t before = boottime_now();
  const Child child([](int ready) {
    ::prctl(PR_SET_NAME, "odd ) (name\\\n");
    say_ready(ready);
    ::pause();
  });
  const auto found = scan();
  ASSERT_TRUE(found.contains(child.pid()));
  const ProcessInfo& info = found.at(child.pid());
  EXPECT_EQ(info.comm, "odd ) (name\\\n");
  EXPECT_EQ(info.parent, static_cast<std::uint32_t>(::getpid()));
  EXPECT_THAT(info.threads, IsEmpty());
  // Start times are in ticks of 10 ms, rounded down.
  EXPECT_GE(info.started_boottime_ns + 20'000'000, before);
  EXPECT_LE(info.started_boottime_ns, boottime_now());
}

TEST(Processes, ThreadsHaveTheirNames) {
  std::mutex mutex;
  std::condition_variable changed;
  int named = 0;
  bool stop = false;
  std::vector<std::thread> threads;
  for (const char* name : {"worker-one", "worker-two"})
    threads.emplace_back([&, name] {
      ::prctl(PR_SET_NAME, name);
      std::unique_lock lock(mutex);
      ++named;
      changed.notify_all();
      changed.wait(lock, [&] { return stop; });
    });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return named == 2; });
  }
  const auto found = scan();
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  const auto& info = found.at(static_cast<std::uint32_t>(::getpid()));
  EXPECT_THAT(info.threads, Contains(Field(&ProcessInfo::Thread::comm, "worker-one")));
  EXPECT_THAT(info.threads, Contains(Field(&ProcessInfo::Thread::comm, "worker-two")));
  EXPECT_THAT(info.threads, testing::Not(Contains(Field(&ProcessInfo::Thread::tid, info.pid))));
}

TEST(Processes, KernelThreadsHaveNoMappings) {
  const auto found = scan();
  const auto kthreadd =
      std::find_if(found.begin(), found.end(), [](const auto& entry) { return entry.second.comm == "kthreadd"; });
  if (kthreadd == found.end()) {  // a container with its own PID namespace sees none
    ASSERT_FALSE(found.empty());
    return;
  }
  EXPECT_THAT(kthreadd->second.mappings, IsEmpty());
}

TEST(Processes, ZombiesAreLeftOut) {
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(scan().contains(static_cast<std::uint32_t>(zombie)));
  ::waitpid(zombie, nullptr, 0);
}

TEST(Processes, ALeaderThatExitedFirstStillHasItsProcess) {
  const Child child([](int ready) {
    std::thread([ready] {
      // The leader is a zombie when its state says so.
      for (int i = 0; i < 1000; ++i) {
        if (read_file("/proc/self/stat").value_or("").find(") Z ") != std::string::npos) break;
        ::usleep(1000);
      }
      ::prctl(PR_SET_NAME, "survivor");
      say_ready(ready);
      ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // only of this thread, without gtest's handlers
  });
  for (const MapsSource source : {MapsSource::kBest, MapsSource::kText}) {
    const auto found = scan(source);
    ASSERT_TRUE(found.contains(child.pid()));
    const ProcessInfo& info = found.at(child.pid());
    ASSERT_EQ(info.threads.size(), 1U);
    EXPECT_EQ(info.threads[0].comm, "survivor");
    EXPECT_FALSE(info.mappings.empty());
  }
}

bool same_mapping(const ProcessMapping& a, const ProcessMapping& b) {
  return a.address == b.address && a.bytes == b.bytes && a.page_offset == b.page_offset && a.major == b.major &&
         a.minor == b.minor && a.inode == b.inode && a.protection == b.protection && a.flags == b.flags &&
         a.name == b.name;
}

// If the kernel has the query, it verifies our reading of the text, for all processes here.
TEST(Mappings, BothWaysSayTheSame) {
  MapsReader best;
  MapsReader text(MapsSource::kText);
  int compared = 0;
  for (const auto& [pid, info] : scan()) {
    const std::string task = "/proc/" + std::to_string(pid);
    const auto before = best.read(task).all;
    const auto by_text = text.read(task).all;
    const auto after = best.read(task).all;
    if (!std::equal(before.begin(), before.end(), after.begin(), after.end(), same_mapping))
      continue;  // it changes its mappings now
    EXPECT_FALSE(text.queries());
    ASSERT_EQ(before.size(), by_text.size()) << info.comm;
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(same_mapping(before[i], by_text[i]))
          << info.comm << " " << before[i].name << " or " << by_text[i].name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 3);
}

class OwnMappings : public testing::TestWithParam<MapsSource> {};

TEST_P(OwnMappings, TheProgramIsThere) {
  MapsReader reader(GetParam());
  const auto mappings = reader.read("/proc/self").all;
  const std::string path = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto own = std::find_if(mappings.begin(), mappings.end(), [&](const auto& m) { return m.name == path; });
  ASSERT_NE(own, mappings.end());
  const auto address = reinterpret_cast<std::uintptr_t>(&same_mapping);
  EXPECT_LE(own->address, address);
  EXPECT_GT(own->address + own->bytes, address);
  EXPECT_EQ(own->flags, static_cast<std::uint32_t>(MAP_PRIVATE));
  EXPECT_THAT(mappings, Contains(Field(&ProcessMapping::name, "[vdso]")));
}

TEST_P(OwnMappings, AnonymousSharedAndDeletedOnes) {
  void* anonymous = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(anonymous, MAP_FAILED);
  TempTree tree;
  tree.write("/code", std::string(8192, '\0'));
  const auto file = open_file(tree.root() + "/code", O_RDWR);
  ASSERT_TRUE(file);
  void* shared = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, file->get(), 4096);
  ASSERT_NE(shared, MAP_FAILED);
  std::filesystem::remove(tree.root() + "/code");
  MapsReader reader(GetParam());
  const auto mappings = reader.read("/proc/self").all;
  const auto at = [&](void* address) {
    const auto found = std::find_if(mappings.begin(), mappings.end(), [&](const auto& m) {
      return m.address == reinterpret_cast<std::uintptr_t>(address);
    });
    return found == mappings.end() ? ProcessMapping{} : *found;
  };
  EXPECT_EQ(at(anonymous).name, "//anon");
  EXPECT_EQ(at(anonymous).bytes, 8192U);
  EXPECT_EQ(at(anonymous).protection, static_cast<std::uint32_t>(PROT_READ | PROT_WRITE | PROT_EXEC));
  EXPECT_EQ(at(shared).name, tree.root() + "/code (deleted)");
  EXPECT_EQ(at(shared).flags, static_cast<std::uint32_t>(MAP_SHARED));
  EXPECT_EQ(at(shared).page_offset, 4096U);
  ::munmap(anonymous, 8192);
  ::munmap(shared, 4096);
}

INSTANTIATE_TEST_SUITE_P(Ways, OwnMappings, testing::Values(MapsSource::kBest, MapsSource::kText),
                         [](const auto& source) { return source.param == MapsSource::kBest ? "best" : "text"; });

std::string stat_line(int pid, std::string_view comm, int parent, int threads, std::uint64_t start) {
  return fmt::format("{} ({}) S {} 1 1 0 -1 4194304 1 2 3 4 50 25 0 0 20 0 {} 0 {} 1000 100 0\n", pid, comm, parent,
                     threads, start);
}

class FakeProc : public testing::Test {
 protected:
  // A program at /usr/bin/tool inside the process' root, and a maps line of it.
  std::string map_tool(int pid) {
    const std::string root = fmt::format("{}/proc/{}/root", tree_.root(), pid);
    std::filesystem::create_directories(root + "/usr/bin");
    std::filesystem::copy_file("/proc/self/exe", root + "/usr/bin/tool");
    return line_of(root + "/usr/bin/tool", "/usr/bin/tool");
  }
  static std::string line_of(const std::string& file, const std::string& name) {
    struct stat status {};
    EXPECT_EQ(::lstat(file.c_str(), &status), 0);
    return fmt::format("00400000-00420000 r-xp 00001000 fe:01 {}          {}\n", status.st_ino, name);
  }
  TempTree tree_;
};

// /proc appends what a kernel worker does at this moment; its COMM record has only its name.
TEST_F(FakeProc, AKernelWorkerHasNoWorkItemInItsName) {
  const auto name_of_task = [this](std::string_view comm, bool is_kernel_thread) {
    std::string line = stat_line(7, comm, 2, 1, 250);
    const std::string_view flags = " 4194304 ";
    if (is_kernel_thread) line.replace(line.find(flags), flags.size(), " 2097216 ");  // with PF_KTHREAD
    tree_.write("/proc/7/stat", line);
    ProcessStat stat;
    EXPECT_EQ(read_stat(7, stat, tree_.root()), Presence::there);
    EXPECT_EQ(stat.is_kernel_thread, is_kernel_thread);
    return stat.comm;
  };
  EXPECT_EQ(name_of_task("kworker/u8:2-flush-252:0", true), "kworker/u8:2");
  EXPECT_EQ(name_of_task("kworker/0:1H+kblockd", true), "kworker/0:1H");
  EXPECT_EQ(name_of_task("kworker/3:0", true), "kworker/3:0");
  EXPECT_EQ(name_of_task("kworker/R-scsi_t", true), "kworker/R-scsi_");
  EXPECT_EQ(name_of_task("jbd2/vda1-8", true), "jbd2/vda1-8");
  EXPECT_EQ(name_of_task("kworker/u8:2-fl", false), "kworker/u8:2-fl") << "a process can call itself like that";
}

TEST_F(FakeProc, ReadsStatCgroupAndMaps) {
  const std::string line = map_tool(7);
  tree_.write("/proc/7/stat", stat_line(7, "a b) (c", 3, 1, 250));
  tree_.write("/proc/7/cgroup", "4:cpu,perf_event:/one\n0::/system.slice/x.service\n");
  tree_.write("/proc/7/maps", "00300000-00301000 rw-p 00000000 00:00 0 \n" + line +
                                  "7fff00000000-7fff00001000 --xp 00000000 00:00 0                  [vsyscall]\n"
                                  "garbage\n7000-6000 r-xp 0 0:0 0 /x\n7000-8000 r-xp\n"
                                  "80000000-80001000 rwxs 00000000 00:05 9                    /dev/zero (deleted)\n"
                                  "90000000-90001000 r-xp 00000000 00:00 0\n");
  tree_.write("/proc/12/stat", "12 (cut");
  tree_.write("/proc/self/stat", stat_line(1, "no", 0, 1, 0));
  const auto found = scan(MapsSource::kBest, tree_.root());
  ASSERT_EQ(found.size(), 1U);
  const ProcessInfo& info = found.at(7);
  EXPECT_EQ(info.comm, "a b) (c");
  EXPECT_EQ(info.started_boottime_ns, 250'000'000'000U / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)))
      << "whatever the time of suspend since then";
  EXPECT_EQ(info.parent, 3U);
  EXPECT_EQ(info.cgroup, "/system.slice/x.service");
  ASSERT_EQ(info.mappings.size(), 3U);
  EXPECT_EQ(info.mappings[0].name, "/usr/bin/tool");
  EXPECT_EQ(info.mappings[0].major, 0xfeU);
  EXPECT_EQ(info.mappings[1].name, "/dev/zero (deleted)");
  EXPECT_EQ(info.mappings[1].flags, static_cast<std::uint32_t>(MAP_SHARED));
  EXPECT_EQ(info.mappings[2].name, "//anon");
}

TEST_F(FakeProc, TheCgroupOfV1IsThatOfPerfEvent) {
  tree_.write("/proc/7/stat", stat_line(7, "x", 1, 1, 0));
  tree_.write("/proc/7/cgroup", "5:cpu:/a\n4:net_cls,perf_event:/right:one\n3:name=systemd:/b\n");
  EXPECT_EQ(scan(MapsSource::kBest, tree_.root()).at(7).cgroup, "/right:one");
  tree_.write("/proc/7/cgroup", "5:cpu:/a\n4:not_perf_event:/b\nodd\n");
  EXPECT_EQ(scan(MapsSource::kBest, tree_.root()).at(7).cgroup, "");
}

// As without descriptors or memory: the threads have not exited.
TEST_F(FakeProc, ThreadsThatCannotBeListedAreMissing) {
  tree_.write("/proc/7/stat", stat_line(7, "x", 1, 3, 0));
  tree_.write("/proc/7/task", "no folder");
  tree_.write("/proc/8/stat", stat_line(8, "y", 1, 3, 0));
  tree_.write("/proc/8/task/9/comm", "worker\n");
  const auto found = scan(MapsSource::kBest, tree_.root());
  EXPECT_TRUE(found.at(7).threads_cut);
  EXPECT_FALSE(found.at(8).threads_cut);
  EXPECT_EQ(found.at(8).threads.size(), 1U);
}

TEST_F(FakeProc, ThreadsBeyondTheLimitAreCounted) {
  for (int tid = 7; tid < 12; ++tid) tree_.write(fmt::format("/proc/7/task/{}/comm", tid), "worker\n");
  ProcessInfo info;
  info.pid = 7;
  info.thread_count = 5;
  info.is_kernel_thread = true;  // it has no executable to be read
  read_threads(info, tree_.root(), 3);
  EXPECT_GE(info.threads.size(), 2U);
  EXPECT_LE(info.threads.size(), 3U) << "the leader need not be the first entry here";
  EXPECT_EQ(info.threads_left_out, 2U);
  EXPECT_FALSE(info.threads_cut);
  info.threads.clear();
  info.threads_left_out = 0;
  read_threads(info, tree_.root(), 5);
  EXPECT_EQ(info.threads.size(), 4U);
  EXPECT_EQ(info.threads_left_out, 0U);
}

// An unreadable file is not taken for an exit.
TEST_F(FakeProc, AStatThatCannotBeReadIsNotGone) {
  std::filesystem::create_directories(tree_.root() + "/proc/7/stat");
  ProcessStat stat;
  EXPECT_EQ(read_stat(7, stat, tree_.root()), Presence::unknown);
  EXPECT_EQ(read_stat(8, stat, tree_.root()), Presence::gone);
}

TEST_F(FakeProc, OneProcessTakesNoMoreThanItsShare) {
  tree_.write("/proc/7/stat", stat_line(7, "x", 1, 1, 0));
  std::string maps;
  const std::string path(3000, 'a');
  for (int i = 0; i < 3000; ++i)
    maps +=
        fmt::format("{:08x}-{:08x} r-xp 00000000 fe:01 {} /{}\n", 0x10000 + i * 0x1000, 0x11000 + i * 0x1000, i, path);
  tree_.write("/proc/7/maps", maps);
  tree_.write("/proc/8/stat", stat_line(8, "y", 1, 1, 0));
  tree_.write("/proc/8/maps", "00400000-00420000 r-xp 00001000 fe:01 5   /usr/bin/tool\n");
  const auto found = scan(MapsSource::kBest, tree_.root());
  EXPECT_TRUE(found.at(7).mappings_cut);
  EXPECT_FALSE(found.at(7).mappings.empty());
  EXPECT_LE(found.at(7).mappings.size() * path.size(), kMaxMappingBytesPerProcess);
  EXPECT_FALSE(found.at(8).mappings_cut);
  EXPECT_EQ(found.at(8).mappings.size(), 1U);
}

// A JIT below the program's libraries: files have a share of their own.
TEST_F(FakeProc, ManyAnonymousMappingsLeaveSpaceForFiles) {
  std::string maps;
  for (std::size_t i = 0; i < 6000; ++i)
    maps += fmt::format("{:08x}-{:08x} r-xp 00000000 00:00 0 \n", 0x10000000 + i * 0x2000, 0x10001000 + i * 0x2000);
  maps += "7f0000000000-7f0000020000 r-xp 00001000 fe:01 5   /usr/lib/libc.so.6\n";
  tree_.write("/proc/7/stat", stat_line(7, "jit", 1, 1, 0));
  tree_.write("/proc/7/maps", maps);
  const auto found = scan(MapsSource::kText, tree_.root());
  const auto& all = found.at(7).mappings;
  EXPECT_EQ(all.size(), 3073U);
  EXPECT_EQ(all.back().name, "/usr/lib/libc.so.6");
}

// The program is at the lowest addresses, its libraries are at the highest ones.
TEST_F(FakeProc, ManyFilesLeaveSpaceForTheLibrariesBehindThem) {
  std::string maps = "00400000-00420000 r-xp 00001000 fe:01 5   /usr/bin/tool\n";
  for (std::size_t i = 0; i < 6000; ++i)
    maps += fmt::format("{:08x}-{:08x} r-xp 00000000 fe:01 {}   /srv/part-{}\n", 0x10000000 + i * 0x2000,
                        0x10001000 + i * 0x2000, 100 + i, i);
  for (std::size_t i = 0; i < 100; ++i)
    maps += fmt::format("{:08x}-{:08x} r-xp 00000000 00:00 0 \n", 0x20000000 + i * 0x2000, 0x20001000 + i * 0x2000);
  maps += "7f0000000000-7f0000020000 r-xp 00001000 fe:01 6   /usr/lib/libc.so.6\n";
  maps += "7fff00000000-7fff00002000 r-xp 00000000 00:00 0   [vdso]\n";
  tree_.write("/proc/7/stat", stat_line(7, "server", 1, 1, 0));
  tree_.write("/proc/7/maps", maps);
  const auto found = scan(MapsSource::kText, tree_.root());
  const auto& all = found.at(7).mappings;
  ASSERT_EQ(all.size(), kMaxMappingsPerProcess);
  EXPECT_TRUE(found.at(7).mappings_cut);
  EXPECT_EQ(all.front().name, "/usr/bin/tool");
  EXPECT_EQ(all[all.size() - 2].name, "/usr/lib/libc.so.6");
  EXPECT_EQ(all.back().name, "[vdso]");
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.address < b.address; }));
}

// PROCMAP_QUERY does not return a path of more than PATH_MAX, and has its own errno for it.
TEST(Processes, AMappingWithATooLongPathHidesNoOther) {
  const TempTree tree;
  const Child child([&tree](int ready) {
    const std::string name(250, 'd');
    if (::chdir(tree.root().c_str()) != 0) ::_exit(1);
    for (int i = 0; i < 20; ++i)
      if (::mkdir(name.c_str(), 0700) != 0 || ::chdir(name.c_str()) != 0) ::_exit(1);
    const int file = ::open("x", O_RDWR | O_CREAT | O_CLOEXEC, 0700);
    if (::write(file, "x", 1) != 1) ::_exit(1);
    // At a low address, so that all other mappings follow it.
    void* wanted = reinterpret_cast<void*>(0x100000);
    if (::mmap(wanted, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0) != wanted) ::_exit(1);
    ::unlink("x");
    for (int i = 0; i < 20; ++i)
      if (::chdir("..") != 0 || ::rmdir(name.c_str()) != 0) ::_exit(1);
    say_ready(ready);
    ::pause();
  });
  const ProcessInfo found = scan().at(child.pid());
  EXPECT_THAT(found.mappings, Contains(Field(&ProcessMapping::name, "[vdso]")));
  EXPECT_EQ(found.mappings_cut, queries_maps()) << "the text has the path";
}

TEST(Processes, NoProcIsAnError) {
  TempTree tree;
  const auto done = for_each_process([](const ProcessInfo&) {}, tree.root());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().errno_value(), ENOENT);
}

std::optional<std::string> cgroup2_mount() {
  const std::string mounts = read_file("/proc/self/mounts").value_or("");
  const std::size_t type = mounts.find(" cgroup2 ");
  if (type == std::string::npos) return std::nullopt;
  const std::size_t begin = mounts.rfind(' ', type - 1) + 1;
  return mounts.substr(begin, type - begin);
}

TEST(Cgroups, ANewOneIsListedWithTheKernelsId) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const auto mount = cgroup2_mount();
  ASSERT_TRUE(mount) << "this test needs a cgroup2 mount";
  const std::string folder = *mount + fmt::format("/flight-test-{}", ::getpid());
  ASSERT_EQ(::mkdir(folder.c_str(), 0755), 0) << folder;
  ASSERT_EQ(::mkdir((folder + "/inner").c_str(), 0755), 0);
  const CgroupList list = list_cgroups();
  const auto& groups = list.found;
  const CgroupList two = list_cgroups(2);
  constexpr std::size_t kFewBytes = 20;  // less than the path of `inner`
  const CgroupList few = list_cgroups(kMostListedCgroups, kFewBytes);
  struct stat status {};
  ASSERT_EQ(::stat((folder + "/inner").c_str(), &status), 0);
  ::rmdir((folder + "/inner").c_str());
  ::rmdir(folder.c_str());
  ASSERT_FALSE(groups.empty());
  EXPECT_EQ(groups[0].path, "/");
  const std::string path = fmt::format("/flight-test-{}/inner", ::getpid());
  const auto inner = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.path == path; });
  ASSERT_NE(inner, groups.end());
  EXPECT_EQ(inner->id, status.st_ino);  // the handle and the inode are the same number on 64 bits
  EXPECT_FALSE(list.is_cut);
  EXPECT_EQ(two.found.size(), 2U);
  EXPECT_TRUE(two.is_cut);
  EXPECT_TRUE(few.is_cut);
  std::size_t bytes = 0;
  for (const CgroupInfo& group : few.found) bytes += group.path.size();
  EXPECT_LE(bytes, kFewBytes + 1) << "and the root";
}

// The mount that list_cgroups() reads.
std::string cgroup_mount() {
  const std::string mounts = read_file("/proc/self/mounts").value_or("");
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string device, folder, type, options;
    fields >> device >> folder >> type >> options;
    if (type == "cgroup" && (options + ",").find(",perf_event,") != std::string::npos) return folder;
  }
  return cgroup2_mount().value_or("");
}

class CoveredCgroups : public test::RootTest {};

// As in a container whose manager has mounted file systems of a server there. Nothing may ask it.
TEST_F(CoveredCgroups, ThoseInAServersFolderAreNotRead) {
  const std::string mount = cgroup_mount();
  ASSERT_NE(mount, "") << "this test needs cgroups";
  const std::string folder = mount + fmt::format("/flight-covered-{}", ::getpid());
  for (const char* inner : {"", "/covered", "/other"}) ASSERT_EQ(::mkdir((folder + inner).c_str(), 0755), 0) << inner;
  test::in_own_mounts([&] {
    const test::HungMount hung(folder + "/covered");
    const CgroupList list = list_cgroups();
    const auto has = [&](const std::string& path) {
      return std::any_of(list.found.begin(), list.found.end(),
                         [&](const CgroupInfo& group) { return mount + group.path == path; });
    };
    EXPECT_TRUE(has(folder + "/other"));
    EXPECT_FALSE(has(folder + "/covered"));
    EXPECT_EQ(list.unread, folder + "/covered is on fuse.hung, whose server may never answer");
    const test::HungMount another(folder + "/other");
    EXPECT_THAT(list_cgroups().unread, testing::EndsWith("whose server may never answer, and 1 folder more"));
  });
  for (const char* inner : {"/covered", "/other", ""}) EXPECT_EQ(::rmdir((folder + inner).c_str()), 0) << inner;
}

TEST_F(CoveredCgroups, WithAServersFileSystemOverAllOfThemNoneIsRead) {
  const std::string mount = cgroup_mount();
  ASSERT_NE(mount, "") << "this test needs cgroups";
  test::in_own_mounts([&] {
    const test::HungMount hung(mount);
    const CgroupList list = list_cgroups();
    EXPECT_THAT(list.found, IsEmpty());
    EXPECT_EQ(list.unread, mount + " is on fuse.hung, whose server may never answer");
  });
}

TEST(ProcessUsage, CountsTimeAndMemory) {
  const ProcessUsage before = own_usage();
  std::vector<char> memory(32U << 20U, 'x');
  timespec used{};
  do {
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  } while (used.tv_sec == 0 && used.tv_nsec < 150'000'000);
  const ProcessUsage after = own_usage();
  EXPECT_GE(after.cpu_seconds, 0.1);
  EXPECT_GE(after.uptime_seconds, 0.1);
  EXPECT_GE(process_usage(::getppid(), {}).uptime_seconds, before.uptime_seconds);
  EXPECT_GE(after.rss_bytes, before.rss_bytes + memory.size() / 2);
  EXPECT_EQ(process_usage(-1, {}).rss_bytes, 0U);
}

// After a suspend, a process is older by CLOCK_BOOTTIME than by the clock of its CPU time.
TEST(ProcessUsage, AnUptimeHasNoMoreThanTheTimeThatPassedForTheProcess) {
  const auto since = std::chrono::steady_clock::now();
  const ProcessUsage usage = process_usage(::getppid(), since);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - since;
  EXPECT_GT(usage.uptime_seconds, 0);
  EXPECT_LE(usage.uptime_seconds, passed.count());
  EXPECT_GT(process_usage(::getppid(), {}).uptime_seconds, usage.uptime_seconds);
}

}  // namespace
}  // namespace flight
