// SPDX-License-Identifier: Apache-2.0
// Bad disks: slow, hanging, failing during a write, removed, full, read-only. The recording continues, the control
// socket answers, no incomplete file gets a final name, the requester gets an error, and the status says "degraded
// (disk)" until a snapshot is written again. flightd sees real disks: FUSE (slow_disk) and ext4 on a loop device.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "libcore/store/names.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/journaled.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/numbered_calls.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// The limit of a status request while the disk hangs for ever.
Milliseconds status_limit() { return sanitized() ? 10s : 3s; }

class Disk : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& name : {backing_, disk_}) ASSERT_EQ(mkdir(name.c_str(), 0755), 0);
    set_fault("none 0 0 0");
    options_.state_dir = disk_ + "/state";
  }
  void TearDown() override {
    set_fault("none 0 0 0");
    unmount(disk_);
  }
  void set_fault(const std::string& text) const {
    write_text(control_ + ".new", text);  // flightd never reads a half-written file
    fs::rename(control_ + ".new", control_);
  }
  [[nodiscard]] testing::AssertionResult mount_slow_disk() {
    fuse_.emplace(Child::start({required_env("FLIGHT_SLOW_DISK"), backing_, disk_, control_}));
    struct stat outside {
    }, inside{};
    const bool mounted =
        stat(backing_.c_str(), &outside) == 0 &&
        wait_until([&] { return stat(disk_.c_str(), &inside) == 0 && inside.st_dev != outside.st_dev; }, 10s);
    return mounted ? testing::AssertionSuccess() : testing::AssertionFailure() << "no slow disk: " << fuse_->err();
  }
  [[nodiscard]] testing::AssertionResult mount_image() const {
    const std::string image = folder_ / "image";
    write_text(image, "");
    fs::resize_file(image, 16U << 20U);
    Outcome outcome = run({"mkfs.ext4", "-q", "-m", "0", image});
    if (outcome.exit_status == 0) outcome = run({"mount", "-o", "loop", image, disk_});
    return outcome.exit_status == 0 ? testing::AssertionSuccess() : testing::AssertionFailure() << outcome.text();
  }
  [[nodiscard]] Arguments locks_like(const std::string& kind) const {
    Arguments out = preloading(folder_.load("liblocks.so"));
    out.push_back("FLIGHT_LOCKS=" + kind);
    return out;
  }
  // How flightd has opened the lock of its store: O_RDONLY or O_RDWR; -1: it has not.
  [[nodiscard]] int lock_access() const {
    const std::string process = "/proc/" + std::to_string(daemon_.pid());
    for (const auto& entry : fs::directory_iterator(process + "/fd")) {
      std::error_code error;
      if (fs::read_symlink(entry.path(), error) != options_.state_dir + "/flightd.lock") continue;
      const std::string info = read_text(process + "/fdinfo/" + entry.path().filename().string());
      return std::stoi(info.substr(info.find("flags:") + 6), nullptr, 8) & O_ACCMODE;
    }
    return -1;
  }
  // A load makes the snapshot larger than the space on some of these disks.
  void start(unsigned frequency = 997) {
    burner_.emplace(start_load({folder_.load("burner"), std::to_string(load_cpu()), "300"}));
    ASSERT_TRUE(burner_->wait_for_line("started"));
    ASSERT_TRUE(daemon_.start(stacks_config(frequency, "256K"), options_));
    ASSERT_TRUE(burner_->runs_for(300ms));
  }
  // The load ends when a snapshot is as large as a ring: what the rings have stays there. The store is empty then.
  void start_with_full_rings() {
    ASSERT_NO_FATAL_FAILURE(start(3989));
    const auto are_full = [&] {
      const Json sidecar = daemon_.snapshot();
      EXPECT_EQ(daemon_.ctl({"remove", sidecar["id"]}).exit_status, 0);
      return sidecar["raw_bytes"] > (256U << 10U) * 9 / 10;
    };
    ASSERT_TRUE(wait_until(are_full, 60s));
    burner_->kill();
  }

  // A flightd that records the calls of a load, so many a second, without compression: about 90 bytes of each.
  void start_calls(unsigned per_second) {
    const std::string cpu = std::to_string(load_cpu());
    closer_.emplace(start_load({folder_.load("closer"), cpu, std::to_string(per_second), "200"}, 0, true));
    ASSERT_TRUE(closer_->wait_for_line("ready")) << closer_->err();
    Json config = stacks_config(49, "64K");
    config["snapshot"]["compression"] = "none";
    config["channels"] = {{"calls",
                           {{"ring", "4M"},
                            {"cpus", cpu},
                            {"events",
                             {{{"event", "raw_syscalls:sys_enter"},
                               {"filter", fmt::format("id == {} && common_pid == {}", SYS_close, closer_->pid())}}}}}}};
    ASSERT_TRUE(daemon_.start(config, options_));
    closer_->go();
    ASSERT_TRUE(daemon_.goes_on());
  }
  [[nodiscard]] std::size_t resident_bytes() const {
    const std::string status = read_text(fmt::format("/proc/{}/status", daemon_.pid()));
    return std::stoul(status.substr(status.find("VmRSS:") + 6)) << 10U;
  }
  // The events in the holes that the disk made.
  static std::uint64_t lost_to_the_disk(const std::vector<Json>& parts) {
    std::uint64_t lost = 0;
    for (const Json& part : parts)
      for (const Json& hole : part["holes"])
        if (hole["cause"] == "disk") lost += hole["lost"].get<std::uint64_t>();
    return lost;
  }

  // What a power failure does to the open parts: each file is as it was when it was synced last. Their names were
  // synced when they were made. Returns the bytes that are lost.
  [[nodiscard]] std::uintmax_t lose_what_is_not_synced(const std::string& store) const {
    std::map<std::string, std::uintmax_t> synced;
    std::ifstream notes(control_ + ".synced");
    std::string path;
    for (std::uintmax_t bytes = 0; notes >> path >> bytes;) synced[fs::path(path).filename().string()] = bytes;
    std::uintmax_t lost = 0;
    for (const auto& entry : fs::directory_iterator(store)) {
      const std::string name = entry.path().filename().string();
      if (!parse_part_file(name)) continue;
      const std::uintmax_t bytes = entry.file_size(), kept = std::min(bytes, synced[name]);
      fs::resize_file(entry.path(), kept);
      lost += bytes - kept;
    }
    return lost;
  }

  // The reply to TakeSnapshot, which may be an error.
  [[nodiscard]] Json ask() const {
    RawSocket socket = RawSocket::connect(daemon_.socket());
    EXPECT_TRUE(socket.call(R"({"method":"io.flightd.Recorder.TakeSnapshot"})"));
    const Json reply = Json::parse(socket.receive(90s).value_or(""), nullptr, false);
    EXPECT_TRUE(reply.is_object());
    return reply.is_object() ? reply : Json::object();
  }
  void expect_write_failed(int error_number, const std::string& why) const {
    SCOPED_TRACE(why);
    const Json reply = ask();
    const bool full = error_number == ENOSPC || error_number == EDQUOT;
    ASSERT_EQ(reply.value("error", ""), full ? "io.flightd.Recorder.StoreFull" : "io.flightd.Recorder.WriteFailed")
        << reply;
    if (!full) {
      EXPECT_EQ(reply["parameters"]["errno"], error_number) << reply;
      EXPECT_EQ(reply["parameters"]["kept"], "") << reply;
    }
    EXPECT_THAT(reply["parameters"]["message"].get<std::string>(),
                AllOf(HasSubstr(disk_), HasSubstr("was not written"), HasSubstr("recording continues")));
  }
  // The status, within the limit. The state of the disk must not matter.
  [[nodiscard]] Json status_in_time() const {
    Outcome outcome;
    const Milliseconds fastest = fastest_of_three(status_limit(), [&] {
      const Stopwatch watch;
      outcome = daemon_.ctl({"--json", "status"}, 3 * status_limit());
      return watch.gone_by();
    });
    EXPECT_LT(fastest, status_limit());
    EXPECT_EQ(outcome.exit_status, 0) << outcome.text();
    const Json status = Json::parse(outcome.out, nullptr, false);
    EXPECT_TRUE(status.is_object() && records(status)) << outcome.text();
    return status.is_object() ? status : Json::object();
  }
  [[nodiscard]] bool degraded() const {
    return status_in_time().value("warnings", Json::array()).dump().find("degraded (disk)") != std::string::npos;
  }
  // Reads the directory of the disk itself, below FUSE.
  void expect_no_half_file(const std::string& store) const {
    for (const auto& entry : fs::directory_iterator(store)) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".perf.data")) {
        EXPECT_TRUE(fs::exists(store + "/" + name.substr(0, name.size() - 10) + ".json"));
      }
    }
    EXPECT_TRUE(no_partials(store));
  }
  // The disk works: a snapshot is written, and the status no longer mentions the disk.
  void expect_good_again() const {
    const Json sidecar = daemon_.snapshot();
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
    // While the store is synced, it may not answer in time.
    EXPECT_TRUE(wait_until([&] { return !degraded(); }, 20s));
  }
  // They are written after the first snapshot, and replaced by nothing until the next boot.
  static bool symbols_come(const std::string& store) {
    return wait_until(
        [&] {
          return std::any_of(fs::directory_iterator(store), {},
                             [](const auto& file) { return file.path().filename().string().starts_with("kallsyms-"); });
        },
        20s);
  }
  // Six snapshots use up a quota; the disk has the fault `kind` from then on. Returns the seventh's sidecar.
  Json makes_room_for_the_seventh(const std::string& kind) {
    start();
    const Arguments window{"--last", "200ms"};
    const std::string store = backing_ + "/state/snapshots";
    for (int i = 0; i < 6; ++i) EXPECT_FALSE(daemon_.snapshot(window).empty());
    EXPECT_TRUE(symbols_come(store));
    std::uintmax_t bytes = 0;
    for (const auto& file : fs::directory_iterator(store)) bytes += file.file_size();
    set_fault(fmt::format("{} 0 122 {}", kind, bytes + 4096));
    const Json sidecar = daemon_.snapshot(window);
    EXPECT_EQ(sidecar["id"], "7") << daemon_.log();
    const Json left = daemon_.ctl_json({"list"});
    EXPECT_LT(left.size(), 7U);
    EXPECT_GE(left.size(), 3U) << "no more than is needed: " << left.dump();
    EXPECT_THAT(daemon_.log(), HasSubstr("1 (room)")) << "the oldest, also the first of a trigger";
    EXPECT_FALSE(degraded());
    return sidecar;
  }

  TempFolder folder_;
  std::string backing_ = folder_ / "backing", disk_ = folder_ / "disk", control_ = folder_ / "fault";
  StartOptions options_;
  TestDaemon daemon_{folder_};
  std::optional<Child> fuse_, burner_, closer_;
};
using DiskLong = Disk;

