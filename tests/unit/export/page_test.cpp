// SPDX-License-Identifier: Apache-2.0
// The page of a snapshot: what is decoded from it equals the profile, and nothing of a snapshot is HTML.
#include "libcore/export/page.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/text.hpp"
#include "libcore/export/base64.hpp"
#include "tests/unit/export/from_base64.hpp"
#include "tests/unit/export/gunzipped.hpp"
#include "tests/unit/export/sha256.hpp"
#include "tests/unit/profile/made_file.hpp"
#include "tests/unit/profile/made_sched.hpp"

namespace flight {
namespace {

using Json = nlohmann::json;
using test::from_base64;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::uint64_t kPageUser = PERF_CONTEXT_USER, kPageKernel = PERF_CONTEXT_KERNEL;
constexpr std::uint64_t kPageText = 0xffffffff81000000;
constexpr EventTime kPageBegin = 1'000'000'000;

Base64Writer::Write append_to(std::string& out) {
  return [&out](std::span<const std::byte> bytes) -> Result<void> {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  };
}
std::string base64_of(std::string_view text, std::size_t piece = 1000) {
  std::string out;
  Base64Writer writer(append_to(out));
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    const std::string_view some = text.substr(0, piece);
    EXPECT_TRUE(writer.add(std::as_bytes(std::span(some.data(), some.size()))));
  }
  EXPECT_TRUE(writer.finish());
  return out;
}

// What viewer/src/payload.js reads.
class PagePayload {
 public:
  struct Side {
    Json head;
    std::vector<std::uint64_t> parents, frames;                       // by node
    std::vector<std::uint64_t> times, nodes, threads, cpus, weights;  // by sample; ns from the window's begin
    std::vector<std::array<std::uint64_t, 4>> ran;                    // CPU, begin, end, thread
    std::vector<std::array<std::uint64_t, 4>> off;                    // begin, end, thread, state
  };
  explicit PagePayload(const std::string& bytes) : bytes_(bytes), at_(bytes.find('\n') + 1) {
    const Json head = Json::parse(bytes.substr(0, at_), nullptr, false);
    EXPECT_EQ(head.value("format", 0), 2);
    for (const Json& side : head.value("sides", Json::array())) read(side);
    EXPECT_EQ(at_, bytes_.size());
  }
  [[nodiscard]] const std::vector<Side>& sides() const { return sides_; }

 private:
  void read(const Json& head) {
    Side side{.head = head, .parents = {0}, .frames = {0}};
    const auto nodes = head.at("nodes").get<std::size_t>(), samples = head.at("samples").get<std::size_t>();
    for (std::size_t i = 1; i < nodes; ++i) side.parents.push_back(i - next());
    for (std::size_t i = 1; i < nodes; ++i) side.frames.push_back(next());
    for (std::size_t i = 0; i < samples; ++i) {
      const std::uint64_t step = next();
      side.times.push_back(i == 0 ? (step >> 1U) ^ (0 - (step & 1U)) : side.times.back() + step);
    }
    for (auto* column : {&side.nodes, &side.threads, &side.cpus, &side.weights})
      for (std::size_t i = 0; i < samples; ++i) column->push_back(next());
    if (head.at("sched").is_object()) read_sched(head.at("sched"), side);
    sides_.push_back(std::move(side));
  }
  void read_sched(const Json& head, Side& side) {
    for (std::size_t i = 0; i < head.at("ran").get<std::size_t>(); ++i) side.ran.push_back({next()});
    for (std::size_t i = 0; i < side.ran.size(); ++i) {
      const bool follows = i > 0 && side.ran[i - 1][0] == side.ran[i][0];
      side.ran[i][1] = (follows ? side.ran[i - 1][2] : head.at("lanes_begin").get<std::uint64_t>()) + next();
      side.ran[i][2] = side.ran[i][1] + next();
      side.ran[i][3] = next();
    }
    for (std::size_t i = 0; i < head.at("off").get<std::size_t>(); ++i) {
      std::array<std::uint64_t, 4> one{};
      one[0] = (i == 0 ? 0 : side.off.back()[0]) + next();
      one[1] = one[0] + next();
      one[2] = next();
      one[3] = next();
      side.off.push_back(one);
    }
  }
  std::uint64_t next() {
    std::uint64_t out = 0;
    for (unsigned shift = 0; at_ < bytes_.size() && shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      out |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return out;
    }
    ADD_FAILURE() << "a column is cut off";
    return out;
  }

