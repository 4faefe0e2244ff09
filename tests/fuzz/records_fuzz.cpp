// SPDX-License-Identifier: Apache-2.0
// One record after the other, each through every reader there is.
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
#include "tests/fuzz/input.hpp"

namespace {

// So that a view that leads out of the record is seen by the sanitizer.
std::size_t sum_of(std::string_view text) {
  std::size_t sum = 0;
  for (const char letter : text) sum += static_cast<unsigned char>(letter);
  return sum;
}

std::size_t read_all(std::span<const std::byte> record, const flight::RecordLayout& layout) {
  std::size_t sum = 0;
  if (const auto sample = flight::sample_fields(record, layout)) sum += sample->pid;
  if (const auto calls = flight::sample_calls(record, layout.sample_type))
    for (const std::byte one : calls->chain) sum += std::to_integer<std::size_t>(one);
  if (const auto lost = flight::lost_fields(record)) sum += lost->lost;
  if (const auto comm = flight::parse_comm(record)) sum += sum_of(comm->name);
  if (const auto task = flight::parse_task(record)) sum += task->pid;
  if (const auto map = flight::parse_mmap2(record)) sum += sum_of(map->name) + map->build_id.size;
  if (const auto map = flight::parse_mmap(record)) sum += sum_of(map->name);
  if (const auto symbol = flight::parse_ksymbol(record)) sum += sum_of(symbol->name);
  if (const auto cgroup = flight::parse_cgroup(record)) sum += sum_of(cgroup->path);
  if (const auto trailer = flight::parse_trailer(record)) sum += trailer->pid;
  return sum;
}

}  // namespace

// u64 sample_type of the SAMPLEs; then records.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flight::fuzz::Input input(data, size);
  const auto sample_type = input.take<std::uint64_t>() | PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME;
  const auto layout = flight::RecordLayout::of(sample_type);
  flight::EventTable events;
  events.add_id(77, events.add_event(sample_type));
  volatile std::size_t sum = read_all(input.bytes(), layout);  // whatever its header says of its size
  auto rest = input.bytes();
  for (auto record = flight::next_record(rest); !record.empty(); record = flight::next_record(rest)) {
    rest = rest.subspan(record.size());
    sum = sum + read_all(record, layout);
    if (const auto key = flight::record_key(record, events)) sum = sum + key->event;
  }
  return 0;
}
