// SPDX-License-Identifier: Apache-2.0
#include "libcore/perfdata/writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "libcore/base/files.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "tests/unit/perfdata/records.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

using test::Bytes;
using test::get;

std::vector<FileEvent> two_events() {
  return {{test::sideband_attr(), "flightd:sideband", {11, 12}}, {test::clock_attr(), "cpu-clock", {21, 22, 23}}};
}

Bytes some_records() {
  Bytes records;
  test::put_comm(records, 42, "hot");
  test::put_clock_sample(records, {.pid = 42, .tid = 42, .cpu = 0, .time_ns = 5, .id = 21}, 0x1234, false);
  append_finished_round(records);
  return records;
}

TEST(UserRecords, Bytes) {
  Bytes out;
  append_finished_round(out);
  append_finished_init(out);
  append_compressed(out, std::as_bytes(std::span("abc", 3)));
  Bytes expected;
  for (const std::uint32_t field : {68U, 0x80000U, 82U, 0x80000U, 81U, 0xb0000U}) test::put(expected, field);
  test::put_text(expected, "abc");
  EXPECT_EQ(out, expected);
}

TEST(UserRecords, TheLargestFrameFitsAndOneByteMoreIsAMistake) {
  Bytes out;
  append_compressed(out, Bytes(kMaxCompressedPayload));
  EXPECT_EQ(get<std::uint16_t>(out, 6), 65535);
  EXPECT_EQ(out.size(), 65535U);
  EXPECT_DEATH(append_compressed(out, Bytes(kMaxCompressedPayload + 1)), "kMaxCompressedPayload");
}

TEST(Writer, KeepsToItsLimit) {
  const test::TemporaryFolder folder;
  const UniqueFd fd = test::create_file(folder.path("a"));
  auto writer = FileWriter::create(fd.get(), two_events());
  ASSERT_TRUE(writer) << writer.error().what;
  const Bytes records = some_records();
  writer->limit(writer->file_bytes() + records.size());
  ASSERT_TRUE(writer->append(records));
  const auto more = writer->append(some_records());
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().errno_value(), EFBIG);
  EXPECT_EQ(writer->data_bytes(), records.size());
  writer->limit(0);
  EXPECT_TRUE(writer->append(records));
}

TEST(Writer, LayoutToTheByte) {
  const test::TemporaryFolder folder;
  const UniqueFd fd = test::create_file(folder.path("a"));
  const std::vector<FileEvent> events = two_events();
  auto writer = FileWriter::create(fd.get(), events);
  ASSERT_TRUE(writer) << writer.error().what;
  constexpr std::size_t kIds = 104, kAttrs = kIds + 5 * 8, kData = kAttrs + 2 * 144;
  EXPECT_EQ(writer->file_bytes(), kData);

  const Bytes records = some_records();
  ASSERT_TRUE(writer->append(records));
  ASSERT_TRUE(writer->append({}));
  ASSERT_TRUE(writer->append(records));
  EXPECT_EQ(writer->data_bytes(), 2 * records.size());
  const Bytes unfinished = test::file_bytes(folder.path("a"));
  EXPECT_EQ(Bytes(unfinished.begin(), unfinished.begin() + 104), Bytes(104)) << "the header comes last";

  const Features features{.hostname = "box", .clock_resolution_ns = 0};
  ASSERT_TRUE(writer->finish(features));
  const Bytes file = test::file_bytes(folder.path("a"));
  EXPECT_EQ(writer->file_bytes(), file.size());
  EXPECT_EQ(get<std::uint64_t>(file, 0), 0x32454c4946524550U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.data()), 8), "PERFILE2");
  const std::vector<std::uint64_t> header{
      104, 144, kAttrs, 2 * 144, kData, 2 * records.size(), 0, 0, (1U << 3U) | (1U << 12U), 0, 0, 0};
  for (std::size_t i = 0; i < header.size(); ++i) EXPECT_EQ(get<std::uint64_t>(file, 8 + 8 * i), header[i]) << i;

  const std::vector<std::uint64_t> ids{11, 12, 21, 22, 23};
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(get<std::uint64_t>(file, kIds + 8 * i), ids[i]);
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> sections{{kIds, 16}, {kIds + 16, 24}};
  for (std::size_t i = 0; i < 2; ++i) {
    perf_event_attr attr = events[i].attr;
    attr.size = 128;
    EXPECT_EQ(std::memcmp(&attr, file.data() + kAttrs + 144 * i, 128), 0);
    EXPECT_EQ(get<std::uint64_t>(file, kAttrs + 144 * i + 128), sections[i].first);
    EXPECT_EQ(get<std::uint64_t>(file, kAttrs + 144 * i + 136), sections[i].second);
  }
  EXPECT_EQ(std::memcmp(file.data() + kData, records.data(), records.size()), 0);
  EXPECT_EQ(std::memcmp(file.data() + kData + records.size(), records.data(), records.size()), 0);

  // The table starts exactly at the end of the data. Its contents follow it, and nothing follows them.
  std::size_t at = kData + 2 * records.size();
  std::size_t content = at + 2 * 16;
  for (const EncodedFeature& section : encode_features(features, events)) {
    EXPECT_EQ(get<std::uint64_t>(file, at), content);
    ASSERT_EQ(get<std::uint64_t>(file, at + 8), section.bytes.size());
    EXPECT_EQ(std::memcmp(file.data() + content, section.bytes.data(), section.bytes.size()), 0);
    at += 16;
    content += section.bytes.size();
  }
  EXPECT_EQ(content, file.size());
}