  const std::string& bytes_;
  std::size_t at_;
  std::vector<Side> sides_;
};

class PageTest : public testing::Test {
 protected:
  PageTest() {
    append_kernel_mmap(records_, kPageText, 0x10000, kPageText, "[kernel.kallsyms]_text", {});
    append_cgroup(records_, {.id = 5, .path = "/system.slice/web.service"}, {});
    append_fork(records_, {.pid = 10, .ppid = 1, .tid = 10, .ptid = 1, .exec = true}, {});
    append_comm(records_, {.pid = 10, .tid = 10, .name = "server"}, {});
    append_comm(records_, {.pid = 10, .tid = 11, .name = "worker"}, {});
    append_mmap2(records_,
                 {.pid = 10,
                  .tid = 10,
                  .address = 0x7f1234500000,
                  .bytes = 0x10000,
                  .page_offset = 0x2000,
                  .name = "/no/where/a"},
                 {});
    // Recursion, several depths, times out of order.
    for (std::uint64_t i = 0; i < 500; ++i) {
      std::vector<std::uint64_t> chain{kPageUser};
      for (std::uint64_t depth = 0; depth <= i % 7; ++depth) chain.push_back(0x7f1234500010 + 0x10 * (i * depth % 5));
      test::append_sample(records_, {.tid = i % 3 == 0 ? 11U : 10U,
                                     .cpu = static_cast<std::uint32_t>(i % 2),
                                     .time_ns = kPageBegin + i * 7919 % 500 * 10'000'000,
                                     .ip = 0x7f1234500010,
                                     .chain = chain,
                                     .period = 10'000'000 + i,
                                     .cgroup = i % 4 == 0 ? 0U : 5U});
    }
    test::append_sample(records_, {.tid = 11,
                                   .time_ns = kPageBegin - 5,
                                   .ip = kPageText + 0x1010,
                                   .kernel = true,
                                   .chain = {kPageKernel, kPageText + 0x1010, kPageUser, 0x7f1234500020},
                                   .period = 20'000'000,
                                   .cgroup = 5});
    test::append_switch(records_, {.time_ns = kPageBegin + 5, .ip = 0x99});
    sidecar_.id = "12";
    sidecar_.host = "web3";
    sidecar_.trigger = "cpu-spike";
    sidecar_.reason = "why";
    sidecar_.window = {kPageBegin, kPageBegin + 9'000'000'000, 9, "2026-11-20T03:11:55.000Z",
                       "2026-11-20T03:12:04.000Z"};
    sidecar_.common_window = sidecar_.window;
  }
  void read(std::size_t most_samples = PageSamples::kMostSamples) {
    samples_ = PageSamples(most_samples);
    const std::string kallsyms = "ffffffff81000000 T _text\nffffffff81001000 T do_work\n";
    ProfileOrder order{.kallsyms = kallsyms, .read_files = false};
    order.each = [this](const CountedSample& sample) { samples_.add(sample); };
    auto profile = SnapshotProfile::read(test::made_file(records_), order);
    ASSERT_TRUE(profile) << profile.error().what;
    profile_ = std::move(*profile);
    samples_.arrange();
  }
  [[nodiscard]] PageSide side() const {
    return {.profile = profile_, .event = 1, .samples = samples_, .sidecar = sidecar_, .notes = notes_};
  }
  [[nodiscard]] std::string page(std::size_t sides = 1) const {
    const std::vector<PageSide> all(sides, side());
    std::string out;
    EXPECT_TRUE(write_page(all, append_to(out)));
    return out;
  }
  // The bytes of the payload.
  static std::string payload_of(const std::string& page) {
    const std::size_t at = page_html().find(kPagePayload);
    const std::size_t rest = page_html().size() - at - kPagePayload.size();
    EXPECT_GT(page.size(), at + rest);
    return test::gunzipped(from_base64(std::string_view(page).substr(at, page.size() - at - rest)));
  }

