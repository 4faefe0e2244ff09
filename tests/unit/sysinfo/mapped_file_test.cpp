// SPDX-License-Identifier: Apache-2.0
// Files that this process itself has mapped: existing, deleted, replaced, on overlayfs, in a chroot.
#include "libcore/sysinfo/mapped_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <utility>

#include "libcore/base/files.hpp"
#include "libcore/sysinfo/kernel_maps.hpp"
#include "libcore/sysinfo/processes.hpp"
#include "libcore/sysinfo/roots.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

std::vector<std::uint8_t> own_build_id() { return build_id_of_elf(open_file("/proc/self/exe", O_RDONLY)->get()); }

// A mapped page of a file, as the kernel's record names it.
class MappedPage {
 public:
  explicit MappedPage(const std::string& path) {
    const auto file = open_file(path, O_RDONLY);
    EXPECT_TRUE(file) << file.error().what;
    if (file) page_ = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file->get(), 0);
    EXPECT_NE(page_, MAP_FAILED);
    at = find(static_cast<std::uint32_t>(::getpid()), reinterpret_cast<std::uintptr_t>(page_));
    at.name = path;
  }
  MappedPage(const MappedPage&) = delete;
  MappedPage& operator=(const MappedPage&) = delete;
  ~MappedPage() { ::munmap(page_, kPage); }

  static MappedAt find(std::uint32_t pid, std::uint64_t address) {
    ProcessInfo info;
    EXPECT_TRUE(read_process(pid, info));
    read_mappings(info);
    for (const ProcessMapping& map : info.mappings)
      if (map.address == address)
        return {.pid = pid,
                .address = address,
                .file = {.major = map.major, .minor = map.minor, .inode = map.inode},
                .name = map.name};
    ADD_FAILURE() << "it is not mapped";
    return {};
  }

  MappedAt at;

 private:
  static constexpr std::size_t kPage = 4096;
  void* page_ = MAP_FAILED;
};

// /proc/PID/map_files is for root.
class MappedFileTest : public test::RootTest {
 protected:
  MappedFileTest() { fs::copy_file("/proc/self/exe", program_); }
  // The times of files have a tick of some milliseconds.
  void chmod_until_ctime_is_not(WallTime before) const {
    struct stat status {};
    do {
      ASSERT_EQ(::chmod(program_.c_str(), 0700), 0);
      ASSERT_EQ(::stat(program_.c_str(), &status), 0);
    } while (std::chrono::seconds(status.st_ctim.tv_sec) + std::chrono::nanoseconds(status.st_ctim.tv_nsec) == before);
  }
  TempTree tree_;
  const std::string program_ = tree_.root() + "/program";
};

TEST_F(MappedFileTest, EveryWayFindsIt) {
  const MappedPage page(program_);
  for (const auto& read : {read_mapped_file, read_by_map_files, read_by_path}) {
    const auto facts = read(page.at);
    ASSERT_TRUE(facts) << facts.error().what;
    EXPECT_THAT(facts->build_id, SizeIs(20));
    EXPECT_EQ(facts->build_id, own_build_id());
    EXPECT_THAT(facts->host_path, IsEmpty());
  }
}

// Its content is read again only if its size or times are others.
TEST_F(MappedFileTest, AKnownOneIsNotReadAgain) {
  const MappedPage page(program_);
  const auto first = read_mapped_file(page.at);
  ASSERT_TRUE(first) << first.error().what;
  MappedAt again = page.at;
  again.known = first->stamp;
  for (const auto& read : {read_mapped_file, read_by_map_files, read_by_path}) {
    const auto facts = read(again);
    ASSERT_TRUE(facts) << facts.error().what;
    EXPECT_TRUE(facts->unchanged);
    EXPECT_THAT(facts->build_id, IsEmpty());
    EXPECT_GE(facts->looked.monotonic_ns, first->looked.monotonic_ns);
  }
  const auto other = read_file("/bin/true", 512U << 20U);
  const auto file = open_file(program_, O_WRONLY | O_TRUNC);
  ASSERT_TRUE(other && file && write_all(file->get(), *other)) << "in place";
  const auto facts = read_mapped_file(again);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_FALSE(facts->unchanged);
  EXPECT_NE(facts->build_id, first->build_id);
  EXPECT_FALSE(facts->stamp_proves) << "it was written just now";
  EXPECT_EQ(facts->stamp.inode, first->stamp.inode);
}