// Three syncs of a snapshot take 5 s each.
TEST_F(DiskLong, SlowOneOnlyMakesItsAskerWait) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  set_fault("fsync 5000 0 0");
  Child asker = Child::start(daemon_.ctl_command({"--json", "snapshot"}));
  bool was_degraded = false;
  std::size_t answers = 0;
  for (; asker.running(); ++answers) {
    was_degraded = degraded() || was_degraded;
    Child meanwhile = start_load({folder_.load("execer"), std::to_string(load_cpu()), "0.2", "/bin/true"}, -20);
    EXPECT_EQ(meanwhile.finish(20s).exit_status, 0) << meanwhile.err();
  }
  // A process that ran meanwhile was recorded, and has the name that it had when it ended. The rings keep some
  // seconds, so nothing slow comes before this.
  set_fault("none 0 0 0");
  const Json next = daemon_.snapshot();
  EXPECT_THAT(next["top"].dump(), HasSubstr("\"true\""));
  EXPECT_FALSE(degraded());
  const Outcome answer = asker.finish(1s);
  ASSERT_EQ(answer.exit_status, 0) << answer.text();
  const Json sidecar = Json::parse(answer.out);
  EXPECT_GT(sidecar["timings_us"]["total"], 10'000'000) << "the disk was not slow";
  EXPECT_LT(sidecar["blackout"]["max_us"], 1'000'000) << "rings were paused while the disk worked";
  EXPECT_GT(answers, 3U);
  EXPECT_TRUE(was_degraded);
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(DiskLong, HangingOneHoldsUpNeitherRecorderNorSocket) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  ASSERT_TRUE(daemon_.goes_on());
  set_fault("* -1 0 0");
  Child asker = Child::start(daemon_.ctl_command({"--json", "snapshot"}));
  Child lister = Child::start(daemon_.ctl_command({"list"}));
  EXPECT_TRUE(wait_until([&] { return degraded(); }, 30s));
  EXPECT_TRUE(asker.running()) << asker.err();
  // The broker answers as well: flightd requests its CPU time again.
  EXPECT_EQ(status_in_time()["self"]["broker"]["pid"], daemon_.broker_pid());
  // The requester gets an error if not even an empty file could be made.
  const Outcome answer = asker.finish(60s);
  EXPECT_EQ(answer.exit_status, 1) << answer.text();
  EXPECT_THAT(answer.err, AllOf(HasSubstr("WriteFailed"), HasSubstr("empty file")));
  EXPECT_TRUE(lister.running()) << "so the disk did answer?";
  Child doctor = Child::start(daemon_.ctl_command({"doctor"}));
  EXPECT_THAT(doctor.finish(30s).out, HasSubstr("does not answer"));
  set_fault("none 0 0 0");
  EXPECT_EQ(lister.finish(20s).exit_status, 0);
  expect_good_again();
  expect_no_half_file(backing_ + "/state/snapshots");
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(DiskLong, FailingOneLeavesNoHalfFile) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  const std::string store = backing_ + "/state/snapshots";
  const struct {
    const char* fault;
    int error_number;
  } faults[] = {{"write 0 5 6000", EIO},   {"write 0 28 6000", ENOSPC}, {"write 0 5 0", EIO},
                {"fsync 0 5 0", EIO},      {"fsync 0 30 0", EROFS},     {"rename 0 5 0", EIO},
                {"create 0 28 0", ENOSPC}, {"create 0 122 0", EDQUOT}};
  for (const auto& [fault, error_number] : faults) {
    set_fault(fault);
    expect_write_failed(error_number, fault);
    EXPECT_TRUE(degraded()) << fault;
    set_fault("none 0 0 0");
    expect_no_half_file(store);
    expect_good_again();
  }
  EXPECT_THAT(daemon_.log(), AllOf(HasSubstr("degraded (disk)"), HasSubstr("the disk works again")));
  // The only file of the store that a snapshot opens for reading has the last number. The names have it, too.
  const std::string before = daemon_.snapshot()["id"];
  set_fault("open 0 5 0");
  const Json reply = ask();
  ASSERT_EQ(reply.value("error", ""), "");
  EXPECT_EQ(reply["parameters"]["snapshot"]["id"], std::to_string(std::stoul(before) + 1));
  set_fault("none 0 0 0");
  expect_no_half_file(store);
  expect_good_again();
  EXPECT_TRUE(daemon_.stop());
}

