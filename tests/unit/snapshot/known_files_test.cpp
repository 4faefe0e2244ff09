// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/known_files.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace flight {
namespace {

constexpr FileIdentity file(std::uint64_t inode, std::uint64_t generation) {
  return {.major = 8, .minor = 1, .inode = inode, .generation = generation};
}

Mmap2Record mapping(std::uint64_t inode, std::string_view name, std::uint64_t generation = 5) {
  return {.pid = 7,
          .tid = 7,
          .address = 0x1000,
          .bytes = 0x2000,
          .page_offset = 0x3000,
          .major = 8,
          .minor = 1,
          .inode = inode,
          .inode_generation = generation,
          .protection = 5,
          .flags = 2,
          .name = name};
}

std::vector<std::vector<std::byte>> records_in(std::span<const std::byte> bytes) {
  std::vector<std::vector<std::byte>> out;
  for (auto record = next_record(bytes); !record.empty(); record = next_record(bytes)) {
    out.emplace_back(record.begin(), record.end());
    bytes = bytes.subspan(record.size());
  }
  EXPECT_TRUE(bytes.empty());
  return out;
}

TEST(KnownFiles, GoIntoTheRecordsAndTheList) {
  const Trailer trailer{.pid = 7, .tid = 7, .time_ns = 99, .cpu = 1, .id = 3};
  TrackerExport window;
  append_comm(window.prologue, {.pid = 7, .tid = 7, .name = "x"}, {});
  append_mmap2(window.prologue, mapping(1, "/bin/one"), {});
  append_mmap2(window.log, mapping(2, "/inside"), trailer);
  append_mmap2(window.log, mapping(3, "/no-id"), trailer);
  append_mmap2(window.log, mapping(4, "/unread"), trailer);
  append_mmap2(window.log, mapping(1, "/bin/one", 6), trailer);  // another generation is another file
  append_mmap2(window.log, mapping(0, "//anon"), trailer);
  const RecordBuffer log = window.log, prologue = window.prologue;
  const KnownFiles known{
      .files =
          {{.file = file(1, 5), .build_id = std::vector<std::uint8_t>(20, 0x11), .recorded_name = {}, .host_path = {}},
           {.file = file(2, 5),
            .build_id = std::vector<std::uint8_t>(16, 0x22),
            .recorded_name = "/inside",
            .host_path = "/srv/root/inside"},
           {.file = file(3, 5), .build_id = {}, .recorded_name = {}, .host_path = {}},
           {.file = file(4, 5), .build_id = {}, .recorded_name = "/unread", .host_path = "/unread (not the host's)"}},
      .unanswered = {{.major = 8, .minor = 1}},
      .served = {}};
  const NamedFiles named = add_build_ids(known, window);
  EXPECT_EQ(named.with, 3U);
  EXPECT_EQ(named.without, 2U);
  EXPECT_EQ(named.unanswered, 2U);
  ASSERT_EQ(window.build_ids.size(), 2U);
  EXPECT_EQ(window.build_ids[0].name, "/bin/one");
  EXPECT_EQ(window.build_ids[1].name, "/srv/root/inside");

  const auto before = records_in(prologue), after = records_in(window.prologue);
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[0], before[0]);
  const auto one = parse_mmap2(after[1]);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->build_id.size, 20);
  EXPECT_EQ(one->address, 0x1000U);
  EXPECT_EQ(one->page_offset, 0x3000U);
  EXPECT_EQ(one->protection, 5U);
  EXPECT_EQ(one->name, "/bin/one");

  const auto old_log = records_in(log), new_log = records_in(window.log);
  ASSERT_EQ(new_log.size(), old_log.size());
  const auto two = parse_mmap2(new_log[0]);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->build_id.size, 16);
  EXPECT_EQ(two->name, "/srv/root/inside");
  EXPECT_EQ(parse_trailer(new_log[0])->time_ns, 99U);
  for (const std::size_t i : {1U, 3U, 4U}) EXPECT_EQ(new_log[i], old_log[i]) << i;
  const auto unread = parse_mmap2(new_log[2]);
  ASSERT_TRUE(unread);
  EXPECT_EQ(unread->name, "/unread (not the host's)");
  EXPECT_EQ(unread->build_id.size, 0);
}

