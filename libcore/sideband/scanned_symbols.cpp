// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/scanned_symbols.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <unordered_map>

#include "libcore/sideband/process_tracker.hpp"

namespace flight {
namespace {

struct KnownSymbol {
  std::string_view name;
  bool loaded = false;
  bool bpf = false;
  bool listed = false;        // by the scan
  bool loaded_later = false;  // after the list was read; or it has ended since then
  EventTime changed_ns = 0;   // its last record before that; 0: it is state
};
using KnownSymbols = std::unordered_map<std::uint64_t, KnownSymbol>;

KnownSymbols known_at(EventTime time_ns, const RecordLog& log, const KernelTable& kernel) {
  KnownSymbols out;
  kernel.for_each_ended([&](std::uint64_t address, EventTime until_ns) {
    if (until_ns > time_ns) out[address].loaded_later = true;
  });
  kernel.for_each_symbol([&](std::uint64_t address, std::uint16_t kind, std::string_view name, EventTime since_ns) {
    KnownSymbol& known = out[address];
    known.loaded_later = known.loaded_later || since_ns > time_ns;
    if (since_ns > time_ns) return;
    known.name = name;
    known.loaded = true;
    known.bpf = kind == PERF_RECORD_KSYMBOL_TYPE_BPF;
    known.changed_ns = since_ns;
  });
  for (const RecordLog::Entry& entry : log.entries()) {
    if (entry.type != PERF_RECORD_KSYMBOL) continue;
    const auto symbol = parse_ksymbol(log.record(entry));
    if (!symbol) continue;
    KnownSymbol& known = out[symbol->address];
    const bool loaded = (symbol->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) == 0;
    if (entry.time_ns > time_ns) {
      known.loaded_later = known.loaded_later || loaded;
      continue;
    }
    known.name = symbol->name;
    known.loaded = loaded;
    known.bpf = symbol->kind == PERF_RECORD_KSYMBOL_TYPE_BPF;
    known.changed_ns = entry.time_ns;
  }
  return out;
}

void append_load(RecordBuffer& out, KsymbolRecord symbol, EventTime time_ns) {
  symbol.flags = kGuessedSymbolEnd;
  append_ksymbol(out, symbol, {.time_ns = time_ns});
}

void append_end(RecordBuffer& out, std::uint64_t address, const KnownSymbol& known, EventTime time_ns) {
  const std::uint16_t kind = known.bpf ? PERF_RECORD_KSYMBOL_TYPE_BPF : PERF_RECORD_KSYMBOL_TYPE_OOL;
  append_ksymbol(out, {address, 0, kind, PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER, known.name}, {.time_ns = time_ns});
}

void end_unlisted(const KnownSymbols& known, const SymbolGap& gap, RecordBuffer& out) {
  for (const auto& [address, one] : known)
    if (one.loaded && !one.listed && one.changed_ns <= gap.end_ns)
      append_end(out, address, one, std::max(gap.begin_ns, one.changed_ns));
}

}  // namespace

void end_symbols(const SymbolGap& gap, const RecordLog& log, const KernelTable& kernel, RecordBuffer& additions) {
  end_unlisted(known_at(gap.end_ns, log, kernel), gap, additions);
}

OldBpf merge_symbols(const ScannedSymbols& scan, const std::optional<SymbolGap>& gap, EventTime known_from_ns,
                     const RecordLog& log, KernelTable& kernel, RecordBuffer& additions) {
  KnownSymbols known = known_at(scan.read_ns, log, kernel);
  const bool has_bpf =
      std::any_of(known.begin(), known.end(), [](const auto& one) { return one.second.loaded && one.second.bpf; });
  RecordBuffer state;
  for (const KsymbolRecord& symbol : scan.all) {
    KnownSymbol& one = known[symbol.address];
    one.listed = one.loaded && one.name == symbol.name;
    if (one.listed || one.loaded_later) continue;
    const bool unknown = !one.loaded && one.changed_ns == 0;
    if (!gap && !unknown) continue;  // the records are right: the list may be a moment behind
    if (one.loaded) append_end(additions, symbol.address, one, std::max(gap->begin_ns, one.changed_ns));
    one.loaded = false;
    EventTime since_ns = known_from_ns;
    if (gap) since_ns = one.changed_ns > gap->end_ns ? scan.read_ns : gap->end_ns;
    append_load(since_ns == 0 ? state : additions, symbol, since_ns);
  }
  if (gap) end_unlisted(known, *gap, additions);
  std::span<const std::byte> rest = state;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    kernel.apply(record);
  }
  if (scan.no_bpf) return has_bpf ? OldBpf::hidden : OldBpf::not_listed;
  return scan.cut ? OldBpf::cut : OldBpf::listed;
}

std::string_view text_of(OldBpf old) {
  switch (old) {
    case OldBpf::listed:
      return "";
    case OldBpf::cut:
      return "names: too many BPF programs are loaded: some have names only if they were loaded while flightd "
             "recorded, and no records were missing since (a larger memory.max keeps more)";
    case OldBpf::not_listed:
      return "names: the kernel lists no BPF programs. If net.core.bpf_jit_harden is not 0 or "
             "net.core.bpf_jit_kallsyms is 0, it hides them: they have names only if they were loaded while flightd "
             "recorded, and no records were missing since";
    case OldBpf::hidden:
      return "names: the kernel hides BPF programs (net.core.bpf_jit_harden is not 0, or net.core.bpf_jit_kallsyms "
             "is 0): they have names only if they were loaded while flightd recorded, and no records were missing "
             "since";
  }
  return "";
}

}  // namespace flight
