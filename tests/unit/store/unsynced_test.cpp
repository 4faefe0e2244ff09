// SPDX-License-Identifier: Apache-2.0
// A directory that cannot be synced, or loses only one of two files: what took effect is no failure, and is not called
// durable. This program has its own fsync(2) and unlinkat(2), which fail while a test wants it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/files.hpp"
#include "libcore/store/catalogue.hpp"
#include "libcore/store/vacuum.hpp"
#include "tests/unit/store/sample_sidecar.hpp"

namespace {

enum class Failing { nothing, folders, files, data_removal, sidecar_removal, pin_removal } failing = Failing::nothing;

}  // namespace

extern "C" int fsync(int fd) {
  struct stat info {};
  const bool folder = ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode);
  if (failing == (folder ? Failing::folders : Failing::files)) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

extern "C" int unlinkat(int fd, const char* name, int flags) noexcept {
  const std::string_view file(name);
  if ((failing == Failing::data_removal && file == flight::kMainDataFile) ||
      (failing == Failing::sidecar_removal && file.ends_with(flight::kSidecarSuffix)) ||
      (failing == Failing::pin_removal && file.ends_with(flight::kPinSuffix))) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_unlinkat, fd, name, flags));
}

namespace flight {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class UnsyncedStore : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-unsynced-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (std::uint64_t seq = 1; seq <= 3; ++seq) {
      std::ofstream(at(name_of(seq).data_file())) << "PERFILE2";
      std::ofstream(at(name_of(seq).sidecar_file())) << to_json(sample_sidecar());
    }
  }
  void TearDown() override {
    failing = Failing::nothing;
    fs::remove_all(folder_);
  }
  static SnapshotName name_of(std::uint64_t seq) {
    return {.host = "web3", .time = std::chrono::milliseconds(1795144324123), .trigger = "manual", .seq = seq};
  }
  [[nodiscard]] std::string at(const std::string& file) const { return folder_ + "/" + file; }
  [[nodiscard]] static bool is_eio(const Unsynced& unsynced) { return unsynced && unsynced->errno_value() == EIO; }

  std::string folder_;
};

TEST_F(UnsyncedStore, APinTookEffect) {
  Catalogue catalogue(folder_);
  failing = Failing::folders;
  EXPECT_TRUE(catalogue.pin("2", true));
  EXPECT_TRUE(fs::exists(at(name_of(2).pin_file())));
  ASSERT_TRUE(is_eio(catalogue.unsynced()));
  EXPECT_THAT(catalogue.unsynced()->what, HasSubstr(folder_));
  EXPECT_TRUE(catalogue.pin("2", false));
  EXPECT_FALSE(fs::exists(at(name_of(2).pin_file())));
  EXPECT_TRUE(is_eio(catalogue.unsynced()));
  failing = Failing::nothing;
  EXPECT_TRUE(catalogue.pin("1", true));
  EXPECT_FALSE(catalogue.unsynced());
}

// It could come back after a power failure.
TEST_F(UnsyncedStore, WhatWasRemovedIsGone) {
  Catalogue catalogue(folder_);
  failing = Failing::folders;
  EXPECT_TRUE(catalogue.remove("2"));
  EXPECT_FALSE(fs::exists(at(name_of(2).data_file())));
  EXPECT_TRUE(is_eio(catalogue.unsynced()));
  failing = Failing::nothing;
  EXPECT_TRUE(catalogue.remove("1"));
  EXPECT_FALSE(catalogue.unsynced());
}

// For example because its files are immutable (chattr(1)).
TEST_F(UnsyncedStore, ADirectoryThatCannotBeEmptiedKeepsItsName) {
  const std::string path = at(name_of(4).data_file());
  fs::create_directory(path);
  for (const char* file : {"data", "data.0"}) std::ofstream(path + "/" + file) << "PERFILE2";
  std::ofstream(at(name_of(4).sidecar_file())) << to_json(sample_sidecar());
  Catalogue catalogue(folder_);
  failing = Failing::data_removal;
  const auto removed = catalogue.remove("4");
  ASSERT_FALSE(removed);
  EXPECT_THAT(removed.error().what, HasSubstr(path + "/data"));
  EXPECT_TRUE(fs::exists(path + "/data.0"));
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 4U);
  EXPECT_EQ(rows->at(3).state, SnapshotState::present);
  failing = Failing::nothing;
  EXPECT_TRUE(catalogue.remove("4"));
  for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_FALSE(entry.is_directory()) << entry.path();
}