TEST(Writer, GoesOnWithAFileThatWasBegun) {
  const test::TemporaryFolder folder;
  const UniqueFd whole = test::create_file(folder.path("whole")), begun = test::create_file(folder.path("begun"));
  const Features features{.hostname = "box", .clock_resolution_ns = 0};
  const Bytes records = some_records();
  auto writer = FileWriter::create(whole.get(), two_events());
  ASSERT_TRUE(writer && writer->append(records) && writer->finish(features));
  {
    auto first = FileWriter::create(begun.get(), two_events());
    ASSERT_TRUE(first && first->append(records) && first->append(Bytes(17)));
  }
  auto second = FileWriter::resume(begun.get(), two_events());
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_EQ(second->data_offset(), writer->data_offset());
  EXPECT_EQ(second->data_bytes(), records.size() + 17);
  EXPECT_EQ(second->cut(records.size() + 18).error().errno_value(), EINVAL);
  ASSERT_TRUE(second->cut(records.size()));
  ASSERT_TRUE(second->finish(features));
  EXPECT_EQ(test::file_bytes(folder.path("begun")), test::file_bytes(folder.path("whole")));
  EXPECT_EQ(second->file_bytes(), writer->file_bytes());
}

TEST(Writer, DoesNotGoOnWithAnotherFile) {
  const test::TemporaryFolder folder;
  const UniqueFd fd = test::create_file(folder.path("a"));
  ASSERT_TRUE(FileWriter::create(fd.get(), two_events()));
  std::vector<FileEvent> others = two_events();
  others[0].ids[0] = 13;
  EXPECT_EQ(FileWriter::resume(fd.get(), others).error().errno_value(), EBADMSG);
  ASSERT_EQ(::ftruncate(fd.get(), 300), 0);
  EXPECT_EQ(FileWriter::resume(fd.get(), two_events()).error().errno_value(), EBADMSG);
}

TEST(Writer, StoresAttrsOf128BytesWhateverTheirSizeWas) {
  const test::TemporaryFolder folder;
  for (const std::uint32_t size : {0U, 64U, 128U, 136U, 144U}) {
    const std::string path = folder.path(std::to_string(size));
    const UniqueFd fd = test::create_file(path);
    std::vector<FileEvent> events = two_events();
    events[0].attr.size = size;
    ASSERT_TRUE(FileWriter::create(fd.get(), events));
    EXPECT_EQ(get<std::uint32_t>(test::file_bytes(path), 104 + 5 * 8 + 4), 128U);
  }
}

TEST(Writer, RefusesWhatReadersCannotRead) {
  const test::TemporaryFolder folder;
  const UniqueFd fd = test::create_file(folder.path("a"));
  const auto refused = [&](std::vector<FileEvent> events) {
    const auto writer = FileWriter::create(fd.get(), std::move(events));
    return writer ? std::string() : writer.error().what;
  };
  EXPECT_NE(refused({}), "");
  std::vector<FileEvent> events = two_events();
  events[1].attr.sample_type &= ~std::uint64_t{PERF_SAMPLE_IDENTIFIER};
  EXPECT_NE(refused(events).find("'cpu-clock' has no PERF_SAMPLE_IDENTIFIER"), std::string::npos);
  events = two_events();
  events[0].attr.sample_id_all = 0;
  EXPECT_NE(refused(events).find("no sample_id_all"), std::string::npos);

  auto empty = FileWriter::create(fd.get(), two_events());
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->finish({}).error().errno_value(), EINVAL) << "no record at all";
  const auto second = FileWriter::create(fd.get(), two_events());
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().what.find("not empty"), std::string::npos) << second.error().what;
}

