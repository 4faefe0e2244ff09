// SPDX-License-Identifier: Apache-2.0
// Readers of perf.data besides `perf report` and `perf script`: a simple one (naive_reader.py), and `perf inject
// --jit`.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

class Readers : public SurvivesTest {
 protected:
  Readers() : SurvivesTest(stacks_config(997, "1M")) {}
  [[nodiscard]] std::string plain_copy_of(const Json& sidecar) const {
    const std::string copy = folder_ / "scratch/plain.perf.data";
    const Outcome got = daemon_.ctl({"get", sidecar["id"], "--plain", "-o", copy});
    EXPECT_EQ(got.exit_status, 0) << got.text();
    return copy;
  }
  const std::string cpu_ = std::to_string(load_cpu());
};
using ReadersLong = Readers;

// What runs from before the window, threads of it, and what starts and ends within it.
TEST_F(Readers, ASimpleOneKnowsEveryTaskAndMappingBeforeItsSamples) {
  Child burner = start_load({folder_.load("burner"), cpu_, "60"});
  Child threader = start_load({folder_.load("threader"), cpu_, "60"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  ASSERT_TRUE(threader.wait_for_line("started"));
  const Outcome short_ones = run({"sh", "-c", "for i in $(seq 100); do sed -n 's/a/b/p' /etc/passwd; done"}, 60s);
  ASSERT_EQ(short_ones.exit_status, 0) << short_ones.text();
  ASSERT_TRUE(burner.runs_for(1s));
  const Json sidecar = daemon_.snapshot();
  const Outcome read =
      run({"python3", required_env("FLIGHT_SOURCE_ROOT") + "/tests/e2e/naive_reader.py", plain_copy_of(sidecar)}, 60s);
  ASSERT_EQ(read.exit_status, 0) << read.text();
  const Json seen = Json::parse(read.out);
  EXPECT_EQ(seen["samples"], sidecar["samples"]) << read.out;
  EXPECT_GT(seen["user_samples"], 500U) << read.out;
  EXPECT_EQ(seen["nameless"], 0) << read.out;
  EXPECT_EQ(seen["unmapped"], 0) << read.out;
  EXPECT_EQ(seen["forks_at_zero"], 0) << read.out;
}

// It needs an uncompressed file with the process's executable mapping of its jit-PID.dump: the one of the window, or
// one from before.
TEST_F(ReadersLong, CodeMadeAtRunTimeHasNamesByPerfInject) {
  const std::string scratch = folder_ / "scratch";
  Child jitter = start_load({folder_.load("jitter"), cpu_, "60", scratch}, kBusy);
  ASSERT_TRUE(jitter.wait_for_line("started")) << jitter.err();
  const std::uint64_t started = now_ns();
  for (const Json& sidecar :
       {daemon_.snapshot({"--post", "1s"}), daemon_.snapshot({"--last", "100ms", "--post", "1s"})}) {
    const bool began_before = started < sidecar["window"]["begin_ns"].get<std::uint64_t>();
    EXPECT_EQ(began_before, sidecar["id"] != "1");
    const std::string plain = plain_copy_of(sidecar);
    for (const Verifier& verifier : Verifier::all()) {
      SCOPED_TRACE(verifier.name() + (began_before ? ", from before" : ""));
      const std::string injected = folder_ / "scratch/injected.data";
      unlink(injected.c_str());
      const Outcome inject = verifier.perf(folder_, {"inject", "--jit", "-i", plain, "-o", injected});
      EXPECT_EQ(inject.exit_status, 0) << inject.text();
      EXPECT_TRUE(stderr_is_right(inject, !sidecar["holes"].empty()));
      const auto names = [&](const std::string& file) {
        const Outcome script = verifier.perf(folder_, {"script", "-G", "-i", file, "-F", "pid,ip,sym"});
        EXPECT_EQ(count_lines(script.out), sidecar["samples"]) << script.err;
        return count_of(script.out, "made_at_run_time_for_flightd");
      };
      EXPECT_EQ(names(plain), 0U);
      EXPECT_GT(names(injected), 500U) << inject.text();
    }
    unlink(plain.c_str());
  }
}

}  // namespace
}  // namespace flight
