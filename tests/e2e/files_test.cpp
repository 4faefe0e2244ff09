// SPDX-License-Identifier: Apache-2.0
// Other people's programs and disks: flightd reads the build-id of every program that runs. No disk, mount or chroot
// can block flightd, and flightd keeps no mount busy. The disk that hangs is a real FUSE mount with a program that runs
// from it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <sstream>
#include <utility>
#include <vector>

#include "libcore/broker/build_ids.hpp"
#include "libcore/sysinfo/mapped_file.hpp"
#include "tests/e2e/hung_disk.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

// The CPU time of a process with one thread (Documentation/scheduler/sched-stats.rst).
std::uint64_t ran_ns(pid_t pid) { return std::stoull("0" + read_text(fmt::format("/proc/{}/schedstat", pid))); }

// The bytes of a build-id in hex.
std::string raw_build_id(const std::string& build_id) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < build_id.size(); i += 2)
    bytes += static_cast<char>(std::stoi(build_id.substr(i, 2), nullptr, 16));
  return bytes;
}

constexpr std::string_view kHotFunction = "hot_function_for_flightd";

// Replaces the first letter of the burner's function by an H.
void rename_hot_function(std::string& program) {
  for (std::size_t at = program.find(kHotFunction); at != std::string::npos; at = program.find(kHotFunction, at))
    program[at] = 'H';
}

using FilesLong = Files;

TEST_F(Files, AProgramDeletedBeforeTheStartHasItsBuildId) {
  const std::string program = folder_ / "scratch/gone";
  fs::copy_file(burner_, program);
  const Child child = burn(program);
  fs::remove(program);
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  // The disk may be slow. A snapshot that is taken before it answers has no build-id.
  const std::string wanted = build_id_of(burner_) + " " + program + " (deleted)";
  EXPECT_TRUE(wait_until([&] { return build_ids(daemon_.snapshot()).find(wanted) != std::string::npos; }, 20s))
      << build_ids(daemon_.snapshot());
}

// The program starts long after flightd, and exits and is deleted long before the snapshot.
TEST_F(Files, AProgramThatEndedAndWasDeletedHasItsBuildId) {
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  const std::string program = folder_ / "scratch/brief";
  fs::copy_file(burner_, program);
  EXPECT_EQ(burn(program, 1.5).finish(20s).exit_status, 0);
  fs::remove(program);
  EXPECT_THAT(build_ids(daemon_.snapshot()), HasSubstr(build_id_of(burner_) + " " + program));
}

// A pause is a gap: afterwards the program is looked up in /proc, which says "(deleted)".
TEST_F(Files, AProgramThatWasDeletedKeepsItsBuildIdOverAPause) {
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  const std::string program = folder_ / "scratch/kept";
  fs::copy_file(burner_, program);
  const Child child = burn(program);
  const std::string wanted = build_id_of(burner_) + " " + program + "\n";
  ASSERT_TRUE(wait_until([&] { return build_ids(daemon_.snapshot()).find(wanted) != std::string::npos; }, 20s));
  fs::remove(program);
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  ASSERT_TRUE(child.runs_for(1s));
  const Json sidecar = daemon_.snapshot({"--last", "700ms"});
  EXPECT_THAT(build_ids(sidecar), HasSubstr(wanted));
  std::size_t samples = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.pid != child.pid() || sample.dso.starts_with("[kernel") || sample.dso == "[vdso]") continue;
    EXPECT_EQ(sample.dso, program) << sample.line;
    ++samples;
  }
  EXPECT_GT(samples, 20U);
}

// A program that runs for a year maps nothing anew. More files than the broker knows have been mapped since.
TEST_F(FilesLong, AProgramThatRunsHasItsBuildIdAfterManyOtherFiles) {
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  const std::string program = folder_ / "scratch/old";
  fs::copy_file(burner_, program);
  const Child child = burn(program, 120);
  const std::string wanted = build_id_of(burner_) + " " + program;
  ASSERT_TRUE(wait_until([&] { return build_ids(daemon_.snapshot()).find(wanted) != std::string::npos; }, 20s));
  fs::create_directory(folder_ / "scratch/many");
  constexpr std::size_t kProcesses = 20, kFilesOfEach = 900;
  static_assert(kProcesses * kFilesOfEach > kMaxKnownFiles);
  Child many = Child::start({folder_.load("many_files"), folder_ / "scratch/many", std::to_string(kProcesses)});
  ASSERT_TRUE(many.wait_for_line("mapped", 120s)) << many.err();
  EXPECT_THAT(build_ids(daemon_.snapshot()), HasSubstr(wanted));
}

