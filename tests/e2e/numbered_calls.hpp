// SPDX-License-Identifier: Apache-2.0
// The calls of the load `closer`, as a snapshot or a part of a recording has them. It calls close(-1), close(-2), …, so
// that a call that is missing, or is there twice, is known by its number.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libcore/compress/zstd.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perfdata/reader.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/unit/call_sample.hpp"

namespace flight {

struct NumberedCall {
  std::uint64_t time_ns = 0;
  long number = 0;
};

// The kernel writes a LOST record behind a pause, and where a ring was full.
enum class LostRecords { may_be_there, are_a_failure };

// Uses flightd's own reader, because perf would need too long for many files; the tests let perf check some of them.
inline std::vector<NumberedCall> numbered_calls(const Json& sidecar, LostRecords lost = LostRecords::may_be_there) {
  std::vector<NumberedCall> calls;
  const auto reader = FileReader::open(sidecar["path"]);
  if (!reader) {
    ADD_FAILURE() << reader.error().what;
    return calls;
  }
  const auto visited = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        const auto type = load<std::uint32_t>(record.data());
        if (type == PERF_RECORD_LOST && lost == LostRecords::are_a_failure)
          return fail(std::errc::bad_message, "a LOST record: something was paused");
        if (type == PERF_RECORD_SAMPLE)
          calls.push_back(
              {load<std::uint64_t>(record.data() + test::kCallTime), -load<long>(record.data() + test::kCallArgument)});
        return {};
      },
      expand);
  EXPECT_TRUE(visited) << visited.error().what;
  EXPECT_EQ(calls.size(), sidecar["samples"]) << sidecar["path"];
  return calls;
}

// The ring lost what came between the two calls, and a sidecar says so.
inline bool is_hole(const std::vector<Json>& parts, const NumberedCall& before, const NumberedCall& after) {
  for (const Json& sidecar : parts)
    for (const Json& hole : sidecar["holes"])
      if (hole["cpu"] == load_cpu() && hole["begin_ns"] <= after.time_ns && hole["end_ns"] >= before.time_ns)
        return true;
  return false;
}

// All numbers between the first and the last, over all parts, each once and in order. Returns how many there are.
inline std::size_t expect_each_once(const std::vector<Json>& parts) {
  std::vector<NumberedCall> calls;
  for (const Json& sidecar : parts) {
    const std::vector<NumberedCall> more = numbered_calls(sidecar);
    calls.insert(calls.end(), more.begin(), more.end());
  }
  std::size_t gaps = 0;
  for (std::size_t i = 1; i < calls.size() && !testing::Test::HasFailure(); ++i) {
    EXPECT_LE(calls[i - 1].time_ns, calls[i].time_ns);
    EXPECT_GT(calls[i].number, calls[i - 1].number);
    if (calls[i].number == calls[i - 1].number + 1) continue;
    ++gaps;
    EXPECT_TRUE(is_hole(parts, calls[i - 1], calls[i]))
        << calls[i - 1].number << " is followed by " << calls[i].number << ", and no sidecar says so";
  }
  fmt::print("{} calls in {} parts, {} gaps\n", calls.size(), parts.size(), gaps);
  return calls.size();
}

}  // namespace flight
