// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/perfdata/records.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "libcore/base/files.hpp"

namespace flight::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = "/tmp/flight-perfdata-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

UniqueFd create_file(const std::string& path) {
  auto fd = open_file(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  EXPECT_TRUE(fd) << path;
  return std::move(*fd);
}

Bytes file_bytes(const std::string& path) {
  const auto text = read_file(path);
  EXPECT_TRUE(text) << path;
  Bytes bytes;
  put_text(bytes, *text);
  return bytes;
}

void put_bytes(Bytes& out, std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); }

void put_text(Bytes& out, std::string_view text) { put_bytes(out, std::as_bytes(std::span(text.data(), text.size()))); }

namespace {

perf_event_attr base_attr(std::uint32_t type, std::uint64_t config, std::uint64_t sample_type) {
  perf_event_attr attr{};
  attr.type = type;
  attr.size = sizeof attr;
  attr.config = config;
  attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | sample_type;
  attr.read_format = PERF_FORMAT_ID;
  attr.sample_id_all = 1;
  attr.exclude_guest = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return attr;
}

void put_padded(Bytes& out, std::string_view text) {
  put_text(out, text);
  out.resize(out.size() + 8 - text.size() % 8);
}

}  // namespace

perf_event_attr sideband_attr() {
  perf_event_attr attr = base_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0);
  attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = 1;
  return attr;
}

perf_event_attr clock_attr() {
  perf_event_attr attr = base_attr(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK,
                                   PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN);
  attr.freq = 1;
  attr.sample_freq = 99;
  return attr;
}

perf_event_attr tracepoint_attr(std::uint64_t config) {
  perf_event_attr attr = base_attr(PERF_TYPE_TRACEPOINT, config, PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD | PERF_SAMPLE_RAW);
  attr.sample_period = 1;
  return attr;
}

void put_record(Bytes& out, std::uint32_t type, std::uint16_t misc, Bytes body) {
  body.resize((body.size() + 7) / 8 * 8);
  put(out, type);
  put(out, misc);
  put(out, static_cast<std::uint16_t>(body.size() + 8));
  put_bytes(out, body);
}

void put_trailer(Bytes& body, const Moment& moment) {
  put(body, moment.pid);
  put(body, moment.tid);
  put(body, moment.time_ns);
  put(body, moment.cpu);
  put(body, std::uint32_t{0});
  put(body, moment.id);
}

void put_comm(Bytes& out, std::uint32_t pid, std::string_view name) {
  Bytes body;
  put(body, pid);
  put(body, pid);
  put_padded(body, name);
  put_trailer(body, {});
  put_record(out, PERF_RECORD_COMM, 0, std::move(body));
}

void put_fork(Bytes& out, std::uint32_t pid) {
  Bytes body;
  for (const std::uint32_t field : {pid, 1U, pid, 1U}) put(body, field);
  put(body, std::uint64_t{0});
  put_trailer(body, {});
  put_record(out, PERF_RECORD_FORK, PERF_RECORD_MISC_FORK_EXEC, std::move(body));
}

void put_kernel_mmap(Bytes& out, std::uint64_t address, std::uint64_t size, std::string_view name) {
  Bytes body;
  put(body, std::uint32_t{0xffffffff});
  put(body, std::uint32_t{0});
  put(body, address);
  put(body, size);
  put(body, address);
  put_padded(body, name);
  put_trailer(body, {});
  put_record(out, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL, std::move(body));
}

void put_mmap2(Bytes& out, std::uint32_t pid, std::uint64_t address, std::uint64_t size, std::uint64_t page_offset,
               std::string_view name) {
  Bytes body;
  put(body, pid);
  put(body, pid);
  put(body, address);
  put(body, size);
  put(body, page_offset);
  body.resize(body.size() + 24);  // no device, no inode
  put(body, std::uint32_t{PROT_READ | PROT_EXEC});
  put(body, std::uint32_t{MAP_PRIVATE});
  put_padded(body, name);
  put_trailer(body, {});
  put_record(out, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER, std::move(body));
}

namespace {

Bytes sample_body(const Moment& moment, std::uint64_t ip) {
  Bytes body;
  put(body, moment.id);
  put(body, ip);
  put(body, moment.pid);
  put(body, moment.tid);
  put(body, moment.time_ns);
  put(body, moment.cpu);
  put(body, std::uint32_t{0});
  put(body, std::uint64_t{10'101'010});  // period
  return body;
}

}  // namespace

void put_clock_sample(Bytes& out, const Moment& moment, std::uint64_t ip, bool kernel) {
  Bytes body = sample_body(moment, ip);
  put(body, std::uint64_t{2});
  put(body, static_cast<std::uint64_t>(kernel ? PERF_CONTEXT_KERNEL : PERF_CONTEXT_USER));
  put(body, ip);
  put_record(out, PERF_RECORD_SAMPLE, kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER, std::move(body));
}

void put_raw_sample(Bytes& out, const Moment& moment, std::uint64_t ip, std::span<const std::byte> raw) {
  Bytes body = sample_body(moment, ip);
  const auto raw_bytes = static_cast<std::uint32_t>((raw.size() + 4 + 7) / 8 * 8 - 4);
  put(body, raw_bytes);
  put_bytes(body, raw);
  put_record(out, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, std::move(body));
}

}  // namespace flight::test