// The sum of these fields of proc_pid_stat(5), which begin with 0 behind the name, in seconds.
double stat_seconds(const std::string& stat, std::initializer_list<std::size_t> fields) {
  const std::string text = read_text(stat);
  std::istringstream words(text.substr(std::min(text.size(), text.rfind(") ") + 2)));
  std::vector<std::string> all;
  for (std::string word; words >> word;) all.push_back(word);
  double ticks = 0;
  for (const std::size_t field : fields)
    if (field < all.size()) ticks += std::stod(all[field]);
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}
constexpr std::size_t kUserTime = 11, kSystemTime = 12, kUserTimeOfEnded = 13, kSystemTimeOfEnded = 14;

// The CPU time of what only reads files for the broker: the helpers, also those that have ended, and the threads that
// wait for them.
double reading_seconds(pid_t broker) {
  double seconds = stat_seconds(fmt::format("/proc/{}/stat", broker), {kUserTimeOfEnded, kSystemTimeOfEnded});
  for (const pid_t helper : children_of(broker))
    seconds += stat_seconds(fmt::format("/proc/{}/stat", helper), {kUserTime, kSystemTime});
  for (const auto& task : fs::directory_iterator(fmt::format("/proc/{}/task", broker)))
    if (read_text(task.path().string() + "/comm") == "read\n")
      seconds += stat_seconds(task.path().string() + "/stat", {kUserTime, kSystemTime});
  return seconds;
}