// In an earlier version that was an error, and the snapshot was still listed: its data was gone.
TEST_F(UnsyncedStore, WhatLostItsDataIsRemoved) {
  Catalogue catalogue(folder_);
  failing = Failing::sidecar_removal;
  EXPECT_TRUE(catalogue.remove("3"));
  EXPECT_FALSE(fs::exists(at(name_of(3).data_file())));
  ASSERT_TRUE(catalogue.left_behind());
  EXPECT_EQ(catalogue.left_behind()->errno_value(), EIO);
  EXPECT_THAT(catalogue.left_behind()->what, HasSubstr(at(name_of(3).sidecar_file())));
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->size(), 2U);
  EXPECT_FALSE(catalogue.describe("3"));
  EXPECT_FALSE(catalogue.remove("3"));
  const auto latest = catalogue.open_data("latest");
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->name, name_of(2).data_file());
  failing = Failing::nothing;
  catalogue.remove_left();
  EXPECT_FALSE(fs::exists(at(name_of(3).sidecar_file())));
  EXPECT_TRUE(catalogue.remove("2"));
  EXPECT_FALSE(catalogue.left_behind());
}

// Nothing took effect: the data was gone before. In an earlier version its pin was gone then.
TEST_F(UnsyncedStore, ASidecarThatStaysIsAFailureIfThereWasNoData) {
  Catalogue catalogue(folder_);
  ASSERT_TRUE(catalogue.pin("2", true));
  fs::remove(at(name_of(2).data_file()));
  failing = Failing::sidecar_removal;
  const auto removed = catalogue.remove("2");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().errno_value(), EIO);
  EXPECT_TRUE(fs::exists(at(name_of(2).pin_file())));
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->size(), 3U);
}

// In an earlier version that was an error, although nothing of it was listed any more.
TEST_F(UnsyncedStore, APinThatStaysIsLeftBehindIfOnlyTheDataWasMissing) {
  Catalogue catalogue(folder_);
  ASSERT_TRUE(catalogue.pin("2", true));
  fs::remove(at(name_of(2).data_file()));
  failing = Failing::pin_removal;
  EXPECT_TRUE(catalogue.remove("2"));
  ASSERT_TRUE(catalogue.left_behind());
  EXPECT_THAT(catalogue.left_behind()->what, HasSubstr(at(name_of(2).pin_file())));
  EXPECT_FALSE(catalogue.describe("2"));
  failing = Failing::nothing;
  catalogue.remove_left();
  EXPECT_FALSE(fs::exists(at(name_of(2).pin_file())));
}

// It is there again, for example from a backup.
TEST_F(UnsyncedStore, DataThatWasPutBackIsListed) {
  Catalogue catalogue(folder_);
  failing = Failing::sidecar_removal;
  ASSERT_TRUE(catalogue.remove("2"));
  std::ofstream(at(name_of(2).data_file())) << "PERFILE2";
  failing = Failing::nothing;
  catalogue.remove_left();
  EXPECT_TRUE(catalogue.describe("2"));
  const auto rows = catalogue.list();
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->size(), 3U);
}

TEST_F(UnsyncedStore, ANumberIsGiven) {
  Catalogue catalogue(folder_);
  failing = Failing::folders;
  EXPECT_EQ(catalogue.next_seq().value_or(0), 4U);
  EXPECT_TRUE(is_eio(catalogue.unsynced()));
  EXPECT_EQ(read_file(at(".seq")).value_or(""), "4\n");
  failing = Failing::nothing;
  EXPECT_EQ(catalogue.next_seq().value_or(0), 5U);
  EXPECT_FALSE(catalogue.unsynced());
}

TEST_F(UnsyncedStore, ASidecarIsThere) {
  Catalogue catalogue(folder_);
  fs::remove(at(name_of(2).sidecar_file()));
  failing = Failing::folders;
  EXPECT_TRUE(catalogue.give_sidecar(name_of(2), to_json(sample_sidecar())));
  EXPECT_TRUE(fs::exists(at(name_of(2).sidecar_file())));
  EXPECT_TRUE(is_eio(catalogue.unsynced()));
}

TEST_F(UnsyncedStore, WhatWasVacuumedIsNoError) {
  failing = Failing::folders;
  const auto inventory = take_inventory(folder_);
  ASSERT_TRUE(inventory);
  const auto done = vacuum(folder_, *inventory, {.victims = {{.index = 0, .reason = VacuumReason::max_files}}});
  EXPECT_EQ(done.removed.size(), 1U);
  EXPECT_FALSE(done.error) << done.error->what;
  EXPECT_TRUE(is_eio(done.unsynced));
}

// Nothing took effect: the new text may not be on the disk, so it does not replace the old one.
TEST_F(UnsyncedStore, AFileThatCannotBeSyncedChangesNothing) {
  Catalogue catalogue(folder_);
  failing = Failing::files;
  const auto pinned = catalogue.pin("2", true);
  ASSERT_FALSE(pinned);
  EXPECT_EQ(pinned.error().errno_value(), EIO);
  EXPECT_FALSE(fs::exists(at(name_of(2).pin_file())));
  EXPECT_FALSE(catalogue.next_seq());
  EXPECT_FALSE(fs::exists(at(".seq")));
}

}  // namespace
}  // namespace flight