// The file was overwritten in place, or its inode was used again: each mapping has what was there when it was mapped.
TEST(KnownFiles, AMappingHasTheBuildIdOfItsTime) {
  TrackerExport window;
  append_comm(window.prologue, {.pid = 7, .tid = 7, .name = "x"}, {});
  append_mmap2(window.prologue, mapping(1, "/bin/one"), {});
  append_mmap2(window.prologue, mapping(1, "/bin/one"), {});
  window.mapped_ns = {100, 250};
  for (const EventTime time_ns : {300, 400, 500})
    append_mmap2(window.log, mapping(1, "/bin/one"), {.time_ns = time_ns});
  append_mmap2(window.log, mapping(2, "/bin/two"), {.time_ns = 300});
  append_mmap2(window.log, mapping(3, "/bin/three"), {.time_ns = 300});
  const auto id = [](std::uint8_t byte) { return std::vector<std::uint8_t>(20, byte); };
  const KnownFiles known{.files = {{.file = file(1, 5), .build_id = id(0x22), .from_ns = 300, .to_ns = 450},
                                   {.file = file(1, 5), .build_id = id(0x11), .from_ns = 0, .to_ns = 200},
                                   {.file = file(2, 5), .build_id = id(0x33), .from_ns = 301, .to_ns = 450},
                                   {.file = file(3, 0), .is_two = true}},
                         .unanswered = {},
                         .served = {}};
  const NamedFiles named = add_build_ids(known, window);
  std::vector<int> ids;
  std::vector<std::string> names;
  for (const auto* records : {&window.prologue, &window.log})
    for (const auto& record : records_in(*records))
      if (const auto map = parse_mmap2(record)) {
        ids.push_back(map->build_id.size == 0 ? 0 : map->build_id.bytes[0]);
        names.emplace_back(map->name);
      }
  EXPECT_EQ(ids, (std::vector<int>{0x11, 0, 0x22, 0x22, 0, 0, 0}));
  // The one of 500 was not looked at since.
  EXPECT_EQ(names, (std::vector<std::string>{"/bin/one", "/bin/one (not verified)", "/bin/one", "/bin/one", "/bin/one",
                                             "/bin/two (not verified)", "/bin/three (not verified)"}))
      << "perf takes the file that is there now for one without a build-id";
  EXPECT_EQ(named.with, 0U) << "one mapping of it has no build-id";
  EXPECT_EQ(named.without, 3U);
  EXPECT_EQ(named.changed, 2U);
  EXPECT_EQ(named.two, 1U);
}

TEST(KnownFiles, EachMappingIsReportedAsItsRecordIs) {
  TrackerExport window;
  append_comm(window.prologue, {.pid = 7, .tid = 7, .name = "x"}, {});
  append_mmap2(window.prologue, mapping(1, "/bin/one"), {});
  window.mapped_ns = {100};
  append_mmap2(window.log, mapping(2, "/inside", 0), {.time_ns = 200});
  append_mmap2(window.log, mapping(0, "//anon"), {.time_ns = 300});
  append_mmap2(window.log, mapping(3, "/waits"), {.time_ns = 400});
  append_mmap2(window.log, mapping(4, "/unread"), {.time_ns = 500});
  append_mmap2(window.log, mapping(5, "/no-id"), {.time_ns = 600});
  const KnownFiles known{.files = {{.file = file(1, 5), .build_id = std::vector<std::uint8_t>(20, 0x11)},
                                   {.file = file(2, 6),
                                    .build_id = std::vector<std::uint8_t>(20, 0x22),
                                    .recorded_name = "/inside",
                                    .host_path = "/srv/inside"},
                                   {.file = file(5, 5)}},
                         .unanswered = {},
                         .served = {},
                         .waiting = {{.file = file(3, 0)}}};
  std::vector<std::string> seen;
  const NamedFiles named = add_build_ids(known, window, [&seen](const NamedMapping& one) {
    seen.push_back(fmt::format("{}.{} {} {} {} {}{}", one.file.inode, one.file.generation, one.mapped_ns,
                               one.recorded_name, one.name, one.build_id.bytes[0], one.is_known ? " known" : ""));
  });
  EXPECT_EQ(seen,
            (std::vector<std::string>{"1.5 100 /bin/one /bin/one 17 known", "2.6 200 /inside /srv/inside 34 known",
                                      "3.5 400 /waits /waits (not verified) 0", "4.5 500 /unread /unread 0",
                                      "5.5 600 /no-id /no-id 0 known"}));
  EXPECT_EQ(named.with, 3U);
  EXPECT_EQ(named.without, 2U);
}

