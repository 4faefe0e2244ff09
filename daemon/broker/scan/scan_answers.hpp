// SPDX-License-Identifier: Apache-2.0
// Decides when flightd-broker scans the running processes, and which requests a scan answers:
//
//   the first request   the scan from before the recording, if there was one: only it knows processes that have ended
//                       since then
//   another request     a scan that begins after it. Requests that come during a scan share the next one.
//   none                FileWatch wants to know which files are mapped, or the recording was adopted
//
// FileWatch gets the mappings of every scan. One scan at a time, and at most one every kEvery: each costs time and
// memory, whoever requests it. The symbols of generated code are those of the scan before, unless a record of a symbol
// came since then or can have been lost. The sideband is on during read_first(), so this is true of that scan, too.
// Main thread only; only read_first() waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/broker/blocking_threads.hpp"
#include "daemon/broker/files/file_watch.hpp"
#include "daemon/broker/scan/scan.hpp"
#include "libcore/base/result.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight::broker {

class ScanAnswers {
 public:
  // `threads`: used only for scans. `wake`: any thread; called when everything is read. `files` must outlive this
  // object. `reads`: for tests.
  ScanAnswers(BlockingThreads threads, std::function<void()> wake, FileWatch& files, ScanReads reads = {});

  // Makes the first scan, before the events record and before anything was read from the sideband; waits for it. Call
  // one of the next two functions when there is a recording. Before note_opened(), FileWatch must follow the
  // recording's rings from their beginning.
  [[nodiscard]] Result<void> read_first(const Manifest& manifest, const ScanLimits& limits);
  // It was opened: FileWatch gets what read_first() found.
  void note_opened();
  // It was adopted, without read_first(): FileWatch needs a scan.
  void note_adopted() {
    is_wanted_ = true;
    note_break();
  }

  // A request. Returns its answer if there is one already, that of read_first(); else next() will have it.
  [[nodiscard]] std::optional<ScanAnswer> ask();
  struct Reply {
    Result<ScanAnswer> scan;
    int times = 0;  // the number of requests that it answers; 0: the client has left, or the scan was for FileWatch
  };
  // A scan that has ended. Call it until there is none: it also begins a scan if one is due, of at most `bytes`.
  [[nodiscard]] std::optional<Reply> next(const Recording& recording, std::size_t bytes);
  // The client has disconnected: drops its requests.
  void forget() { scan_for_ = asked_ = 0; }
  // The rings changed, nothing was recorded for a while, or a module came or went: the next scan reads the symbols.
  void note_break() { ++breaks_; }
  // Whether next() is to be called every ProcessScan::kLookEvery.
  [[nodiscard]] bool is_awaited() const { return scan_ || asked_ > 0 || is_wanted_; }
  static constexpr std::chrono::milliseconds kEvery{250};

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kForFilesEvery{10};
  // While they are the same, symbols_ lists what is loaded.
  struct SymbolSigns {
    std::uint64_t breaks = 0, news = 0, lost = 0;
    friend bool operator==(const SymbolSigns&, const SymbolSigns&) = default;
  };
  [[nodiscard]] std::optional<SymbolSigns> symbol_signs(const Recording& recording) const;

  BlockingThreads threads_;
  std::function<void()> wake_;
  FileWatch* files_;
  ScanReads reads_;
  // CPU time of scans that were for FileWatch only, until it is charged there. Their threads may outlive this object.
  std::shared_ptr<std::atomic<std::chrono::nanoseconds::rep>> used_ns_ =
      std::make_shared<std::atomic<std::chrono::nanoseconds::rep>>(0);
  std::optional<ScanAnswer> first_;
  std::optional<ProcessScan> scan_;  // in progress
  int scan_for_ = 0, asked_ = 0;     // requests that it answers, and later ones, which need the next scan
  bool is_wanted_ = false;           // the next scan, for FileWatch
  Clock::time_point begun_;
  SymbolRecords symbols_;             // of the last scan
  bool symbols_are_first_ = false;    // of read_first()
  std::optional<SymbolSigns> signs_;  // before it
  std::uint64_t breaks_ = 0;
};

}  // namespace flight::broker
