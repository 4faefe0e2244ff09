// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/symbol_ends.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {
namespace {

// perf_event.h, PERF_RECORD_KSYMBOL: header 8, u64 address, u32 bytes, u16 kind, u16 flags.
constexpr std::size_t kSymbolBytesAt = 16, kSymbolFlagsAt = 22;

bool is_symbol(std::span<const std::byte> record) {
  return load<perf_event_header>(record.data()).type == PERF_RECORD_KSYMBOL && parse_ksymbol(record).has_value();
}

template <typename Visit>
void for_each_symbol(const RecordBuffer& records, Visit visit) {
  std::span<const std::byte> rest = records;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    if (is_symbol(record)) visit(*parse_ksymbol(record), static_cast<std::size_t>(record.data() - records.data()));
  }
}

bool is_of_module(std::uint64_t address, const KernelWindow& kernel) {
  return std::any_of(kernel.maps.begin(), kernel.maps.end(), [address](const KernelMap& map) {
    return !map.is_kernel() && address >= map.address && address - map.address < map.bytes;
  });
}

void drop_of_modules(RecordBuffer& records, const KernelWindow& kernel) {
  std::size_t kept = 0;
  for (std::size_t at = 0; at < records.size();) {
    const auto record = next_record(std::span<const std::byte>(records).subspan(at));
    if (record.empty()) break;
    const std::size_t size = record.size();
    if (!is_symbol(record) || !is_of_module(parse_ksymbol(record)->address, kernel)) {
      std::memmove(records.data() + kept, records.data() + at, size);
      kept += size;
    }
    at += size;
  }
  records.resize(kept);
}

void cut_guesses(RecordBuffer& records, const std::vector<std::uint64_t>& starts) {
  for_each_symbol(records, [&](const KsymbolRecord& symbol, std::size_t at) {
    if ((symbol.flags & kGuessedSymbolEnd) == 0) return;
    const auto next = std::upper_bound(starts.begin(), starts.end(), symbol.address);
    std::uint32_t bytes = symbol.bytes;
    if (next != starts.end() && *next - symbol.address < bytes)
      bytes = static_cast<std::uint32_t>(*next - symbol.address);
    const auto flags = static_cast<std::uint16_t>(symbol.flags & ~kGuessedSymbolEnd);
    std::memcpy(records.data() + at + kSymbolBytesAt, &bytes, sizeof bytes);
    std::memcpy(records.data() + at + kSymbolFlagsAt, &flags, sizeof flags);
  });
}

}  // namespace

void fit_symbols(RecordBuffer& prologue, RecordBuffer& log, const KernelWindow& kernel) {
  std::vector<std::uint64_t> starts;
  bool any_of_module = false;
  const auto note = [&](const KsymbolRecord& symbol, std::size_t) {
    any_of_module = any_of_module || is_of_module(symbol.address, kernel);
    if ((symbol.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) == 0) starts.push_back(symbol.address);
  };
  for_each_symbol(prologue, note);
  for_each_symbol(log, note);
  if (any_of_module)
    for (RecordBuffer* records : {&prologue, &log}) drop_of_modules(*records, kernel);
  for (const KernelMap& map : kernel.maps) starts.push_back(map.address);
  std::sort(starts.begin(), starts.end());
  cut_guesses(prologue, starts);
  cut_guesses(log, starts);
}

}  // namespace flight