// A disk that gives each file a new inode number.
class NewDisk {
 public:
  explicit NewDisk(std::string path) : path_(std::move(path)) {
    fs::create_directory(path_);
    EXPECT_TRUE(mount_tmpfs(path_, "mode=777"));
  }
  NewDisk(const NewDisk&) = delete;
  NewDisk& operator=(const NewDisk&) = delete;
  ~NewDisk() { umount2(path_.c_str(), MNT_DETACH); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// 4 s at once for the user who does it, and 1 % of a CPU over time: by user, so that all others have their build-ids.
TEST_F(FilesLong, AUserWhoMapsNewFilesForEverTakesOnePercentAndNobodyElseWaits) {
  constexpr double kSeconds = 90, kAtOnce = 4;
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  const NewDisk disk(folder_ / "scratch/flood");
  const auto as_user = [&](int id, const Arguments& command) {
    Arguments all{"setpriv", fmt::format("--reuid={}", id), "--clear-groups", "--"};
    all.insert(all.end(), command.begin(), command.end());
    return start_load(all);
  };
  const auto has_build_id = [&](const std::string& program) {
    return [this, wanted = build_id_of(burner_) + " " + program] {
      return build_ids(daemon_.snapshot()).find(wanted) != std::string::npos;
    };
  };
  // What the start costs counts for root.
  const Child first = burn(burner_, 300);
  ASSERT_TRUE(wait_until(has_build_id(burner_), 20s));
  const Stopwatch watch;
  const double before = reading_seconds(daemon_.broker_pid());
  Child flood = as_user(64'901, {folder_.load("file_flood"), disk.path()});
  ASSERT_TRUE(flood.wait_for_line("started")) << flood.err();
  const auto waiting = [&] { return daemon_.status()["self"].value("build_ids_waiting", 0); };
  // Until 3 s are used up, it has a quarter of a CPU, and its files only wait for that.
  EXPECT_TRUE(wait_until([&] { return waiting() > 100; }, 60s)) << "its files wait";

  const std::string other = folder_ / "scratch/other";
  fs::copy_file(burner_, other);
  const Child program = as_user(64'902, {other, std::to_string(load_cpu()), "300"});
  ASSERT_TRUE(program.wait_for_line("started")) << program.err();
  EXPECT_TRUE(wait_until(has_build_id(other), 20s)) << "another user's does not";
  const std::string roots = folder_ / "scratch/roots";
  fs::copy_file(burner_, roots);
  const Child of_root = burn(roots, 300);
  EXPECT_TRUE(wait_until(has_build_id(roots), 20s)) << "nor root's";

  EXPECT_TRUE(wait_until([&] { return watch.gone_by() >= std::chrono::duration<double>(kSeconds); }, 120s));
  EXPECT_TRUE(flood.running()) << flood.err();
  EXPECT_GT(waiting(), 100);
  // At each look the newest 64 files were queued, and the others only counted.
  EXPECT_THAT(daemon_.snapshot().dump(),
              testing::AllOf(HasSubstr("build-id unread, later"), HasSubstr("more files were mapped than")));
  const double used = reading_seconds(daemon_.broker_pid()) - before;
  const double seconds = std::chrono::duration<double>(watch.gone_by()).count();
  fmt::print("{:.2f} s of a CPU for reading files, in {:.0f} s\n", used, seconds);
  EXPECT_LE(used, kAtOnce + seconds / 100 + 1) << "and what the other programs' files took";
}

// The build-id belongs to the file that runs, not to the file that has its path now.
TEST_F(Files, AReplacedProgramHasNoOthersBuildId) {
  const std::string program = folder_ / "scratch/upgraded";
  fs::copy_file(burner_, program);
  const Child before = burn(program);
  fs::copy_file(folder_.load("closer"), program + ".new");
  fs::rename(program + ".new", program);
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  ASSERT_TRUE(before.runs_for(200ms));
  std::string list;
  EXPECT_TRUE(wait_until(
      [&] {
        list = build_ids(daemon_.snapshot());
        return list.find(build_id_of(burner_)) != std::string::npos;
      },
      20s))
      << list;
  EXPECT_THAT(list, Not(HasSubstr(build_id_of(folder_.load("closer")))));
}

// A program without a build-id is found by its path, so the snapshot must not have a path that leads to another one.
class ReplacedPrograms : public Files {
 protected:
  // A burner whose function has another name if `other` is set.
  void make(const std::string& path, bool other) const {
    std::string bytes = read_text(burner_);
    const std::string note = std::string("GNU\0", 4) + raw_build_id(build_id_of(burner_));
    const std::size_t at = bytes.find(note);
    ASSERT_NE(at, std::string::npos);
    bytes[at - 4] = 0x7f;  // the type of the note
    if (other) rename_hot_function(bytes);
    write_text(path, bytes);
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
    ASSERT_EQ(build_id_of(path), "");
  }
  void expect_not_named(const std::string& program, int pid) {
    expect_marked(program, pid, " (not the host's)",
                  "they contain none, and their path leads to another file or to none");
  }
  // `mark`: behind the path of its file; `reason`: in the sidecar.
  void expect_marked(const std::string& program, int pid, const std::string& mark, const std::string& reason) {
    const Json sidecar = daemon_.snapshot();
    std::size_t samples = 0;
    for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
      if (sample.pid != pid || !sample.dso.starts_with(program)) continue;
      ++samples;
      EXPECT_EQ(sample.dso, program + mark) << sample.line;
      EXPECT_FALSE(sample.symbol.ends_with("ot_function_for_flightd")) << sample.line;
    }
    EXPECT_GT(samples, 10U);
    EXPECT_THAT(sidecar.dump(), HasSubstr(reason));
  }
  const std::string program_ = folder_ / "scratch/plain", other_ = folder_ / "scratch/other";
};

TEST_F(ReplacedPrograms, AProgramThatRunsHasNoOthersFunctions) {
  make(program_, false);
  make(other_, true);
  ASSERT_TRUE(daemon_.start(stacks_config(499, "256K")));
  const Child child = burn(program_);
  ASSERT_TRUE(child.runs_for(300ms));
  EXPECT_TRUE(wait_until(
      [&] {  // while nothing has replaced it, it has its names
        for (const NamedSample& sample : named_samples(folder_, daemon_.snapshot()["path"]))
          if (sample.pid == child.pid() && sample.symbol == kHotFunction) return true;
        return false;
      },
      20s));
  fs::rename(other_, program_);
  usleep(300'000);  // the broker looks at a name again after 100 ms
  expect_not_named(program_, child.pid());
}

TEST_F(ReplacedPrograms, AProgramThatEndedHasNoOthersFunctions) {
  make(program_, false);
  make(other_, true);
  ASSERT_TRUE(daemon_.start(stacks_config(499, "256K")));
  Child child = burn(program_);
  ASSERT_TRUE(child.runs_for(1s));
  usleep(500'000);  // its file is read meanwhile
  const int pid = child.pid();
  child.kill();
  fs::remove(program_);
  fs::rename(other_, program_);
  expect_not_named(program_, pid);
}

// As by `cp -p` or `rsync --inplace -t`: only its ctime shows that it was written to.
TEST_F(ReplacedPrograms, AProgramOverwrittenWithItsOldTimeHasNoOthersFunctions) {
  make(program_, false);
  make(other_, true);
  ASSERT_TRUE(daemon_.start(stacks_config(499, "256K")));
  Child child = burn(program_);
  ASSERT_TRUE(child.runs_for(1s));
  usleep(500'000);  // its file is read meanwhile
  const int pid = child.pid();
  child.kill();
  struct stat before {
  }, after{};
  ASSERT_EQ(::stat(program_.c_str(), &before), 0);
  write_text(program_, read_text(other_));
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, program_.c_str(), times, 0), 0);
  ASSERT_EQ(::stat(program_.c_str(), &after), 0);
  ASSERT_EQ(after.st_ino, before.st_ino);
  ASSERT_EQ(after.st_size, before.st_size);
  ASSERT_EQ(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  expect_marked(program_, pid, " (not verified)", "they contain none, and were changed after they had been mapped");
}

// Another build of a program: it has another build-id.
std::string rebuilt(std::string program, const std::string& build_id) {
  const std::size_t note = program.find(raw_build_id(build_id));
  EXPECT_NE(note, std::string::npos);
  if (note != std::string::npos) program[note] = static_cast<char>(program[note] ^ 0x55);
  return program;
}

// A program is overwritten in place and started again at once: each of the two has its own build-id, or none.
TEST_F(FilesLong, AProgramOverwrittenInPlaceHasNoOthersBuildId) {
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  const std::string program = folder_ / "scratch/again";
  fs::copy_file(burner_, program);
  // What perf reads about the file of a process.
  const auto mapped_by = [&](pid_t pid, const Json& sidecar) {
    const Outcome script =
        Verifier::installed().perf(folder_, {"script", "--show-mmap-events", "-i", sidecar.value("path", "?")});
    std::string out;
    std::istringstream lines(script.out);
    for (std::string line; std::getline(lines, line);)
      if (line.find(fmt::format("PERF_RECORD_MMAP2 {}/", pid)) != std::string::npos && line.ends_with(program))
        out += line + "\n";
    return out;
  };
  Child before = burn(program);
  const std::string old_id = build_id_of(program);
  // Its file is read a moment after the kernel reported the mapping.
  EXPECT_TRUE(
      wait_until([&] { return mapped_by(before.pid(), daemon_.snapshot()).find(old_id) != std::string::npos; }, 20s));
  before.kill();
  write_text(program, rebuilt(read_text(program), old_id));  // the same inode
  const std::string new_id = build_id_of(program);
  ASSERT_NE(old_id, new_id);
  // A file's time has ticks: what is started in the same one could be either.
  EXPECT_TRUE(wait_until([&] { return fs::file_time_type::clock::now() - fs::last_write_time(program) > 50ms; }, 5s));
  const Child after = burn(program);
  ASSERT_TRUE(after.runs_for(50ms)) << "it has samples";
  Json sidecar = daemon_.snapshot();
  EXPECT_THAT(mapped_by(before.pid(), sidecar), HasSubstr(old_id));
  EXPECT_THAT(mapped_by(after.pid(), sidecar), AllOf(Not(IsEmpty()), Not(HasSubstr(old_id))));
  EXPECT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        return mapped_by(after.pid(), sidecar).find(new_id) != std::string::npos;
      },
      20s))
      << mapped_by(after.pid(), sidecar);
  EXPECT_THAT(mapped_by(before.pid(), sidecar), Not(HasSubstr(new_id)));
}

// Two files with one build-id: a program that was edited after it was linked. Each keeps its path and its symbols.
TEST_F(Files, AProgramWithTheBuildIdOfAnotherHasItsOwnSymbols) {
  const std::string impostor = folder_ / "scratch/impostor";
  std::string bytes = read_text(burner_);
  rename_hot_function(bytes);
  write_text(impostor, bytes);
  ASSERT_EQ(::chmod(impostor.c_str(), 0755), 0);
  ASSERT_EQ(build_id_of(impostor), build_id_of(burner_));
  ASSERT_TRUE(daemon_.start(stacks_config(499, "256K")));
  const Child original = burn(burner_), copy = burn(impostor);
  ASSERT_TRUE(original.runs_for(300ms));
  ASSERT_TRUE(copy.runs_for(300ms));
  Json sidecar;
  std::string list;
  EXPECT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        list = build_ids(sidecar);
        const auto has = [&](const std::string& path) {
          return list.find(build_id_of(burner_) + " " + path + "\n") != std::string::npos;
        };
        return has(burner_) && has(impostor);
      },
      20s))
      << list;
  std::size_t of_original = 0, of_copy = 0;
  // Other tests' burners may run at the same time.
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    const bool is_copy = sample.pid == copy.pid();
    if ((sample.pid != original.pid() && !is_copy) || !sample.symbol.ends_with("ot_function_for_flightd")) continue;
    EXPECT_EQ(sample.symbol, is_copy ? "Hot_function_for_flightd" : kHotFunction) << sample.line;
    EXPECT_EQ(sample.dso, is_copy ? impostor : burner_) << sample.line;
    ++(is_copy ? of_copy : of_original);
  }
  EXPECT_GT(of_original, 30U);
  EXPECT_GT(of_copy, 30U);
}

