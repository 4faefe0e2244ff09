// SPDX-License-Identifier: Apache-2.0
// Data directories: read as one file, and rewritten as one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/plain.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "tests/unit/perfdata/records.hpp"

namespace flight {
namespace {

using test::Bytes;
using testing::HasSubstr;

constexpr std::uint32_t kFrameBytes = 8192;

Bytes sample_at(std::uint64_t time_ns) {
  Bytes out;
  test::put_clock_sample(out, {.pid = 7, .tid = 7, .cpu = 0, .time_ns = time_ns, .id = 21}, 0x1000, false);
  return out;
}

Bytes frame_of(const Bytes& records) {
  Bytes out;
  const auto compressed = compress_all(records, 1);
  EXPECT_TRUE(compressed);
  append_compressed(out, *compressed);
  return out;
}

// `data` has a name, data.0 two frames of a sample each, data.1 a plain sample.
class FolderReaderTest : public testing::Test {
 protected:
  void make(bool says_so = true) {
    std::filesystem::create_directory(path_);
    const UniqueFd fd = test::create_file(path_ + "/data");
    auto writer = FileWriter::create(
        fd.get(), {{test::sideband_attr(), "flightd:sideband", {11, 12}}, {test::clock_attr(), "cpu-clock", {21}}});
    ASSERT_TRUE(writer);
    Bytes comm;
    test::put_comm(comm, 7, "hot");
    ASSERT_TRUE(writer->append(frame_of(comm)));
    Features features{.hostname = "box", .version = "0.1.0", .arch = "x86_64", .cpus_available = 2, .cpus_online = 2};
    features.compressed = CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = kFrameBytes};
    features.directory = says_so;
    ASSERT_TRUE(writer->finish(features));
    Bytes bare = frame_of(sample_at(1));
    test::put_bytes(bare, frame_of(sample_at(3)));
    put("data.0", bare);
    put("data.1", sample_at(2));
    expected_ = {comm, sample_at(1), sample_at(3), sample_at(2)};
  }
  void put(const std::string& name, const Bytes& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  static Result<std::vector<Bytes>> records_of(const FileReader& reader) {
    std::vector<Bytes> out;
    const auto read = reader.for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          out.emplace_back(record.begin(), record.end());
          return {};
        },
        expand);
    if (!read) return propagate(read.error());
    return out;
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.path("made.perf.data");
  std::vector<Bytes> expected_;
};

TEST_F(FolderReaderTest, HasTheRecordsOfAllFiles) {
  make();
  const auto reader = FileReader::open(path_);
  ASSERT_TRUE(reader) << reader.error().what;
  EXPECT_EQ(reader->string_feature(kFeatureHostname), "box");
  const Bytes version = reader->features().at(kFeatureDirFormat);
  ASSERT_EQ(version.size(), 8U);
  EXPECT_EQ(test::get<std::uint64_t>(version, 0), 1U);
  std::uint64_t bytes = 0;
  for (const char* name : {"data", "data.0", "data.1"}) bytes += std::filesystem::file_size(path_ + "/" + name);
  EXPECT_EQ(reader->file_bytes(), bytes);
  const auto records = records_of(*reader);
  ASSERT_TRUE(records) << records.error().what;
  EXPECT_EQ(*records, expected_);
}

TEST_F(FolderReaderTest, ATornFileIsAnError) {
  make();
  std::filesystem::resize_file(path_ + "/data.1", std::filesystem::file_size(path_ + "/data.1") - 1);
  const auto reader = FileReader::open(path_);
  ASSERT_TRUE(reader) << reader.error().what;
  const auto records = records_of(*reader);
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().errno_value(), EBADMSG);
  EXPECT_THAT(records.error().what, HasSubstr("data.1"));
}

TEST_F(FolderReaderTest, WithoutTheFeatureItIsNone) {
  make(false);
  const auto reader = FileReader::open(path_);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().errno_value(), EBADMSG) << reader.error().what;
  EXPECT_TRUE(FileReader::open(path_ + "/data")) << "it is a file of its own";
}

TEST_F(FolderReaderTest, BecomesOneFile) {
  make();
  const auto reader = FileReader::open(path_);
  ASSERT_TRUE(reader) << reader.error().what;
  for (const bool plain : {false, true}) {
    SCOPED_TRACE(plain);
    const std::string path = folder_.path(plain ? "plain" : "joined");
    const UniqueFd fd = test::create_file(path);
    const auto written = plain ? write_plain(*reader, expand, fd.get()) : write_joined(*reader, fd.get());
    ASSERT_TRUE(written) << written.error().what;
    const auto one = FileReader::open(path);
    ASSERT_TRUE(one) << one.error().what;
    EXPECT_EQ(one->features().count(kFeatureDirFormat), 0U);
    EXPECT_EQ(one->features().count(kFeatureCompressed), plain ? 0U : 1U);
    std::size_t frames = 0;
    const auto read = one->for_each_stored_record([&](std::span<const std::byte> record) -> Result<void> {
      frames += test::get<std::uint32_t>(record, 0) == kRecordCompressed ? 1 : 0;
      return {};
    });
    EXPECT_TRUE(read) << read.error().what;
    EXPECT_EQ(frames, plain ? 0U : 3U);
    const auto records = records_of(*one);
    ASSERT_TRUE(records) << records.error().what;
    EXPECT_EQ(*records, expected_);
  }
}

}  // namespace
}  // namespace flight