TEST(Writer, RefusesATracepointWithoutItsFormat) {
  const test::TemporaryFolder folder;
  const UniqueFd fd = test::create_file(folder.path("a"));
  auto writer = FileWriter::create(fd.get(), {{test::tracepoint_attr(316), "sched:sched_switch", {1}}});
  ASSERT_TRUE(writer && writer->append(some_records()));
  Features features;
  EXPECT_NE(writer->finish(features).error().what.find("tracepoint 'sched:sched_switch' (id 316)"), std::string::npos);
  features.tracing_data = TracingData{.header_page = "p", .header_event = "", .systems = {}};
  features.tracing_data->systems = {{"sched", {"name: sched_switch\nID: 3160\nformat:\n"}}};
  EXPECT_FALSE(writer->finish(features)) << "another tracepoint's";
  features.tracing_data->systems[0].formats = {"name: sched_switch\nID: 316\nformat:\n"};
  EXPECT_TRUE(writer->finish(features));
  features.tracing_data->header_page.clear();
  EXPECT_FALSE(writer->finish(features)) << "perf refuses an empty header_page";
}

TEST(Writer, ErrorsOfTheSystemKeepTheirErrno) {
  const auto full = open_file("/dev/full", O_WRONLY);
  ASSERT_TRUE(full);
  EXPECT_EQ(FileWriter::create(full->get(), two_events()).error().errno_value(), ENOSPC);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd reading(pipe[0]), writing(pipe[1]);
  EXPECT_EQ(FileWriter::create(writing.get(), two_events()).error().errno_value(), ESPIPE);
  const test::TemporaryFolder folder;
  (void)test::create_file(folder.path("a"));
  const auto read_only = open_file(folder.path("a"), O_RDONLY);
  ASSERT_TRUE(read_only);
  EXPECT_EQ(FileWriter::create(read_only->get(), two_events()).error().errno_value(), EBADF);
  EXPECT_EQ(FileWriter::create(-1, two_events()).error().errno_value(), EBADF);
  const auto appending = open_file(folder.path("a"), O_WRONLY | O_APPEND);
  ASSERT_TRUE(appending);
  EXPECT_EQ(FileWriter::create(appending->get(), two_events()).error().errno_value(), EINVAL);
}

TEST(Writer, ADiskThatFillsUpIsENOSPCAndLeavesNoHeader) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const test::TemporaryFolder folder;
  const std::string mount = folder.path("small");
  ASSERT_EQ(::mkdir(mount.c_str(), 0700), 0);
  ASSERT_EQ(::mount("flight-test", mount.c_str(), "tmpfs", 0, "size=256k"), 0);
  {
    const UniqueFd fd = test::create_file(mount + "/a");
    auto writer = FileWriter::create(fd.get(), two_events());
    EXPECT_TRUE(writer);
    const auto appended = writer->append(Bytes(1U << 20U, std::byte{1}));  // a part is written first
    EXPECT_FALSE(appended);
    EXPECT_EQ(appended.error().errno_value(), ENOSPC) << appended.error().what;
    EXPECT_NE(appended.error().what.find("records of a perf.data file"), std::string::npos) << appended.error().what;
    EXPECT_EQ(writer->data_bytes(), 0U) << "what failed does not count";
    // Smaller data can still be appended at the place of the large data. Then the features do not fit.
    const Bytes records = some_records();
    EXPECT_TRUE(writer->append(records));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(writer->file_bytes())), 0);
    const auto finished =
        writer->finish({.hostname = "x", .command_line = std::vector<std::string>(4, std::string(100'000, 'x'))});
    EXPECT_FALSE(finished);
    EXPECT_EQ(finished.error().errno_value(), ENOSPC);
    EXPECT_EQ(get<std::uint64_t>(test::file_bytes(mount + "/a"), 0), 0U) << "not a whole file";
  }
  EXPECT_EQ(::umount(mount.c_str()), 0);
}

}  // namespace
}  // namespace flight
