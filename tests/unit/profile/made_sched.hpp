// SPDX-License-Identifier: Apache-2.0
// A perf.data file in memory with switches and wake-ups of a test's own.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/profile/made_file.hpp"

namespace flight::test {

inline constexpr std::uint64_t kToAnotherId = 41, kWakeupId = 51;
inline constexpr std::uint32_t kToAnotherFormat = 372, kWakeupFormat = 374;
inline constexpr std::uint16_t kStateR = 0, kStateS = 1, kStateD = 2, kStateZ = 0x20, kStateI = 0x80,
                               kPreempted = 0x100;

struct MadeSwitch {
  EventTime time_ns = 0;
  std::uint32_t cpu = 0;
  std::uint32_t prev = 0;  // 0: idle
  std::uint16_t state = kStateR;
  std::uint32_t next = 0;
};
struct MadeWakeup {
  EventTime time_ns = 0;
  std::uint32_t cpu = 0;  // where it will run
  std::uint32_t tid = 0;
  std::int32_t priority = 120;
};

inline std::string made_comm(std::uint32_t tid) { return tid == 0 ? "swapper" : fmt::format("task-{}", tid); }

inline void append_comm_field(RecordBuffer& out, std::uint32_t tid) {
  std::string comm = made_comm(tid);
  comm.resize(16, '\0');
  for (const char c : comm) append_raw(out, c);
}

// Threads have their number as their process's.
inline void append_sched_head(RecordBuffer& out, std::uint64_t id, std::uint32_t tid, EventTime time_ns,
                              std::uint32_t cpu) {
  append_fixed(out, {.pid = tid, .tid = tid, .cpu = cpu, .time_ns = time_ns, .kernel = true}, id);
  append_raw(out, std::uint64_t{1});  // PERIOD
}

inline void append_raw_head(RecordBuffer& out, std::uint32_t bytes, std::uint32_t format) {
  append_raw(out, bytes);
  append_raw(out, static_cast<std::uint16_t>(format));
  append_raw(out, std::uint16_t{0});
  append_raw(out, std::uint32_t{0});
}

inline void append_to_another(RecordBuffer& out, const MadeSwitch& made) {
  const std::size_t begin = out.size();
  append_sched_head(out, kToAnotherId, made.prev, made.time_ns, made.cpu);
  append_raw_head(out, 68, kToAnotherFormat);
  append_comm_field(out, made.prev);
  append_raw(out, made.prev);
  append_raw(out, std::int32_t{120});
  append_raw(out, std::int64_t{made.state});
  append_comm_field(out, made.next);
  append_raw(out, made.next);
  append_raw(out, std::int32_t{120});
  append_raw(out, std::uint32_t{0});  // padding
  set_size(out, begin);
}

inline void append_wakeup(RecordBuffer& out, const MadeWakeup& made) {
  const std::size_t begin = out.size();
  append_sched_head(out, kWakeupId, 1, made.time_ns, 0);
  append_raw_head(out, 36, kWakeupFormat);
  append_comm_field(out, made.tid);
  append_raw(out, made.tid);
  append_raw(out, made.priority);
  append_raw(out, made.cpu);
  set_size(out, begin);
}

inline std::vector<FileEvent> sched_events() {
  std::vector<FileEvent> out = made_events();
  perf_event_attr attr = out.front().attr;
  attr.type = PERF_TYPE_TRACEPOINT;
  attr.sample_type |= PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW;
  attr.sample_period = 1;
  attr.config = kToAnotherFormat;
  out.push_back({attr, "sched:sched_switch", {kToAnotherId}});
  attr.config = kWakeupFormat;
  out.push_back({attr, "sched:sched_wakeup", {kWakeupId}});
  return out;
}

// As in events/sched/*/format.
inline std::vector<std::string> sched_format_texts() {
  const auto text = [](std::string_view name, std::uint32_t id, std::string_view fields) {
    return fmt::format(
        "name: {}\nID: {}\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n{}\n"
        "print fmt: \"\"\n",
        name, id, fields);
  };
  return {text("sched_switch", kToAnotherFormat,
               "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
               "\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
               "\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n"
               "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n"
               "\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n"
               "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n"
               "\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n"),
          text("sched_wakeup", kWakeupFormat,
               "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
               "\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n"
               "\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n"
               "\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n")};
}

inline void write_sched_file(int fd, std::span<const std::byte> records) {
  auto writer = FileWriter::create(fd, sched_events());
  ASSERT_TRUE(writer) << writer.error().what;
  ASSERT_TRUE(writer->append(packed_records(records)));
  Features features{.hostname = "box", .version = "0.2.0", .arch = "x86_64", .cpus_available = 2, .cpus_online = 2};
  TracingData& tracing = features.tracing_data.emplace();
  tracing.header_page = "page";
  tracing.header_event = "event";
  tracing.systems.push_back({.name = "sched", .formats = sched_format_texts()});
  features.compressed = CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = 1U << 18U};
  const auto finished = writer->finish(features);
  EXPECT_TRUE(finished) << finished.error().what;
}

inline FileReader sched_file(std::span<const std::byte> records) {
  const UniqueFd fd = made_memfd();
  write_sched_file(fd.get(), records);
  auto reader = FileReader::open(fmt::format("/proc/self/fd/{}", fd.get()));
  EXPECT_TRUE(reader) << reader.error().what;
  return std::move(*reader);
}

}  // namespace flight::test