// Unmounts right after the last program has ended, again and again. A descriptor that flightd holds would make umount
// fail.
TEST_F(Files, NoMountIsHeld) {
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  const std::string disk = folder_ / "scratch/disk";
  fs::create_directory(disk);
  int busy = 0, longest = 0, late = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(mount_tmpfs(disk, "mode=755"));
    fs::copy_file(burner_, disk + "/program");
    EXPECT_EQ(burn(disk + "/program", 0.05).finish(20s).exit_status, 0);
    // flightd may read the file at this moment. A moment later umount must succeed.
    const Stopwatch watch;
    int polls = 0;
    const bool gone = wait_until(
        [&] {
          if (umount(disk.c_str()) == 0) return true;
          ++polls;
          return false;
        },
        10s);
    ASSERT_TRUE(gone) << "round " << i;
    busy += polls;
    longest = std::max(longest, polls);
    late += watch.gone_by() > 1s ? 1 : 0;
  }
  EXPECT_LT(busy - longest, 20);
  EXPECT_LE(late, 1) << "a reader can lose its CPU once";
}

// Both programs have the path that leads to the file from outside the chroot. One started before flightd, one after it.
TEST_F(Files, ProgramsInAChrootHaveTheHostsPath) {
  const std::string root = folder_ / "scratch/root";
  fs::create_directories(root + "/bin");
  for (const char* name : {"early", "late"}) fs::copy_file(burner_, root + "/bin/" + name);
  for (const char* library : {"/lib", "/lib64", "/usr"}) {
    if (!fs::exists(library)) continue;
    fs::create_directories(root + library);
    ASSERT_EQ(mount(library, (root + library).c_str(), nullptr, MS_BIND | MS_REC, nullptr), 0) << library;
  }
  const auto burn_inside = [&](const std::string& program) {
    Child child = start_load({"chroot", root, program, std::to_string(load_cpu()), "60"});
    EXPECT_TRUE(child.wait_for_line("started")) << child.err();
    return child;
  };
  {
    const Child early = burn_inside("/bin/early");
    ASSERT_TRUE(daemon_.start(stacks_config(499, "256K")));
    const Child late = burn_inside("/bin/late");
    const auto burned_ns = [&] { return ran_ns(early.pid()) + ran_ns(late.pid()); };
    const std::uint64_t before_ns = burned_ns();
    // About 100 samples, however long other processes use the CPU.
    EXPECT_TRUE(wait_until([&] { return burned_ns() > before_ns + 200'000'000; }, 30s));
    Json sidecar;
    std::string list;
    EXPECT_TRUE(wait_until(
        [&] {
          sidecar = daemon_.snapshot();
          list = build_ids(sidecar);
          return list.find(root + "/bin/early") != std::string::npos &&
                 list.find(root + "/bin/late") != std::string::npos;
        },
        20s))
        << list;
    EXPECT_THAT(list, Not(HasSubstr(" /bin/late")));
    std::size_t named = 0;
    for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
      if (sample.comm != "early" && sample.comm != "late") continue;
      if (sample.symbol == kHotFunction) ++named;
    }
    EXPECT_GT(named, 50U);
  }
  for (const char* library : {"/usr", "/lib64", "/lib"}) umount2((root + library).c_str(), MNT_DETACH);
}