  RecordBuffer records_;
  Sidecar sidecar_;
  std::vector<std::string> notes_{"a note"};
  SnapshotProfile profile_;
  PageSamples samples_;
};

TEST_F(PageTest, HasTheWholeProfile) {
  ASSERT_NO_FATAL_FAILURE(read());
  const std::string bytes = payload_of(page());
  EXPECT_THAT(bytes, StartsWith(R"({"format":2,"sides":[{"sidecar":{)")) << "where payload.js looks for it";
  const PagePayload payload(bytes);
  ASSERT_EQ(payload.sides().size(), 1U);
  const PagePayload::Side& side = payload.sides().front();
  const std::vector<StackNode>& nodes = profile_.tree.nodes();
  ASSERT_EQ(side.parents.size(), nodes.size());
  std::vector<StackValue> sums(nodes.size());
  ASSERT_EQ(side.times.size(), profile_.counts.counted);
  for (std::size_t i = 0; i < side.times.size(); ++i)
    sums.at(side.nodes[i]).add({.samples = 1, .weight = side.weights[i]});
  const Json& frames = side.head.at("frames");
  for (std::uint32_t i = 1; i < nodes.size(); ++i) {
    EXPECT_EQ(side.parents[i], nodes[i].parent);
    EXPECT_EQ(side.frames[i], nodes[i].frame);
    EXPECT_EQ(sums[i], nodes[i].self.all) << i;
    const auto frame = static_cast<std::size_t>(side.frames[i]);
    EXPECT_EQ(frames.at("name").at(frame).get<std::string>(), profile_.text_of(nodes[i].frame));
    const auto object = frames.at("object").at(frame).get<std::size_t>();
    if (profile_.frames[frame].object != 0) {
      EXPECT_EQ(side.head.at("objects").at("name").at(object).get<std::string>(), profile_.object_of(nodes[i].frame));
    }
    EXPECT_EQ(frames.at("named").at(frame),
              profile_.frames[frame].name == 0 && profile_.frames[frame].kind == StackFrameKind::code ? 0 : 1);
  }
}

TEST_F(PageTest, HasEachSampleInTime) {
  ASSERT_NO_FATAL_FAILURE(read());
  const std::string bytes = payload_of(page());
  const PagePayload payload(bytes);
  const PagePayload::Side& side = payload.sides().front();
  ASSERT_EQ(side.times.size(), samples_.samples().size());
  EXPECT_EQ(static_cast<std::int64_t>(side.times.front()), -5) << "before the window's begin";
  const Json& threads = side.head.at("threads");
  for (std::size_t i = 0; i < side.times.size(); ++i) {
    const PageSamples::Sample& sample = samples_.samples()[i];
    EXPECT_EQ(side.times[i], sample.time_ns - kPageBegin);
    EXPECT_EQ(side.cpus[i], sample.cpu);
    const auto thread = static_cast<std::size_t>(side.threads[i]);
    EXPECT_TRUE(threads.at("known").at(thread).get<bool>());
    EXPECT_EQ(threads.at("pid").at(thread), 10);
    EXPECT_EQ(threads.at("process").at(thread), "server");
    const std::string unit = threads.at("unit").at(thread);
    EXPECT_TRUE(unit.empty() || unit == "web.service" || unit == "[unknown]") << unit;
  }
  EXPECT_THAT(threads.at("unit").dump(), HasSubstr("web.service"));
}

TEST_F(PageTest, HasTheSidecarAndTheEvents) {
  ASSERT_NO_FATAL_FAILURE(read());
  sidecar_.holes = {{"stacks", 1, kPageBegin + 2'000'000'000, kPageBegin + 2'500'000'000, 7}};
  const std::string bytes = payload_of(page());
  const PagePayload payload(bytes);
  const Json& head = payload.sides().front().head;
  EXPECT_EQ(head.at("sidecar"), Json::parse(to_json(sidecar_)));
  EXPECT_EQ(head.at("notes"), Json::array({"a note"}));
  ASSERT_EQ(head.at("events").size(), 2U) << "those with samples";
  const Json& shown = head.at("events").at(head.at("event").get<std::size_t>());
  EXPECT_EQ(shown.at("name"), "cpu-clock");
  EXPECT_EQ(shown.at("clock"), true);
  EXPECT_EQ(shown.at("frequency"), 99);
  EXPECT_EQ(shown.at("root"), profile_.events[1].root);
  EXPECT_EQ(head.at("events").at(1).at("clock"), false);
}

TEST_F(PageTest, KindsAreThoseOfTheReader) {
  ASSERT_NO_FATAL_FAILURE(read());
  const std::string bytes = payload_of(page());
  const PagePayload payload(bytes);
  const Json& frames = payload.sides().front().head.at("frames");
  for (const auto& [name, kind] : {std::pair("server", 2), {"do_work", 3}, {"a+0x2010", 4}, {"[others]", 1}}) {
    const auto found = std::find(frames.at("name").begin(), frames.at("name").end(), name);
    ASSERT_NE(found, frames.at("name").end()) << name;
    EXPECT_EQ(frames.at("kind").at(static_cast<std::size_t>(found - frames.at("name").begin())), kind) << name;
  }
}

TEST_F(PageTest, HasTwoSides) {
  ASSERT_NO_FATAL_FAILURE(read());
  const std::string bytes = payload_of(page(2));
  const PagePayload payload(bytes);
  ASSERT_EQ(payload.sides().size(), 2U);
  EXPECT_EQ(payload.sides()[0].weights, payload.sides()[1].weights);
  EXPECT_EQ(payload.sides()[1].head.at("sidecar").at("id"), "12");
}

// Thread 10 is blocked, then 11 waits for it.
TEST_F(PageTest, HasTheScheduling) {
  ASSERT_NO_FATAL_FAILURE(read());
  RecordBuffer switches;
  const auto at = [](std::uint64_t ms) { return kPageBegin + ms * 1'000'000; };
  for (const test::MadeSwitch& one : std::vector<test::MadeSwitch>{{at(1), 0, 0, test::kStateR, 10},
                                                                   {at(3), 0, 10, test::kStateD, 11},
                                                                   {at(7), 0, 11, test::kPreempted, 10},
                                                                   {at(9), 0, 10, test::kStateS, 0}})
    append_to_another(switches, one);
  SchedOrder order;
  order.shown = {.begin_ns = kPageBegin, .end_ns = at(10), .covered_ns = kPageBegin};
  order.lanes = {.ran_ns = 5'000'000, .least_off_ns = 1'000'000};
  auto profile = SchedProfile::read(test::sched_file(switches), order);
  ASSERT_TRUE(profile) << profile.error().what;
  const PageSched sched{.profile = std::move(*profile), .notes = {"</script>\x1b"}};
  PageSide with = side();
  with.sched = &sched;
  const std::vector<PageSide> all{with, side()};
  std::string page;
  ASSERT_TRUE(write_page(all, append_to(page)));
  const std::string bytes = payload_of(page);
  const PagePayload payload(bytes);
  ASSERT_EQ(payload.sides().size(), 2U);
  EXPECT_TRUE(payload.sides()[1].head.at("sched").is_null());
  const PagePayload::Side& one = payload.sides()[0];
  const Json& head = one.head.at("sched");
  EXPECT_EQ(head.at("begin"), 0);
  EXPECT_EQ(head.at("end"), 10'000'000);
  EXPECT_EQ(head.at("switches"), 4);
  EXPECT_EQ(head.at("wakeups"), "real-time");
  EXPECT_EQ(head.at("stacks"), false);
  EXPECT_EQ(head.at("notes"), Json::array({"</script>?"}));
  EXPECT_EQ(head.at("threads").at("name"), Json::array({"[unknown]", "task-11", "task-10"}));
  EXPECT_EQ(head.at("threads").at("tid"), Json::array({0, 11, 10}));
  ASSERT_EQ(head.at("rows").size(), 2U);
  EXPECT_EQ(head.at("rows").at(0).at("thread"), 1);
  EXPECT_EQ(head.at("rows").at(0).at("waited"), Json::array({1, 3'000'000, 3'000'000, 7'000'000, 1, 0}));
  EXPECT_EQ(head.at("rows").at(0).at("instead"), Json::array({Json::array({2, 2'000'000})}));
  EXPECT_EQ(head.at("rows").at(1).at("blocked"), Json::array({1, 4'000'000, 4'000'000, 3'000'000, 0, 0}));
  EXPECT_EQ(head.at("rows").at(1).at("run").at(1), 4'000'000);
  ASSERT_EQ(head.at("blocked").size(), 1U);
  EXPECT_EQ(head.at("blocked").at(0).at("thread"), 2);
  EXPECT_EQ(head.at("cpus"), Json::array({Json::array({0, 8'000'000, 2'000'000, 0})}));
  EXPECT_EQ(head.at("lanes_begin"), 5'000'000);
  const std::vector<std::array<std::uint64_t, 4>> ran{{0, 5'000'000, 7'000'000, 1}, {0, 7'000'000, 9'000'000, 2}};
  EXPECT_EQ(one.ran, ran);
  const std::vector<std::array<std::uint64_t, 4>> off{
      {3'000'000, 7'000'000, 2, 1}, {7'000'000, 10'000'000, 1, 0 + 8}, {9'000'000, 10'000'000, 2, 2 + 8}};
  EXPECT_EQ(one.off, off);
  EXPECT_EQ(one.times.size(), payload.sides()[1].times.size());
}

TEST_F(PageTest, OfNothing) {
  records_.clear();
  append_comm(records_, {.pid = 10, .tid = 10, .name = "idle"}, {});
  ASSERT_NO_FATAL_FAILURE(read());
  const std::string bytes = payload_of(page());
  const PagePayload payload(bytes);
  EXPECT_EQ(payload.sides().front().head.at("samples"), 0);
  EXPECT_EQ(payload.sides().front().head.at("events").size(), 1U);
}

// The policy allows the script and the style in the page, and no others.
TEST_F(PageTest, ThePolicyHasTheHashes) {
  EXPECT_EQ(base64_of(test::Sha256::of("abc")), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
  const std::string page(page_html());
  const auto between = [&page](const std::string& begin, const std::string& end) {
    const std::size_t from = page.find(begin);
    EXPECT_NE(from, std::string::npos) << begin;
    EXPECT_EQ(page.find(begin, from + 1), std::string::npos) << begin << " stands there twice";
    return page.substr(from + begin.size(), page.find(end, from) - from - begin.size());
  };
  const std::string policy = between("<meta http-equiv=\"Content-Security-Policy\" content=\"", "\">");
  const std::string script = between("<script>", "</script>"), style = between("<style>", "</style>");
  EXPECT_GT(script.size(), 50'000U);
  EXPECT_GT(style.size(), 1'000U);
  EXPECT_EQ(policy, fmt::format("default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; "
                                "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
                                base64_of(test::Sha256::of(script)), base64_of(test::Sha256::of(style))));
  for (const char* remote : {"src=", "<link", "<iframe", "<img", "onload=", "javascript:"})
    EXPECT_THAT(page.substr(0, page.find("<footer>")), Not(HasSubstr(remote)));
  for (const char* licence : {"d3-flame-graph 5.", "uplot 1.6", "Apache License", "Permission is hereby granted"})
    EXPECT_THAT(page, HasSubstr(licence));
}

TEST_F(PageTest, HostileNamesAreNeverHtml) {
  for (const std::string& comm :
       std::vector<std::string>{"</script>", "<!--", "\x1b[2J", "\xff\xfe", "\xe2\x80\xae", "%PAYLOAD%", ""}) {
    append_comm(records_, {.pid = 10, .tid = 10, .name = comm}, {});
    append_mmap2(records_,
                 {.pid = 10,
                  .tid = 10,
                  .address = 0x7f1234500000,
                  .bytes = 0x10000,
                  .name = "/x/" + std::string(3000, 'y') + comm + "<img src=x onerror=alert(1)>"},
                 {});
    sidecar_.reason = comm + "</script><img src=x onerror=alert(1)>";
    ASSERT_NO_FATAL_FAILURE(read());
    const std::string whole = page();
    // All that is not base64 is the page itself.
    const std::size_t at = page_html().find(kPagePayload);
    const std::string_view rest = page_html().substr(at + kPagePayload.size());
    ASSERT_GT(whole.size(), at + rest.size());
    EXPECT_EQ(std::string_view(whole).substr(0, at), page_html().substr(0, at));
    EXPECT_EQ(std::string_view(whole).substr(whole.size() - rest.size()), rest);
    const std::string_view text = std::string_view(whole).substr(at, whole.size() - at - rest.size());
    EXPECT_EQ(text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="),
              std::string_view::npos);
    const std::string bytes = payload_of(whole);
    const PagePayload payload(bytes);
    for (const Json& name : payload.sides().front().head.at("frames").at("name")) {
      EXPECT_TRUE(is_printable(name.get<std::string>())) << name;
      EXPECT_LE(name.get<std::string>().size(), 1100U);
    }
  }
}

TEST_F(PageTest, HasNoAddressOfMemory) {
  ASSERT_NO_FATAL_FAILURE(read());
  const std::string bytes = payload_of(page());
  for (const char* address : {"7f12345", "13971616", "ffffffff8", "18446744", "\xff\xff\xff\xff\x01"})
    EXPECT_THAT(bytes, Not(HasSubstr(address)));
}

TEST_F(PageTest, IsTheSameEachTime) {
  ASSERT_NO_FATAL_FAILURE(read());
  EXPECT_EQ(page(), page());
}

TEST_F(PageTest, AnErrorOfTheFileEndsIt) {
  ASSERT_NO_FATAL_FAILURE(read());
  const std::vector<PageSide> all{side()};
  std::size_t calls = 0;
  const auto full = [&calls](std::span<const std::byte>) -> Result<void> {
    if (++calls < 2) return {};
    return fail(std::errc::no_space_on_device, "full");
  };
  const auto written = write_page(all, full);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().errno_value(), ENOSPC);
}

TEST(PageSamples, InTimeByThreadAndUnit) {
  PageSamples samples;
  const auto add = [&samples](EventTime time_ns, std::uint32_t tid, std::uint32_t unit) {
    samples.add({.time_ns = time_ns, .cpu = 3, .pid = 7, .tid = tid, .node = 1, .unit = unit, .weight = 10});
  };
  add(30, 8, 1);
  add(10, 8, 1);
  add(20, 8, 2);
  add(10, 9, 1);
  samples.arrange();
  ASSERT_EQ(samples.threads().size(), 4U);
  EXPECT_FALSE(samples.threads()[0].known);
  EXPECT_EQ(samples.threads()[2].unit, 2U);
  ASSERT_EQ(samples.samples().size(), 4U);
  EXPECT_EQ(samples.samples()[0].thread, 1U) << "of the same time, as they came";
  EXPECT_EQ(samples.samples()[1].thread, 3U);
  EXPECT_EQ(samples.samples()[3].time_ns, 30U);
  EXPECT_EQ(samples.samples()[3].cpu, 3U);
  EXPECT_EQ(samples.left_out(), 0U);
}

TEST(PageSamples, AreBounded) {
  PageSamples samples(10, 3);
  for (std::uint32_t i = 0; i < 12; ++i) samples.add({.time_ns = i, .pid = 1, .tid = i});
  EXPECT_EQ(samples.samples().size(), 10U);
  EXPECT_EQ(samples.left_out(), 2U);
  ASSERT_EQ(samples.threads().size(), 4U);
  EXPECT_EQ(samples.samples().back().thread, 0U);
}

// RFC 4648, section 10, in pieces of any size.
TEST(Base64, AsInTheStandard) {
  const std::vector<std::pair<std::string, std::string>> vectors{{"", ""},
                                                                 {"f", "Zg=="},
                                                                 {"fo", "Zm8="},
                                                                 {"foo", "Zm9v"},
                                                                 {"foob", "Zm9vYg=="},
                                                                 {"fooba", "Zm9vYmE="},
                                                                 {"foobar", "Zm9vYmFy"},
                                                                 {"\xfb\xff", "+/8="}};
  for (const auto& [text, encoded] : vectors)
    for (std::size_t piece = 1; piece <= 7; ++piece) EXPECT_EQ(base64_of(text, piece), encoded) << piece;
  std::string all;
  for (int i = 0; i < 1000; ++i) all += static_cast<char>(i * 7 % 256);
  EXPECT_EQ(from_base64(base64_of(all, 11)), all);
}

}  // namespace
}  // namespace flight