TEST_F(MappedFileTest, ADeletedOneIsFoundByMapFiles) {
  const MappedPage page(program_);
  fs::remove(program_);
  EXPECT_EQ(read_by_map_files(page.at)->build_id, own_build_id());
  EXPECT_FALSE(read_by_path(page.at));
  EXPECT_EQ(read_mapped_file(page.at)->build_id, own_build_id());
}

TEST_F(MappedFileTest, AReplacedOneKeepsItsOwnBuildId) {
  const MappedPage page(program_);
  fs::copy_file("/bin/true", program_ + ".new");
  fs::rename(program_ + ".new", program_);
  EXPECT_EQ(read_mapped_file(page.at)->build_id, own_build_id());
  EXPECT_FALSE(read_by_path(page.at)) << "its path leads to another file";
}

// After the record, another file was mapped at the same address, or the process exited.
TEST_F(MappedFileTest, AnotherFileThereIsNotBelieved) {
  const MappedPage page(program_);
  for (auto wrong : {FileIdentity{page.at.file.major, page.at.file.minor, page.at.file.inode + 1, 0},
                     FileIdentity{page.at.file.major + 1, page.at.file.minor, page.at.file.inode, 0}}) {
    MappedAt at = page.at;
    at.file = wrong;
    for (const auto& read : {read_by_map_files, read_by_path}) EXPECT_FALSE(read(at));
    const auto facts = read_mapped_file(at);
    ASSERT_TRUE(facts) << facts.error().what;
    EXPECT_FALSE(facts->was_read);
    EXPECT_THAT(facts->build_id, IsEmpty());
    EXPECT_EQ(facts->host_path, program_ + " (not the host's)");
  }
  MappedAt gone = page.at;
  gone.pid = 0x7fffffff;
  EXPECT_FALSE(read_by_map_files(gone));
  EXPECT_EQ(read_mapped_file(gone)->build_id, own_build_id()) << "through the host's root";
  gone.name += " (deleted)";
  gone.file.inode += 1;
  EXPECT_FALSE(read_mapped_file(gone)) << "the kernel has said it";
}

// perf takes what the name leads to for a file without a build-id. The process may have ended.
TEST_F(MappedFileTest, ANameLeadsToTheFileUntilItIsReplacedOrOverwritten) {
  MappedAt at = MappedPage(program_).at;
  at.known = read_mapped_file(at)->stamp;
  at.by_name = true;
  at.pid = 0;
  const auto path = [&] {
    bool has_answered = false;
    const auto facts = read_mapped_file_in_steps(at, [&] { has_answered = true; });
    EXPECT_TRUE(facts && !facts->was_read);
    EXPECT_TRUE(has_answered) << "no process is asked";
    return facts ? facts->host_path : "";
  };
  const std::string misled = program_ + " (not the host's)";
  EXPECT_EQ(path(), "");
  fs::rename(program_, program_ + ".old");
  EXPECT_EQ(path(), misled) << "nothing is there";
  fs::copy_file("/bin/true", program_);
  EXPECT_EQ(path(), misled) << "another one is";
  fs::rename(program_ + ".old", program_);
  ASSERT_NO_FATAL_FAILURE(chmod_until_ctime_is_not(at.known->changed));
  EXPECT_EQ(path(), program_ + " (not verified)") << "a write may have changed its ctime";
  const MappedAt again = MappedPage(program_).at;
  at.known = read_mapped_file(again)->stamp;
  EXPECT_EQ(path(), "") << "as it is now";
  const auto file = open_file(program_, O_WRONLY | O_APPEND);
  ASSERT_TRUE(file && write_all(file->get(), "more"));
  EXPECT_EQ(path(), misled) << "in place";
}

