// SPDX-License-Identifier: Apache-2.0
// flightctl get and report of a snapshot whose data is a directory.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "libcore/perfdata/writer.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"

namespace flight {
namespace {

using namespace test;
using testing::HasSubstr;
namespace fs = std::filesystem;

class FolderTest : public FlightctlTest {
 protected:
  FolderTest() {
    fs::create_directory(here_);
    fs::current_path(here_);  // flightctl's directory, too
    fs::create_directory(stored_);
    make_data();
    bench.backend.file_to_read = stored_;
  }
  ~FolderTest() override { fs::current_path("/"); }

  // Process 7 has a name in each file; that in data.0 is compressed.
  void make_data() {
    FileEvent event;
    event.attr.type = PERF_TYPE_SOFTWARE;
    event.attr.size = kStoredAttrBytes;
    event.attr.sample_type = kSidebandSampleType;
    event.attr.sample_id_all = 1;
    event.name = "dummy";
    event.ids = {7};
    const auto file = open_file(stored_ + "/data", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    auto writer = FileWriter::create(file.value().get(), {event});
    Features features;
    features.hostname = "web3";
    features.directory = true;
    features.compressed = CompressedFeature{.level = 1, .ratio = 1, .mmap_bytes = 589'824};
    EXPECT_TRUE(writer->append(name_of_7("main")));
    EXPECT_TRUE(writer->finish(features));
    std::vector<std::byte> frame;
    append_compressed(frame, compress_all(name_of_7("first"), 1).value());
    put("data.0", frame);
    put("data.1", name_of_7("second"));
  }
  static RecordBuffer name_of_7(const std::string& name) {
    RecordBuffer out;
    append_comm(out, {.pid = 7, .tid = 7, .name = name}, {.time_ns = 5});
    return out;
  }
  void put(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream(stored_ + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  // The names of process 7 in a file or a directory, in its order.
  static std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    const auto reader = FileReader::open(path);
    EXPECT_TRUE(reader) << reader.error().what;
    if (!reader) return names;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          names.emplace_back(reinterpret_cast<const char*>(record.data()) + sizeof(perf_event_header) + 8);
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    return names;
  }
  // tar(1) unpacks it here.
  static void unpack(const std::string& tar) {
    ASSERT_EQ(std::system(("tar --no-same-owner -xf " + tar).c_str()), 0) << tar;
  }

  const std::vector<std::string> all_names_{"main", "first", "second"};
  std::string here_ = bench.folder() + "/here";
  std::string stored_ = bench.folder() + "/stored.perf.data";
};

TEST_F(FolderTest, GetWritesATar) {
  run();
  const std::string& name = bench.backend.name_to_read;
  const Outcome outcome = ctl({"get", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, name + ".tar\n");
  ASSERT_NO_FATAL_FAILURE(unpack(name + ".tar"));
  for (const char* file : {"data", "data.0", "data.1"})
    EXPECT_EQ(text_of(name + "/" + file), text_of(stored_ + "/" + file)) << file;
  EXPECT_EQ(names_in(name), all_names_);
  const Outcome again = ctl({"get", "1"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  EXPECT_EQ(ctl({"get", "1", "-o", "x"}).code, 0);
  EXPECT_EQ(text_of("x"), text_of(name + ".tar"));
}

TEST_F(FolderTest, PlainIsOneFile) {
  run();
  const Outcome outcome = ctl({"get", "1", "--plain"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string path = "flight-web3-20261120T031204.123Z-manual-1.plain.perf.data";
  EXPECT_EQ(outcome.out, path + "\n");
  EXPECT_EQ(names_in(path), all_names_);
  const auto reader = FileReader::open(path);
  ASSERT_TRUE(reader) << reader.error().what;
  EXPECT_EQ(reader->features().count(kFeatureCompressed), 0U);
  EXPECT_EQ(reader->features().count(kFeatureDirFormat), 0U);
  EXPECT_EQ(reader->string_feature(kFeatureHostname), "web3");
}

TEST_F(FolderTest, APlainFileWaitsForItsReader) {
  RecordBuffer many;  // more than a pipe holds
  for (int i = 0; i < 20'000; ++i) append_comm(many, {.pid = 7, .tid = 7, .name = "second"}, {.time_ns = 5});
  put("data.1", many);
  run();
  const Outcome file = ctl({"get", "1", "--plain", "-o", "x"});
  ASSERT_EQ(file.code, 0) << file.err;
  const std::string expected = text_of("x");
  ASSERT_GT(expected.size(), many.size());
  const Outcome outcome = ctl_into_pipe({"get", "1", "--plain", "-o", "-"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out == expected) << outcome.out.size() << " bytes of " << expected.size();
}

TEST_F(FolderTest, NothingIsLeftWhenTheBytesEndEarly) {
  bench.backend.bytes_too_many = 1;
  run();
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"get", "1", "-o", "x"}, {"get", "1", "--plain", "-o", "x"}}) {
    const Outcome outcome = ctl(words);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("before the end"));
    EXPECT_FALSE(fs::exists("x"));
  }
}

// A flightd that sends something else as a tar, or a file that would be written elsewhere.
TEST_F(FolderTest, AnotherTarIsRefused) {
  fs::create_directory("other");
  std::ofstream("other/.bashrc") << "evil";
  ASSERT_EQ(std::system("tar -cf evil.tar other/.bashrc"), 0);
  std::ofstream("none.tar") << std::string(2000, 'x');
  for (const char* tar : {"evil.tar", "none.tar"}) {
    SCOPED_TRACE(tar);
    ControlBench other;
    other.backend.file_to_read = here_ + "/" + tar;
    other.backend.name_to_read = bench.backend.name_to_read + ".tar";
    ASSERT_TRUE(other.run());
    const Outcome outcome = bare({"--socket", other.socket(), "get", "1", "--plain", "-o", "x"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, testing::AnyOf(HasSubstr("no file of a data directory"), HasSubstr("is no tar")));
    EXPECT_FALSE(fs::exists("x"));
    EXPECT_FALSE(fs::exists(".bashrc"));
  }
}

// perf is a script that copies what it is to read.
class FolderReportTest : public FolderTest {
 protected:
  FolderReportTest() {
    std::ofstream(perf_) << "#!/bin/sh\n[ \"$1\" = report ] || exit 0\necho \"$3\" > said\ncp -rL \"$3\" copied\n";
    ::chmod(perf_.c_str(), 0755);
    bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters&) {
      Sidecar sidecar = full_sidecar(id, stored_);
      sidecar.size_bytes = stated_bytes_;
      return to_json(sidecar);
    };
    for (const auto& entry : fs::directory_iterator(stored_)) stated_bytes_ += entry.file_size();
  }
  void report() {
    run();
    ASSERT_EQ(ctl({"snapshot"}).code, 0);
    const Outcome outcome = ctl({"report", "--perf", perf_, "1"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  std::string perf_ = bench.folder() + "/perf";
  std::uint64_t stated_bytes_ = 0;
};

TEST_F(FolderReportTest, InPlaceItIsTheDirectory) {
  ASSERT_NO_FATAL_FAILURE(report());
  EXPECT_EQ(text_of("said"), stored_ + "\n");
}

// It cannot be what the sidecar describes.
TEST_F(FolderReportTest, OtherwiseItIsOneFile) {
  ++stated_bytes_;
  ASSERT_NO_FATAL_FAILURE(report());
  EXPECT_THAT(text_of("said"), testing::StartsWith("/proc/self/fd/"));
  ASSERT_TRUE(fs::is_regular_file("copied"));
  EXPECT_EQ(names_in("copied"), all_names_);
  const auto reader = FileReader::open("copied");
  ASSERT_TRUE(reader) << reader.error().what;
  EXPECT_EQ(reader->features().count(kFeatureCompressed), 1U) << "as it was stored";
}

}  // namespace
}  // namespace flight
