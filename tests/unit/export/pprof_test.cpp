// SPDX-License-Identifier: Apache-2.0
// A pprof profile, decoded again.
#include "libcore/export/pprof.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/text.hpp"
#include "tests/unit/export/gunzipped.hpp"
#include "tests/unit/profile/made_file.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kPprofUser = PERF_CONTEXT_USER, kPprofKernel = PERF_CONTEXT_KERNEL;
constexpr std::uint64_t kPprofText = 0xffffffff81000000;

struct PprofMapping {
  std::uint64_t start = 1, limit = 0;
  std::string file, build_id;
  bool has_functions = false;
};
struct PprofLocation {
  std::uint64_t mapping = 0, address = 0, function = 0;
};
struct PprofSample {
  std::vector<std::uint64_t> locations;
  std::vector<std::int64_t> values;
  std::map<std::string, std::string> labels;  // a number as "=7"
};
struct Pprof {
  std::vector<std::string> strings;
  std::vector<std::string> types;  // "samples/count"
  std::string period_type, default_type;
  std::int64_t period = 0, time_ns = 0, duration_ns = 0;
  std::vector<std::string> comments;
  std::map<std::uint64_t, PprofMapping> mappings;
  std::map<std::uint64_t, PprofLocation> locations;
  std::map<std::uint64_t, std::string> functions;
  std::vector<PprofSample> samples;

  // "main;read", the outermost frame first.
  [[nodiscard]] std::string stack_of(const PprofSample& sample) const {
    std::string out;
    for (const std::uint64_t id : sample.locations)
      out = functions.at(locations.at(id).function) + (out.empty() ? "" : ";") + out;
    return out;
  }
};

class PprofReader {
 public:
  static Pprof read(const std::string& packed) {
    PprofReader reader;
    const std::string bytes = test::gunzipped(packed);
    // Strings may come after what refers to them.
    for (const bool strings : {true, false}) {
      protozero::pbf_reader message(bytes);
      while (message.next())
        if ((message.tag() == 6) == strings)
          reader.take(message);
        else
          message.skip();
    }
    return std::move(reader.out_);
  }