// `cp -p` and `rsync --inplace -t` do this.
TEST_F(MappedFileTest, ANameIsNotVerifiedOnceItsFileCanHaveBeenOverwritten) {
  MappedAt at = MappedPage(program_).at;
  at.known = read_mapped_file(at)->stamp;
  at.by_name = true;
  const fs::file_time_type modified = fs::last_write_time(program_);
  const auto file = open_file(program_, O_WRONLY);
  ASSERT_TRUE(file && write_all(file->get(), "other content"));
  fs::last_write_time(program_, modified);
  ASSERT_NO_FATAL_FAILURE(chmod_until_ctime_is_not(at.known->changed));
  const auto facts = read_mapped_file(at);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_EQ(facts->host_path, program_ + " (not verified)");
}

// In /var/tmp: Debian 13 has a tmpfs on /tmp, which has no generations.
TEST_F(MappedFileTest, TheGenerationIsComparedWhereThereIsOne) {
  const std::string program = "/var/tmp/flight-generation-" + std::to_string(::getpid());
  fs::copy_file(program_, program, fs::copy_options::overwrite_existing);
  const MappedPage page(program);
  const auto file = open_file(program, O_RDONLY);
  const std::shared_ptr<void> removed(nullptr, [&](void* /*nothing*/) { fs::remove(program); });
  unsigned int generation = 0;
  if (::ioctl(file->get(), FS_IOC_GETVERSION, &generation) != 0 || generation == 0)
    GTEST_SKIP() << "this file system has no generations";
  MappedAt at = page.at;
  at.file.generation = generation;
  EXPECT_TRUE(read_by_map_files(at));
  EXPECT_TRUE(read_by_path(at));
  at.file.generation = generation + 1;
  EXPECT_FALSE(read_by_map_files(at));
  EXPECT_FALSE(read_by_path(at));
}

TEST_F(MappedFileTest, AFifoOrALinkOutOfTheRootIsNotOpened) {
  MappedPage page(program_);
  page.at.pid = 0x7fffffff;
  fs::remove(program_);
  ASSERT_EQ(::mkfifo(program_.c_str(), 0600), 0);
  struct stat status {};
  ASSERT_EQ(::stat(program_.c_str(), &status), 0);
  page.at.file.inode = status.st_ino;
  EXPECT_FALSE(read_mapped_file(page.at)) << "and it did not wait for a writer";
}

// A child in another root; it is killed at the end.
class ChrootedChild {
 public:
  ChrootedChild(const std::string& root, const std::string& program) {
    int ready[2] = {};
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::chroot(root.c_str()) != 0 || ::chdir("/") != 0) ::_exit(1);
      const int file = ::open(program.c_str(), O_RDONLY | O_CLOEXEC);
      address_ = reinterpret_cast<std::uintptr_t>(::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0));
      if (::write(ready[1], &address_, sizeof address_) != sizeof address_) ::_exit(1);
      ::pause();
      ::_exit(0);
    }
    EXPECT_EQ(::read(ready[0], &address_, sizeof address_), static_cast<ssize_t>(sizeof address_));
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ChrootedChild(const ChrootedChild&) = delete;
  ChrootedChild& operator=(const ChrootedChild&) = delete;
  ~ChrootedChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  [[nodiscard]] MappedAt mapping() const { return MappedPage::find(static_cast<std::uint32_t>(pid_), address_); }

 private:
  pid_t pid_ = -1;
  std::uintptr_t address_ = 0;
};

