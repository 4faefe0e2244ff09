// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/record_cut.hpp"

#include <linux/perf_event.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

// perf_event.h: header 8; KSYMBOL: u64 address, u32 bytes, u16 kind, u16 flags, then the name; BPF_EVENT: u16 type,
// u16 flags, u32 id, u8 tag[8].
constexpr std::size_t kKsymbolNameAt = 24, kBpfEventBytes = 24, kAlign = 8;

// The record's size by its content, with the trailer; 0: the content does not determine it.
std::size_t true_size(std::span<const std::byte> record) {
  const auto type = load<perf_event_header>(record.data()).type;
  if (type == PERF_RECORD_BPF_EVENT) return kBpfEventBytes + sizeof(Trailer);
  if (type != PERF_RECORD_KSYMBOL || record.size() <= kKsymbolNameAt) return 0;
  const auto name = record.subspan(kKsymbolNameAt);
  const void* end = std::memchr(name.data(), 0, name.size());
  if (end == nullptr) return 0;
  const auto bytes = static_cast<std::size_t>(static_cast<const std::byte*>(end) - name.data()) + 1;
  return kKsymbolNameAt + (bytes + kAlign - 1) / kAlign * kAlign + sizeof(Trailer);
}

// `record`: a whole one.
void clear_build_id_mark(std::byte* record) {
  auto header = load<perf_event_header>(record);
  if (header.type != PERF_RECORD_MMAP2 || (header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) == 0) return;
  header.misc = static_cast<std::uint16_t>(header.misc & ~PERF_RECORD_MISC_MMAP_BUILD_ID);
  std::memcpy(record, &header, sizeof header);
}

}  // namespace

std::size_t repair_records(RecordBuffer& records) {
  std::size_t cut = 0, kept = 0, done = 0;
  for (auto record = next_record(records); !record.empty(); record = next_record(std::span(records).subspan(done))) {
    const std::size_t claimed = record.size();
    std::size_t size = true_size(record);
    if (size == 0 || size >= claimed) {
      size = claimed;
      clear_build_id_mark(records.data() + done);
    } else {
      auto header = load<perf_event_header>(record.data());
      header.size = static_cast<std::uint16_t>(size);
      std::memcpy(records.data() + done, &header, sizeof header);
      ++cut;
    }
    if (kept != done) std::memmove(records.data() + kept, records.data() + done, size);
    kept += size;
    done += claimed;
  }
  if (kept != done)
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(kept),
                  records.begin() + static_cast<std::ptrdiff_t>(done));
  return cut;
}

void clear_build_id_marks(std::span<std::byte> records) {
  std::size_t at = 0;
  for (auto record = next_record(records); !record.empty(); record = next_record(records.subspan(at))) {
    clear_build_id_mark(records.data() + at);
    at += record.size();
  }
}

}  // namespace flight
