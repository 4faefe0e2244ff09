// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/reader.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/plain.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "tests/unit/perfdata/records.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

using test::Bytes;

constexpr std::uint32_t kPlainBytes = 8192;

struct Made {
  Bytes file;
  std::vector<Bytes> records;  // the records as for_each_record must return them
};

std::vector<FileEvent> clock_on_one_cpu() {
  return {{test::sideband_attr(), "flightd:sideband", {11, 12}}, {test::clock_attr(), "cpu-clock", {21}}};
}

// Plain records, two COMPRESSED ones with a round between, a plain one: 9 records.
Made make_file() {
  const test::TemporaryFolder folder;
  const UniqueFd fd = test::create_file(folder.path("a"));
  auto writer = FileWriter::create(fd.get(), clock_on_one_cpu());
  EXPECT_TRUE(writer);
  Made made;
  const auto keep = [&](Bytes record) {
    made.records.push_back(record);
    return record;
  };
  const auto plain = [&](const Bytes& record) { EXPECT_TRUE(writer->append(keep(record))); };
  const auto sample = [](std::uint64_t time_ns) {
    Bytes out;
    test::put_clock_sample(out, {.pid = 7, .tid = 7, .cpu = 0, .time_ns = time_ns, .id = 21}, 0x1000, false);
    return out;
  };
  Bytes comm, round, init;
  test::put_comm(comm, 7, "hot");
  append_finished_round(round);
  append_finished_init(init);
  plain(comm);
  plain(init);
  std::uint64_t time_ns = 0;
  for (int frame = 0; frame < 2; ++frame) {
    Bytes inner, out;
    for (int i = 0; i < 2; ++i) test::put_bytes(inner, keep(sample(++time_ns)));
    const auto compressed = compress_all(inner, 1);
    EXPECT_TRUE(compressed);
    append_compressed(out, *compressed);
    EXPECT_TRUE(writer->append(out));
    plain(round);
  }
  plain(sample(99));
  Features features{.hostname = "box", .version = "0.1.0", .arch = "x86_64", .cpus_available = 2, .cpus_online = 2};
  features.compressed = CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = kPlainBytes};
  EXPECT_TRUE(writer->finish(features));
  made.file = test::file_bytes(folder.path("a"));
  return made;
}

Result<void> read_all_of(const FileReader& reader, std::vector<Bytes>* records) {
  return reader.for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (records != nullptr) records->emplace_back(record.begin(), record.end());
        return {};
      },
      expand);
}

TEST(Reader, RoundTrip) {
  const Made made = make_file();
  const auto reader = FileReader::parse(made.file);
  ASSERT_TRUE(reader) << reader.error().what;
  const std::vector<FileEvent> expected = clock_on_one_cpu();
  ASSERT_EQ(reader->events().size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(reader->events()[i].name, expected[i].name);
    EXPECT_EQ(reader->events()[i].ids, expected[i].ids);
    EXPECT_EQ(reader->events()[i].attr.sample_type, expected[i].attr.sample_type);
    EXPECT_EQ(reader->events()[i].attr.size, 128U);
  }
  EXPECT_EQ(reader->string_feature(kFeatureHostname), "box");
  EXPECT_EQ(reader->string_feature(kFeatureVersion), "0.1.0");
  EXPECT_EQ(reader->string_feature(kFeatureOsRelease), "");
  EXPECT_EQ(reader->features().at(kFeatureCpus).size(), 8U);
  std::vector<Bytes> records;
  const auto read = read_all_of(*reader, &records);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(records, made.records);
  EXPECT_EQ(records.size(), 9U);
}

TEST(Plain, HasTheSameRecordsWithoutCompression) {
  const test::TemporaryFolder folder;
  const Made made = make_file();
  const auto packed = FileReader::parse(made.file);
  ASSERT_TRUE(packed);
  const UniqueFd fd = test::create_file(folder.path("plain"));
  const auto written = write_plain(*packed, expand, fd.get());
  ASSERT_TRUE(written) << written.error().what;
  const auto reader = FileReader::open(folder.path("plain"));
  ASSERT_TRUE(reader) << reader.error().what;
  std::vector<Bytes> records;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        records.emplace_back(record.begin(), record.end());
        return {};
      },
      [](auto, auto) -> Result<Bytes> { return fail(std::errc::bad_message, "it is compressed"); });
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(records, made.records);
  auto features = packed->features();
  EXPECT_EQ(features.erase(kFeatureCompressed), 1U);
  EXPECT_EQ(reader->features(), features);
  ASSERT_EQ(reader->events().size(), packed->events().size());
  for (std::size_t i = 0; i < reader->events().size(); ++i) {
    EXPECT_EQ(reader->events()[i].name, packed->events()[i].name);
    EXPECT_EQ(reader->events()[i].ids, packed->events()[i].ids);
  }
}