// docs/symbols.md: both have the host's path. The kernel's record has "/program".
TEST_F(MappedFileTest, InAChrootItHasTheHostsPath) {
  const ChrootedChild child(tree_.root(), "/program");
  MappedAt at = child.mapping();
  EXPECT_EQ(at.name, program_) << "/proc/PID/maps has the reader's view";
  EXPECT_THAT(read_mapped_file(at)->host_path, IsEmpty());
  at.name = "/program";
  const auto facts = read_mapped_file(at);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_EQ(facts->host_path, program_);
  EXPECT_EQ(facts->build_id, own_build_id());
  fs::remove(program_);
  EXPECT_THAT(read_mapped_file(at)->host_path, IsEmpty()) << "it leads nowhere";
}

// A mount that the host sees; it is removed with the object.
class Mounted {
 public:
  Mounted(const char* type, std::string place, const std::string& options)
      : place_(std::move(place)), there_(::mount(type, place_.c_str(), type, 0, options.c_str()) == 0) {}
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;
  ~Mounted() {
    if (there_) {
      EXPECT_EQ(::umount(place_.c_str()), 0) << "something holds it";
    }
  }
  [[nodiscard]] bool there() const { return there_; }

 private:
  std::string place_;
  bool there_;
};

// Another root, in which a program has the same path as a file of the host.
class InAnotherRoot : public MappedFileTest {
 protected:
  // Checks the path for a process that started before flightd (a scan has the reader's view) and for one that started
  // later.
  void expect_path(const std::string& name, const std::string& wanted) {
    fs::create_directories(fs::path(root_ + name).parent_path());
    fs::copy_file("/proc/self/exe", root_ + name, fs::copy_options::overwrite_existing);
    const ChrootedChild child(root_, name);
    MappedAt at = child.mapping();
    EXPECT_EQ(at.name, root_ + name);
    EXPECT_EQ(path_of(at), wanted) << "scanned";
    at.name = name;
    EXPECT_EQ(path_of(at), wanted) << "recorded";
  }
  const std::string root_ = tree_.root() + "/root";

 private:
  // As in a snapshot.
  static std::string path_of(const MappedAt& at) {
    const auto facts = read_mapped_file(at);
    if (!facts) return facts.error().what;
    EXPECT_EQ(facts->build_id, own_build_id());
    return facts->host_path.empty() ? at.name : facts->host_path;
  }
};

// perf finds it also when the other root is gone.
TEST_F(InAnotherRoot, ItKeepsItsNameIfTheHostHasTheSameBuild) {
  expect_path(program_, program_);
  fs::create_symlink(program_, tree_.root() + "/link");
  expect_path(tree_.root() + "/link", tree_.root() + "/link");
}

TEST_F(InAnotherRoot, ItHasTheHostsPathIfTheHostHasAnotherBuild) {
  fs::copy_file("/bin/true", program_, fs::copy_options::overwrite_existing);
  expect_path(program_, root_ + program_);
  fs::resize_file(program_, 0);
  expect_path(program_, root_ + program_);
  fs::remove(program_);
  expect_path(program_, root_ + program_);
  ASSERT_EQ(::mkfifo(program_.c_str(), 0600), 0);
  expect_path(program_, root_ + program_);
}

// A relative path of a layer counts as one that waits for a server.
TEST_F(InAnotherRoot, TheHostsFileIsNotOpenedWhereItMayWait) {
  for (const char* name : {"/upper", "/scratch", "/merged", "/lower"}) fs::create_directory(tree_.root() + name);
  const std::string name = tree_.root() + "/merged/program";
  fs::copy_file(program_, name);
  fs::copy_file(program_, tree_.root() + "/lower/program");
  expect_path(name, name);
  const fs::path before = fs::current_path();
  fs::current_path(tree_.root());
  const Mounted overlay("overlay", tree_.root() + "/merged",
                        fmt::format("lowerdir=lower,upperdir={0}/upper,workdir={0}/scratch", tree_.root()));
  fs::current_path(before);
  if (!overlay.there()) GTEST_SKIP() << "no overlayfs here";
  EXPECT_TRUE(fs::exists(name)) << "the same build";
  expect_path(name, root_ + name);
}