 private:
  std::string text(std::int64_t number) const { return out_.strings.at(static_cast<std::size_t>(number)); }
  std::string value_type(protozero::pbf_reader message) const {
    std::string out;
    while (message.next()) out += (out.empty() ? "" : "/") + text(message.get_int64());
    return out;
  }
  void take(protozero::pbf_reader& message) {
    switch (message.tag()) {
      case 1:
        out_.types.push_back(value_type(message.get_message()));
        break;
      case 2:
        take_sample(message.get_message());
        break;
      case 3:
        take_mapping(message.get_message());
        break;
      case 4:
        take_location(message.get_message());
        break;
      case 5:
        take_function(message.get_message());
        break;
      case 6:
        out_.strings.push_back(message.get_string());
        break;
      case 9:
        out_.time_ns = message.get_int64();
        break;
      case 10:
        out_.duration_ns = message.get_int64();
        break;
      case 11:
        out_.period_type = value_type(message.get_message());
        break;
      case 12:
        out_.period = message.get_int64();
        break;
      case 13:
        out_.comments.push_back(text(message.get_int64()));
        break;
      case 14:
        out_.default_type = text(message.get_int64());
        break;
      default:
        ADD_FAILURE() << "field " << message.tag();
        message.skip();
    }
  }
  void take_sample(protozero::pbf_reader message) {
    PprofSample sample;
    while (message.next()) {
      if (message.tag() == 1) {
        for (const std::uint64_t id : message.get_packed_uint64()) sample.locations.push_back(id);
      } else if (message.tag() == 2) {
        for (const std::int64_t value : message.get_packed_int64()) sample.values.push_back(value);
      } else {
        std::string key, value = "=0";
        protozero::pbf_reader label = message.get_message();
        while (label.next()) {
          const std::int64_t number = label.get_int64();
          if (label.tag() == 1)
            key = text(number);
          else
            value = label.tag() == 2 ? text(number) : "=" + std::to_string(number);
        }
        EXPECT_TRUE(sample.labels.emplace(key, value).second) << key;
      }
    }
    out_.samples.push_back(std::move(sample));
  }
  void take_mapping(protozero::pbf_reader message) {
    std::uint64_t id = 0;
    PprofMapping mapping;
    while (message.next()) {
      const std::uint64_t value = message.get_uint64();
      if (message.tag() == 1) id = value;
      if (message.tag() == 2) mapping.start = value;
      if (message.tag() == 3) mapping.limit = value;
      if (message.tag() == 5) mapping.file = text(static_cast<std::int64_t>(value));
      if (message.tag() == 6) mapping.build_id = text(static_cast<std::int64_t>(value));
      if (message.tag() == 7) mapping.has_functions = value != 0;
    }
    EXPECT_TRUE(out_.mappings.emplace(id, mapping).second && id != 0);
  }
  void take_location(protozero::pbf_reader message) {
    std::uint64_t id = 0;
    PprofLocation location;
    while (message.next()) {
      if (message.tag() == 4) {
        protozero::pbf_reader line = message.get_message();
        while (line.next()) location.function = line.get_uint64();
        continue;
      }
      const std::uint64_t value = message.get_uint64();
      if (message.tag() == 1) id = value;
      if (message.tag() == 2) location.mapping = value;
      if (message.tag() == 3) location.address = value;
    }
    EXPECT_TRUE(out_.locations.emplace(id, location).second && id != 0);
  }
  void take_function(protozero::pbf_reader message) {
    std::uint64_t id = 0;
    std::string name;
    while (message.next()) {
      const std::uint64_t value = message.get_uint64();
      if (message.tag() == 1) id = value;
      if (message.tag() == 2) name = text(static_cast<std::int64_t>(value));
    }
    EXPECT_TRUE(out_.functions.emplace(id, name).second && id != 0);
  }

  Pprof out_;
};

class PprofTest : public testing::Test {
 protected:
  PprofTest() {
    append_kernel_mmap(records_, kPprofText, 0x10000, kPprofText, "[kernel.kallsyms]_text", {});
    append_cgroup(records_, {.id = 5, .path = "/system.slice/web.service"}, {});
    append_fork(records_, {.pid = 10, .ppid = 1, .tid = 10, .ptid = 1, .exec = true}, {});
    append_comm(records_, {.pid = 10, .tid = 10, .name = "server"}, {});
    append_comm(records_, {.pid = 10, .tid = 11, .name = "worker"}, {});
    BuildId build_id;
    build_id.size = 2;
    build_id.bytes[0] = 0xab;
    build_id.bytes[1] = 0x01;
    append_mmap2(records_,
                 {.pid = 10,
                  .tid = 10,
                  .address = 0x7f1234500000,
                  .bytes = 0x1000,
                  .page_offset = 0x2000,
                  .build_id = build_id,
                  .name = "/no/where/a"},
                 {});
    for (const EventTime time_ns : {1000U, 1001U, 1002U})
      test::append_sample(records_, {.time_ns = time_ns,
                                     .ip = 0x7f1234500010,
                                     .chain = {kPprofUser, 0x7f1234500010, 0x7f1234500020},
                                     .cgroup = 5});
    test::append_sample(records_, {.tid = 11,
                                   .cpu = 0,
                                   .time_ns = 1003,
                                   .ip = kPprofText + 0x1010,
                                   .kernel = true,
                                   .chain = {kPprofKernel, kPprofText + 0x1010, kPprofUser, 0x7f1234500020},
                                   .cgroup = 5});
    test::append_sample(records_,
                        {.pid = 0, .tid = 0, .cpu = 1, .time_ns = 1004, .ip = kPprofText + 0x2000, .kernel = true});
    test::append_switch(records_, {.time_ns = 1005, .ip = 0x99});
  }
  std::string packed(std::size_t event, const ExtraLabels& labels = {}, const PprofFacts& facts = {}) {
    LabelledStacks stacks(labels);
    const std::string kallsyms = "ffffffff81000000 T _text\nffffffff81001000 T do_work\nffffffff81001100 T idle\n";
    ProfileOrder order{.kallsyms = kallsyms, .read_files = false};
    order.each = [&stacks](const CountedSample& sample) { stacks.add(sample); };
    const auto profile = SnapshotProfile::read(test::made_file(records_), order);
    EXPECT_TRUE(profile) << profile.error().what;
    std::string out;
    if (profile) {
      EXPECT_TRUE(write_pprof(*profile, event, stacks, facts, [&out](std::span<const std::byte> bytes) -> Result<void> {
        out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return {};
      }));
    }
    return out;
  }