// The events that a recording reads meanwhile are holes, and it needs no more memory than otherwise.
TEST_F(DiskLong, SlowOneMakesHolesInARecording) {
  ASSERT_TRUE(mount_slow_disk());
  ASSERT_NO_FATAL_FAILURE(start_calls(100'000));
  Child recorder = Child::start(daemon_.ctl_command({"--json", "record", "--for", "36s", "--switch-size", "512M"}));
  ASSERT_TRUE(wait_for_rounds(backing_ + "/state/snapshots", 3)) << recorder.err() << daemon_.log();
  const std::size_t before = resident_bytes();
  set_fault("write -1 0 0");
  usleep(30'000'000);  // a fixed time, most of the recording: 300 MB of records
  EXPECT_LT(resident_bytes(), before + ((sanitized() ? 64U : 16U) << 20U));
  set_fault("none 0 0 0");
  const Outcome outcome = recorder.finish(60s);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["ended"], "asked");
  EXPECT_GT(result["progress"]["lost"], 500'000);
  std::vector<Json> parts;
  parts.push_back(daemon_.ctl_json({"info", result["id"]}));
  EXPECT_GT(lost_to_the_disk(parts), 500'000U) << parts[0]["holes"];
  EXPECT_GT(parts[0]["samples"], 50'000);
  expect_each_once(parts);
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, as_perf_sees(parts[0])));
  EXPECT_TRUE(daemon_.stop());
}

// All of it, and for longer than flightd waits for a new file, while one part follows the other each second: the
// recording goes on, and each number is in a part or in a hole.
TEST_F(DiskLong, OneThatHangsForLongEndsNoRecording) {
  ASSERT_TRUE(mount_slow_disk());
  ASSERT_NO_FATAL_FAILURE(start_calls(20'000));
  const std::string store = backing_ + "/state/snapshots";
  const auto parts_in_store = [&] {
    return std::count_if(fs::directory_iterator(store), {},
                         [](const auto& file) { return file.path().filename().string().ends_with(".perf.data"); });
  };
  Child recorder = Child::start(daemon_.ctl_command({"--json", "record", "--switch-size", "1M"}));
  ASSERT_TRUE(wait_until([&] { return parts_in_store() >= 3; }, 60s)) << recorder.err() << daemon_.log();
  const std::size_t before = resident_bytes();
  set_fault("* -1 0 0");
  for (int i = 0; i < 7; ++i) {
    usleep(5'000'000);  // a fixed time, 35 s in all
    EXPECT_FALSE(status_in_time().empty());
  }
  EXPECT_TRUE(recorder.running()) << recorder.err();
  EXPECT_LT(resident_bytes(), before + ((sanitized() ? 64U : 16U) << 20U));
  const auto stored = parts_in_store();
  set_fault("none 0 0 0");
  EXPECT_TRUE(wait_until([&] { return parts_in_store() >= stored + 2 || !recorder.running(); }, 60s));
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(60s);
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text() << daemon_.log();
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["ended"], "asked");
  std::vector<Json> parts;
  for (const Json& id : result["progress"]["finished"])
    parts.push_back(daemon_.ctl_json({"info", id.get<std::string>()}));
  ASSERT_GE(parts.size(), 4U);
  EXPECT_GT(lost_to_the_disk(parts), 100'000U) << "some 700,000 calls meanwhile";
  EXPECT_EQ(expect_each_once(parts), result["progress"]["events"]);
  for (const Json& part : parts) EXPECT_TRUE(counts_all(Verifier::installed(), folder_, as_perf_sees(part)));
  EXPECT_TRUE(no_partials(store));
  EXPECT_TRUE(daemon_.stop());
}

// An open part is synced every five seconds, and the journal after it.
TEST_F(DiskLong, APowerFailureCostsARecordingSomeSeconds) {
  ASSERT_TRUE(mount_slow_disk());
  ASSERT_NO_FATAL_FAILURE(start_calls(2'000));
  const std::string store = backing_ + "/state/snapshots";
  Child recorder = Child::start(daemon_.ctl_command({"record", "--switch-size", "512M"}));
  ASSERT_TRUE(wait_for_rounds(store, 3)) << recorder.err() << daemon_.log();
  usleep(20'000'000);  // a fixed time, of several syncs
  const std::uint64_t killed_ns = now_ns();
  daemon_.process().kill();
  closer_->kill();
  EXPECT_EQ(recorder.finish(20s).exit_status, 1);
  const std::uintmax_t lost = lose_what_is_not_synced(store);
  TestDaemon next(folder_);
  ASSERT_TRUE(next.start(stacks_config(49, "64K"), options_));
  std::vector<Json> parts;
  const auto is_finished = [&] {
    for (const Json& row : next.ctl_json({"list"}))
      if (row.contains("record")) parts.push_back(next.ctl_json({"info", row["id"]}));
    return !parts.empty();
  };
  ASSERT_TRUE(wait_until(is_finished, 60s)) << next.log();
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0]["record"]["ended"], "killed");
  const std::uint64_t end_ns = parts[0]["window"]["end_ns"];
  fmt::print("{} bytes were not synced, {} ms before the power failure are lost\n", lost,
             (killed_ns - std::min(killed_ns, end_ns)) / 1'000'000);
  EXPECT_GT(end_ns + 12'000'000'000U, killed_ns) << "five seconds, a round, and what a busy machine needs";
  EXPECT_GT(expect_each_once(parts), 10'000U);
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, as_perf_sees(parts[0])));
  EXPECT_TRUE(no_partials(next.snapshots_dir()));
  EXPECT_TRUE(next.stop());
}

// flightd does not wait for it, its client gets an answer, and the next flightd finishes the part. The process itself
// stays as long as a thread is in a write(2) to FUSE, which no signal ends.
TEST_F(DiskLong, HangingOneDoesNotKeepFlightdThatRecords) {
  ASSERT_TRUE(mount_slow_disk());
  const Json config = stacks_config(499, "64K");
  ASSERT_TRUE(daemon_.start(config, options_));
  Child recorder = Child::start(daemon_.ctl_command({"record"}));
  ASSERT_TRUE(wait_for_rounds(backing_ + "/state/snapshots", 2)) << recorder.err() << daemon_.log();
  set_fault("write -1 0 0");
  daemon_.process().signal(SIGTERM);
  const Outcome outcome = recorder.finish(60s);
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the next flightd finishes its parts"));
  const auto has_ended = [&] { return daemon_.log().find("ended, although the disk") != std::string::npos; };
  EXPECT_TRUE(wait_until(has_ended, 20s)) << daemon_.log();
  set_fault("none 0 0 0");
  EXPECT_EQ(daemon_.process().wait(20s), 0) << daemon_.log();
  TestDaemon next(folder_);
  ASSERT_TRUE(next.start(config, options_));
  const auto is_finished = [&] {
    const Json rows = next.ctl_json({"list"});
    return rows.size() == 1 && rows[0]["record"]["ended"] == "killed";
  };
  EXPECT_TRUE(wait_until(is_finished, 60s)) << next.log();
  EXPECT_TRUE(no_partials(next.snapshots_dir()));
  EXPECT_TRUE(next.stop());
}

// NFS with root_squash, CIFS, sshfs, vfat. In an earlier version no snapshot could be written there.
TEST_F(DiskLong, WhatRootCannotOwnIsASnapshotAndSaysSo) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  EXPECT_THAT(daemon_.snapshot()["warnings"].dump(), Not(HasSubstr("`-f`")));
  for (const int error_number : {EPERM, EACCES, EINVAL, ENOSYS, EOPNOTSUPP}) {
    SCOPED_TRACE(error_number);
    set_fault("chown 0 " + std::to_string(error_number) + " 0");
    const Json sidecar = daemon_.snapshot();
    EXPECT_THAT(sidecar["warnings"].dump(), AllOf(HasSubstr("belongs to user 65534"), HasSubstr("`-f`")));
    const std::string path = sidecar["path"];
    EXPECT_THAT(run({"perf", "script", "-i", path}, 60s).err, HasSubstr("not owned"));
    EXPECT_THAT(run({"perf", "script", "-f", "-i", path}, 60s).out, HasSubstr("burner"));
    EXPECT_FALSE(degraded());
  }
  EXPECT_EQ(count_of(daemon_.log(), "could not be given to root"), 1U) << daemon_.log();
  set_fault("chmod 0 1 0");
  EXPECT_THAT(daemon_.snapshot()["warnings"].dump(), Not(HasSubstr("`-f`")));
  for (const std::string operation : {"chown", "chmod"}) {
    set_fault(operation + " 0 5 0");
    expect_write_failed(EIO, operation);
  }
  set_fault("none 0 0 0");
  expect_no_half_file(backing_ + "/state/snapshots");
  expect_good_again();
  EXPECT_TRUE(daemon_.stop());
}

// The gate's part of the next one.
TEST_F(Disk, WhatCannotBeSyncedIsASnapshotAndACopy) {
  ASSERT_TRUE(mount_slow_disk());
  ASSERT_TRUE(daemon_.start(stacks_config(99, "256K"), options_));
  set_fault("fsync 0 22 0");
  EXPECT_FALSE(daemon_.snapshot({"--last", "200ms"}).empty());
  const std::string copy = disk_ + "/copy";
  const Outcome copied = daemon_.ctl({"get", "latest", "-o", copy});
  EXPECT_EQ(copied.exit_status, 0) << copied.text();
  const auto said = [&] { return count_of(daemon_.log(), "cannot be synced (its file system has no fsync)"); };
  EXPECT_TRUE(wait_until([&] { return said() == 1; }, 10s)) << daemon_.log();
  set_fault("none 0 0 0");
  EXPECT_TRUE(daemon_.stop());
}

// CIFS, 9p and FUSE. In an earlier version there was no message.
TEST_F(DiskLong, WhatCannotBeSyncedIsASnapshotAndSaidOnce) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  const auto warned = [&] {
    return status_in_time().value("warnings", Json::array()).dump().find("cannot be synced") != std::string::npos;
  };
  ASSERT_FALSE(daemon_.snapshot().empty());
  EXPECT_FALSE(warned());
  std::size_t logged = 0;
  for (const std::string fault : {"fsync 0 22 0", "fsync 0 95 0", "fsyncdir 0 22 0"}) {
    SCOPED_TRACE(fault);
    set_fault(fault);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(counts_all(Verifier::installed(), folder_, daemon_.snapshot()));
    EXPECT_TRUE(warned());
    const std::string copy = disk_ + "/copy";
    const Outcome copied = daemon_.ctl({"get", "latest", "-o", copy});
    EXPECT_EQ(copied.exit_status, 0) << copied.text();
    EXPECT_TRUE(fs::remove(copy));
    EXPECT_FALSE(degraded());
    EXPECT_EQ(count_of(daemon_.log(), "cannot be synced (its file system has no fsync)"), ++logged);
    set_fault("none 0 0 0");
    expect_good_again();
    EXPECT_FALSE(warned());
  }
  EXPECT_TRUE(daemon_.stop());
}

// statvfs(3) does not know quotas: the write fails.
TEST_F(DiskLong, AQuotaThatIsUsedUpMakesRoomOnce) {
  ASSERT_TRUE(mount_slow_disk());
  (void)makes_room_for_the_seventh("quota");
  const std::string store = backing_ + "/state/snapshots";
  const auto count = [&] { return daemon_.ctl_json({"list"}).size(); };
  // A disk that stays full costs at most one such try.
  set_fault("write 0 122 6000");
  expect_write_failed(EDQUOT, "it stays full");
  const std::size_t after_first = count();
  expect_write_failed(EDQUOT, "it stays full");
  EXPECT_EQ(count(), after_first);
  set_fault("none 0 0 0");
  expect_no_half_file(store);
  expect_good_again();
  EXPECT_TRUE(daemon_.stop());
}

// NFS reports a full disk or quota when a file is synced. In an earlier version the snapshot was lost.
TEST_F(DiskLong, AQuotaThatIsReportedAtTheSyncMakesRoom) {
  ASSERT_TRUE(mount_slow_disk());
  const Json sidecar = makes_room_for_the_seventh("late_quota");
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
  set_fault("fsync 0 122 0");
  expect_write_failed(EDQUOT, "it stays full");
  set_fault("none 0 0 0");
  expect_no_half_file(backing_ + "/state/snapshots");
  expect_good_again();
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Disk, WhatTookEffectIsNoFailureIfTheFolderCannotBeSynced) {
  ASSERT_TRUE(mount_slow_disk());
  ASSERT_NO_FATAL_FAILURE(start_with_full_rings());
  ASSERT_TRUE(daemon_.goes_on());
  set_fault("fsyncdir 0 5 0");
  const std::string id = daemon_.snapshot()["id"];
  const auto is_pinned = [&] { return daemon_.ctl_json({"list"}).back()["pinned"].get<bool>(); };
  for (const bool pinned : {true, false, true}) {
    const Outcome outcome = daemon_.ctl({pinned ? "pin" : "unpin", id});
    EXPECT_EQ(outcome.exit_status, 0) << outcome.text();
    EXPECT_EQ(is_pinned(), pinned);
  }
  EXPECT_TRUE(wait_until([&] { return degraded(); }, 20s));
  EXPECT_THAT(status_in_time()["warnings"].dump(), HasSubstr("a power failure may undo"));
  EXPECT_EQ(count_of(daemon_.log(), "a power failure may undo the last changes in the store"), 1U) << daemon_.log();
  set_fault("none 0 0 0");
  EXPECT_EQ(daemon_.ctl({"unpin", id}).exit_status, 0);
  EXPECT_TRUE(wait_until([&] { return !degraded(); }, 20s));
  set_fault("fsyncdir 0 5 0");
  const Outcome removed = daemon_.ctl({"remove", id});
  EXPECT_EQ(removed.exit_status, 0) << removed.text();
  EXPECT_NE(daemon_.ctl({"info", id}).exit_status, 0);
  EXPECT_TRUE(wait_until([&] { return degraded(); }, 20s));
  set_fault("none 0 0 0");
  EXPECT_EQ(daemon_.ctl({"pin", "latest"}).exit_status, 0);
  EXPECT_TRUE(wait_until([&] { return !degraded(); }, 20s));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Disk, GoneAndBackAgain) {
  ASSERT_TRUE(mount_slow_disk());
  ASSERT_NO_FATAL_FAILURE(start_with_full_rings());
  ASSERT_TRUE(daemon_.goes_on());
  fuse_->kill();
  expect_write_failed(ENOTCONN, "its server was killed");
  EXPECT_TRUE(degraded());
  unmount(disk_);
  expect_write_failed(ESTALE, "not mounted");
  fuse_.reset();
  ASSERT_TRUE(mount_slow_disk());
  expect_good_again();
  expect_no_half_file(backing_ + "/state/snapshots");
  EXPECT_TRUE(daemon_.stop());
}

// In an earlier version an exception of std::filesystem ended flightd here, and each of its successors.
TEST_F(DiskLong, ListingThatFailsInTheMiddleEndsNothing) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  ASSERT_TRUE(daemon_.goes_on());
  ASSERT_TRUE(daemon_.stop());
  set_fault("readdir 0 5 1");
  ASSERT_TRUE(daemon_.start(stacks_config(997, "256K"), options_));
  EXPECT_NE(daemon_.ctl({"list"}).exit_status, 0) << "so the disk did answer?";
  EXPECT_NE(daemon_.ctl({"vacuum"}).exit_status, 0);
  EXPECT_TRUE(records(status_in_time()));
  set_fault("none 0 0 0");
  expect_good_again();
  EXPECT_TRUE(daemon_.stop());
}

// In an earlier version the data file was mapped: a sector that cannot be read was SIGBUS, also for each successor.
TEST_F(DiskLong, BadSectorUnderASnapshotWithoutSidecarEndsNothing) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  const std::string path = daemon_.snapshot().value("path", "?");
  ASSERT_TRUE(daemon_.stop());
  ASSERT_TRUE(fs::remove(path.substr(0, path.rfind(".perf.data")) + ".json")) << path;
  set_fault("read 0 5 0");
  ASSERT_TRUE(daemon_.start(stacks_config(997, "256K"), options_));
  EXPECT_TRUE(wait_until(
      [&] {
        const std::string log = daemon_.log();
        return log.find("no new one could be made: ") != std::string::npos &&
               log.find("Input/output error") != std::string::npos;
      },
      20s))
      << daemon_.log();
  EXPECT_TRUE(records(status_in_time()));
  EXPECT_EQ(daemon_.ctl({"list"}).exit_status, 0);
  EXPECT_EQ(daemon_.ctl({"info", "1"}).exit_status, 1) << "so the disk did answer?";
  set_fault("none 0 0 0");
  const Outcome info = daemon_.ctl({"info", "1"});
  EXPECT_EQ(info.exit_status, 0) << "its sidecar can be made now: " << info.text();
  expect_good_again();
  EXPECT_TRUE(daemon_.stop());
}