// Reading some files of /proc has an effect, and the process chooses the name.
TEST_F(InAnotherRoot, TheHostsFileIsNotReadInProc) {
  const std::string name = fmt::format("/proc/{}/personality", ::getpid());
  const UniqueFd watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ASSERT_GE(::inotify_add_watch(watch.get(), name.c_str(), IN_ACCESS), 0);
  expect_path(name, root_ + name);
  std::array<char, 4096> events{};
  EXPECT_EQ(::read(watch.get(), events.data(), events.size()), -1) << "it was read";
  EXPECT_TRUE(read_file(name, 4096));
  EXPECT_GT(::read(watch.get(), events.data(), events.size()), 0) << "the watch sees it";
}

// A process in a container or chroot has exited, and the host has another program of the same name.
TEST_F(MappedFileTest, ANameThatLeadsToAnotherFileOfTheHostIsNotLeftAsItIs) {
  MappedAt at = MappedPage(program_).at;
  at.pid = 0x7fffffff;
  for (const char* name : {"/bin/true", "/etc/passwd/nothing", "/no/such/program"}) {
    at.name = name;
    const auto facts = read_mapped_file(at);
    ASSERT_TRUE(facts) << facts.error().what;
    EXPECT_FALSE(facts->was_read);
    EXPECT_EQ(facts->host_path, std::string(name) + " (not the host's)");
  }
}

// A file on an unknown mount may be served by a process that does not respond, so it is not opened.
TEST_F(MappedFileTest, AFileOnAMountThatIsGoneIsNotOpened) {
  const std::string place = tree_.root() + "/mount";
  fs::create_directory(place);
  ASSERT_EQ(::mount("tmpfs", place.c_str(), "tmpfs", 0, ""), 0);
  fs::copy_file(program_, place + "/program");
  const MappedPage page(place + "/program");
  EXPECT_EQ(read_mapped_file(page.at)->build_id, own_build_id());
  ASSERT_EQ(::umount2(place.c_str(), MNT_DETACH), 0);
  const auto facts = read_mapped_file(page.at);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_FALSE(facts->was_read);
  EXPECT_THAT(facts->served_by, AllOf(HasSubstr("mount"), HasSubstr("gone")));
}

// A container: its mounts are its own. A process in a chroot there sees none of them.
class ChrootInAContainer {
 public:
  explicit ChrootInAContainer(const std::string& place) {
    int ready[2] = {};
    EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    first_ = ::fork();
    if (first_ == 0) {
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("tmpfs", place.c_str(), "tmpfs", 0, "") != 0 || ::mkdir((place + "/inside").c_str(), 0755) != 0)
        ::_exit(1);
      fs::copy_file("/proc/self/exe", place + "/inside/program");
      if (::chroot(place.c_str()) != 0 || ::chdir("/") != 0) ::_exit(1);
      const pid_t second = ::fork();
      if (second != 0) ::pause();
      if (::chroot("/inside") != 0 || ::chdir("/") != 0) ::_exit(1);
      const int file = ::open("/program", O_RDONLY | O_CLOEXEC);
      const Said said{::getpid(), reinterpret_cast<std::uintptr_t>(
                                      ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0))};
      if (::write(ready[1], &said, sizeof said) != sizeof said) ::_exit(1);
      ::pause();
    }
    EXPECT_EQ(::read(ready[0], &said_, sizeof said_), static_cast<ssize_t>(sizeof said_));
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ChrootInAContainer(const ChrootInAContainer&) = delete;
  ChrootInAContainer& operator=(const ChrootInAContainer&) = delete;
  ~ChrootInAContainer() {
    if (said_.pid > 0) ::kill(said_.pid, SIGKILL);
    end_first();
  }
  void end_first() {
    if (first_ <= 0) return;
    ::kill(first_, SIGKILL);
    ::waitpid(std::exchange(first_, -1), nullptr, 0);
  }
  [[nodiscard]] MappedAt mapping() const {
    MappedAt at = MappedPage::find(static_cast<std::uint32_t>(said_.pid), said_.address);
    at.name = "/program";  // as the kernel records it
    return at;
  }

 private:
  struct Said {
    pid_t pid = -1;
    std::uintptr_t address = 0;
  };
  pid_t first_ = -1;
  Said said_;
};