  RecordBuffer records_;
};

TEST_F(PprofTest, HasEachStackWithItsValuesAndLabels) {
  const Pprof pprof = PprofReader::read(packed(1));
  EXPECT_EQ(pprof.strings.front(), "");
  EXPECT_THAT(pprof.types, ElementsAre("samples/count", "cpu/nanoseconds"));
  EXPECT_EQ(pprof.default_type, "cpu");
  ASSERT_EQ(pprof.samples.size(), 3U);
  const PprofSample &server = pprof.samples[0], &worker = pprof.samples[1], &idle = pprof.samples[2];
  EXPECT_EQ(pprof.stack_of(server), "a+0x2020;a+0x2010");
  EXPECT_THAT(server.values, ElementsAre(3, 3000));
  EXPECT_EQ(server.labels,
            (std::map<std::string, std::string>{
                {"comm", "server"}, {"pid", "=10"}, {"unit", "web.service"}, {"cgroup", "/system.slice/web.service"}}));
  EXPECT_EQ(pprof.stack_of(worker), "a+0x2020;do_work");
  EXPECT_EQ(worker.labels.at("comm"), "server");
  EXPECT_EQ(pprof.stack_of(idle), "idle");
  EXPECT_EQ(idle.labels, (std::map<std::string, std::string>{{"comm", "swapper"}, {"pid", "=0"}}));
}

TEST_F(PprofTest, HasMoreLabelsIfTheyAreAskedFor) {
  const Pprof pprof = PprofReader::read(packed(1, {.thread = true, .tid = true, .cpu = true}));
  ASSERT_EQ(pprof.samples.size(), 3U);
  const auto& labels = pprof.samples[1].labels;
  EXPECT_EQ(labels.at("thread"), "worker");
  EXPECT_EQ(labels.at("tid"), "=11");
  EXPECT_EQ(labels.at("cpu"), "0") << "a text";
  for (const auto& [key, value] : labels)
    EXPECT_EQ(key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos);
}