// If the disk was full when flightd started, flightd makes the spare files as soon as there is space. No snapshot is
// needed.
TEST_F(DiskLong, SpareFilesAreMadeAsSoonAsTheyCanBe) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  ASSERT_TRUE(daemon_.stop());  // it removes the spare files
  set_fault("create 0 28 0");   // ENOSPC
  ASSERT_TRUE(daemon_.start(stacks_config(997, "256K"), options_));
  const auto was_refused = [&] { return daemon_.log().find("spare files for a last snapshot: ") != std::string::npos; };
  ASSERT_TRUE(wait_until(was_refused, 20s)) << daemon_.log();
  const std::string spare = backing_ + "/state/snapshots/.flightd-spare-sidecar";
  EXPECT_FALSE(fs::exists(spare));
  set_fault("none 0 0 0");
  EXPECT_TRUE(wait_until([&] { return fs::exists(spare); }, 20s)) << daemon_.log();
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Disk, FullAndReadOnlyLoopDevice) {
  ASSERT_TRUE(mount_image());
  ASSERT_NO_FATAL_FAILURE(start_with_full_rings());
  ASSERT_TRUE(daemon_.goes_on());
  ASSERT_TRUE(symbols_come(daemon_.snapshots_dir()));
  // Some space is left, so the write fails in the middle.
  const std::string filler = disk_ + "/filler";
  EXPECT_NE(run({"dd", "if=/dev/zero", "of=" + filler, "bs=4k", "conv=fsync"}).exit_status, 0) << "it was not full";
  fs::resize_file(filler, fs::file_size(filler) - (12U << 10U));
  expect_write_failed(ENOSPC, "full");
  EXPECT_TRUE(degraded());
  expect_no_half_file(daemon_.snapshots_dir());
  fs::remove(filler);
  expect_good_again();

  // Symbols are written after the reply.
  ASSERT_TRUE(wait_until([&] { return run({"mount", "-o", "remount,ro", disk_}).exit_status == 0; }, 20s));
  expect_write_failed(EROFS, "read-only");
  EXPECT_TRUE(degraded());
  ASSERT_EQ(run({"mount", "-o", "remount,rw", disk_}).exit_status, 0);
  expect_good_again();
  EXPECT_TRUE(daemon_.stop());
}