// Without a build-id, perf takes what the name leads to: of a file with several names, some can lead elsewhere.
TEST(KnownFiles, AFileWithoutABuildIdHasNoNameThatLeadsElsewhere) {
  TrackerExport window;
  append_comm(window.prologue, {.pid = 7, .tid = 7, .name = "x"}, {});
  append_mmap2(window.prologue, mapping(2, "/overwritten"), {});
  append_mmap2(window.prologue, mapping(2, "/overwritten (deleted)"), {});
  window.mapped_ns = {100, 100};
  for (const char* name : {"/replaced", "/link", "/inside"})
    append_mmap2(window.log, mapping(1, name), {.time_ns = 300});
  append_mmap2(window.log, mapping(2, "/overwritten"), {.time_ns = 300});
  append_mmap2(window.log, mapping(3, "/again"), {.time_ns = 300});
  append_mmap2(window.log, mapping(3, "/again"), {.time_ns = 500});
  const auto renamed = [](std::uint64_t inode, std::string recorded, std::string host_path, EventTime from_ns,
                          EventTime to_ns) {
    return KnownFile{.file = file(inode, 5),
                     .recorded_name = std::move(recorded),
                     .host_path = std::move(host_path),
                     .from_ns = from_ns,
                     .to_ns = to_ns};
  };
  const KnownFiles known{
      .files = {{.file = file(1, 5), .from_ns = 0, .to_ns = 400},
                {.file = file(2, 5), .build_id = std::vector<std::uint8_t>(20, 0x22), .from_ns = 200, .to_ns = 400},
                {.file = file(3, 5), .build_id = std::vector<std::uint8_t>(20, 0x33), .from_ns = 0, .to_ns = 400},
                renamed(1, "/replaced", "/replaced (not the host's)", 0, 400),
                renamed(1, "/inside", "/srv/root/inside", 0, 400),
                renamed(3, "/again", "/again (not the host's)", 401, UINT64_MAX),
                {.file = file(2, 5), .from_ns = 0, .to_ns = 150}},
      .unanswered = {},
      .served = {}};
  const NamedFiles named = add_build_ids(known, window);
  std::vector<std::string> names;
  for (const auto* records : {&window.prologue, &window.log})
    for (const auto& record : records_in(*records))
      if (const auto map = parse_mmap2(record)) names.emplace_back(map->name);
  EXPECT_EQ(names, (std::vector<std::string>{"/overwritten (not the host's)", "/overwritten (deleted)",
                                             "/replaced (not the host's)", "/link", "/srv/root/inside", "/overwritten",
                                             "/again", "/again (not the host's)"}));
  EXPECT_EQ(named.without, 3U);
  EXPECT_EQ(named.replaced, 2U) << "the last one was not read";
}

// The broker has seen that it may have been overwritten: once as its newest content, once as an earlier one.
TEST(KnownFiles, AFileThatCanHaveBeenOverwrittenIsNotVerified) {
  TrackerExport window;
  append_mmap2(window.log, mapping(1, "/bin/one"), {.time_ns = 300});
  append_mmap2(window.log, mapping(2, "/bin/two"), {.time_ns = 300});
  append_mmap2(window.log, mapping(2, "/bin/two"), {.time_ns = 500});
  const auto not_verified = [](std::uint64_t inode, const std::string& name) {
    return KnownFile{.file = file(inode, 5),
                     .recorded_name = name,
                     .host_path = name + " (not verified)",
                     .from_ns = 0,
                     .to_ns = 400};
  };
  const KnownFiles known{.files = {not_verified(1, "/bin/one"),
                                   {.file = file(2, 5), .from_ns = 450, .to_ns = 600},
                                   not_verified(2, "/bin/two")},
                         .unanswered = {},
                         .served = {}};
  const NamedFiles named = add_build_ids(known, window);
  std::vector<std::string> names;
  for (const auto& record : records_in(window.log))
    if (const auto map = parse_mmap2(record)) names.emplace_back(map->name);
  EXPECT_EQ(names, (std::vector<std::string>{"/bin/one (not verified)", "/bin/two (not verified)", "/bin/two"}));
  EXPECT_EQ(named.touched, 2U);
  EXPECT_EQ(named.without, 2U);
}

