// SPDX-License-Identifier: Apache-2.0
// Tables on disk: which one belongs to a file, and which one goes first.
#include "libcore/unwind/table_cache.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libcore/base/files.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {
namespace {

constexpr TableSource kSource{
    .device = 1, .inode = 2, .generation = 3, .bytes = 4, .modified_ns = 5'000'000'006, .changed_ns = 7'000'000'008};

class TableCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-table-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    CfiWriter cfi(kEhFrameAddress);
    cfi.add_fde(kCodeAddress, 0x100, bytes_of({0x0e, 24}));
    TestElf elf;
    elf.eh_frame = cfi.bytes();
    const Bytes file = elf.build();
    const auto image = ElfImage::parse(FileBytes(file));
    ASSERT_TRUE(image) << image.error().what;
    auto built = build_unwind_table(*image);
    ASSERT_TRUE(built) << built.error().what;
    table_ = std::move(built->bytes);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TableCache open(std::uint64_t most_bytes = TableCache::kMostBytes) const {
    auto cache = TableCache::open(folder_, most_bytes);
    EXPECT_TRUE(cache) << cache.error().what;
    return std::move(*cache);
  }
  static TableSource source_of(std::uint64_t inode) {
    TableSource source = kSource;
    source.inode = inode;
    return source;
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) out.push_back(entry.path().filename());
    return out;
  }
  [[nodiscard]] std::string only_file() const {
    const auto all = names();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? folder_ : folder_ + "/" + all.front();
  }
  [[nodiscard]] std::uint64_t file_bytes() const { return sizeof(TableFileHeader) + table_.size(); }

  std::string folder_;
  std::vector<std::byte> table_;
};

TEST_F(TableCacheTest, ATableIsFoundAgainAlsoByTheNextProcess) {
  {
    TableCache cache = open();
    EXPECT_FALSE(cache.find(kSource));
    const auto put = cache.put(kSource, table_);
    ASSERT_TRUE(put) << put.error().what;
    EXPECT_TRUE(cache.find(kSource));
  }
  TableCache cache = open();
  EXPECT_EQ(cache.files(), 1U);
  EXPECT_EQ(cache.bytes(), file_bytes());
  const UniqueFd file = cache.find(kSource);
  ASSERT_TRUE(file);
  const auto cached = CachedTable::open(file.get());
  ASSERT_TRUE(cached) << cached.error().what;
  EXPECT_EQ(cached->table().bytes(), table_.size());
  EXPECT_NE(cached->table().find(kCodeAddress + 5), kNoRule);
  EXPECT_EQ(names(), std::vector<std::string>{"1-2-3.table"});
}

// Written to, or replaced under the same number.
TEST_F(TableCacheTest, ATableOfOlderContentIsRemoved) {
  TableCache cache = open();
  for (const auto change : {+[](TableSource& one) { one.bytes += 1; }, +[](TableSource& one) { one.modified_ns += 1; },
                            +[](TableSource& one) { one.changed_ns += 1; }}) {
    ASSERT_TRUE(cache.put(kSource, table_));
    TableSource changed = kSource;
    change(changed);
    EXPECT_FALSE(cache.find(changed));
    EXPECT_EQ(cache.files(), 0U);
    EXPECT_TRUE(names().empty());
  }
}

TEST_F(TableCacheTest, AnotherFileHasAnotherTable) {
  TableCache cache = open();
  ASSERT_TRUE(cache.put(kSource, table_));
  for (const auto change : {+[](TableSource& one) { one.device += 1; }, +[](TableSource& one) { one.inode += 1; },
                            +[](TableSource& one) { one.generation += 1; }}) {
    TableSource other = kSource;
    change(other);
    EXPECT_FALSE(cache.find(other));
  }
  EXPECT_TRUE(cache.find(kSource));
}