// With a root of its own, as a container: both have the path inside, however flightd learned of them.
TEST_F(Files, ProgramsInAContainerHaveThePathInside) {
  constexpr const char* kContainer = R"(
set -e
mount -t tmpfs none "$1"
mkdir "$1/bin" "$1/old"
cp "$2" "$1/bin/$3"
for library in /lib /lib64 /usr; do
  [ -e $library ] || continue
  mkdir "$1$library"
  mount --rbind $library "$1$library"
done
cd "$1"
pivot_root . old
exec "/bin/$3" "$4" 60)";
  const std::string root = folder_ / "scratch/container";
  fs::create_directories(root);
  const auto burn_inside = [&](const std::string& name) {
    Child child = start_load(
        {"unshare", "--mount", "sh", "-c", kContainer, "sh", root, burner_, name, std::to_string(load_cpu())});
    EXPECT_TRUE(child.wait_for_line("started")) << child.err();
    return child;
  };
  const Child early = burn_inside("early");
  ASSERT_TRUE(daemon_.start(stacks_config(499, "256K")));
  const Child late = burn_inside("late");
  const auto burned_ns = [&] { return ran_ns(early.pid()) + ran_ns(late.pid()); };
  const std::uint64_t before_ns = burned_ns();
  EXPECT_TRUE(wait_until([&] { return burned_ns() > before_ns + 200'000'000; }, 30s));
  Json sidecar;
  std::string list;
  const std::string id = build_id_of(burner_);
  EXPECT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        list = build_ids(sidecar);
        return list.find(id + " /bin/early\n") != std::string::npos &&
               list.find(id + " /bin/late\n") != std::string::npos;
      },
      20s))
      << list;
  EXPECT_THAT(list, Not(HasSubstr("scratch/container")));
  std::size_t named = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"]))
    if ((sample.comm == "early" || sample.comm == "late") && sample.dso == "/bin/" + sample.comm) ++named;
  EXPECT_GT(named, 50U);
}