// A container's program has the same file under another name, and ended before anybody could look. That proves nothing
// about the name that is known.
TEST(KnownFiles, ANameThatCouldNotBeReadSaysNothingAboutTheOthers) {
  TrackerExport window;
  append_mmap2(window.log, mapping(1, "/usr/local/bin/d"), {.time_ns = 300});
  append_mmap2(window.log, mapping(1, "/d"), {.time_ns = 500});
  const KnownFiles known{.files = {{.file = file(1, 5), .from_ns = 0, .to_ns = 400},
                                   {.file = file(1, 5),
                                    .recorded_name = "/d",
                                    .host_path = "/d (not the host's)",
                                    .from_ns = 401,
                                    .to_ns = UINT64_MAX}},
                         .unanswered = {},
                         .served = {}};
  const NamedFiles named = add_build_ids(known, window);
  std::vector<std::string> names;
  for (const auto& record : records_in(window.log))
    if (const auto map = parse_mmap2(record)) names.emplace_back(map->name);
  EXPECT_EQ(names, (std::vector<std::string>{"/usr/local/bin/d", "/d (not the host's)"}));
  EXPECT_EQ(named.replaced, 0U);
  EXPECT_EQ(named.without, 1U);
}

// A scan reports no generation. perf takes the generation for a part of a file's identity.
TEST(KnownFiles, AScanAndARecordAreOfOneFile) {
  TrackerExport window;
  append_mmap2(window.prologue, mapping(1, "/bin/one", 0), {});
  append_mmap2(window.log, mapping(1, "/bin/one", 5), {});
  const NamedFiles named = add_build_ids({.files = {{.file = file(1, 5)}}, .unanswered = {}, .served = {}}, window);
  EXPECT_EQ(named.with, 1U);
  EXPECT_EQ(named.without, 0U);
  EXPECT_EQ(parse_mmap2(window.prologue)->inode_generation, 5U);
}

// The broker knows the files that were mapped last; a container's file would be taken for the host's.
TEST(KnownFiles, AForgottenFileIsNotTakenForAnother) {
  TrackerExport window;
  append_comm(window.prologue, {.pid = 7, .tid = 7, .name = "x"}, {});
  append_mmap2(window.prologue, mapping(1, "/bin/old"), {});
  append_mmap2(window.prologue, mapping(2, "/bin/deleted (deleted)"), {});
  append_mmap2(window.prologue, mapping(3, "/bin/new"), {});
  window.mapped_ns = {100, 100, 101};
  append_mmap2(window.log, mapping(4, "/bin/also-old"), {.time_ns = 99});
  const NamedFiles named = add_build_ids({.files = {}, .forgotten_ns = 100, .unanswered = {}, .served = {}}, window);
  std::vector<std::string> names;
  for (const auto* records : {&window.prologue, &window.log})
    for (const auto& record : records_in(*records))
      if (const auto map = parse_mmap2(record)) names.emplace_back(map->name);
  EXPECT_EQ(names, (std::vector<std::string>{"/bin/old (not verified)", "/bin/deleted (deleted)", "/bin/new",
                                             "/bin/also-old (not verified)"}));
  EXPECT_EQ(named.without, 4U);
  EXPECT_EQ(named.forgotten, 3U);
}

