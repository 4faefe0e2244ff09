// SPDX-License-Identifier: Apache-2.0
// How long reading the samples of a snapshot takes, and how much memory it needs.
//
//   profile_speed SAMPLES
//
// It prints one line of JSON: samples, seconds, peak_mib (with what is mapped of the file), anon_mib (without that, at
// the end), nodes, bytes (of the records).
//
// The file has 20,000 different stacks of 2 to 10 frames, of 64 threads. A child makes it, whose memory does not count.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/profile/profile.hpp"
#include "libcore/profile/read_records.hpp"
#include "tests/unit/profile/made_file.hpp"

namespace {

using namespace flight;

constexpr std::uint64_t kStacks = 20'000, kThreads = 64, kText = 0x400000, kStepNs = 100'000;
constexpr std::size_t kPieceBytes = 8U << 20U;

// Its callers are those of few others, as in real programs: level 0 is the outermost frame.
std::uint64_t address_at(std::uint64_t stack, std::uint64_t level) {
  constexpr std::uint64_t kMostVariants = 4096, kFunctionBytes = 16;
  const std::uint64_t variants = std::min(kMostVariants, std::uint64_t{1} << (2 * std::min<std::uint64_t>(level, 6)));
  return kText + kFunctionBytes * (level * kMostVariants + stack % variants);
}

std::vector<std::uint64_t> chain_of(std::uint64_t stack) {
  std::vector<std::uint64_t> out{PERF_CONTEXT_USER};
  for (std::uint64_t level = 2 + stack % 9; level-- > 0;) out.push_back(address_at(stack, level));
  return out;
}

void append_threads(RecordBuffer& out) {
  append_fork(out, {.pid = 10, .ppid = 1, .tid = 10, .ptid = 1, .exec = true}, {});
  append_mmap2(out, {.pid = 10, .tid = 10, .address = kText, .bytes = 0x1000000, .name = "/no/where/server"}, {});
  for (std::uint32_t i = 0; i < kThreads; ++i)
    append_comm(out, {.pid = 10, .tid = 10 + i, .name = fmt::format("worker-{}", i % 8)}, {});
}

bool make_file(int fd, std::uint64_t samples) {
  auto writer = FileWriter::create(fd, test::made_events());
  if (!writer) return false;
  RecordBuffer records;
  append_threads(records);
  std::uint64_t random = 12345;
  for (std::uint64_t i = 0; i < samples; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const std::vector<std::uint64_t> chain = chain_of((random >> 33U) % kStacks);
    test::append_sample(records, {.tid = 10 + static_cast<std::uint32_t>((random >> 20U) % kThreads),
                                  .cpu = static_cast<std::uint32_t>(i % 2),
                                  .time_ns = 1'000'000'000 + i * kStepNs,
                                  .ip = chain[1],
                                  .chain = chain,
                                  .period = 10'000'000});
    if (records.size() < kPieceBytes && i + 1 < samples) continue;
    if (!writer->append(test::packed_records(records))) return false;
    records.clear();
  }
  Features features{.hostname = "box", .version = "0.2.0", .arch = "x86_64", .cpus_available = 2, .cpus_online = 2};
  features.compressed = CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = 1U << 18U};
  return writer->finish(features).has_value();
}

// Of /proc/self/status.
std::uint64_t anonymous_kib() {
  constexpr std::string_view kKey = "RssAnon:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kKey)) return std::strtoull(line.c_str() + kKey.size(), nullptr, 10);
  return 0;
}

bool make_in_child(int fd, std::uint64_t samples) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(make_file(fd, samples) ? 0 : 1);
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

int failed(const std::string& why) {
  fmt::print(stderr, "profile_speed: {}\n", why);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t samples = argc == 2 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (samples == 0) return failed("usage: profile_speed SAMPLES");
  const auto fd = open_memfd("speed");
  if (!fd) return failed(fd.error().what);
  if (!make_in_child(fd->get(), samples)) return failed("the file could not be made");
  const auto begin = std::chrono::steady_clock::now();
  const auto file = FileReader::open(fmt::format("/proc/self/fd/{}", fd->get()));
  if (!file) return failed(file.error().what);
  std::uint64_t bytes = 0;
  const auto profile = SnapshotProfile::read(*file, {.read_files = false});
  if (!profile) return failed(profile.error().what);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (profile->counts.counted != samples) return failed("samples are missing");
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const std::uint64_t anonymous = anonymous_kib();
  // Behind the measurement: how large the records are without compression.
  const auto walked = read_records(*file, {}, [&bytes](std::span<const std::byte> record) -> Result<void> {
    bytes += record.size();
    return {};
  });
  if (!walked) return failed(walked.error().what);
  fmt::print(R"({{"samples":{},"seconds":{:.3f},"peak_mib":{},"anon_mib":{},"nodes":{},"bytes":{}}})"
             "\n",
             samples, seconds, used.ru_maxrss / 1024, anonymous / 1024, profile->tree.nodes().size(), bytes);
  return 0;
}