TEST_F(MappedFileTest, InAChrootOfAContainerItIsRead) {
  const std::string place = tree_.root() + "/container";
  fs::create_directory(place);
  ChrootInAContainer inside(place);
  const MappedAt at = inside.mapping();
  auto facts = read_mapped_file(at);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_EQ(facts->served_by, "");
  EXPECT_EQ(facts->build_id, own_build_id());
  // Now no process sees the mount any more: the chroot may be on a disk that waits.
  inside.end_first();
  facts = read_mapped_file(at);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_FALSE(facts->was_read);
  EXPECT_THAT(facts->served_by, AllOf(HasSubstr("mount"), HasSubstr("outside of a chroot")));
}

TEST_F(MappedFileTest, AMountThatOnlyAnEndedProcessSawIsNotCalledGone) {
  MappedAt at = MappedPage(program_).at;
  at.pid = 0x7fffffff;
  at.file.major = 4095;
  const auto facts = read_mapped_file(at);
  ASSERT_TRUE(facts) << facts.error().what;
  EXPECT_THAT(facts->served_by, AllOf(HasSubstr("mount of a process"), HasSubstr("ended"), Not(HasSubstr("gone"))));
}

// A memfd lies on a mount of the kernel that no process sees.
TEST_F(MappedFileTest, AMemfdIsRead) {
  const UniqueFd memfd(::memfd_create("program", MFD_CLOEXEC));
  const auto bytes = read_file("/proc/self/exe", 512U << 20U);
  ASSERT_TRUE(bytes && write_all(memfd.get(), *bytes));
  const MappedPage page(fmt::format("/proc/self/fd/{}", memfd.get()));
  EXPECT_EQ(read_mapped_file(page.at)->build_id, own_build_id());
}

TEST(Mounts, TheLongestAndNewestMountPointWins) {
  constexpr std::string_view kMounts =
      "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "30 27 0:25 / /mnt rw shared:1 - tmpfs t rw\n"
      "31 27 0:26 / /mnt rw shared:1 master:2 - fuse.x f rw\n"
      "32 27 0:27 / /mnt/a\\040b rw - nfs4 n rw\n";
  const auto device = [&](std::string_view path) { return mount_of(kMounts, path)->device; };
  EXPECT_EQ(device("/bin/true"), "254:0");
  EXPECT_EQ(device("/mntx"), "254:0");
  EXPECT_EQ(device("/mnt/x"), "0:26");
  EXPECT_EQ(device("/mnt/a b/c"), "0:27");
  EXPECT_EQ(mount_of(kMounts, "/mnt/a b")->type, "nfs4");
  EXPECT_FALSE(mount_of("", "/x"));
  EXPECT_FALSE(mount_of("27 1 254:0 / /", "/x")) << "cut";
}