// It is locked read-only, because a descriptor for writing would prevent a read-only remount; for writing where the
// file system wants that.
TEST_F(Disk, OneThatLocksOnlyWritableFilesIsLockedAsWell) {
  options_.state_dir = backing_ + "/state";
  ASSERT_TRUE(daemon_.start(stacks_config(99, "64K"), options_));
  EXPECT_EQ(lock_access(), O_RDONLY);
  ASSERT_TRUE(daemon_.stop());
  options_.prefix = locks_like("nfs");
  ASSERT_TRUE(daemon_.start(stacks_config(99, "64K"), options_));
  EXPECT_EQ(lock_access(), O_RDWR);
  EXPECT_THAT(daemon_.log(), Not(HasSubstr("cannot be locked")));
  options_.runtime_dir = folder_ / "other-run";
  TestDaemon second(folder_);
  second.launch(stacks_config(99, "64K").dump(), options_);
  const Outcome outcome = second.process().finish(30s);
  EXPECT_EQ(outcome.exit_status, 1) << outcome.text();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("another flightd"), HasSubstr(backing_ + "/state")));
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(DiskLong, FullOneWithoutLocksIsAnErrorAndGoodAgain) {
  ASSERT_TRUE(mount_slow_disk());
  options_.prefix = locks_like("none");
  start();
  const Json status = daemon_.status();
  EXPECT_THAT(status["messages"].dump(), HasSubstr("cannot be locked (its file system has no locks)"));
  ASSERT_TRUE(daemon_.goes_on());
  set_fault("write 0 28 6000");
  expect_write_failed(ENOSPC, "full");
  EXPECT_TRUE(degraded());
  set_fault("none 0 0 0");
  expect_no_half_file(backing_ + "/state/snapshots");
  expect_good_again();
  EXPECT_TRUE(daemon_.stop());
}