TEST_F(HungDisk, AtStart) {
  program_.emplace(burn(disk_ + "/program"));
  hang();
  stopped_ = true;
  const auto start_again = [&] {
    if (!stopped_) (void)end();
    return start();
  };
  EXPECT_LT(fastest_of_three(limit(), start_again), limit());
  ASSERT_TRUE(program_->runs_for(300ms));
  expect_recorded();
  expect_ends_in_time([&] { (void)start(); });
}

// Which process holds the lock is looked up in /proc, where another process has a file of that disk open.
TEST_F(HungDisk, WhileTheHolderOfTheLockIsLookedUp) {
  const std::string lock = folder_ / "run/flightd.lock";
  ASSERT_TRUE(fs::create_directory(folder_ / "run"));
  Child reader = Child::start({"sh", "-c", fmt::format("exec <{}/program; echo open; exec sleep 60", disk_)});
  ASSERT_TRUE(reader.wait_for_line("open"));
  // flock(1) takes it and ends; its parent has the descriptor.
  Child heir = Child::start({"sh", "-c", fmt::format("exec 9<>{}; flock -x 9; echo locked; exec sleep 60", lock)});
  ASSERT_TRUE(heir.wait_for_line("locked"));
  hang();
  wait_for_old_attributes();
  daemon_.launch(stacks_config(99, "64K").dump());
  EXPECT_TRUE(daemon_.process().wait(kForEver));
  stopped_ = true;
  EXPECT_THAT(daemon_.log(), HasSubstr(fmt::format("process {} (sleep)", heir.pid())));
  set_fault("none 0 0 0");  // or the reader could not exit
}