TEST(Mounts, AnOverlayWaitsAsItsLayersDo) {
  constexpr std::string_view kHost =
      "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "30 27 0:25 / /net rw - nfs4 n rw\n"
      "31 27 0:26 / /auto rw - autofs a rw\n"
      "32 27 0:27 / /one rw - overlay o rw,lowerdir=/var/a:/var/b,upperdir=/var/c,workdir=/var/d\n"
      "33 27 0:28 / /two rw - overlay o rw,lowerdir=/var/a:/net/b,upperdir=/var/c,workdir=/var/d\n"
      "34 27 0:29 / /three rw - overlay o rw,lowerdir=l/A:l/B,upperdir=c\n"
      "35 27 0:30 / /four rw - overlay o rw,lowerdir=/two/x:/var/a\n";
  const auto waits = [&](std::string_view path) { return waits_for(kHost, *mount_of(kHost, path)); };
  EXPECT_EQ(waits("/bin/true"), "");
  EXPECT_EQ(waits("/net/x"), "nfs4");
  EXPECT_EQ(waits("/auto/x"), "autofs");
  EXPECT_EQ(waits("/one/x"), "");
  EXPECT_EQ(waits("/two/x"), "overlay on nfs4");
  EXPECT_THAT(waits("/three/x"), AllOf(StartsWith("overlay on "), HasSubstr("unknown layer")));
  EXPECT_EQ(waits("/four/x"), "overlay on overlay on nfs4");
}

// A layer is where it was before the overlay covered it.
TEST(Mounts, ALayerCanLieUnderItsOwnMount) {
  constexpr std::string_view kHost =
      "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "30 27 0:25 / /net rw - nfs4 n rw\n"
      "31 27 0:26 / /usr rw - overlay o ro,lowerdir=/run/more:/usr\n"
      "32 30 0:27 / /net rw - overlay o ro,lowerdir=/net\n"
      "33 27 0:28 / /secret rw - ecryptfs /secret rw,ecryptfs_sig=x\n";
  const auto waits = [&](std::string_view path) { return waits_for(kHost, *mount_of(kHost, path)); };
  EXPECT_EQ(waits("/usr/bin/true"), "");
  EXPECT_EQ(waits("/net/x"), "overlay on nfs4");
  EXPECT_EQ(waits("/secret/x"), "");
}

TEST(Mounts, EcryptfsWaitsAsWhatIsBelowIt) {
  constexpr std::string_view kHost =
      "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "30 27 0:25 / /net\\040a rw - cifs n rw\n"
      "31 27 0:26 / /one rw - ecryptfs /home/.one rw,ecryptfs_sig=x\n"
      "32 27 0:27 / /two rw - ecryptfs /net\\040a/.two rw,ecryptfs_sig=x\n"
      "33 27 0:28 / /three rw - ecryptfs .three rw,ecryptfs_sig=x\n"
      "34 27 0:29 / /four rw - overlay o rw,lowerdir=/two/x:/var/a\n";
  const auto waits = [&](std::string_view path) { return waits_for(kHost, *mount_of(kHost, path)); };
  EXPECT_EQ(waits("/one/x"), "");
  EXPECT_EQ(waits("/two/x"), "ecryptfs on cifs");
  EXPECT_THAT(waits("/three/x"), AllOf(StartsWith("ecryptfs on "), HasSubstr("unknown layer")));
  EXPECT_EQ(waits("/four/x"), "overlay on ecryptfs on cifs");
}

// The names of register_filesystem(9).
TEST(Mounts, WhatWaitsForAServer) {
  for (const char* type : {"nfs",   "nfs4",     "cifs",   "smb3",   "9p",     "ceph",   "afs",     "coda",
                           "pvfs2", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "lustre", "gpfs",    "beegfs",
                           "panfs", "wekafs",   "ocfs2",  "gfs2",   "autofs", "fuse",   "fuseblk", "fuse.sshfs"})
    EXPECT_TRUE(is_served(type)) << type;
  for (const char* type : {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "ecryptfs", "squashfs", "erofs", "zfs", "vfat"})
    EXPECT_FALSE(is_served(type)) << type;
}

