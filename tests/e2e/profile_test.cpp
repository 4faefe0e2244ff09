// SPDX-License-Identifier: Apache-2.0
// The profile of a real snapshot, against stock perf's report of the same file.
#include "libcore/profile/profile.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using Pair = std::pair<std::string, std::string>;  // a thread's name and an object; an object and a function
using Sums = std::map<Pair, std::pair<std::uint64_t, std::uint64_t>>;  // samples, and the sum of their periods

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

// perf splits the kernel into several objects ("[kernel].init.text") where its symbols say so.
std::string object_name(const std::string& name) { return name.starts_with("[kernel") ? "[kernel]" : name; }

// "52;52000000;burner;[kernel.kallsyms]" of `perf report -t ';'`.
Sums sums_of_report(const std::string& report) {
  Sums out;
  for (const std::string& line : lines_of(report)) {
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> fields;
    std::istringstream words(line);
    for (std::string field; std::getline(words, field, ';');) fields.push_back(trimmed(field));
    if (fields.size() != 4) {
      ADD_FAILURE() << "not understood: " << line;
      continue;
    }
    auto& sum = out[{object_name(fields[2]), object_name(fields[3])}];
    sum.first += std::strtoull(fields[0].c_str(), nullptr, 10);
    sum.second += std::strtoull(fields[1].c_str(), nullptr, 10);
  }
  return out;
}

Sums sums_by_task(const SnapshotProfile& profile) {
  Sums out;
  const auto& nodes = profile.tree.nodes();
  for (std::uint32_t i = 1; i < nodes.size(); ++i) {
    const StackValue& self = nodes[i].self.all;
    if (self.samples == 0) continue;
    std::uint32_t task = i;
    while (profile.frames[nodes[task].frame].kind != StackFrameKind::task) task = nodes[task].parent;
    auto& sum = out[{object_name(trimmed(profile.text_of(nodes[task].frame))),
                     object_name(std::string(profile.object_of(nodes[i].frame)))}];
    sum.first += self.samples;
    sum.second += self.weight;
  }
  return out;
}

void expect_equal(const Sums& mine, const Sums& perfs) {
  for (const auto& [key, sum] : perfs) {
    const auto found = mine.find(key);
    if (found != mine.end() && found->second == sum) continue;
    ADD_FAILURE() << key.first << ", " << key.second << ": perf has " << sum.first << " samples, weight " << sum.second
                  << "; the profile " << (found != mine.end() ? found->second.first : 0) << ", "
                  << (found != mine.end() ? found->second.second : 0);
  }
  for (const auto& [key, sum] : mine)
    EXPECT_TRUE(perfs.contains(key)) << key.first << ", " << key.second << ": only the profile has " << sum.first;
}