TEST(Plain, ABrokenFileIsNotRewritten) {
  const test::TemporaryFolder folder;
  Made made = make_file();
  const auto reader = FileReader::parse(made.file);
  ASSERT_TRUE(reader);
  const UniqueFd fd = test::create_file(folder.path("plain"));
  const auto refused = [](auto, auto) -> Result<Bytes> { return fail(std::errc::bad_message, "a frame is broken"); };
  EXPECT_EQ(write_plain(*reader, refused, fd.get()).error().what.find("a frame is broken") != std::string::npos, true);
  EXPECT_FALSE(FileReader::open(folder.path("plain"))) << "without a header";
}

TEST(Reader, TheVisitorsErrorEndsIt) {
  const Made made = make_file();
  const auto reader = FileReader::parse(made.file);
  ASSERT_TRUE(reader);
  int seen = 0;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte>) -> Result<void> {
        if (++seen == 4) return fail(std::errc::operation_canceled, "enough");
        return {};
      },
      expand);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().what, "enough");
  EXPECT_EQ(seen, 4) << "inside of a COMPRESSED record";
}

TEST(Reader, OpenReadsAFileAndSaysWhatIsWrongWithOthers) {
  const test::TemporaryFolder folder;
  const Made made = make_file();
  const auto write = [&](std::string_view name, std::span<const std::byte> bytes) {
    const UniqueFd fd = test::create_file(folder.path(name));
    EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return folder.path(name);
  };
  const auto reader = FileReader::open(write("good", made.file));
  ASSERT_TRUE(reader) << reader.error().what;
  EXPECT_TRUE(read_all_of(*reader, nullptr));

  const auto refused = [](const std::string& path, std::string_view why) {
    const auto opened = FileReader::open(path);
    ASSERT_FALSE(opened) << path;
    EXPECT_NE(opened.error().what.find(path), std::string::npos) << opened.error().what;
    EXPECT_NE(opened.error().what.find(why), std::string::npos) << opened.error().what;
  };
  refused(folder.path("missing"), "No such file");
  refused("/proc", "not a regular file");
  refused("/dev/zero", "not a regular file");
  refused(write("empty", {}), "it is empty");
  refused(write("short", Bytes(103)), "104");
  refused(write("unfinished", Bytes(4096)), "its header was never written");
  refused(write("other", Bytes(4096, std::byte{'x'})), "magic number");
}

// Each in a heap block of exactly its size, so that ASan detects a read one byte too far.
Result<void> parse_exactly(std::span<const std::byte> bytes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  const auto reader = FileReader::parse({copy.get(), bytes.size()});
  if (!reader) return propagate(reader.error());
  (void)reader->string_feature(kFeatureHostname);
  (void)reader->string_feature(kFeatureCpus);
  return read_all_of(*reader, nullptr);
}

TEST(Reader, CutAtEveryByteIsAnError) {
  const Made made = make_file();
  for (std::size_t cut = 0; cut < made.file.size(); ++cut) {
    const auto result = parse_exactly(std::span(made.file).first(cut));
    ASSERT_FALSE(result) << cut;
    EXPECT_FALSE(result.error().what.empty());
  }
  EXPECT_TRUE(parse_exactly(made.file));
}

TEST(Reader, EveryFlippedBitAndByteEndsWell) {
  const Made made = make_file();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < made.file.size(); ++at) {
    for (const unsigned mask : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 128U, 255U}) {
      Bytes flipped = made.file;
      flipped[at] ^= static_cast<std::byte>(mask);
      if (!parse_exactly(flipped)) ++refused;
    }
  }
  EXPECT_GT(refused, 1000U);
}

TEST(Reader, HugeNumbersEverywhereInHeaderAndTables) {
  const Made made = make_file();
  // Every u64 of the file in turn: offset + size overflows, sizes beyond the file, huge counts.
  for (std::size_t at = 0; at + 8 <= made.file.size(); at += 4) {
    for (const std::uint64_t value : {~std::uint64_t{0}, ~std::uint64_t{0} - 7, std::uint64_t{1} << 63U,
                                      std::uint64_t{made.file.size()}, std::uint64_t{made.file.size() - 1}}) {
      Bytes hostile = made.file;
      __builtin_memcpy(hostile.data() + at, &value, sizeof value);
      (void)parse_exactly(hostile);
    }
  }
}