TEST(Mounts, AMountIsFoundByItsDevice) {
  constexpr std::string_view kMounts =
      "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
      "29 27 0:24 / /other rw - tmpfs 0:25 rw\n"
      "30 27 0:25 / /mnt rw shared:1 - tmpfs t rw\n";
  EXPECT_EQ(mount_with(kMounts, "254:0")->type, "ext4");
  EXPECT_EQ(mount_with(kMounts, "0:25")->source, "t");
  EXPECT_FALSE(mount_with(kMounts, "0:2"));
  EXPECT_FALSE(mount_with(kMounts, "0:250"));
}

TEST(Roots, APathIsFoundAsTheKernelFindsIt) {
  TempTree tree;
  const std::string base = tree.root();
  fs::create_directories(base + "/a/b");
  fs::copy_file("/bin/true", base + "/a/b/file");
  fs::create_symlink("b", base + "/a/relative");
  fs::create_symlink(base + "/a", base + "/absolute");
  fs::create_symlink("loop", base + "/loop");
  const Root root{"/", "self"};
  for (const char* path : {"/a/b/file", "/a/./b//file", "/a/b/../relative/file", "/absolute/relative/file"}) {
    struct stat found {
    }, wanted{};
    const UniqueFd place = find_below(root, base + path);
    ASSERT_TRUE(place) << path;
    ASSERT_EQ(::fstat(place.get(), &found), 0);
    ASSERT_EQ(::stat((base + path).c_str(), &wanted), 0);
    EXPECT_EQ(found.st_ino, wanted.st_ino) << path;
  }
  EXPECT_FALSE(find_below(root, base + "/loop/x"));
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(find_below(root, base + "/a/none"));
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(find_below(root, base + "/a/b/file/x"));
  EXPECT_EQ(errno, ENOTDIR);
}

// Runs `body` with an overlay of the tree at /merged, whose lower directory has the program. With another file system
// below, stat(2) returns device numbers that differ from the records'.
template <typename Body>
void with_overlay(const TempTree& tree, const std::string& program, bool other_below, const Body& body) {
  for (const char* name : {"/upper", "/scratch", "/merged", "/lower"}) fs::create_directory(tree.root() + name);
  std::optional<Mounted> below;
  if (other_below) below.emplace("tmpfs", tree.root() + "/lower", "");
  fs::copy_file(program, tree.root() + "/lower/program");
  const Mounted overlay("overlay", tree.root() + "/merged",
                        fmt::format("lowerdir={0}/lower,upperdir={0}/upper,workdir={0}/scratch", tree.root()));
  if (!overlay.there()) GTEST_SKIP() << "no overlayfs here";
  body(tree.root() + "/merged");
}

class OnOverlayfs : public MappedFileTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(, OnOverlayfs, testing::Bool());

TEST_P(OnOverlayfs, EveryWayFindsIt) {
  with_overlay(tree_, program_, GetParam(), [](const std::string& merged) {
    const MappedPage page(merged + "/program");
    EXPECT_EQ(read_by_map_files(page.at)->build_id, own_build_id());
    const auto by_path = read_by_path(page.at);
    ASSERT_TRUE(by_path) << by_path.error().what;
    EXPECT_EQ(by_path->build_id, own_build_id());
    fs::remove(merged + "/program");
    EXPECT_EQ(read_by_map_files(page.at)->build_id, own_build_id());
    EXPECT_FALSE(read_by_path(page.at));
  });
}

TEST_P(OnOverlayfs, InAChrootItHasTheHostsPath) {
  with_overlay(tree_, program_, GetParam(), [](const std::string& merged) {
    const ChrootedChild child(merged, "/program");
    MappedAt at = child.mapping();
    EXPECT_EQ(at.name, merged + "/program");
    at.name = "/program";
    const auto facts = read_mapped_file(at);
    ASSERT_TRUE(facts) << facts.error().what;
    EXPECT_EQ(facts->host_path, merged + "/program");
    EXPECT_EQ(facts->build_id, own_build_id());
  });
}

}  // namespace
}  // namespace flight