TEST_F(TableCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  const std::uint64_t most_bytes = 3 * file_bytes() + 1;
  {
    TableCache cache = open(most_bytes);
    for (std::uint64_t inode = 1; inode <= 3; ++inode) ASSERT_TRUE(cache.put(source_of(inode), table_));
    EXPECT_TRUE(cache.find(source_of(1)));
    ASSERT_TRUE(cache.put(source_of(4), table_));
    EXPECT_FALSE(cache.find(source_of(2)));
    EXPECT_TRUE(cache.find(source_of(3)));
    EXPECT_LE(cache.bytes(), most_bytes);
  }
  // Used last: 1, then 4, then 3. The next process knows it.
  TableCache cache = open(most_bytes);
  ASSERT_TRUE(cache.put(source_of(5), table_));
  EXPECT_FALSE(cache.find(source_of(1)));
  EXPECT_TRUE(cache.find(source_of(4)));
  EXPECT_TRUE(cache.find(source_of(3)));
  TableCache smaller = open(file_bytes());
  EXPECT_EQ(smaller.files(), 1U);
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(TableCacheTest, OneThatIsReplacedCountsOnce) {
  TableCache cache = open();
  TableSource later = kSource;
  later.modified_ns += 1;
  ASSERT_TRUE(cache.put(kSource, table_));
  ASSERT_TRUE(cache.put(later, table_));
  EXPECT_EQ(cache.bytes(), file_bytes());
  EXPECT_FALSE(cache.put(source_of(9), std::vector<std::byte>(kMaxTableBytes + 1)));
  EXPECT_TRUE(cache.find(later));
}

TEST_F(TableCacheTest, ADamagedFileIsRemoved) {
  for (const std::uintmax_t size :
       {std::uintmax_t{0}, std::uintmax_t{63}, std::uintmax_t{64}, file_bytes() - 1, file_bytes() + 1}) {
    TableCache cache = open();
    ASSERT_TRUE(cache.put(kSource, table_));
    std::filesystem::resize_file(only_file(), size);
    EXPECT_FALSE(cache.find(kSource)) << size;
    EXPECT_TRUE(names().empty());
  }
  // Its header is right, but what follows is no table.
  TableCache cache = open();
  ASSERT_TRUE(cache.put(kSource, std::vector<std::byte>(table_.size())));
  const UniqueFd file = cache.find(kSource);
  ASSERT_TRUE(file);
  const auto cached = CachedTable::open(file.get());
  ASSERT_FALSE(cached);
  EXPECT_EQ(cached.error().errno_value(), EBADMSG);
  EXPECT_FALSE(CachedTable::open(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get()));
}

TEST_F(TableCacheTest, OnlyItsOwnFilesAreTouched) {
  std::ofstream(folder_ + "/README") << "of somebody";
  std::ofstream(folder_ + "/.unfinished") << "of a process that was killed";
  std::filesystem::create_symlink("README", folder_ + "/1-1-1.table");
  TableCache cache = open(1);
  EXPECT_EQ(cache.files(), 0U);
  EXPECT_FALSE(cache.put(kSource, table_)) << "the budget is one byte";
  const auto left = names();
  EXPECT_EQ(left.size(), 2U) << "README and the link";
  EXPECT_EQ(read_file(folder_ + "/README").value_or(""), "of somebody");
}

TEST_F(TableCacheTest, AFileIsKnownByWhatItsDescriptorSays) {
  const std::string path = folder_ + "/program";
  std::ofstream(path) << "text";
  const auto file = open_file(path, O_RDONLY);
  ASSERT_TRUE(file) << file.error().what;
  const auto before = TableSource::of(file->get());
  ASSERT_TRUE(before) << before.error().what;
  EXPECT_EQ(before->bytes, 4U);
  EXPECT_EQ(*before, TableSource::of(file->get()).value());
  std::filesystem::rename(path, path + ".old");
  const auto after = TableSource::of(file->get());
  ASSERT_TRUE(after) << after.error().what;
  EXPECT_EQ(after->inode, before->inode);
  EXPECT_GE(after->changed_ns, before->changed_ns);
  EXPECT_FALSE(TableSource::of(UniqueFd(::open("/", O_RDONLY | O_CLOEXEC)).get()));
}

}  // namespace
}  // namespace flight::test