void set_u64(Bytes& file, std::size_t at, std::uint64_t value) {
  __builtin_memcpy(file.data() + at, &value, sizeof value);
}

TEST(Reader, OverlappingIdSectionsCannotAskForMoreThanTheFile) {
  // 1,000 attrs that all claim the whole file as their ids.
  constexpr std::size_t kCount = 1000;
  Bytes file(104 + kCount * 144 + 8);
  set_u64(file, 0, 0x32454c4946524550);
  set_u64(file, 8, 104);
  set_u64(file, 16, 144);
  set_u64(file, 24, 104);
  set_u64(file, 32, kCount * 144);
  set_u64(file, 40, file.size() - 8);
  set_u64(file, 48, 8);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t entry = 104 + i * 144;
    set_u64(file, entry, std::uint64_t{128} << 32U);
    set_u64(file, entry + 136, file.size() / 8 * 8);
  }
  const auto reader = FileReader::parse(file);
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().what.find("maximum"), std::string::npos) << reader.error().what;
}

// A mapped file would end the process with SIGBUS here, as it would at a bad sector of the disk.
TEST(Reader, AFileThatBecomesShorterWhileItIsReadIsAnError) {
  const test::TemporaryFolder folder;
  const Made made = make_file();
  const UniqueFd fd = test::create_file(folder.path("cut"));
  ASSERT_EQ(::write(fd.get(), made.file.data(), made.file.size()), static_cast<ssize_t>(made.file.size()));
  const auto reader = FileReader::open(folder.path("cut"));
  ASSERT_TRUE(reader) << reader.error().what;
  ASSERT_EQ(::ftruncate(fd.get(), 0), 0);
  const auto read = read_all_of(*reader, nullptr);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, std::errc::bad_message) << read.error().what;
}

// Records that lie across the windows in which the data is read.
TEST(Reader, DataOfManyWindows) {
  const test::TemporaryFolder folder;
  const UniqueFd fd = test::create_file(folder.path("large"));
  auto writer = FileWriter::create(fd.get(), clock_on_one_cpu());
  ASSERT_TRUE(writer);
  constexpr std::size_t kRecords = 60'000;  // of 8 to 80 bytes: more than 2 MiB
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < kRecords; ++i) {
    Bytes record(8 + 8 * (i % 10), std::byte{7});
    const perf_event_header header{
        .type = PERF_RECORD_LOST_SAMPLES, .misc = 0, .size = static_cast<std::uint16_t>(record.size())};
    __builtin_memcpy(record.data(), &header, sizeof header);
    ASSERT_TRUE(writer->append(record));
    bytes += record.size();
  }
  ASSERT_TRUE(writer->finish(Features{.hostname = "box"}));
  ASSERT_GT(bytes, 2U << 20U);
  const auto reader = FileReader::open(folder.path("large"));
  ASSERT_TRUE(reader) << reader.error().what;
  std::size_t seen = 0;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        EXPECT_EQ(record.size(), 8 + 8 * (seen % 10));
        ++seen;
        bytes -= record.size();
        return {};
      },
      expand);
  EXPECT_TRUE(read) << read.error().what;
  EXPECT_EQ(seen, kRecords);
  EXPECT_EQ(bytes, 0U);
}

TEST(Reader, ReadsWhatTheStockPerfWrites) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const test::TemporaryFolder folder;
  const std::string path = folder.path("stock");
  const std::string command = "perf record -q -B -N -e cpu-clock -e dummy -F 999 -o " + path +
                              " -- sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done' 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0) << "the stock perf is needed: install linux-perf";
  const auto reader = FileReader::open(path);
  ASSERT_TRUE(reader) << reader.error().what;
  ASSERT_EQ(reader->events().size(), 2U);
  EXPECT_TRUE(reader->events()[0].name.starts_with("cpu-clock")) << reader->events()[0].name;
  EXPECT_FALSE(reader->string_feature(kFeatureHostname).empty());
  EXPECT_TRUE(reader->features().contains(kFeatureEventDescription));
  std::size_t samples = 0;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (test::get<std::uint32_t>(record, 0) == PERF_RECORD_SAMPLE) ++samples;
        return {};
      },
      expand);
  EXPECT_TRUE(read) << read.error().what;
  EXPECT_GT(samples, 5U);
}

}  // namespace
}  // namespace flight
