// SPDX-License-Identifier: Apache-2.0
// The commands of flightctl: one function each. It returns the exit code: 0, 1 (flightd refused or is not running; its
// message is on stderr) or 2 (usage).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace flight::ctl {

inline constexpr int kDone = 0, kRefused = 1, kUsage = 2;

// Options of every command.
struct Common {
  std::string host;    // [USER@]HOST[:PORT]; empty: this machine
  std::string socket;  // on that machine; empty: the default of that machine's flightctl
  bool json = false;
};

// path "-": stdout; empty: the snapshot's name in the current directory. `force`: overwrite an existing file.
struct OutputFile {
  std::string path;
  bool force = false;
};

// As typed.
struct SnapshotOptions {
  std::string reason, last, since, until, post, capture;
  OutputFile output;
};

// As typed. `stop`: the id of a recording to end; then there are no others.
struct RecordOptions {
  std::string past, duration, max_size, switch_size, layout, reason, stop;
  std::vector<std::string> channels;
  OutputFile output;
};

struct ListOptions {
  std::string since, until, trigger, unit;  // unit and trigger: patterns, glob(7)
  std::uint64_t count = 0;                  // only the newest `count`; 0: all
  bool reverse = false;
};

// As typed. `event`: a name or a pattern; empty: the main one.
struct ExportOptions {
  std::string id = "latest", format, event, labels;
  OutputFile output;
};

// `against`: the id of another snapshot; empty: none. `open`: with xdg-open.
struct HtmlOptions {
  std::string id = "latest", against;
  OutputFile output;
  bool open = false;
};

// As typed: names or patterns, numbers, times.
struct StacksOptions {
  std::string id = "latest";
  std::string unit, comm, thread, cpu, event, since, until;
  bool before = false, diff = false, inverted = false, shares = false;
  std::uint64_t count = 0;  // of rows; 0: the usual number
};

// As typed.
struct SchedOptions {
  std::string id = "latest", since, until;
  std::uint64_t count = 0;  // of rows; 0: the usual number
};

// `of.id` is compared with `before`; of the others, `since`, `until`, `before` and `diff` are not used.
struct DiffOptions {
  std::string before;
  StacksOptions of;
};

struct ReportOptions {
  std::string id = "latest", perf;
  std::vector<std::string> arguments;  // perf's own
};

// `all`: on a terminal, too, a page may be longer than the screen.
[[nodiscard]] int run_status(const Common& common);
[[nodiscard]] int run_snapshot(const Common& common, const SnapshotOptions& options);
[[nodiscard]] int run_record(const Common& common, const RecordOptions& options);
[[nodiscard]] int run_list(const Common& common, const ListOptions& options, bool all);
[[nodiscard]] int run_info(const Common& common, const std::vector<std::string>& ids, bool all);
enum class GetForm { file, bundle, plain };
[[nodiscard]] int run_get(const Common& common, const std::vector<std::string>& ids, const OutputFile& target,
                          GetForm form);
// Returns only if perf could not be started.
[[nodiscard]] int run_report(const Common& common, const ReportOptions& options);
[[nodiscard]] int run_stacks(const Common& common, const StacksOptions& options);
[[nodiscard]] int run_diff(const Common& common, const DiffOptions& options);
[[nodiscard]] int run_sched(const Common& common, const SchedOptions& options);
[[nodiscard]] int run_export(const Common& common, const ExportOptions& options);
[[nodiscard]] int run_html(const Common& common, const HtmlOptions& options);
[[nodiscard]] int run_remove(const Common& common, const std::vector<std::string>& ids);
[[nodiscard]] int run_pin(const Common& common, const std::vector<std::string>& ids, bool pinned);
[[nodiscard]] int run_vacuum(const Common& common, bool dry_run);
[[nodiscard]] int run_recording(const Common& common, bool recording);
[[nodiscard]] int run_triggers(const Common& common);
[[nodiscard]] int run_set_trigger(const Common& common, const std::string& name, bool enabled);
[[nodiscard]] int run_test_trigger(const Common& common, const std::string& name);
[[nodiscard]] int run_fire(const Common& common, const std::string& name, const std::string& reason);
[[nodiscard]] int run_reload(const Common& common);
[[nodiscard]] int run_config(const Common& common, const std::string& key, bool all);
[[nodiscard]] int run_monitor(const Common& common);
[[nodiscard]] int run_doctor(const Common& common, bool all);
[[nodiscard]] int run_bridge(const Common& common);

}  // namespace flight::ctl