// Programs, threads, forks, an exec, a library and JIT code, and all that the machine does besides.
class ProfileOfASnapshot : public testing::Test {
 protected:
  void SetUp() override {
    Json config = stacks_config(997, "2M");
    ASSERT_TRUE(daemon_.start(config));
    const std::string folder = folder_ / "scratch/t";
    const std::string text = fmt::format(
        "L={} C={} T={}; mkdir -m 777 $T; $L/burner $C 0.5 & $L/burner $C 0.5 kernel & $L/threader $C 0.5 & "
        "$L/jitter $C 0.5 $T & wait; $L/execer $C 0.4 $L/burner $C 0.4 & $L/dlopener $C 0.4 $L/liblate.so 0.4 & "
        "$L/forker $C 100 1 & wait",
        folder_.loads(), load_cpu(), folder);
    const Outcome ran = run({"bash", "-c", text}, 60s);
    ASSERT_EQ(ran.exit_status, 0) << ran.text();
    sidecar_ = daemon_.snapshot();
    EXPECT_GT(samples(), 500U);
  }
  [[nodiscard]] std::string path() const { return sidecar_.at("path").get<std::string>(); }
  [[nodiscard]] std::uint64_t samples() const { return sidecar_.at("samples").get<std::uint64_t>(); }
  [[nodiscard]] SnapshotProfile read(const ProfileOrder& order) const {
    const auto file = FileReader::open(path());
    EXPECT_TRUE(file) << file.error().what;
    if (!file) return {};
    auto profile = SnapshotProfile::read(*file, order);
    EXPECT_TRUE(profile) << profile.error().what;
    if (!profile) return {};
    EXPECT_EQ(profile->counts.counted, samples());
    EXPECT_EQ(profile->counts.others + profile->counts.given_up + profile->counts.left_out_sideband, 0U);
    EXPECT_EQ(profile->counts.malformed_sideband, 0U);
    return std::move(*profile);
  }
  [[nodiscard]] Outcome report(const std::string& fields, const Arguments& more) const {
    Arguments arguments{"report", "-i", path(), "--stdio", "--no-children", "-g", "none", "-F", fields, "-t", ";"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Outcome outcome = Verifier::installed().perf(folder_, arguments);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.text();
    return outcome;
  }

  // Those that flightd keeps beside the snapshot, and a file with them.
  [[nodiscard]] std::pair<std::string, std::string> kernel_symbols() {
    const std::string kept = daemon_.snapshots_dir() + "/" + sidecar_.value("kallsyms", "?");
    struct stat found {};
    EXPECT_TRUE(wait_until([&] { return ::stat(kept.c_str(), &found) == 0; }, 20s)) << kept;
    const std::string kallsyms = run({"zstd", "-dcq", kept}).out;
    EXPECT_GT(kallsyms.size(), 100'000U);
    const std::string file = folder_ / "scratch/kallsyms";
    write_text(file, kallsyms);
    return {kallsyms, file};
  }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
  Json sidecar_;
};

TEST_F(ProfileOfASnapshot, HasPerfsSumsByThreadAndObject) {
  const Outcome outcome = report("sample,period,comm,dso", {});
  const Sums perfs = sums_of_report(outcome.out);
  EXPECT_GT(perfs.size(), 20U) << outcome.text();
  expect_equal(sums_by_task(read({.read_files = false})), perfs);
  EXPECT_TRUE(daemon_.stop());
}

using ProfileOfASnapshotLong = ProfileOfASnapshot;

// By the kernel's symbols that flightd keeps beside the snapshot.
TEST_F(ProfileOfASnapshotLong, HasPerfsSumsByFunctionOfTheKernel) {
  const auto [kallsyms, file] = kernel_symbols();
  ASSERT_FALSE(kallsyms.empty());
  const SnapshotProfile profile = read({.kallsyms = kallsyms, .read_files = false});
  EXPECT_TRUE(profile.counts.knows_kernel);

  Sums mine, perfs;
  for (const StackNode& node : profile.tree.nodes()) {
    const StackValue& self = node.self.all;
    const StackFrame& frame = profile.frames[node.frame];
    if (self.samples == 0 || frame.kind != StackFrameKind::code ||
        profile.objects[frame.object].kind != CodeKind::kernel)
      continue;
    EXPECT_NE(frame.name, 0U) << profile.text_of(node.frame);
    auto& sum = mine[{object_name(std::string(profile.object_of(node.frame))), profile.text_of(node.frame)}];
    sum.first += self.samples;
    sum.second += self.weight;
  }
  EXPECT_GT(mine.size(), 20U);
  // "[k] do_syscall_64"; not those of BPF programs, whose objects have no brackets, and of no mapping.
  constexpr std::string_view kOfTheKernel = "[k] ";
  for (const auto& [key, sum] : sums_of_report(report("sample,period,dso,sym", {"--kallsyms", file}).out))
    if (key.second.starts_with(kOfTheKernel) && key.first.starts_with('[') && key.first != "[unknown]")
      perfs[{key.first, key.second.substr(kOfTheKernel.size())}] = sum;
  expect_equal(mine, perfs);
  EXPECT_TRUE(daemon_.stop());
}

// With what they called, each function once in a stack: in percent of all, by object and function.
std::map<Pair, double> percents_of(const SnapshotProfile& profile) {
  const std::vector<StackNode>& nodes = profile.tree.nodes();
  double all = 0;
  std::map<Pair, double> out;
  for (std::uint32_t i = 1; i < nodes.size(); ++i) {
    const auto weight = static_cast<double>(nodes[i].self.all.weight);
    if (weight == 0) continue;
    all += weight;
    std::set<Pair> seen;
    for (std::uint32_t at = i; at != 0; at = nodes[at].parent) {
      const StackFrame& frame = profile.frames[nodes[at].frame];
      if (frame.kind == StackFrameKind::code && frame.name != 0)
        seen.emplace(object_name(std::string(profile.object_of(nodes[at].frame))), profile.text_of(nodes[at].frame));
    }
    for (const Pair& one : seen) out[one] += weight;
  }
  for (auto& [key, weight] : out) weight *= 100 / all;
  return out;
}

// The sum of the rows of a function, and how many there are: perf has one for each part of the kernel.
struct RowsOfFunction {
  double percent = 0;
  std::size_t rows = 0;
};

// "12.34%;burner;[.] main" of `perf report --children`.
std::map<Pair, RowsOfFunction> percents_of_report(const std::string& report) {
  constexpr std::size_t kMark = 4;  // "[.] "
  std::map<Pair, RowsOfFunction> out;
  for (const std::string& line : lines_of(report)) {
    if (line.empty() || line.front() == '#') continue;
    std::vector<std::string> fields;
    std::istringstream words(line);
    for (std::string field; std::getline(words, field, ';');) fields.push_back(trimmed(field));
    if (fields.size() != 3 || fields[2].size() <= kMark) continue;
    RowsOfFunction& sum = out[{object_name(fields[1]), fields[2].substr(kMark)}];
    sum.percent += std::strtod(fields[0].c_str(), nullptr);
    ++sum.rows;
  }
  return out;
}

TEST_F(ProfileOfASnapshotLong, HasPerfsTotalsByFunction) {
  const auto [kallsyms, file] = kernel_symbols();
  ASSERT_FALSE(kallsyms.empty());
  const std::map<Pair, double> mine = percents_of(read({.kallsyms = kallsyms}));
  const Outcome outcome =
      Verifier::installed().perf(folder_, {"report", "-i", path(), "--stdio", "--children", "--no-inline", "-g", "none",
                                           "--kallsyms", file, "-F", "overhead_children,dso,sym", "-t", ";"});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const std::map<Pair, RowsOfFunction> perfs = percents_of_report(outcome.out);
  // perf prints two digits in each row. Programs of the test have all of their symbols, as the kernel has.
  constexpr double kRounded = 0.006, kSmall = 0.1;
  std::size_t compared = 0;
  for (const auto& [key, percent] : mine) {
    if (percent < kSmall || (key.first != "[kernel]" && key.first != "burner" && key.first != "forker")) continue;
    // Of C++: the profile demangles it, this perf does not.
    if (key.second.ends_with(')')) continue;
    const auto found = perfs.find(key);
    ++compared;
    if (found == perfs.end()) {
      ADD_FAILURE() << key.first << ", " << key.second << ": perf does not have it; " << percent << " %";
      continue;
    }
    EXPECT_NEAR(found->second.percent, percent, kRounded * static_cast<double>(found->second.rows))
        << key.first << ", " << key.second;
  }
  EXPECT_GT(compared, 20U) << outcome.text();
  EXPECT_TRUE(mine.contains({"burner", "hot_function_for_flightd"}));
  EXPECT_TRUE(daemon_.stop());
}

// The running kernel's, or any other: in a varint, one of the kernel's half of the addresses has these last bytes.
TEST_F(ProfileOfASnapshotLong, ExportsHaveEachSampleAndNoAddressOfTheKernel) {
  const std::string symbols = run({"grep", "-m1", " T _stext$", "/proc/kallsyms"}).out;
  ASSERT_GT(symbols.size(), 16U) << symbols;
  const std::uint64_t stext = std::strtoull(symbols.substr(0, 16).c_str(), nullptr, 16);
  ASSERT_GT(stext, 0U) << "the tests run as root";
  constexpr std::size_t kHexDigits = 11, kDecimalDigits = 13;  // of 16 and of 20: the rest is an offset
  const std::string hex = fmt::format("{:x}", stext).substr(0, kHexDigits);
  const std::string decimal = std::to_string(stext).substr(0, kDecimalDigits);
  for (const std::string format : {"folded", "pprof", "firefox"}) {
    SCOPED_TRACE(format);
    const std::string file = folder_ / ("scratch/export." + format);
    const Outcome exported = daemon_.ctl({"export", "latest", "--format", format, "-o", file});
    ASSERT_EQ(exported.exit_status, 0) << exported.text();
    const std::string content = run({format == "folded" ? "cat" : "zcat", file}).out;
    EXPECT_GT(content.size(), 1000U);
    for (const std::string& address : {hex, decimal, std::string("\xff\xff\xff\xff\x01")})
      EXPECT_EQ(content.find(address), std::string::npos) << address;
    if (format != "firefox") continue;
    const Json profile = Json::parse(content, nullptr, false);
    ASSERT_TRUE(profile.is_object());
    std::uint64_t all = 0;
    for (const Json& thread : profile.at("threads")) all += thread.at("samples").at("length").get<std::uint64_t>();
    EXPECT_EQ(all, samples());
  }
  EXPECT_TRUE(daemon_.stop());
}

// The page has its profile as base64 of gzip, whose head is one line of JSON.
TEST_F(ProfileOfASnapshotLong, ThePageHasEachSampleAndNoAddressOfTheKernel) {
  const std::string symbols = run({"grep", "-m1", " T _stext$", "/proc/kallsyms"}).out;
  ASSERT_GT(symbols.size(), 16U) << symbols;
  constexpr std::size_t kHexDigits = 11, kDecimalDigits = 13;  // of 16 and of 20: the rest is an offset
  const std::string hex = symbols.substr(0, kHexDigits);
  const std::string decimal = std::to_string(std::strtoull(symbols.substr(0, 16).c_str(), nullptr, 16));
  const std::string file = folder_ / "scratch/page.html";
  const Outcome written = daemon_.ctl({"html", "latest", "-o", file});
  ASSERT_EQ(written.exit_status, 0) << written.text();
  const std::string take = fmt::format(
      "sed -n 's|.*<script id=\"payload\" type=\"text/plain\">\\([^<]*\\)</script>.*|\\1|p' {} | base64 -d | zcat",
      file);
  const std::string content = run({"bash", "-c", take}).out;
  ASSERT_GT(content.size(), 1000U);
  for (const std::string& address : {hex, decimal.substr(0, kDecimalDigits), std::string("\xff\xff\xff\xff\x01")})
    EXPECT_EQ(content.find(address), std::string::npos) << address;
  const Json head = Json::parse(content.substr(0, content.find('\n')), nullptr, false);
  ASSERT_TRUE(head.is_object());
  EXPECT_EQ(head.at("sides").at(0).at("samples"), samples());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(ProfileOfASnapshotLong, IsWhatTheCommandsShow) {
  const Outcome folded = daemon_.ctl({"export", "latest", "--format", "folded", "-o", "-"});
  EXPECT_EQ(folded.exit_status, 0) << folded.text();
  std::uint64_t all = 0;
  for (const std::string& line : lines_of(folded.out))
    if (!line.empty()) all += std::strtoull(line.c_str() + line.rfind(' '), nullptr, 10);
  EXPECT_EQ(all, samples());
  const Outcome stacks = daemon_.ctl({"stacks", "latest", "--comm", "burner", "-n", "100"});
  EXPECT_EQ(stacks.exit_status, 0) << stacks.text();
  EXPECT_NE(stacks.out.find("hot_function_for_flightd"), std::string::npos) << stacks.text();
  // Not more CPUs than there are.
  const Json whole = daemon_.ctl_json({"stacks", "latest", "--since", "-1s"});
  EXPECT_EQ(whole.at("unit"), "cpus");
  const double used = whole.at("rows").at(0).at("now");
  EXPECT_GT(used, 0);
  EXPECT_LE(used, static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN)) * 1.1);
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