// chattr(1) +i: root gets EPERM where others get EROFS.
TEST_F(Disk, ImmutableStoreAtTheStartIsReadAndUsedLater) {
  ASSERT_TRUE(mount_image());
  ASSERT_NO_FATAL_FAILURE(start_with_full_rings());
  ASSERT_TRUE(daemon_.goes_on());
  ASSERT_TRUE(daemon_.stop());
  const Arguments folders{daemon_.snapshots_dir(), options_.state_dir};
  const auto change = [&](const std::string& flag) {
    Arguments command{"chattr", flag};
    command.insert(command.end(), folders.begin(), folders.end());
    return run(command);
  };
  const Outcome changed = change("+i");
  ASSERT_EQ(changed.exit_status, 0) << changed.text();
  ASSERT_TRUE(daemon_.start(stacks_config(997, "256K"), options_));
  EXPECT_THAT(daemon_.ctl({"list"}).out, HasSubstr("manual"));
  expect_write_failed(EPERM, "immutable");
  EXPECT_TRUE(degraded());
  ASSERT_EQ(change("-i").exit_status, 0);
  expect_good_again();
  expect_no_half_file(daemon_.snapshots_dir());
  EXPECT_TRUE(daemon_.stop());
}

// Receives the messages to the service manager on $NOTIFY_SOCKET.
class Manager {
 public:
  explicit Manager(std::string path)
      : path_(std::move(path)), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(chmod(path_.c_str(), 0666), 0);
  }
  [[nodiscard]] Arguments environment() const { return {"env", "NOTIFY_SOCKET=" + path_}; }
  // Counts the messages since the last call that contain these words; last() is the last message.
  std::size_t received(const std::string& words) {
    std::size_t count = 0;
    char text[4096];
    ssize_t size = 0;
    while ((size = recv(socket_.get(), text, sizeof text, MSG_DONTWAIT)) > 0) {
      last_.assign(text, static_cast<std::size_t>(size));
      if (last_.find(words) != std::string::npos) ++count;
    }
    return count;
  }
  bool receives(const std::string& words) {
    return wait_until([&] { return received(words) > 0; }, 10s);
  }
  [[nodiscard]] const std::string& last() const { return last_; }

 private:
  std::string path_, last_;
  UniqueFd socket_;
};

