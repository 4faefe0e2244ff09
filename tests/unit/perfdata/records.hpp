// SPDX-License-Identifier: Apache-2.0
// Hand-made files and records, so that the tests of this module need no other module.
#pragma once

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "libcore/perfdata/writer.hpp"

namespace flight::test {

using Bytes = std::vector<std::byte>;

// A directory in /tmp, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string path(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] UniqueFd create_file(const std::string& path);
[[nodiscard]] Bytes file_bytes(const std::string& path);

template <typename T>
void put(Bytes& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void put_bytes(Bytes& out, std::span<const std::byte> bytes);
void put_text(Bytes& out, std::string_view text);
template <typename T>
[[nodiscard]] T get(std::span<const std::byte> bytes, std::size_t offset) {
  T value{};
  const auto from = bytes.subspan(offset, sizeof value);
  __builtin_memcpy(&value, from.data(), sizeof value);
  return value;
}

// IDENTIFIER|TID|TIME|CPU: the trailer of records other than samples is pid, tid, time, cpu, id.
[[nodiscard]] perf_event_attr sideband_attr();
// IDENTIFIER|IP|TID|TIME|CPU|PERIOD|CALLCHAIN.
[[nodiscard]] perf_event_attr clock_attr();
// IDENTIFIER|IP|TID|TIME|CPU|PERIOD|RAW.
[[nodiscard]] perf_event_attr tracepoint_attr(std::uint64_t config);

struct Moment {
  std::uint32_t pid = 0, tid = 0, cpu = 0;
  std::uint64_t time_ns = 0, id = 0;
};

// Header, body, zeros up to 8 bytes.
void put_record(Bytes& out, std::uint32_t type, std::uint16_t misc, Bytes body);
void put_trailer(Bytes& body, const Moment& moment);
void put_comm(Bytes& out, std::uint32_t pid, std::string_view name);
void put_fork(Bytes& out, std::uint32_t pid);
void put_kernel_mmap(Bytes& out, std::uint64_t address, std::uint64_t size, std::string_view name);
void put_mmap2(Bytes& out, std::uint32_t pid, std::uint64_t address, std::uint64_t size, std::uint64_t page_offset,
               std::string_view name);
void put_clock_sample(Bytes& out, const Moment& moment, std::uint64_t ip, bool kernel);
void put_raw_sample(Bytes& out, const Moment& moment, std::uint64_t ip, std::span<const std::byte> raw);

}  // namespace flight::test