TEST_F(PprofTest, SaysWhenAndWhatIsMissing) {
  const Pprof pprof = PprofReader::read(
      packed(1, {}, {.begin = WallTime(123), .duration = std::chrono::seconds(9), .comments = {"lost 7", "x"}}));
  EXPECT_EQ(pprof.time_ns, 123);
  EXPECT_EQ(pprof.duration_ns, 9'000'000'000);
  EXPECT_EQ(pprof.period_type, "cpu/nanoseconds");
  EXPECT_EQ(pprof.period, 1'000'000'000 / 99);
  EXPECT_THAT(pprof.comments, ElementsAre("lost 7", "x"));
}

TEST_F(PprofTest, MappingsHaveBuildIdsAndOffsets) {
  const Pprof pprof = PprofReader::read(packed(1));
  ASSERT_EQ(pprof.mappings.size(), 2U);
  for (const auto& [id, mapping] : pprof.mappings) {
    EXPECT_EQ(mapping.start, 0U);
    EXPECT_EQ(mapping.has_functions, mapping.file == "[kernel.kallsyms]") << "only its functions are known";
    EXPECT_EQ(mapping.build_id, mapping.file == "/no/where/a" ? "ab01" : "");
  }
  for (const auto& [id, location] : pprof.locations) {
    ASSERT_TRUE(pprof.mappings.contains(location.mapping));
    EXPECT_LT(location.address, pprof.mappings.at(location.mapping).limit);
    EXPECT_LT(location.address, 0x10000U) << "an offset";
  }
}

// Where the kernel and the file lie in memory is not in it, in any form.
TEST_F(PprofTest, HasNoAddressOfMemory) {
  const std::string bytes = test::gunzipped(packed(1, {.thread = true, .tid = true, .cpu = true}));
  EXPECT_THAT(bytes, testing::Not(HasSubstr("7f12345")));
  EXPECT_THAT(bytes, testing::Not(HasSubstr("ffffffff81")));
  protozero::pbf_reader message(bytes);
  while (message.next()) {
    if (message.tag() != 4 && message.tag() != 3) {
      message.skip();
      continue;
    }
    protozero::pbf_reader sub = message.get_message();
    while (sub.next()) {
      if (sub.has_wire_type(protozero::pbf_wire_type::varint)) {
        EXPECT_LT(sub.get_uint64(), 1U << 20U);
      } else {
        sub.skip();
      }
    }
  }
}

// Not a clock: the sum of its periods is no time.
TEST_F(PprofTest, OfAnotherEvent) {
  const Pprof pprof = PprofReader::read(packed(2));
  EXPECT_THAT(pprof.types, ElementsAre("samples/count"));
  EXPECT_EQ(pprof.default_type, "samples");
  EXPECT_EQ(pprof.period, 0);
  ASSERT_EQ(pprof.samples.size(), 1U);
  EXPECT_THAT(pprof.samples[0].values, ElementsAre(1));
  EXPECT_EQ(pprof.stack_of(pprof.samples[0]), "[unknown]");
  EXPECT_THAT(pprof.mappings, IsEmpty());
  EXPECT_THAT(PprofReader::read(packed(0)).samples, IsEmpty());
}

TEST_F(PprofTest, HostileNamesArePrintable) {
  for (const char* comm : {"</script>", "\x1b[2J", "\xff\xfe", "\xe2\x80\xae", ""}) {
    append_comm(records_, {.pid = 10, .tid = 10, .name = comm}, {});
    append_comm(records_, {.pid = 10, .tid = 11, .name = comm}, {});
    append_mmap2(records_,
                 {.pid = 10,
                  .tid = 10,
                  .address = 0x7f1234500000,
                  .bytes = 0x1000,
                  .name = "/x/" + std::string(3000, 'y') + comm},
                 {});
    const Pprof pprof = PprofReader::read(packed(1, {.thread = true}));
    EXPECT_EQ(pprof.samples.size(), 3U);
    for (const std::string& text : pprof.strings) {
      EXPECT_TRUE(is_printable(text)) << text;
      EXPECT_LE(text.size(), 1100U);
    }
  }
}

TEST_F(PprofTest, SumsAreThoseOfTheTree) {
  std::uint64_t samples = 0, weight = 0;
  for (const PprofSample& sample : PprofReader::read(packed(1)).samples) {
    samples += static_cast<std::uint64_t>(sample.values.at(0));
    weight += static_cast<std::uint64_t>(sample.values.at(1));
  }
  const auto profile = SnapshotProfile::read(test::made_file(records_), {.read_files = false});
  ASSERT_TRUE(profile);
  const StackValue all = profile->tree.totals()[profile->events[1].root].all;
  EXPECT_EQ(samples, all.samples);
  EXPECT_EQ(weight, all.weight);
}

TEST_F(PprofTest, StopsWhereNothingCanBeWritten) {
  const LabelledStacks stacks({});
  const auto profile = SnapshotProfile::read(test::made_file(records_), {.read_files = false});
  ASSERT_TRUE(profile);
  const auto written = write_pprof(
      *profile, 1, stacks, {}, [](std::span<const std::byte>) -> Result<void> { return sys_error(ENOSPC, "write"); });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().errno_value(), ENOSPC);
}

}  // namespace
}  // namespace flight