// The broker had no CPU time left to read it: nobody knows whether its path leads to it, as for a container's file.
TEST(KnownFiles, AFileThatWaitsIsNotTakenForAnother) {
  TrackerExport window;
  for (const std::uint64_t inode : {1, 2, 3, 4, 5, 6, 7, 8, 9})
    append_mmap2(window.prologue, mapping(inode, inode == 2 ? "/bin/b (deleted)" : "/bin/a"), {});
  window.mapped_ns = {300, 300, 300, 300, 300, 300, 300, 300, 300};
  append_mmap2(window.log, mapping(3, "/bin/a"), {.time_ns = 100});
  const auto id = [](std::uint8_t byte) { return std::vector<std::uint8_t>(20, byte); };
  const KnownFiles known{.files = {{.file = file(3, 5), .build_id = id(0x33), .from_ns = 0, .to_ns = 200},
                                   {.file = file(4, 5), .build_id = id(0x44), .from_ns = 0, .to_ns = 300},
                                   {.file = file(5, 5), .from_ns = 0, .to_ns = 300},
                                   {.file = file(6, 5), .from_ns = 0, .to_ns = 300},
                                   {.file = file(9, 5), .recorded_name = "/bin/a", .host_path = "/srv/a"}},
                         .forgotten_ns = 1'000,
                         .unanswered = {{.major = 8, .minor = 1}},
                         .served = {},
                         .waiting = {{.file = file(1, 0), .from_ns = 0},
                                     {.file = file(2, 0), .from_ns = 0},
                                     {.file = file(3, 0), .from_ns = 201},
                                     {.file = file(4, 0), .from_ns = 301},
                                     {.file = file(5, 0), .from_ns = 301},
                                     {.file = file(6, 0), .from_ns = 0},
                                     {.file = file(6, 0), .from_ns = 301, .is_next = true},
                                     {.file = file(7, 0), .from_ns = 0, .is_next = true},
                                     {.file = file(8, 0), .from_ns = 301, .is_next = false},
                                     {.file = file(8, 0), .from_ns = 0, .is_next = true},
                                     {.file = file(9, 0), .from_ns = 0, .is_next = true}},
                         .left_out_ns = 1'000};
  const NamedFiles named = add_build_ids(known, window);
  std::vector<int> ids;
  std::vector<std::string> names;
  for (const auto* records : {&window.prologue, &window.log})
    for (const auto& record : records_in(*records))
      if (const auto map = parse_mmap2(record)) {
        ids.push_back(map->build_id.size == 0 ? 0 : map->build_id.bytes[0]);
        names.emplace_back(map->name);
      }
  EXPECT_EQ(ids, (std::vector<int>{0, 0, 0, 0x44, 0, 0, 0, 0, 0, 0x33}));
  EXPECT_EQ(names, (std::vector<std::string>{"/bin/a (not verified)", "/bin/b (deleted)", "/bin/a (not verified)",
                                             "/bin/a", "/bin/a", "/bin/a (not verified)", "/bin/a",
                                             "/bin/a (not verified)", "/srv/a", "/bin/a"}))
      << "what was known of the third one does not hold for the new mapping; the name of the sixth is still to be "
         "checked; of the seventh and the last, only the turn has not come";
  EXPECT_EQ(named.waiting, 6U);
  EXPECT_EQ(named.without, 6U);
  EXPECT_EQ(named.with, 3U);
  EXPECT_EQ(named.unanswered + named.forgotten + named.left_out, 0U);
}

TEST(KnownFiles, AFileThatMayHaveBeenLeftOutIsNotTakenForAnother) {
  TrackerExport window;
  for (const EventTime time_ns : {99, 100, 101}) {
    append_mmap2(window.log, mapping(static_cast<std::uint64_t>(time_ns), "/bin/new"), {.time_ns = time_ns});
    append_mmap2(window.log, mapping(1, "/bin/known"), {.time_ns = time_ns});
  }
  const KnownFiles known{.files = {{.file = file(1, 5), .build_id = {0x11}, .from_ns = 0, .to_ns = 99}},
                         .unanswered = {},
                         .served = {},
                         .waiting = {},
                         .left_out_ns = 100};
  const NamedFiles named = add_build_ids(known, window);
  std::vector<std::string> names;
  for (const auto& record : records_in(window.log))
    if (const auto map = parse_mmap2(record)) names.emplace_back(map->name);
  EXPECT_EQ(names, (std::vector<std::string>{"/bin/new (not verified)", "/bin/known", "/bin/new (not verified)",
                                             "/bin/known (not verified)", "/bin/new", "/bin/known"}));
  EXPECT_EQ(named.left_out, 3U);
  EXPECT_EQ(named.without, 4U) << "the last new one was not read for another reason";
}

// Files of a disk that has not answered were forgotten or left out, too. A read that hangs proves nothing about them.
TEST(KnownFiles, AFileOfADiskThatDidNotAnswerMayHaveBeenForgottenOrLeftOut) {
  const auto names_of = [](const KnownFiles& known, NamedFiles& named) {
    TrackerExport window;
    for (const EventTime time_ns : {100, 101})
      append_mmap2(window.log, mapping(static_cast<std::uint64_t>(time_ns), "/bin/x"), {.time_ns = time_ns});
    named = add_build_ids(known, window);
    std::vector<std::string> names;
    for (const auto& record : records_in(window.log))
      if (const auto map = parse_mmap2(record)) names.emplace_back(map->name);
    return names;
  };
  const std::vector<DeviceNumber> unanswered{{.major = 8, .minor = 1}};
  const std::vector<std::string> expected{"/bin/x (not verified)", "/bin/x"};
  NamedFiles named;
  EXPECT_EQ(names_of({.files = {}, .forgotten_ns = 100, .unanswered = unanswered, .served = {}}, named), expected);
  EXPECT_EQ(named.forgotten, 1U);
  EXPECT_EQ(named.unanswered, 1U);
  EXPECT_EQ(names_of({.files = {}, .unanswered = unanswered, .served = {}, .waiting = {}, .left_out_ns = 100}, named),
            expected);
  EXPECT_EQ(named.left_out, 1U);
  EXPECT_EQ(named.unanswered, 1U);
}

// The inode of a file that is gone was used again.
TEST(KnownFiles, AScannedMappingHasNoLaterFilesBuildId) {
  TrackerExport window;
  append_mmap2(window.prologue, mapping(1, "/bin/scanned", 0), {});
  append_mmap2(window.prologue, mapping(1, "/bin/first", 5), {});
  append_mmap2(window.prologue, mapping(1, "/bin/second", 6), {});
  append_mmap2(window.prologue, mapping(1, "/bin/unknown", 0), {});
  window.mapped_ns = {100, 100, 250, 250};
  const auto id = [](std::uint8_t byte) { return std::vector<std::uint8_t>(20, byte); };
  const KnownFiles known{.files = {{.file = file(1, 6), .build_id = id(0x22), .from_ns = 200, .to_ns = 450},
                                   {.file = file(1, 5), .build_id = id(0x11), .from_ns = 0, .to_ns = 200}},
                         .unanswered = {},
                         .served = {}};
  static_cast<void>(add_build_ids(known, window));
  std::vector<int> ids;
  for (const auto& record : records_in(window.prologue))
    if (const auto map = parse_mmap2(record)) ids.push_back(map->build_id.size == 0 ? 0 : map->build_id.bytes[0]);
  EXPECT_EQ(ids, (std::vector<int>{0x11, 0x11, 0x22, 0}));
}

TEST(KnownFiles, FilesOfAServerAreCountedByTheirFileSystem) {
  TrackerExport window;
  append_mmap2(window.prologue, mapping(1, "/net/one"), {});
  append_mmap2(window.prologue, mapping(2, "/net/two"), {});
  // Others were forgotten meanwhile.
  const KnownFiles known{.files = {},
                         .forgotten_ns = 1'000'000,
                         .unanswered = {{.major = 8, .minor = 1}},
                         .served = {{.disk = {.major = 8, .minor = 1}, .type = "nfs4"}}};
  const RecordBuffer before = window.prologue;
  const NamedFiles named = add_build_ids(known, window);
  EXPECT_EQ(window.prologue, before) << "perf finds them by their paths";
  EXPECT_EQ(named.forgotten, 0U);
  EXPECT_EQ(named.without, 2U);
  EXPECT_EQ(named.served, 2U);
  EXPECT_EQ(named.unanswered, 0U);
  EXPECT_EQ(named.served_types, std::set<std::string>{"nfs4"});
}

TEST(KnownFiles, WithoutAnAnswerNothingChanges) {
  TrackerExport window;
  append_mmap2(window.prologue, mapping(1, "/bin/one"), {});
  const RecordBuffer before = window.prologue;
  EXPECT_EQ(add_build_ids({}, window).without, 1U);
  EXPECT_EQ(window.prologue, before);
  EXPECT_TRUE(window.build_ids.empty());
}

}  // namespace
}  // namespace flight
