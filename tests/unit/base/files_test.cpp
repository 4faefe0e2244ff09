// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "libcore/base/mapping.hpp"

namespace flight {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/flight-files.XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(Files, WritesAndReadsBack) {
  const std::string path = folder_ + "/a";
  std::string text(100'000, 'x');
  text += "\nend\n";
  {
    auto fd = open_file(path, O_WRONLY | O_CREAT, 0600);
    ASSERT_TRUE(fd);
    ASSERT_TRUE(write_all(fd->get(), text));
  }
  EXPECT_EQ(read_file(path).value(), text);
  EXPECT_EQ(read_line(path).value() + "\n", text);
}

TEST_F(Files, AFileThatIsTooLargeIsRefused) {
  const std::string path = folder_ + "/large";
  auto fd = open_file(path, O_WRONLY | O_CREAT, 0600);
  ASSERT_TRUE(fd);
  ASSERT_TRUE(write_all(fd->get(), std::string(5000, 'x')));
  EXPECT_EQ(read_file(path, 1000).error().errno_value(), EFBIG);
}

TEST_F(Files, AMissingFileIsNamed) {
  const auto text = read_file(folder_ + "/none");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().errno_value(), ENOENT);
  EXPECT_NE(text.error().what.find(folder_ + "/none"), std::string::npos);
}

TEST_F(Files, OnlyARegularFileIsOpenedInADirectory) {
  ASSERT_TRUE(open_file(folder_ + "/file", O_WRONLY | O_CREAT, 0600));
  ASSERT_EQ(::symlink("file", (folder_ + "/link").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir((folder_ + "/folder").c_str(), 0700), 0);
  const auto folder = open_file(folder_, O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(folder) << folder.error().what;
  EXPECT_TRUE(open_regular_at(folder->get(), "file", "shown"));
  EXPECT_EQ(open_regular_at(folder->get(), "none", "shown").error().errno_value(), ENOENT);
  EXPECT_EQ(open_regular_at(folder->get(), "link", "shown").error().errno_value(), ELOOP);
  for (const char* other : {"fifo", "folder"}) {  // the FIFO has no writer
    const auto opened = open_regular_at(folder->get(), other, "shown");
    ASSERT_FALSE(opened) << other;
    EXPECT_EQ(opened.error().errno_value(), EINVAL) << other;
    EXPECT_EQ(opened.error().what, "shown is not a regular file") << other;
  }
}

TEST(Memfd, ASealedOneCannotBeChanged) {
  const std::string text = "manifest";
  auto fd = sealed_memfd("test", std::as_bytes(std::span(text.data(), text.size())));
  ASSERT_TRUE(fd) << fd.error().what;
  EXPECT_EQ(::write(fd->get(), "x", 1), -1);
  EXPECT_EQ(::ftruncate(fd->get(), 0), -1);
  EXPECT_EQ(read_sealed_memfd(fd->get(), 100).value(), text);
  EXPECT_EQ(read_sealed_memfd(fd->get(), 3).error().errno_value(), EFBIG);
}

TEST(Memfd, AnUnsealedOneIsRefused) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_TRUE(fd);
  EXPECT_EQ(read_sealed_memfd(fd.get(), 100).error().errno_value(), EBADMSG);
}

TEST(MappingTest, OwnsItsMemory) {
  auto mapping = Mapping::create(1U << 16U);
  ASSERT_TRUE(mapping);
  mapping->data()[100] = std::byte{7};
  Mapping other = std::move(*mapping);
  EXPECT_EQ(other.data()[100], std::byte{7});
  EXPECT_FALSE(*mapping);  // NOLINT(bugprone-use-after-move): what a moved-from one must be
  EXPECT_EQ(other.size(), 1U << 16U);
}

TEST(UniqueFdTest, ClosesOnce) {
  int raw = -1;
  {
    UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    raw = fd.get();
    UniqueFd other = std::move(fd);
    EXPECT_EQ(other.get(), raw);
    EXPECT_FALSE(fd);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(::fcntl(raw, F_GETFD), FD_CLOEXEC);
  }
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
}

}  // namespace
}  // namespace flight