// systemctl status shows the state of the disk, too.
TEST_F(Disk, NotifiesTheServiceManagerOfTheDisk) {
  Manager manager(folder_ / "notify");
  ASSERT_TRUE(mount_slow_disk());
  options_.prefix = manager.environment();
  start();
  burner_->kill();  // the size of the snapshots does not matter here
  EXPECT_TRUE(manager.receives("STATUS=recording")) << manager.last();
  set_fault("fsync 0 5 0");
  expect_write_failed(EIO, "no sync");
  EXPECT_TRUE(manager.receives("STATUS=degraded (disk)")) << manager.last();
  set_fault("none 0 0 0");
  expect_good_again();
  EXPECT_TRUE(manager.receives("STATUS=recording")) << manager.last();
  EXPECT_TRUE(daemon_.stop());
}

// Before the store's file system is mounted, its folder is on another one: a read-only one here.
TEST_F(DiskLong, OneThatIsMountedAfterTheStartIsUsed) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  ASSERT_TRUE(daemon_.goes_on());
  ASSERT_TRUE(daemon_.stop());
  unmount(disk_);
  fuse_.reset();
  ASSERT_TRUE(mount_tmpfs(disk_, "size=1m"));
  ASSERT_TRUE(remount_tmpfs(disk_, true, ""));
  Manager manager(folder_ / "notify");
  options_.prefix = manager.environment();
  ASSERT_TRUE(daemon_.start(stacks_config(997, "256K"), options_));
  EXPECT_TRUE(manager.receives("STATUS=degraded (disk)")) << manager.last();
  EXPECT_TRUE(degraded());
  EXPECT_EQ(daemon_.ctl({"list"}).out, "");
  expect_write_failed(EROFS, "not mounted yet");
  unmount(disk_);
  ASSERT_TRUE(mount_slow_disk());
  EXPECT_TRUE(wait_until([&] { return daemon_.ctl({"list"}).out.find("manual") != std::string::npos; }, 30s));
  EXPECT_TRUE(wait_until([&] { return daemon_.log().find("can be used now") != std::string::npos; }, 30s));
  expect_good_again();
  EXPECT_TRUE(manager.receives("STATUS=recording")) << manager.last();
  expect_no_half_file(backing_ + "/state/snapshots");
  EXPECT_TRUE(daemon_.stop());
}

