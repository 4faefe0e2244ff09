// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/verifier.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <iterator>
#include <regex>
#include <sstream>

namespace flight {
namespace {

constexpr Milliseconds kPrepareLimit = 240s;  // a download
constexpr Milliseconds kPerfLimit = 120s;
constexpr int kNotDownloaded = 125;

// FLIGHT_VERIFIERS has the releases, separated by blanks; without it all three.
std::vector<std::string> suites() {
  const char* chosen = std::getenv("FLIGHT_VERIFIERS");
  std::istringstream words(chosen == nullptr ? "bookworm trixie sid" : chosen);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string perf_of() { return required_env("FLIGHT_SOURCE_ROOT") + "/tests/verifiers/perf-of"; }

std::string member_ids() { return fmt::format("{}:{}", kMemberUid, snapshot_gid()); }

}  // namespace

const std::vector<Verifier>& Verifier::all() {
  static const std::vector<Verifier> verifiers = [] {
    std::string version = run({"perf", "--version"}).out;
    version.erase(version.find_last_not_of('\n') + 1);
    std::vector<Verifier> found;
    found.push_back(Verifier(version.empty() ? "no perf" : version, ""));
    for (const std::string& suite : suites()) {
      // Debian 12's own perf is the same as bookworm's, so one check is enough.
      if (suite == "bookworm" && version.starts_with("perf version 6.1.")) continue;
      Outcome prepared = run({perf_of(), suite, "--prepare"}, kPrepareLimit);
      if (prepared.exit_status == kNotDownloaded || prepared.timed_out) {
        fmt::print("LEFT OUT: the verifier {} could not be downloaded: {}\n", suite, prepared.err);
      } else {
        EXPECT_EQ(prepared.exit_status, 0) << prepared.text();
        found.push_back(Verifier(fmt::format("perf of {}", suite), suite));
      }
    }
    return found;
  }();
  return verifiers;
}

Outcome Verifier::perf(const TempFolder& folder, const Arguments& arguments, Reader reader) const {
  Arguments command;
  if (!on_host()) {
    command = {perf_of()};
    if (reader == Reader::member) command.insert(command.end(), {"--as", member_ids()});
    command.insert(command.end(), {suite_, "--"});
  } else {
    if (reader == Reader::member) {
      command = {"setpriv",
                 fmt::format("--reuid={}", kMemberUid),
                 fmt::format("--regid={}", snapshot_gid()),
                 "--clear-groups",
                 "--inh-caps=-all",
                 "--bounding-set=-all",
                 "--no-new-privs",
                 "--"};
    }
    command.emplace_back("perf");
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  // perf would start addr2line for files with debug information that are visible in the chroot, but there is no
  // addr2line.
  if (!on_host() && arguments.front() == "report") command.emplace_back("--no-inline");
  // perf reads the symbols of each program that it has a sample of, also where it prints none. Here these are the
  // programs of the tests: with their 100,000 C++ names demangled, one run of perf would take seconds of a CPU. The
  // functions that tests look for are C.
  if (on_host() && (arguments.front() == "report" || arguments.front() == "script"))
    command.emplace_back("--no-demangle");
  ChildOptions options;
  // HOME: perf neither reads nor fills the build id cache of this machine's user.
  options.env = {"HOME=" + folder / "scratch", "PAGER=cat", "LC_ALL=C.UTF-8"};
  options.folder = folder.path();
  return run(command, kPerfLimit, options);
}

std::vector<Outcome> perf_of_all(const TempFolder& folder, const Arguments& arguments) {
  std::vector<std::future<Outcome>> running;
  for (const Verifier& verifier : Verifier::all())
    running.push_back(std::async(std::launch::async, [&] { return verifier.perf(folder, arguments); }));
  std::vector<Outcome> said;
  for (std::future<Outcome>& one : running) said.push_back(one.get());
  return said;
}

testing::AssertionResult stderr_is_right(const Outcome& outcome, bool has_holes) {
  static const std::regex lost_warning("Processed [0-9]+ events and lost [0-9]+ chunks!");
  bool warned = false;
  for (const std::string& line : lines_of(outcome.err)) {
    if (line.empty() || line == "Warning:" || line == "Check IO/CPU overload!") continue;
    if (!std::regex_match(line, lost_warning)) {
      return testing::AssertionFailure() << "more on stderr than there may be\n" << outcome.text();
    }
    warned = true;
  }
  if (warned != has_holes) {
    return testing::AssertionFailure() << (has_holes ? "holes, but no warning of lost chunks\n"
                                                     : "a warning of lost chunks, but no holes\n")
                                       << outcome.text();
  }
  return testing::AssertionSuccess();
}

Json as_perf_sees(Json part) {
  Json known = Json::array();
  for (const Json& hole : part["holes"])
    if (hole["cause"] == "paused" && hole["lost"] > 0) known.push_back(hole);
  part["holes"] = std::move(known);
  return part;
}

testing::AssertionResult prints_all(const Outcome& script, const Json& sidecar) {
  const std::size_t counted = count_lines(script.out);
  const std::size_t claimed = sidecar.value("samples", std::size_t(0));
  Outcome shown = script;
  shown.out.resize(std::min<std::size_t>(shown.out.size(), 500));
  if (script.exit_status != 0 || counted != claimed) {
    return testing::AssertionFailure() << "printed " << counted << " samples of " << claimed << "\n" << shown.text();
  }
  return stderr_is_right(shown, !sidecar.at("holes").empty());
}

testing::AssertionResult counts_all(const Verifier& verifier, const TempFolder& folder, const Json& sidecar,
                                    Reader reader) {
  const Outcome script = verifier.perf(folder, {"script", "-i", sidecar.value("path", "?"), "-F", "time"}, reader);
  if (testing::AssertionResult right = prints_all(script, sidecar); !right) {
    return testing::AssertionFailure() << verifier.name() << ": " << right.message();
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult all_count_all(const TempFolder& folder, const Json& sidecar) {
  // At the same time: each uses one CPU.
  std::future<testing::AssertionResult> others;
  if (Verifier::all().size() > 1)
    others = std::async(std::launch::async, [&] { return others_count_all(folder, sidecar); });
  testing::AssertionResult counted = counts_all(Verifier::installed(), folder, sidecar);
  if (others.valid()) {
    if (testing::AssertionResult by_others = others.get(); counted) return by_others;
  }
  return counted;
}

testing::AssertionResult others_count_all(const TempFolder& folder, const Json& sidecar) {
  const std::vector<Verifier>& all = Verifier::all();
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (testing::AssertionResult counted = counts_all(all[i], folder, sidecar); !counted) return counted;
  }
  return testing::AssertionSuccess();
}

namespace {

// "burner  4711/4711  [001]  3024.123456789:  cpu-clock:  401234 hot_function (/tmp/…/burner)"; a comm may contain
// blanks. Parsed by hand, because a snapshot has thousands of lines.
std::optional<NamedSample> parse_named_sample(const std::string& line) {
  NamedSample sample;
  char* at = nullptr;
  std::size_t cpu = line.find(" [0"), dso = line.rfind(" (");
  if (line.ends_with(" (not the host's))") || line.ends_with(" (not verified))")) dso = line.rfind(" (", dso - 1);
  if (cpu == std::string::npos || dso == std::string::npos || !line.ends_with(')')) return std::nullopt;
  std::size_t ids_end = line.find_last_not_of(' ', cpu), ids = line.rfind(' ', ids_end);
  std::size_t comm = line.find_first_not_of(' '), comm_end = line.find_last_not_of(' ', ids);
  if (ids == std::string::npos || comm >= ids)
    return std::nullopt;  // a comm may have one character, e.g. after fexecve(3)
  sample.comm = line.substr(comm, comm_end + 1 - comm);
  sample.pid = static_cast<int>(std::strtol(line.c_str() + ids, &at, 10));
  if (*at != '/') return std::nullopt;
  sample.tid = static_cast<int>(std::strtol(at + 1, nullptr, 10));
  sample.cpu = static_cast<int>(std::strtol(line.c_str() + cpu + 2, &at, 10));
  if (*at != ']') return std::nullopt;
  sample.time_ns = std::strtoull(at + 1, &at, 10) * 1'000'000'000U;
  if (*at != '.') return std::nullopt;
  sample.time_ns += std::strtoull(at + 1, &at, 10);
  // "  EVENT:  ADDRESS SYMBOL": an event's name may contain colons, too.
  std::size_t event = line.find_first_not_of(": ", static_cast<std::size_t>(at - line.c_str()));
  std::size_t event_end = line.find(": ", event);
  std::size_t address = event_end == std::string::npos ? event_end : line.find_first_not_of(' ', event_end + 1);
  std::size_t symbol = address == std::string::npos ? address : line.find(' ', address);
  if (symbol == std::string::npos || symbol > dso) return std::nullopt;
  sample.event = line.substr(event, event_end - event);
  sample.symbol = symbol < dso ? line.substr(symbol + 1, dso - symbol - 1) : std::string();
  sample.dso = line.substr(dso + 2, line.size() - dso - 3);
  return sample;
}

Outcome script_of_names(const TempFolder& folder, const std::string& file) {
  return Verifier::installed().perf(
      folder, {"script", "-i", file, "-G", "--ns", "-F", "comm,pid,tid,cpu,time,event,ip,sym,dso"});
}

std::vector<NamedSample> samples_in(const Outcome& script) {
  std::vector<NamedSample> samples;
  for (const std::string& line : lines_of(script.out)) {
    std::optional<NamedSample> sample = parse_named_sample(line);
    if (!sample) {
      ADD_FAILURE() << "not understood: " << line;
      break;
    }
    sample->line = line;
    samples.push_back(std::move(*sample));
  }
  return samples;
}

}  // namespace

std::vector<NamedSample> named_samples(const TempFolder& folder, const std::string& file) {
  return samples_in(script_of_names(folder, file));
}

std::vector<NamedSample> counted_samples(const TempFolder& folder, const Json& sidecar) {
  const Outcome script = script_of_names(folder, sidecar.value("path", "?"));
  EXPECT_TRUE(prints_all(script, sidecar)) << Verifier::installed().name();
  return samples_in(script);
}

std::string build_id_of(const std::string& path) {
  std::string notes = run({"readelf", "-n", path}).out;
  static const std::regex pattern("Build ID: ([0-9a-f]+)");
  std::smatch match;
  return std::regex_search(notes, match, pattern) ? match[1].str() : std::string();
}

// elf(5), note sections: u32 name bytes, u32 description bytes, u32 type, both padded to 4. NT_GNU_BUILD_ID is 3.
std::string kernel_build_id() {
  std::string notes = read_text("/sys/kernel/notes");
  for (std::size_t at = 0; at + 12 <= notes.size();) {
    std::uint32_t words[3];
    std::memcpy(words, notes.data() + at, sizeof words);
    std::size_t name = at + sizeof words, description = name + (words[0] + 3) / 4 * 4;
    if (words[2] == 3 && notes.compare(name, 4, "GNU\0", 4) == 0) {
      std::string text;
      for (unsigned char byte : notes.substr(description, words[1])) text += fmt::format("{:02x}", byte);
      return text;
    }
    at = description + (words[1] + 3) / 4 * 4;
  }
  return {};
}

}  // namespace flight
