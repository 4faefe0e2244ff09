// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/scan_answers.hpp"

#include <algorithm>
#include <utility>

#include "daemon/broker/scan/scan_records.hpp"
#include "libcore/base/clock.hpp"

namespace flight::broker {

ScanAnswers::ScanAnswers(BlockingThreads threads, std::function<void()> wake, FileWatch& files, ScanReads reads)
    : threads_(std::move(threads)), wake_(std::move(wake)), files_(&files), reads_(std::move(reads)) {}

Result<void> ScanAnswers::read_first(const Manifest& manifest, const ScanLimits& limits) {
  symbols_.reset();
  signs_ = SymbolSigns{.breaks = breaks_};
  auto scan = ProcessScan::begin(threads_, manifest, limits, reads_);
  if (!scan) return propagate(scan.error());
  scan->wait();
  auto answer = scan->take();
  if (!answer) return propagate(answer.error());
  first_ = std::move(*answer);
  symbols_ = first_->symbols;
  symbols_are_first_ = true;
  return {};
}

void ScanAnswers::note_opened() {
  if (first_) files_->note_scan(first_->records.bytes());
}

std::optional<ScanAnswer> ScanAnswers::ask() {
  auto first = std::exchange(first_, std::nullopt);
  if (first)
    first->warning.clear();  // flightd requests another scan at once; it reports what is still missing
  else
    ++asked_;
  return first;
}

std::optional<ScanAnswers::Reply> ScanAnswers::next(const Recording& recording, std::size_t bytes) {
  if (const auto used_ns = used_ns_->exchange(0); used_ns != 0) files_->charge_scans(std::chrono::nanoseconds(used_ns));
  if (scan_ && scan_->finished()) {
    auto answer = scan_->take();
    scan_.reset();
    if (answer)
      files_->note_scan(answer->records.bytes(), scan_for_ == 0);
    else
      files_->note_no_scan();
    symbols_ = answer ? answer->symbols : nullptr;
    return Reply{.scan = std::move(answer), .times = std::exchange(scan_for_, 0)};
  }
  const auto now = Clock::now();
  if (!scan_ && files_->wants_scan() && now - begun_ >= kForFilesEvery) is_wanted_ = true;
  if (scan_ || (asked_ == 0 && !is_wanted_) || now - begun_ < kEvery) return std::nullopt;
  begun_ = now;
  is_wanted_ = false;
  scan_for_ = std::exchange(asked_, 0);
  const EventTime looked_ns = monotonic_now();
  const auto signs = symbol_signs(recording);
  if (!signs || std::exchange(signs_, signs) != signs) symbols_.reset();
  // flightd can lack records from before its start (an incomplete checkpoint), and a list that is older than the end of
  // a gap does not close it. So this list gets the time until which it is known to be right.
  const bool are_first = std::exchange(symbols_are_first_, false);
  if (symbols_ && are_first) symbols_ = symbols_at(looked_ns, *symbols_);
  ScanReads reads = reads_;
  if (scan_for_ == 0) reads.used = [used_ns = used_ns_](std::chrono::nanoseconds used) { *used_ns += used.count(); };
  auto begun = ProcessScan::begin(threads_, recording.manifest(), {.bytes = bytes}, std::move(reads), wake_, symbols_);
  if (begun) files_->begin_scan();
  if (!begun) return Reply{.scan = propagate(begun.error()), .times = std::exchange(scan_for_, 0)};
  scan_ = std::move(*begun);
  return std::nullopt;
}

// nullopt: the kernel does not count what it loses.
std::optional<ScanAnswers::SymbolSigns> ScanAnswers::symbol_signs(const Recording& recording) const {
  if (!recording.manifest().lost_exact) return std::nullopt;
  files_->look();
  SymbolSigns out{.breaks = breaks_, .news = files_->symbol_news()};
  const auto& sideband = recording.manifest().events.front().ids;
  for (const EventCount& count : recording.counts().events)
    if (std::any_of(sideband.begin(), sideband.end(), [&](const ManifestId& id) { return id.id == count.id; }))
      out.lost += count.lost;
  return out;
}

}  // namespace flight::broker