// The log is on it: what writes there cannot be ended, and is neither flightd nor its broker.
TEST_F(HungDisk, ALogOnItKeepsNobodyFromEnding) {
  StartOptions options;
  options.prefix = {"sh", "-c", "exec \"$@\" >>\"$0\" 2>&1", disk_ + "/log"};
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K"), options));
  EXPECT_TRUE(wait_until([&] { return read_text(backing_ + "/log").find("control socket") != std::string::npos; }, 20s))
      << read_text(backing_ + "/log");
  hang();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(daemon_.ctl({"reload"}).exit_status, 0);  // each makes a line
  (void)end();
}

// A thread that waits for the disk cannot be ended, so the child process would remain.
TEST_F(HungDisk, NothingIsOpened) {
  stopped_ = true;  // this test starts no flightd
  program_.emplace(burn(disk_ + "/program"));
  const MappedAt at = program_of(program_->pid());
  hang();
  expect_comes_back([&] {
    const auto facts = read_mapped_file(at);
    return facts && !facts->was_read && facts->served_by.starts_with("fuse");
  });
}

// The program has ended, so its file is looked for by its path, and a link leads onto the disk.
TEST_F(HungDisk, ALinkOntoItIsNotFollowed) {
  stopped_ = true;  // this test starts no flightd
  const std::string link = folder_ / "link";
  fs::create_symlink(disk_, link);
  struct stat status {};
  ASSERT_EQ(stat(burner_.c_str(), &status), 0);
  hang();
  wait_for_old_attributes();
  const MappedAt at{.pid = 0x7fffffff,
                    .file = {.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino},
                    .name = link + "/program"};
  expect_comes_back_on_host([&] {
    const auto facts = read_mapped_file(at);
    return !facts || !facts->was_read;
  });
}

// Maps the program of a chroot, and stays.
pid_t map_inside(const std::string& root, const std::string& program) {
  int ready[2] = {};
  if (pipe2(ready, O_CLOEXEC) != 0) return -1;
  const pid_t inside = fork();
  if (inside == 0) {
    if (chroot(root.c_str()) != 0 || chdir("/") != 0) _exit(1);
    const int file = open(program.c_str(), O_RDONLY | O_CLOEXEC);
    if (mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED || write(ready[1], "x", 1) != 1)
      _exit(1);
    pause();
    _exit(0);
  }
  close(ready[1]);
  char is_ready = 0;
  const bool is_there = read(ready[0], &is_ready, 1) == 1;
  close(ready[0]);
  return is_there ? inside : -1;
}

// A program in a chroot has the path that leads onto the disk outside.
TEST_F(HungDisk, TheSamePathInAChrootIsReadThere) {
  stopped_ = true;  // this test starts no flightd
  const std::string root = folder_ / "root";
  fs::create_directories(root + disk_);
  fs::copy_file(burner_, root + disk_ + "/program");
  hang();
  wait_for_old_attributes();
  expect_comes_back_on_host([&] {
    const pid_t inside = map_inside(root, disk_ + "/program");
    if (inside < 0) return false;
    MappedAt at = program_of(inside);
    at.name = disk_ + "/program";  // as the kernel records it
    const auto facts = read_mapped_file(at);
    return facts && !facts->build_id.empty();
  });
}

TEST_F(HungDisk, Later) {
  ASSERT_TRUE(daemon_.start(stacks_config(199, "256K")));
  usleep(300'000);
  program_.emplace(burn(disk_ + "/program"));
  hang();
  usleep(500'000);
  // After a pause the broker scans all of /proc again.
  EXPECT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  usleep(700'000);
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.goes_on());
  expect_ends_in_time([&] { (void)start(); });
}

}  // namespace
}  // namespace flight