// READY=1 comes without an answer of the disk, also for root, which gives the folder to flightd's user.
TEST_F(DiskLong, HangingOneAtTheStartHoldsUpNeitherRecorderNorSocket) {
  ASSERT_TRUE(mount_slow_disk());
  start();
  ASSERT_TRUE(daemon_.goes_on());
  ASSERT_TRUE(daemon_.stop());
  set_fault("* -1 0 0");
  Manager manager(folder_ / "notify");
  options_.prefix = manager.environment();
  ASSERT_TRUE(daemon_.start(stacks_config(997, "256K"), options_));
  EXPECT_TRUE(manager.receives("READY=1\nSTATUS=degraded (disk)")) << manager.last();
  EXPECT_THAT(status_in_time()["warnings"].dump(), HasSubstr("has not answered since flightd started"));
  expect_write_failed(ETIMEDOUT, "no answer");
  set_fault("none 0 0 0");
  EXPECT_TRUE(wait_until([&] { return daemon_.log().find("can be used now") != std::string::npos; }, 30s));
  EXPECT_THAT(daemon_.ctl({"list"}).out, HasSubstr("manual"));
  expect_good_again();
  EXPECT_TRUE(manager.receives("STATUS=recording")) << manager.last();
  // The lock that root took: a second flightd is refused.
  StartOptions second = options_;
  second.runtime_dir = folder_ / "other-run";
  second.prefix.clear();  // by hand: a service would wait
  TestDaemon other(folder_);
  other.launch(stacks_config(997, "256K").dump(), second);
  const Outcome refused = other.process().finish(30s);
  EXPECT_EQ(refused.exit_status, 1) << refused.text();
  EXPECT_THAT(refused.err, HasSubstr(options_.state_dir));
  EXPECT_TRUE(daemon_.stop());
}

// A flightd that waits for a disk is degraded. The watchdog must not restart it or its broker.
TEST_F(DiskLong, HangingOneIsNoneOfTheWatchdogs) {
  const Milliseconds allowed = sanitized() ? 12s : 4s;
  Manager manager(folder_ / "notify");
  ASSERT_TRUE(mount_slow_disk());
  options_.prefix = manager.environment();
  options_.prefix.push_back("WATCHDOG_USEC=" + std::to_string(std::chrono::microseconds(allowed).count()));
  start();
  ASSERT_TRUE(manager.receives("WATCHDOG=1"));
  set_fault("* -1 0 0");
  Child asker = Child::start(daemon_.ctl_command({"--json", "snapshot"}));
  Child lister = Child::start(daemon_.ctl_command({"list"}));
  const auto begin = std::chrono::steady_clock::now();
  auto last = begin;
  Milliseconds longest{0};
  while (std::chrono::steady_clock::now() - begin < 3 * allowed) {
    usleep(50'000);
    const auto now = std::chrono::steady_clock::now();
    longest = std::max(longest, std::chrono::duration_cast<Milliseconds>(now - last));
    if (manager.received("WATCHDOG=1") > 0) last = now;
  }
  EXPECT_LT(longest, allowed);
  EXPECT_TRUE(degraded());
  EXPECT_TRUE(lister.running()) << "so the disk did answer?";
  set_fault("none 0 0 0");
  EXPECT_LE(asker.finish(60s).exit_status, 1);
  EXPECT_EQ(lister.finish(20s).exit_status, 0);
  expect_good_again();
  // A stopped process sends no keep-alive. So the check above would have noticed a missing one.
  ASSERT_EQ(kill(daemon_.pid(), SIGSTOP), 0);
  usleep(100'000);  // a fixed time, as for the rest: no message must come
  manager.received("");
  std::this_thread::sleep_for(allowed);
  EXPECT_EQ(manager.received("WATCHDOG=1"), 0U);
  ASSERT_EQ(kill(daemon_.pid(), SIGCONT), 0);
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
